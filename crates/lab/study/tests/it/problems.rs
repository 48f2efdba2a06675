//! What bad study files get: every mistake at once, with its line.

use study::{Problem, parse};

/// A study that is right, with a place for a line of each kind.
struct Text<'a> {
    head: &'static str,
    system: &'static str,
    load: &'a str,
    rest: String,
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self {
            head: "name: n",
            system: "{name: s, loligo: {store: simple}}",
            load: "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write]}}",
            rest: String::new(),
        }
    }
}

impl Text<'_> {
    fn problems(&self) -> Vec<Problem> {
        let Self { head, system, load, rest } = self;
        let text = format!("{head}\ntitle: t\nsystems:\n- {system}\nworkloads:\n- {load}\n{rest}");
        parse(&text, "f.yaml").err().unwrap_or_default()
    }
}

fn sentences(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// The only problem of a text, with its line.
fn only(text: &Text<'_>) -> (u32, String) {
    let problems = text.problems();
    assert_eq!(problems.len(), 1, "{:#?}", sentences(&problems));
    (problems[0].line, problems[0].kind.to_string())
}

fn system(system: &'static str) -> String {
    let (line, sentence) = only(&Text { system, ..Text::default() });
    assert_eq!(line, 4);
    sentence
}

fn load(load: &'static str) -> String {
    let (line, sentence) = only(&Text { load, ..Text::default() });
    assert_eq!(line, 6);
    sentence
}

/// A section from line 7 on.
fn rest(rest: &str) -> (u32, String) {
    only(&Text { rest: rest.to_owned(), ..Text::default() })
}

#[test]
fn the_frame_itself_is_right() {
    assert_eq!(sentences(&Text::default().problems()), [""; 0]);
}

#[test]
fn all_problems_come_at_once_in_order_of_lines() {
    let text = "\
name: Not a name
titel: t
systems:
  - name: a
    ceph: {release: 18.2, store: filestore}
    place: {loop: {size: 4Q, fs: zfs}}
  - name: a
    loligo: {store: simple}
    osds: 0
workloads:
  - name: w
    rados_bench: {instances: 3, object_size: 4K, in_flight: 16, seconds: 0, phases: [read, wriet]}
parametric:
  empty: []
  group: {}
";
    let problems = parse(text, "dir/f.yaml").unwrap_err();
    let places: Vec<(u32, u32)> = problems.iter().map(|p| (p.line, p.column)).collect();
    let want = [
        (1, 1),   // no title
        (1, 7),   // the name
        (2, 1),   // titel
        (6, 26),  // size
        (6, 34),  // zfs
        (7, 5),   // a again
        (9, 11),  // no OSDs
        (12, 61), // not a multiple
        (12, 74), // seconds
        (12, 86), // a read first
        (12, 92), // wriet
        (14, 10), // an empty list
        (15, 10), // an empty group
    ];
    assert_eq!(places, want, "{:#?}", sentences(&problems));
    assert_eq!(
        problems[2].to_string(),
        "dir/f.yaml:2:1: the study has no key 'titel'; did you mean 'title'?"
    );
    assert_eq!(problems[2].nearest(), Some("title"));
    assert_eq!(problems[10].nearest(), Some("write"));
}

#[test]
fn a_name_far_from_all_gets_the_list() {
    let (line, sentence) = only(&Text { head: "name: n\nzzz: 1", ..Text::default() });
    assert_eq!(line, 2);
    assert!(sentence.starts_with("the study has no key 'zzz' (known: name, title, about, "), "{sentence}");
}

#[test]
fn a_file_in_another_encoding_is_refused_with_its_line() {
    let problems = study::parse_bytes(b"name: n\ntitle: caf\xe9\n", "f").unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["f:2:11: this is not UTF-8 (byte 0xe9): save the file as UTF-8"]);
    // What is UTF-8 goes on to be read.
    let problems = study::parse_bytes("title: é\n".as_bytes(), "f").unwrap_err();
    assert!(problems.iter().all(|p| p.to_string().contains("needs the key")), "{problems:?}");
}

#[test]
fn not_yaml_is_said_with_its_line() {
    for (text, line) in
        [("name: [a\ntitle: b: c\n", 2), ("b: 1\na: 'x\n\n", 2), ("a: *nowhere\n", 1), ("a: \"\\q\"\n", 1)]
    {
        let problems = parse(text, "f").unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].kind.to_string().starts_with("this is not YAML"), "{}", problems[0]);
        assert_eq!(problems[0].line, line, "{}", problems[0]);
    }
}

#[test]
fn yaml_that_studies_do_not_use_is_refused() {
    let cases = [
        ("a: &a {b: 1}\nc: {<<: *a}\n", 2, "'<<'"),
        ("a: !!str 1\n", 1, "tags"),
        ("name: n\n---\nname: m\n", 2, "second document"),
        ("? {a: b}\n: c\n", 1, "a key must be a text"),
        ("a: &a [*a]\n", 1, "inside its own anchor"),
    ];
    for (text, line, word) in cases {
        let problems = parse(text, "f").unwrap_err();
        assert!(problems[0].to_string().contains(word), "{}", problems[0]);
        assert_eq!(problems[0].line, line, "{}", problems[0]);
    }
}

#[test]
fn nothing_is_not_a_study() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "~"] {
        let problems = parse(text, "f").unwrap_err();
        assert_eq!(problems.len(), 1, "{text:?}");
    }
    assert_eq!(
        parse("- a\n- b\n", "f").unwrap_err()[0].kind.to_string(),
        "the study must be a map (KEY: VALUE)"
    );
}

#[test]
fn a_few_lines_do_not_become_gigabytes() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    let problems = parse(&text, "f").unwrap_err();
    assert!(problems[0].kind.to_string().starts_with("too many values"), "{}", problems[0]);
    assert!(parse(&"[".repeat(5000), "f").is_err());
    assert!(parse(&"- ".repeat(5000), "f").is_err());
}

#[test]
fn systems_that_can_not_be() {
    let cases = [
        ("{name: s, ceph: {release: 20.2, store: filestore}}", "Ceph 20.2 has no FileStore"),
        (
            "{name: s, ceph: {release: 17.2, store: bluestore}}",
            "unknown release of Ceph '17.2'; did you mean",
        ),
        ("{name: s, ceph: {release: 16.2, store: bluestor}}", "did you mean 'bluestore'?"),
        (
            "{name: s, ceph: {release: 20.2, store: bluestore}, place: {loop: {size: 1G, fs: xfs}}}",
            "BlueStore takes a device without a file system",
        ),
        (
            "{name: s, ceph: {release: 16.2, store: filestore}, place: {image: {size: 1G}}}",
            "FileStore needs a file system on its image",
        ),
        (
            "{name: s, ceph: {release: 16.2, store: filestore}, place: {loop: {size: 1G, fs: ext2}}}",
            "FileStore does not run on ext2",
        ),
        ("{name: s, ceph: {release: 16.2, store: memstore}, place: directory}", "leave out 'place'"),
        ("{name: s, loligo: {store: mem}, journal: {image: {size: 1G}}}", "leave out 'journal'"),
        (
            "{name: s, loligo: {store: simple}, osds: 2, pool_size: 3}",
            "3 copies need as many OSDs; the system has 2",
        ),
        (
            "{name: s, loligo: {store: simple}, pool_size: 0}",
            "pool_size: '0' is not a whole number from 1 to 16",
        ),
        ("{name: s, loligo: {store: simple}, place: {loop: {size: 4Q}}}", "size: '4Q' is not a size"),
        ("{name: s, loligo: {store: simple}, place: {image: {size: 0}}}", "size: '0' is not a size"),
        ("{name: s, loligo: {store: simple}, place: {loop: {size: 1G, fs: extfour}}}", "unknown file system"),
        ("{name: s, loligo: {store: simple}, place: looop}", "did you mean 'loop'?"),
        (
            "{name: s, loligo: {store: simple}, place: {modelled: {model: disc-7200, size: 1G}}}",
            "'disk-7200'?",
        ),
        (
            "{name: s, loligo: {store: simple}, place: {modelled: {model: ssd, size: 1G, parameters: {chanels: 4}}}}",
            "unknown device parameter 'chanels'",
        ),
        (
            "{name: s, loligo: {store: simple}, place: {modelled: {model: raid0-of-N, size: 1G}}}",
            "number of disks",
        ),
        ("{name: s, loligo: {store: simple}, place: {devices: {paths: [/dev/a]}}}", "1 devices for 3 OSDs"),
        (
            "{name: s, loligo: {store: simple}, osds: 2, place: {devices: {paths: [/dev/a, /dev/a]}}}",
            "the device /dev/a is given twice",
        ),
        (
            "{name: s, loligo: {store: simple}, ceph: {release: 16.2, store: memstore}}",
            "needs exactly one of",
        ),
        ("{name: s}", "system 's' needs exactly one of loligo, ceph, running, nfs"),
        ("{loligo: {store: simple}}", "needs the key 'name'"),
        ("{name: s, running: {conf: /etc/ceph/ceph.conf}, osds: 4}", "only measured: leave out 'osds'"),
        ("{name: s, loligo: {store: simple}, cores: none}", "'none' is not a whole number"),
        ("{name: s, loligo: {store: simple}, settings: {osd: {}}}", "section osd is empty"),
    ];
    for (text, want) in cases {
        let sentence = system(text);
        assert!(sentence.contains(want), "{text}: {sentence}");
    }
}

#[test]
fn a_journal_is_a_bare_device() {
    let text = "{name: s, loligo: {store: simple}, journal: {loop: {size: 1G, fs: xfs}}}";
    assert!(system(text).contains("a journal lies on a bare device"));
}

#[test]
fn nfs_runs_commands_on_a_file_system() {
    let command = "{name: w, command: {run: x, timeout: 1}}";
    let bare = "{name: s, nfs: {export: sync}, place: {loop: {size: 1G}}}";
    let (line, sentence) = only(&Text { system: bare, load: command, ..Text::default() });
    assert_eq!((line, sentence.as_str()), (4, "an NFS server needs a place with a file system"));
    let good = "{name: s, nfs: {export: sync}, place: {loop: {size: 1G, fs: ext2}}}";
    assert_eq!(sentences(&Text { system: good, load: command, ..Text::default() }.problems()), [""; 0]);
    assert!(system(good).contains("runs commands only; workload 'w' is not a command"));
}

#[test]
fn workloads_that_can_not_be() {
    let cases = [
        (
            "{name: w, rados_bench: {instances: 8, object_size: 4K, in_flight: 12, seconds: 1, phases: [write]}}",
            "in_flight 12 is not a multiple of the 8 client instances",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 0, phases: [write]}}",
            "seconds: '0' is not a whole number from 1 to 604800",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [read, write]}}",
            "phase 'read' reads what no phase before it wrote: put 'write' before it",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write, write]}}",
            "the phase 'write' is defined already",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [rand_write]}}",
            "rados bench has no phase 'rand_write'",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: []}}",
            "phases is empty",
        ),
        (
            "{name: w, rados_bench: {object_size: [], in_flight: 1, seconds: 1, phases: [write]}}",
            "object_size is empty",
        ),
        (
            "{name: w, rados_bench: {object_size: many, in_flight: 1, seconds: 1, phases: [write]}}",
            "is not a size",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write], pg_num: 0}}",
            "pg_num",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, second: 1, phases: [write], seconds: 1}}",
            "'seconds'?",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, in_flight: 1, phases: [write]}}",
            "needs the key 'seconds'",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, in_flight: 1, seconds: 1, phases: [rand_read], prefill: no}}",
            "or 'prefill: yes'",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4M, size: 1M, in_flight: 1, seconds: 1, phases: [write]}}",
            "a request of 4194304 bytes does not fit in 1048576 bytes",
        ),
        (
            "{name: w, fio: {engine: rados, block_size: 4K, size: 1G, in_flight: 1, seconds: 1, phases: [write, read], prefill: no}}",
            "fio's rados engine counts reads of what was never written as reads",
        ),
        (
            "{name: w, fio: {engine: rbd, instances: 4, block_size: 4K, size: 1G, in_flight: 4, seconds: 1, rate: 3, phases: [write]}}",
            "a rate of 3 a second is too low for 4 instances",
        ),
        (
            "{name: w, fio: {engine: rdb, block_size: 4K, size: 1G, in_flight: 1, seconds: 1, phases: [write]}}",
            "'rbd'?",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, in_flight: 1, ladder: {gain: 0.1}, seconds: 1, phases: [write]}}",
            "a ladder sets depth and rate itself: leave out 'in_flight'",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, ladder: {dephts: {to: 8}}, seconds: 1, phases: [write]}}",
            "has no key 'dephts'; did you mean 'depths'?",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, ladder: {depths: {from: 16, to: 8}}, seconds: 1, phases: [write]}}",
            "the last depth 8 is below the first, 16",
        ),
        (
            "{name: w, fio: {engine: rbd, instances: 2, block_size: 4K, size: 1G, ladder: {depths: {from: 1}}, seconds: 1, phases: [write]}}",
            "in_flight 1 is not a multiple of the 2 client instances",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, ladder: {rates: [0.5, 0.5]}, seconds: 1, phases: [write]}}",
            "rates must be in ascending order, each once",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, ladder: {rates: 2}, seconds: 1, phases: [write]}}",
            "rates: '2' is not a number from 0.01 to 1.5",
        ),
        (
            "{name: w, fio: {engine: rbd, block_size: 4K, size: 1G, ladder: {target: {percentile: 99, latency: 5}}, seconds: 1, phases: [write]}}",
            "latency: '5' is not a time with its unit (500us, 5ms, 1s)",
        ),
        (
            "{name: w, rados_bench: {object_size: 4K, ladder: {rates: 0.5}, seconds: 1, phases: [write]}}",
            "rados bench has neither fixed rates nor percentiles: leave out 'rates', or take fio or loligo_bench",
        ),
        ("{name: w, command: {run: x, timeout: 0}}", "timeout: '0' is not"),
        (
            "{name: w, command: {run: x, timeout: 10, expected: 11}}",
            "expected: '11' is not a whole number from 1 to 10",
        ),
        ("{name: w, command: {run: , timeout: 10}}", "run is empty"),
        ("{name: w}", "workload 'w' needs exactly one of rados_bench, loligo_bench, fio, command"),
        ("w", "a workload must be a map"),
    ];
    for (text, want) in cases {
        let sentence = load(text);
        assert!(sentence.contains(want), "{text}: {sentence}");
    }
}

#[test]
fn hosts_need_servers_that_they_reach() {
    let on = |hosts: &str, in_flight: u32, listen: &str| {
        let load = format!(
            "{{name: w, rados_bench: {{hosts: {hosts}, object_size: 4K, in_flight: {in_flight}, seconds: 1, phases: [write]}}}}"
        );
        let listen = if listen.is_empty() { String::new() } else { format!("listen: {listen}\n") };
        sentences(&Text { load: &load, rest: listen, ..Text::default() }.problems())
    };
    assert_eq!(on("[a, me@b]", 4, "192.0.2.1"), [""; 0]);
    let one = |problems: Vec<String>, want: &str| {
        assert!(problems.len() == 1 && problems[0].contains(want), "{want}: {problems:?}");
    };
    one(on("[a, b]", 4, ""), "f.yaml:6:1: workload 'w' has client hosts, and servers listen at 127.0.0.1");
    one(on("[a, b]", 3, "192.0.2.1"), "not a multiple of the 2 client instances");
    one(on("[a]", 1, "0.0.0.0"), "f.yaml:7:9: listen: '0.0.0.0' is not an IPv4 address");
    one(on("[a]", 1, "a.example"), "listen: 'a.example' is not an IPv4 address");
    one(on("[-oProxyCommand=x]", 1, "192.0.2.1"), "'-oProxyCommand=x' is not a host as ssh knows it");
    one(on("['a b']", 1, "192.0.2.1"), "'a b' is not a host");
}

#[test]
fn options_and_variants_that_can_not_be() {
    let cases = [
        ("default:\n  osdd: {a: 1}\n", 8, "unknown section of ceph.conf 'osdd'; did you mean 'osd'?"),
        ("default:\n  osd: 1\n", 8, "section osd must be a map"),
        ("default:\n  odd/a: 1\n", 8, "did you mean 'osd'?"),
        ("default:\n  a: [1, 2]\n", 8, "a must be one value"),
        ("default:\n  a:\n", 8, "a is empty"),
        ("default:\n  a: |\n    x\n    y\n", 9, "more than one line"),
        ("default:\n  a: ü\n", 8, "other than ASCII"),
        ("default:\n  a: ' x'\n", 8, "blanks at an end"),
        ("default:\n  a=b: 1\n", 8, "'a=b' is not an option's name"),
        ("default:\n  osd: {a b: 1}\n  osd/a_b: 2\n", 9, "the option 'osd/a_b' is defined already in line 8"),
        ("default:\n  a: 1\n  a: 2\n", 9, "the key 'a' is defined already in line 8"),
        ("parametric:\n  a: [1, 2, 1]\n", 8, "the value '1' is defined already"),
        ("parametric:\n  a_b: [1]\n  a:\n  - b_1\n", 9, "the variant 'a_b_1' is defined already in line 8"),
        ("parametric:\n  a: []\n", 8, "the list of 'a' is empty"),
        ("parametric:\n  g: {}\n", 8, "the group 'g' is empty"),
        ("parametric:\n  default: {a: 1}\n", 8, "'default' is reserved"),
        ("parametric:\n  osd: {a: [1, 2]}\n", 8, "write 'osd/OPTION: [...]'"),
        ("parametric:\n  g: {a: [1, 2]}\n", 8, "a must be one value"),
        ("parametric: {}\n", 7, "parametric is empty"),
        (
            "parametric: {abcd: 1, b: 2}\ncross: [full: [abce, b]]\n",
            8,
            "unknown parameter 'abce'; did you mean 'abcd'?",
        ),
        ("parametric: {a: 1, b: 2}\ncross: [full: [a]]\n", 8, "of two parameters or more"),
        ("parametric: {a: 1, b: 2}\ncross: [full: [a, a]]\n", 8, "the parameter 'a' is defined already"),
        ("parametric: {a: 1, b: {a: 2}}\ncross: [full: [a, b]]\n", 8, "a_1 and b both set global/a"),
        (
            "parametric: {a: 1, b: {c: 2}}\ncross: [chosen: [{a: 2, b: group}]]\n",
            8,
            "unknown value in a cross '2'",
        ),
        ("parametric: {a: 1, b: {c: 2}}\ncross: [chosen: [{a: 1, b: 2}]]\n", 8, "(known: group)"),
        (
            "parametric: {a: 1, b: 2}\ncross: [{full: [a, b]}, {full: [a, b]}]\n",
            8,
            "the variant 'a_1+b_2' is defined already",
        ),
        ("cross: []\n", 7, "cross is empty"),
        ("default: {abc: 1}\nas_published: [abd]\n", 8, "as_published names 'abd', which nothing"),
    ];
    for (text, line, want) in cases {
        let (at, sentence) = rest(text);
        assert!(sentence.contains(want), "{text}: {sentence}");
        assert_eq!(at, line, "{text}: {sentence}");
    }
}

#[test]
fn designs_that_can_not_be() {
    let cases = [
        ("design: {blocks: 0}", "blocks: '0' is not a whole number from 1 to 10000"),
        ("design: {blocks: 3.5}", "'3.5' is not a whole number"),
        ("design: {confidence: 1}", "confidence: '1' is not a number from 0.5 up to (not including) 1"),
        ("design: {confidence: nan}", "'nan' is not a number"),
        ("design: {effect: -0.1}", "'-0.1' is not a number"),
        ("design: {confirm: maybe}", "'maybe' is not yes or no"),
        ("design: {rule: one-sigma}", "did you mean 'one_sigma'?"),
        ("design: {rule: one_sigma, correction: holm}", "leave out 'correction'"),
        ("design: {stop: {budget: 0}}", "budget: '0' is not a whole number from 1"),
        ("design: {defaults_per_bloc: 2}", "did you mean 'defaults_per_block'?"),
        ("design: {on_failure: go on}", "did you mean 'go_on'?"),
        ("design: {profile: every}", "unknown profile 'every'"),
        ("source: {title: t, author: a, date: yesterday}", "date: 'yesterday' is not a date"),
    ];
    for (text, want) in cases {
        let (line, sentence) = rest(text);
        assert!(sentence.contains(want), "{text}: {sentence}");
        assert_eq!(line, 7);
    }
}

#[test]
fn more_than_anybody_can_run_is_refused() {
    let values: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let list = values.join(", ");
    let text = format!("parametric: {{a: [{list}], b: [{list}]}}\ncross:\n- full: [a, b]\n");
    let (line, sentence) = rest(&text);
    assert_eq!((line, sentence.as_str()), (9, "too many combinations: 40000 (at most 10000)"));
    let text = format!("parametric: {{a: [{list}]}}\ndesign: {{blocks: 10000}}\n");
    assert_eq!(rest(&text).1, "too many trials: 2020000 (at most 1000000)");
}
