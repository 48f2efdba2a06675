//! Sizes that can't work are reported before anything is made.

use study::parse;

fn said(system: &str, load: &str, rest: &str) -> Vec<String> {
    let text = format!(
        "name: n\ntitle: t\nsystems:\n- {{name: s, {system}}}\nworkloads:\n- {{name: w, {load}}}\n{rest}"
    );
    let problems = parse(&text, "f").err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

const LOLIGO: &str = "loligo: {store: mem}";
const BENCH: &str = "rados_bench: {object_size: 4K, in_flight: 1, seconds: 1, phases: [write]}";

fn bench(size: &str) -> String {
    BENCH.replace("4K", size)
}

fn fio(engine: &str, block: &str, size: &str) -> String {
    format!(
        "fio: {{engine: {engine}, block_size: {block}, size: {size}, in_flight: 1, seconds: 1, phases: [write]}}"
    )
}

#[test]
fn no_write_is_larger_than_an_osd_takes() {
    for good in ["4K", "64M", "90M"] {
        assert_eq!(said(LOLIGO, &bench(good), ""), [""; 0], "{good}");
    }
    for load in [bench("91M"), bench("94371841"), fio("rados", "128M", "1G")] {
        let found = said(LOLIGO, &load, "");
        assert!(found.len() == 1 && found[0].starts_with("f:6:"), "{found:?}");
        assert!(found[0].contains("90 MiB (osd_max_write_size)"), "{found:?}");
    }
    // librbd takes requests apart, who runs a cluster has set the limit, and who sets the limit knows it.
    assert_eq!(said(LOLIGO, &fio("rbd", "128M", "1G"), ""), [""; 0]);
    assert_eq!(said("running: {conf: /x}", &bench("128M"), ""), [""; 0]);
    assert_eq!(said(LOLIGO, &bench("128M"), "default: {osd max write size: 200}\n"), [""; 0]);
}

#[test]
fn a_store_has_room() {
    let ceph = "ceph: {release: 16.2, store: bluestore}";
    let ours = "loligo: {store: simple}";
    let good =
        [(ceph, "image: {size: 1G}"), (ours, "image: {size: 64M}"), (ours, "loop: {size: 1G, fs: xfs}")];
    for (target, place) in good {
        assert_eq!(said(&format!("{target}, place: {{{place}}}"), BENCH, ""), [""; 0], "{target} {place}");
    }
    let bad = [
        (
            ceph,
            "image: {size: 1023M}",
            "BlueStore does not fit in 1072693248 bytes: give the image at least 1024 MiB",
        ),
        (ceph, "loop: {size: 4K}", "give the loop at least 1024 MiB"),
        (ours, "image: {size: 1}", "Loligo's store does not fit in 1 bytes: give the image at least 64 MiB"),
    ];
    for (target, place, words) in bad {
        let found = said(&format!("{target}, place: {{{place}}}"), BENCH, "");
        assert!(found.len() == 1 && found[0].starts_with("f:4:") && found[0].contains(words), "{found:?}");
    }
}

#[test]
fn sizes_that_nobody_can_mean_are_refused() {
    let modelled =
        |size: &str| format!("loligo: {{store: simple}}, place: {{modelled: {{model: ssd, size: {size}}}}}");
    assert_eq!(said(&modelled("64T"), &fio("rbd", "4K", "1T"), ""), [""; 0]);
    let found = said(&modelled("65T"), BENCH, "");
    assert!(found.len() == 1 && found[0].contains("'65T' is not a size of at most 64 TiB"), "{found:?}");
    let found = said(LOLIGO, &fio("rbd", "4K", "2T"), "");
    assert!(found.len() == 1 && found[0].contains("'2T' is not a size of at most 1 TiB"), "{found:?}");
}

#[test]
fn a_list_has_no_value_twice_however_it_is_written() {
    let cases = [
        (bench("[4K, 4096]"), "the value '4096' is defined already in line 6; leave one of them out"),
        (bench("[4K, 4K]"), "the value '4K' is defined already"),
        (BENCH.replace("in_flight: 1", "in_flight: [1, 16, 01]"), "the value '01' is defined already"),
    ];
    for (load, words) in cases {
        let found = said(LOLIGO, &load, "");
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    }
    assert_eq!(said(LOLIGO, &bench("[4K, 4M]"), ""), [""; 0]);
}
