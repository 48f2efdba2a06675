//! The options of the PG log's length, by what they do to an OSD's logs.

use crate::world::*;
use options::Values;
use types::Epoch;

/// An OSD with one pool of `pg_num` PGs and these options.
fn osd(pg_num: u32, options: &[(&str, &str)]) -> World {
    let mut values = Values::new();
    for (name, value) in options {
        values.set(name, value).expect("an option");
    }
    let mut w = World::with(values);
    w.start();
    w.create_pool(1, pg_num);
    w.open_client(CLIENT);
    // The PGs are counted, and get their shares, on a tick.
    w.pass_ms(1000);
    w
}

fn write_some(w: &mut World, count: usize) {
    for n in 0..count {
        let op = w.write(&format!("object{n}"), b"x");
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
}

/// The lengths of the PGs' logs, as reported.
fn log_sizes(w: &mut World) -> Vec<i64> {
    w.pass_ms(6000);
    w.stats().expect("statistics").pg_stat.values().map(|stat| stat.log_size).collect()
}

#[test]
fn osd_target_pg_log_entries_per_osd_is_shared_out_among_the_pgs() {
    let limits = [("osd_min_pg_log_entries", "2"), ("osd_pg_log_trim_min", "1")];
    let all = |per_osd| [limits[0], limits[1], ("osd_target_pg_log_entries_per_osd", per_osd)];
    let mut w = osd(1, &all("24"));
    write_some(&mut w, 100);
    assert_eq!(log_sizes(&mut w), [24]);
    let mut w = osd(4, &all("24"));
    write_some(&mut w, 100);
    assert_eq!(log_sizes(&mut w), [6; 4]);
}

#[test]
fn osd_target_pg_log_entries_per_osd_is_shared_out_again_when_pgs_come() {
    let mut w = osd(
        1,
        &[
            ("osd_min_pg_log_entries", "2"),
            ("osd_pg_log_trim_min", "1"),
            ("osd_target_pg_log_entries_per_osd", "24"),
        ],
    );
    write_some(&mut w, 50);
    w.create_pool(2, 3);
    w.pass_ms(1000);
    write_some(&mut w, 1);
    assert_eq!(log_sizes(&mut w), [6, 0, 0, 0]);
}

#[test]
fn osd_min_pg_log_entries_stay_however_small_the_share() {
    let mut w = osd(
        2,
        &[
            ("osd_min_pg_log_entries", "12"),
            ("osd_pg_log_trim_min", "1"),
            ("osd_target_pg_log_entries_per_osd", "4"),
        ],
    );
    write_some(&mut w, 100);
    assert_eq!(log_sizes(&mut w), [12; 2]);
}

#[test]
fn osd_max_pg_log_entries_bounds_a_large_share() {
    let mut w = osd(
        1,
        &[("osd_min_pg_log_entries", "2"), ("osd_max_pg_log_entries", "30"), ("osd_pg_log_trim_min", "1")],
    );
    write_some(&mut w, 100);
    assert_eq!(log_sizes(&mut w), [30]);
}

#[test]
fn osd_pg_log_trim_min_entries_are_trimmed_at_once() {
    let mut w = osd(
        1,
        &[("osd_max_pg_log_entries", "10"), ("osd_min_pg_log_entries", "2"), ("osd_pg_log_trim_min", "8")],
    );
    write_some(&mut w, 17);
    assert_eq!(log_sizes(&mut w), [17], "7 too many are not worth a trim");
    write_some(&mut w, 1);
    assert_eq!(log_sizes(&mut w), [10]);
}

#[test]
fn osd_pg_log_trim_max_bounds_one_trim_and_a_change_of_options_reaches_pgs_that_are_there() {
    let mut w = osd(1, &[]);
    write_some(&mut w, 50);
    assert_eq!(log_sizes(&mut w), [50]);
    let options =
        [("osd_max_pg_log_entries", "10"), ("osd_min_pg_log_entries", "2"), ("osd_pg_log_trim_max", "3")];
    let config = options.map(|(name, value)| (name.to_string(), value.to_string())).into();
    w.mon_says(messages::Config { config });
    write_some(&mut w, 1);
    assert_eq!(log_sizes(&mut w), [48], "one came, three went");
    write_some(&mut w, 19);
    assert_eq!(log_sizes(&mut w), [10]);
}

#[test]
fn osd_pg_log_dups_tracked_versions_back_a_write_sent_again_is_recognised() {
    for (tracked, known) in [("20", true), ("8", false)] {
        let mut w = osd(
            1,
            &[
                ("osd_max_pg_log_entries", "4"),
                ("osd_min_pg_log_entries", "2"),
                ("osd_pg_log_trim_min", "1"),
                ("osd_pg_log_dups_tracked", tracked),
            ],
        );
        let op = w.write("again", b"x");
        let (again, epoch) = (op.clone(), w.mon.epoch());
        let first = w.ask(CLIENT, op).replay_version;
        write_some(&mut w, 12);
        w.sent.clear();
        let second = w.ask(CLIENT, messages::OsdOp { epoch: Epoch(epoch), ..again }).replay_version;
        assert_eq!(second == first, known, "{tracked}: {first} {second}");
    }
}
