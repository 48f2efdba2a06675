//! Commands of the admin socket and of `ceph tell osd.N`: what operations do, counters, options.

use crate::world::{CLIENT, ME, World};
use messages::SlowOps;
use serde_json::{Value, json};
use store::ByMedium;
use types::Errno;

fn with_pool() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    w
}

fn ask(w: &mut World, prefix: &str) -> Value {
    w.command(json!({ "prefix": prefix })).unwrap()
}

fn refused(w: &mut World, command: Value) -> (Errno, String) {
    w.command(command).unwrap_err()
}

fn events(op: &Value) -> Vec<&str> {
    op["type_data"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

#[test]
fn an_operation_under_way_shows_its_stages_and_is_history_when_it_is_answered() {
    let mut w = with_pool();
    w.hold_store = true;
    let op = w.write("a", b"12345");
    let tid = op.tid;
    w.send_op(CLIENT, op);
    w.pass_ms(200);
    let dump = ask(&mut w, "dump_ops_in_flight");
    assert_eq!(dump["num_ops"], 1);
    let op = &dump["ops"][0];
    let description = op["description"].as_str().unwrap();
    assert!(description.starts_with(&format!("osd_op(client.4100.0:{tid} 1.")), "{description}");
    assert!(description.contains(" a [writefull 0~5 in=5b] ack+ondisk+write)"), "{description}");
    assert_eq!(events(op), ["initiated", "queued_for_pg", "reached_pg", "reading"]);
    assert_eq!((&op["type_data"]["flag_point"], &op["age"]), (&json!("started"), &json!(0.2)));
    w.hold_store = false;
    w.settle();
    assert_eq!(ask(&mut w, "dump_ops_in_flight"), json!({ "ops": [], "num_ops": 0 }));
    let dump = ask(&mut w, "dump_historic_ops");
    assert_eq!((&dump["size"], &dump["duration"]), (&json!(20), &json!(600)));
    let op = &dump["ops"][0];
    let stages = [
        "initiated",
        "queued_for_pg",
        "reached_pg",
        "reading",
        "submitted",
        "op_commit",
        "all_commit",
        "done",
    ];
    assert_eq!((events(op), &op["duration"]), (stages.into(), &json!(0.2)));
    assert!(op["description"].as_str().unwrap().contains(" a [writefull 0~5] "), "{op}");
}

#[test]
fn the_slowest_operations_are_kept_and_told_apart_from_slow_ones() {
    let mut w = with_pool();
    let threshold = json!({ "prefix": "config set", "var": "osd_op_history_slow_op_threshold", "val": "1" });
    w.command(threshold).unwrap();
    for (name, ms) in [("a", 100), ("b", 2000), ("c", 500)] {
        w.hold_store = true;
        let op = w.write(name, b"x");
        w.send_op(CLIENT, op);
        w.pass_ms(ms);
        w.hold_store = false;
        w.settle();
    }
    let objects = |dump: &Value| -> Vec<String> {
        let all = dump.as_array().unwrap().iter().map(|op| op["description"].as_str().unwrap().to_owned());
        all.map(|text| text.split(' ').nth(2).unwrap().to_owned()).collect()
    };
    assert_eq!(objects(&ask(&mut w, "dump_historic_ops")["ops"]), ["a", "b", "c"]);
    assert_eq!(objects(&ask(&mut w, "dump_historic_ops_by_duration")["ops"]), ["b", "c", "a"]);
    let slow = ask(&mut w, "dump_historic_slow_ops");
    assert_eq!((&slow["num to keep"], &slow["threshold to keep"]), (&json!(20), &json!(1.0)));
    assert_eq!(objects(&slow["Ops"]), ["b"]);
    w.command(json!({ "prefix": "config set", "var": "osd_op_history_size", "val": "2" })).unwrap();
    assert_eq!(objects(&ask(&mut w, "dump_historic_ops")["ops"]), ["b", "c"]);
    w.pass_ms(600_000);
    assert!(objects(&ask(&mut w, "dump_historic_ops")["ops"]).is_empty());
    assert_eq!(objects(&ask(&mut w, "dump_historic_slow_ops")["Ops"]), ["b"]);
}

#[test]
fn an_operation_that_takes_too_long_is_reported_to_the_monitor_until_it_is_answered() {
    let mut w = with_pool();
    w.hold_store = true;
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    w.pass_ms(29_000);
    assert_eq!(w.stats().unwrap().osd_stat.os_alerts.len(), 0);
    assert_eq!(
        ask(&mut w, "dump_blocked_ops_count"),
        json!({ "complaint_time": 30.0, "num_blocked_ops": 0 })
    );
    w.pass_ms(7_000);
    let alerts = w.stats().unwrap().osd_stat.os_alerts;
    let slow: SlowOps = alerts[&ME][SlowOps::ALERT].parse().unwrap();
    assert!(slow.count == 1 && (30..=36).contains(&slow.oldest_secs), "{slow}");
    for command in ["dump_blocked_ops", "dump_slow_ops"] {
        let dump = ask(&mut w, command);
        assert_eq!((&dump["num_blocked_ops"], dump["ops"].as_array().unwrap().len()), (&json!(1), 1));
    }
    w.hold_store = false;
    w.settle();
    w.pass_ms(6_000);
    let stat = w.stats().unwrap().osd_stat;
    assert_eq!(stat.os_alerts.len(), 0);
}

#[test]
fn an_operation_that_waits_for_a_map_is_under_way_and_slow_too() {
    let mut w = with_pool();
    let epoch = w.mon.epoch() + 1;
    let read = w.read("a").ops;
    let op = w.op("a", epoch, read);
    w.send_op(CLIENT, op);
    w.pass_ms(40_000);
    let dump = ask(&mut w, "dump_ops_in_flight");
    assert_eq!((&dump["num_ops"], events(&dump["ops"][0])), (&json!(1), vec!["initiated"]));
    assert!(dump["ops"][0]["type_data"]["flag_point"].as_str().unwrap().starts_with("delayed"));
    assert_eq!(w.stats().unwrap().osd_stat.os_alerts.len(), 1);
}

#[test]
fn without_the_tracker_nothing_is_kept_and_the_dumps_say_why() {
    let mut w = with_pool();
    w.command(json!({ "prefix": "config set", "var": "osd_enable_op_tracker", "val": "false" })).unwrap();
    let op = w.write("a", b"x");
    w.ask(CLIENT, op);
    for command in ["dump_ops_in_flight", "dump_historic_ops", "dump_blocked_ops", "dump_historic_slow_ops"] {
        let (errno, why) = refused(&mut w, json!({ "prefix": command }));
        assert!(errno == Errno::EINVAL && why.contains("osd_enable_op_tracker"), "{command}: {why}");
    }
    w.command(json!({ "prefix": "config set", "var": "osd_enable_op_tracker", "val": "true" })).unwrap();
    assert_eq!(ask(&mut w, "dump_historic_ops")["ops"], json!([]));
}

#[test]
fn counters_count_what_ceph_s_of_the_same_names_do() {
    let mut w = with_pool();
    for data in [&b"12345"[..], b"1234567"] {
        let op = w.write("a", data);
        w.ask(CLIENT, op);
    }
    let op = w.read("a");
    w.ask(CLIENT, op);
    let osd = ask(&mut w, "perf dump")["osd"].clone();
    let of = |name: &str| osd[name].as_u64().unwrap();
    assert_eq!((of("op"), of("op_r"), of("op_w"), of("op_rw")), (3, 1, 2, 0));
    assert_eq!(
        (of("op_in_bytes"), of("op_w_in_bytes"), of("op_out_bytes"), of("op_r_out_bytes")),
        (12, 12, 7, 7)
    );
    assert_eq!((of("numpg"), of("numpg_primary"), of("op_wip")), (4, 4, 0));
    assert_eq!(osd["op_w_latency"]["avgcount"], 2);
    let one = w.command(json!({ "prefix": "perf dump", "logger": "osd", "counter": "op_w" })).unwrap();
    assert_eq!(one, json!({ "osd": { "op_w": 2 } }));
    let (dump, schema) = (ask(&mut w, "perf dump"), ask(&mut w, "perf schema"));
    for (section, counters) in dump.as_object().unwrap() {
        for name in counters.as_object().unwrap().keys() {
            assert!(schema[section][name]["description"].is_string(), "{section}.{name} is in no schema");
        }
    }
    for (plain, labelled) in [(&dump, "counter dump"), (&schema, "counter schema")] {
        let labelled = ask(&mut w, labelled);
        assert_eq!(labelled.as_object().unwrap().len(), plain.as_object().unwrap().len());
        for (section, counters) in plain.as_object().unwrap() {
            assert_eq!(labelled[section], json!([{ "labels": {}, "counters": counters }]));
        }
    }
    assert_eq!((&schema["osd"]["op_latency"]["type"], &schema["osd"]["op"]["type"]), (&json!(5), &json!(10)));
    let reset = w.command(json!({ "prefix": "perf reset", "var": "all" })).unwrap();
    assert_eq!(reset, json!({ "success": "perf reset all" }));
    assert_eq!(ask(&mut w, "perf dump")["osd"]["op"], 0);
}

#[test]
fn histograms_have_every_operation_at_its_latency_and_size() {
    let mut w = with_pool();
    assert_eq!(grid_cells(&ask(&mut w, "perf histogram dump"), "op_w_latency_in_bytes_histogram"), []);
    let op = w.write("a", &[0; 4096]);
    w.ask(CLIENT, op);
    let op = w.read("a");
    w.ask(CLIENT, op);
    let dump = ask(&mut w, "perf histogram dump");
    // At once, and within 4 KiB and 8 KiB.
    for name in ["op_w_latency_in_bytes_histogram", "op_r_latency_out_bytes_histogram"] {
        assert_eq!(grid_cells(&dump, name), [(1, 5)], "{name}");
        let axes = dump["osd"][name]["axes"].as_array().unwrap();
        let names: Vec<_> = axes.iter().map(|axis| axis["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Latency (usec)", "Request size (bytes)"]);
        assert_eq!(axes[1]["ranges"][5], json!({ "min": 4096, "max": 8191 }));
        assert_eq!(
            (&axes[1]["ranges"][0], &axes[1]["ranges"][31]),
            (&json!({ "max": -1 }), &json!({ "min": 274_877_906_944_u64 }))
        );
    }
    for name in ["op_rw_latency_in_bytes_histogram", "op_rw_latency_out_bytes_histogram"] {
        assert_eq!(grid_cells(&dump, name), [], "{name}");
    }
    let one =
        |w: &mut World, args: Value| w.command(args).unwrap()["osd"].as_object().map_or(0, |all| all.len());
    assert_eq!(one(&mut w, json!({ "prefix": "perf histogram dump", "logger": "osd" })), 4);
    let name = "op_r_latency_out_bytes_histogram";
    let args = json!({ "prefix": "perf histogram dump", "logger": "osd", "counter": name });
    assert_eq!(one(&mut w, args), 1);
    assert_eq!(w.command(json!({ "prefix": "perf histogram dump", "logger": "x" })).unwrap(), json!({}));
    assert_eq!(ask(&mut w, "perf histogram schema")["osd"][name]["type"], 26);
    w.command(json!({ "prefix": "perf reset", "var": "all" })).unwrap();
    assert_eq!(grid_cells(&ask(&mut w, "perf histogram dump"), name), []);
}

/// The cells of a histogram that have one operation: bucket of latency, bucket of size.
fn grid_cells(dump: &Value, name: &str) -> Vec<(usize, usize)> {
    let rows = dump["osd"][name]["values"].as_array().unwrap();
    let cells = rows.iter().enumerate().flat_map(|(latency, row)| {
        let row = row.as_array().unwrap().iter().enumerate();
        row.map(move |(size, count)| (latency, size, count.as_u64().unwrap()))
    });
    cells
        .filter(|(_, _, count)| *count > 0)
        .map(|(latency, size, count)| {
            assert_eq!(count, 1);
            (latency, size)
        })
        .collect()
}

#[test]
fn the_report_has_the_latency_of_commits_since_the_one_before() {
    let mut w = with_pool();
    w.pass_ms(6_000);
    w.hold_store = true;
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    w.hold_store = false;
    w.settle();
    w.pass_ms(6_000);
    assert_eq!(w.stats().unwrap().osd_stat.os_perf_stat.commit_latency_ns, 0, "the store takes no time");
    // The object is known: its write goes to the store at once, which takes a second.
    w.hold_store = true;
    let op = w.write("a", b"y");
    w.send_op(CLIENT, op);
    w.pass_ms(1_000);
    w.hold_store = false;
    w.settle();
    w.pass_ms(6_000);
    assert_eq!(w.stats().unwrap().osd_stat.os_perf_stat.commit_latency_ns, 1_000_000_000);
    w.pass_ms(6_000);
    assert_eq!(w.stats().unwrap().osd_stat.os_perf_stat.commit_latency_ns, 0);
}

#[test]
fn options_are_injected_all_or_none() {
    let mut w = with_pool();
    let get = |w: &mut World, var: &str| {
        w.command(json!({ "prefix": "config get", "var": var })).unwrap()[var].as_str().unwrap().to_owned()
    };
    let args = json!(["--osd-op-complaint-time", "5", "--osd_op_history_size=7"]);
    w.command(json!({ "prefix": "injectargs", "injected_args": args })).unwrap();
    assert_eq!(
        (get(&mut w, "osd_op_complaint_time"), get(&mut w, "osd_op_history_size")),
        ("5".into(), "7".into())
    );
    let args = json!("--osd_op_history_size 9 --osd_op_complaint_time soon");
    let (errno, why) = refused(&mut w, json!({ "prefix": "injectargs", "injected_args": args }));
    assert!(errno == Errno::EINVAL && why.contains("osd_op_complaint_time"), "{why}");
    assert_eq!(get(&mut w, "osd_op_history_size"), "7");
    for (args, says) in
        [("--osd_op_complaint_time", "has no value"), ("x", "'x' is not an option"), ("", "nothing")]
    {
        let (errno, why) = refused(&mut w, json!({ "prefix": "injectargs", "injected_args": args }));
        assert!(errno == Errno::EINVAL && why.contains(says), "{args}: {why}");
    }
    let (errno, _) = refused(&mut w, json!({ "prefix": "injectargs", "injected_args": "--nonsense 1" }));
    assert_eq!(errno, Errno::ENOENT);
}

#[test]
fn what_is_read_at_a_start_alone_is_refused_with_the_way_to_give_it() {
    let mut w = with_pool();
    for command in [
        json!({ "prefix": "config set", "var": "osd-store-shards", "val": "2" }),
        json!({ "prefix": "injectargs", "injected_args": "--osd_op_history_size 9 --osd_store_shards 2" }),
    ] {
        let (errno, why) = refused(&mut w, command);
        assert!(errno == Errno::EINVAL && why.contains("`loligo up --set osd_store_shards=2`"), "{why}");
    }
    let told = w.command(json!({ "prefix": "config get", "var": "osd_op_history_size" })).unwrap();
    assert_ne!(told["osd_op_history_size"], "9", "none of them");
}

#[test]
fn what_is_stored_for_clients_is_not_in_force_here() {
    let mut w = with_pool();
    let config = [("ms_max_backoff", "30"), ("osd_op_history_size", "9")];
    let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    w.mon_says(messages::Config { config });
    for (name, value) in [("ms_max_backoff", "15"), ("osd_op_history_size", "9")] {
        let told = w.command(json!({ "prefix": "config get", "var": name })).unwrap();
        assert_eq!(told[name], value, "{told}");
    }
    let (errno, why) =
        refused(&mut w, json!({ "prefix": "config set", "var": "ms_max_backoff", "val": "30" }));
    assert!(errno == Errno::EINVAL && why.contains("`loligo up --set ms_max_backoff=30`"), "{why}");
}

#[test]
fn what_is_not_a_command_is_refused_with_what_is_near() {
    let mut w = with_pool();
    let (errno, why) = refused(&mut w, json!({ "prefix": "dump_historic_op" }));
    assert!(errno == Errno::EINVAL && why.contains("the nearest is 'dump_historic_ops'"), "{why}");
    assert!(refused(&mut w, json!({ "prefix": "perf reset", "var": "osd" })).1.contains("'all'"));
    assert_eq!(refused(&mut w, json!({ "prefix": "heap", "heapcmd": "stats" })).0, Errno::EOPNOTSUPP);
    assert_eq!(refused(&mut w, json!({ "x": 1 })).0, Errno::EINVAL);
    assert!(ask(&mut w, "help").as_object().unwrap().contains_key("perf dump"));
}

#[test]
fn statistics_are_flushed_at_once_with_the_number_that_is_answered() {
    let mut w = with_pool();
    w.pass_ms(6_000);
    let seq = ask(&mut w, "flush_pg_stats").as_u64().unwrap();
    w.pass_ms(1);
    assert_eq!(w.stats().unwrap().osd_stat.seq, seq);
}

#[test]
fn a_report_has_the_space_that_is_taken_when_it_goes_out() {
    let mut w = with_pool();
    w.pass_ms(6_000);
    let before = w.stats().unwrap().osd_stat.statfs.allocated;
    let op = w.write("a", &[1; 1 << 20]);
    w.send_op(CLIENT, op);
    w.settle();
    ask(&mut w, "flush_pg_stats");
    w.pass_ms(1);
    assert_eq!(w.stats().unwrap().osd_stat.statfs.allocated - before, 1 << 20);
    // A device that hangs holds no report up.
    w.hold_store = true;
    let seq = ask(&mut w, "flush_pg_stats").as_u64().unwrap();
    w.pass_ms(30);
    assert_eq!(w.stats().unwrap().osd_stat.seq, seq);
}

#[test]
fn a_log_level_that_is_set_while_the_osd_runs_reaches_the_log() {
    let mut w = with_pool();
    w.command(json!({ "prefix": "config set", "var": "debug_osd", "val": "20/5" })).unwrap();
    assert_eq!(w.log_level, Some(20));
    let shown = w.command(json!({ "prefix": "config get", "var": "debug_osd" })).unwrap();
    assert_eq!(shown, json!({ "debug_osd": "20/5" }));
    w.command(json!({ "prefix": "injectargs", "injected_args": "--debug-ms 1" })).unwrap();
    assert_eq!(w.log_level, Some(20));
    w.command(json!({ "prefix": "config unset", "var": "debug_osd" })).unwrap();
    assert_eq!(w.log_level, Some(1));
    let shown = w.command(json!({ "prefix": "config get", "var": "debug_osd" })).unwrap();
    assert_eq!(shown, json!({ "debug_osd": "1/5" }));
    let (errno, _) = refused(&mut w, json!({ "prefix": "config set", "var": "debug_osd", "val": "loud" }));
    assert_eq!(errno, Errno::EINVAL);
}

#[test]
fn what_tunes_an_open_store_reaches_it_while_the_osd_runs() {
    let mut w = with_pool();
    assert_eq!(w.store_tuning, None, "it was opened with what the OSD knew at its start");
    let mut set = |name: &str, value: &str| {
        let args = format!("--{name} {value}");
        let said = w.command(json!({ "prefix": "injectargs", "injected_args": args })).unwrap();
        assert!(!said.to_string().contains("restart"), "{said}");
        w.store_tuning.unwrap()
    };
    assert!(set("bdev_enable_discard", "true").discard);
    assert_eq!(set("bluestore_prefer_deferred_size_hdd", "8192").new_deferred_bytes.hdd, 8191);
    assert_eq!(
        set("bluestore_prefer_deferred_size", "16384").new_deferred_bytes,
        ByMedium { hdd: 16383, ssd: 16383 }
    );
    assert!(!set("bdev_enable_discard", "false").discard);
}

#[test]
fn contexts_beyond_a_lower_bound_leave_an_osd_that_no_one_asks_anything() {
    let mut w = with_pool();
    let contexts =
        |w: &mut World| ask(w, "dump_mempools")["mempool"]["by_pool"]["osd"]["items"].as_u64().unwrap();
    // Some are used once, others again.
    for n in (0..2000).chain(0..1000) {
        let op = w.write(&format!("o{n}"), b"x");
        w.send_op(CLIENT, op);
        w.settle();
    }
    assert!(contexts(&mut w) >= 2000, "{}", contexts(&mut w));
    w.command(json!({ "prefix": "config set", "var": "osd_object_contexts_max", "val": "100" })).unwrap();
    assert!(contexts(&mut w) <= 100, "{}", contexts(&mut w));
}

#[test]
fn pools_of_memory_are_named_as_ceph_names_them_and_sum_up() {
    let mut w = with_pool();
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    w.settle();
    let told = ask(&mut w, "dump_mempools");
    let by_pool = told["mempool"]["by_pool"].as_object().unwrap();
    let of_store =
        ["alloc", "cache_data", "cache_meta", "cache_onode", "cache_other", "txc", "writing_deferred"];
    let names = of_store.map(|pool| format!("bluestore_{pool}"));
    let others = ["buffer_anon", "osd", "osd_pglog"].map(str::to_owned);
    assert!(by_pool.keys().eq(names.iter().chain(&others)), "{told}");
    assert!(by_pool["osd"]["items"].as_u64() > Some(0) && by_pool["osd_pglog"]["items"] == 1, "{told}");
    for what in ["items", "bytes"] {
        let sum: u64 = by_pool.values().map(|pool| pool[what].as_u64().unwrap()).sum();
        assert_eq!(told["mempool"]["total"][what], sum, "{what}");
    }
}

#[test]
fn a_bench_writes_its_bytes_and_leaves_nothing_behind() {
    let mut w = with_pool();
    w.pass_ms(1_000);
    let done = w.slow_command(json!({ "prefix": "bench", "count": 1_000_000, "size": "65536" })).unwrap();
    assert_eq!((&done["bytes_written"], &done["blocksize"]), (&json!(16 * 65536), &json!(65536)));
    assert!(done["bytes_per_sec"].as_f64().unwrap() > 0.0, "{done}");
    let again = w.slow_command(json!({ "prefix": "bench", "count": 65536, "size": 65536 })).unwrap();
    assert_eq!(again["bytes_written"], 65536);
    for (count, size) in [(json!(0), json!(4096)), (json!(4096), json!(0)), (json!(1), json!(1u64 << 40))] {
        let (errno, _) = refused(&mut w, json!({ "prefix": "bench", "count": count, "size": size }));
        assert_eq!(errno, Errno::EINVAL, "{count} {size}");
    }
    assert_eq!(refused(&mut w, json!({ "prefix": "bench", "count": "many" })).0, Errno::EINVAL);
}

#[test]
fn a_second_bench_waits_for_nothing_and_is_refused() {
    let mut w = with_pool();
    w.pass_ms(1_000);
    w.hold_store = true;
    let first = json!({ "prefix": "bench", "count": 4096, "size": 4096 });
    w.start_command(&first);
    assert_eq!(refused(&mut w, first).0, Errno::EBUSY);
    w.hold_store = false;
    w.settle();
    assert!(w.answers.pop().unwrap().1.is_ok(), "the first goes on");
}

#[test]
fn what_an_osd_has_nothing_of_is_empty_or_refused_with_the_reason() {
    let mut w = with_pool();
    assert_eq!(ask(&mut w, "get_mapped_pools"), json!([1]));
    let unfound = w.command(json!({ "prefix": "list_unfound", "pgid": "1.0" })).unwrap();
    assert_eq!(unfound["num_unfound"], 0);
    let (errno, _) = refused(&mut w, json!({ "prefix": "pg", "pgid": "9.0", "cmd": "list_unfound" }));
    assert_eq!(errno, Errno::ENOENT);
    assert!(ask(&mut w, "cache status")["object_ctx"].is_u64());
    for prefix in ["heap", "compact", "smart", "cache drop"] {
        let (errno, why) = refused(&mut w, json!({ "prefix": prefix }));
        assert!(errno == Errno::EOPNOTSUPP && why.starts_with(prefix) && why.len() > 30, "{why}");
    }
    let (errno, why) = refused(&mut w, json!({ "prefix": "bluestore allocator score block" }));
    assert!(errno == Errno::EOPNOTSUPP && why.contains("block store"), "{why}");
    let (errno, why) = refused(&mut w, json!({ "prefix": "config get", "var": "bluestore_cache_size" }));
    assert!(errno == Errno::ENOENT && why.contains("of Ceph's has no effect"), "{why}");
    assert!(refused(&mut w, json!({ "prefix": "config get", "var": "nonsense" })).1.contains("no option"));
}
