//! A seeded generator of CRUSH maps in text form, and the stock `crushtool`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crush::CrushMap;
use encoding::{Decode, Encode};
use types::FeatureBits;
use types::SplitMix64;

/// Whether a stock program is installed; says so when it is not.
pub fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--help").output().is_ok();
    if !found {
        println!("skipped: no {program} here");
    }
    found
}

/// Runs a program that must succeed; its standard output.
pub fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).env("CEPH_CONF", "/dev/null").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {}\n{text}\n{error}", out.status);
    text
}

/// The feature word with which the installed `crushtool` writes maps: those before Squid know no multi-step retry rules.
pub fn crushtool_features() -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("map.txt"), dir.path().join("map"));
    std::fs::write(&source, "device 0 osd.0\ntype 0 osd\n").unwrap();
    run("crushtool", &["-c", path(&source), "-o", path(&binary)]);
    let bytes = std::fs::read(&binary).unwrap();
    let map = CrushMap::from_bytes_exact(&bytes).unwrap();
    if map.to_bytes(!0) == bytes { !0 } else { !FeatureBits::CRUSH_MSR }
}

pub fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}

/// The mappings that `crushtool --test --show-mappings` prints: rule, x, items.
pub fn parse_mappings(text: &str) -> Vec<(u32, u32, Vec<i32>)> {
    let parse = |line: &str| {
        let mut words = line.strip_prefix("CRUSH rule ")?.split(' ');
        let rule = words.next()?.parse().ok()?;
        let x = words.nth(1)?.parse().ok()?;
        let items = words.next()?.trim_matches(['[', ']']);
        let items = items.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
        Some((rule, x, items))
    };
    text.lines().filter_map(parse).collect()
}

/// How many random maps a test tries: LOLIGO_ROUNDS, or `default`.
pub fn rounds(default: u64) -> u64 {
    std::env::var("LOLIGO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The first seed: LOLIGO_SEED or 1.
pub fn first_seed() -> u64 {
    std::env::var("LOLIGO_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// What a random map is drawn from.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    fn weight(&mut self) -> String {
        match self.below(10) {
            0 => "0.000".into(),
            1..=4 => "1.000".into(),
            _ => format!("{}.{:03}", self.below(9), self.below(1000)),
        }
    }
}

struct Bucket {
    id: i32,
    name: String,
    size: usize,
}

/// A map of three levels with whatever the text form can say.
pub fn random_map(r: &mut Random) -> String {
    let mut text = String::new();
    tunables(r, &mut text);
    let classes = r.chance(40);
    let (mut osds, mut id) = (Vec::new(), 0);
    for _ in 0..1 + r.below(30) {
        id += 1 + u64::from(r.chance(10)) * r.below(4);
        let class = if classes && r.chance(80) { *r.pick(&[" class hdd", " class ssd"]) } else { "" };
        writeln!(text, "device {id} osd.{id}{class}").unwrap();
        osds.push(format!("osd.{id}"));
    }
    text += "type 0 osd\ntype 1 host\ntype 2 rack\ntype 3 root\n";
    // crushtool can't make shadow trees of buckets that want all weights equal.
    let algs: &[&str] = match (r.chance(50), classes) {
        (true, _) => &["straw2"],
        (false, true) => &["straw2", "list"],
        (false, false) => &["straw2", "uniform", "list", "straw", "tree"],
    };
    let mut next_id = -1;
    let hosts = level(r, &mut text, "host", &osds, &mut next_id, algs);
    let host_names: Vec<_> = hosts.iter().map(|b| b.name.clone()).collect();
    let racks = level(r, &mut text, "rack", &host_names, &mut next_id, algs);
    let rack_names: Vec<_> = racks.iter().map(|b| b.name.clone()).collect();
    let roots = level(r, &mut text, "root", &rack_names, &mut next_id, algs);
    let class = if classes && text.contains("class ssd") { " class ssd" } else { "" };
    rules(r, &mut text, &roots, class);
    if r.chance(30) {
        choose_args(r, &mut text, hosts.iter().chain(&racks).chain(&roots));
    }
    text
}

fn tunables(r: &mut Random, text: &mut String) {
    let jewel = r.chance(50);
    for (name, jewel_value, most) in [
        ("choose_local_tries", 0, 3),
        ("choose_local_fallback_tries", 0, 6),
        ("choose_total_tries", 50, 60),
        ("chooseleaf_descend_once", 1, 1),
        ("chooseleaf_vary_r", 1, 4),
        ("chooseleaf_stable", 1, 1),
        ("straw_calc_version", 1, 1),
    ] {
        let value = if jewel { jewel_value } else { r.below(most + 1) };
        writeln!(text, "tunable {name} {value}").unwrap();
    }
    text.push_str("tunable allowed_bucket_algs 62\n");
}

/// Buckets of a type that share out `items`; now and then one stays empty or an item is left over.
fn level(
    r: &mut Random,
    text: &mut String,
    kind: &str,
    items: &[String],
    next_id: &mut i32,
    algs: &[&str],
) -> Vec<Bucket> {
    let count = if kind == "root" { 1 + r.below(2) } else { 1 + r.below(8) } as usize;
    let mut shares = vec![Vec::new(); count];
    for item in items {
        if !r.chance(3) {
            shares[r.below(count as u64) as usize].push(item);
        }
    }
    let mut made = Vec::new();
    for (n, share) in shares.iter().enumerate() {
        let (id, name) = (*next_id, format!("{kind}{n}"));
        *next_id -= 1 + i32::from(r.chance(5));
        let mut alg = *r.pick(algs);
        if share.is_empty() && alg != "straw2" {
            alg = "straw2";
        }
        writeln!(text, "{kind} {name} {{\n\tid {id}\n\talg {alg}\n\thash 0").unwrap();
        // A uniform bucket of weight 0 makes crushtool abort.
        let same = format!("{}.500", r.below(3));
        for item in share {
            let weight = if alg == "uniform" { same.clone() } else { r.weight() };
            writeln!(text, "\titem {item} weight {weight}").unwrap();
        }
        text.push_str("}\n");
        made.push(Bucket { id, name, size: share.len() });
    }
    made
}

fn rules(r: &mut Random, text: &mut String, roots: &[Bucket], class: &str) {
    for id in 0..4 {
        let kind = *r.pick(&["replicated", "erasure"]);
        writeln!(text, "rule r{id} {{\n\tid {id}\n\ttype {kind}\n\tmin_size 1\n\tmax_size 10").unwrap();
        for (step, most) in [
            ("set_choose_tries", 100),
            ("set_chooseleaf_tries", 8),
            ("set_choose_local_tries", 3),
            ("set_choose_local_fallback_tries", 5),
            ("set_chooseleaf_vary_r", 4),
            ("set_chooseleaf_stable", 1),
        ] {
            if r.chance(15) {
                writeln!(text, "\tstep {step} {}", r.below(most + 1)).unwrap();
            }
        }
        for _ in 0..1 + u64::from(r.chance(25)) {
            let class = if r.chance(40) { class } else { "" };
            writeln!(text, "\tstep take {}{class}", r.pick(roots).name).unwrap();
            let mode = *r.pick(&["firstn", "indep"]);
            match r.below(4) {
                0 => writeln!(text, "\tstep choose {mode} {} type osd", r.below(4)),
                1 => {
                    let (a, b) = (1 + r.below(3), r.below(3));
                    writeln!(
                        text,
                        "\tstep choose {mode} {a} type rack\n\tstep chooseleaf {mode} {b} type host"
                    )
                }
                _ => {
                    let kind = *r.pick(&["host", "host", "rack", "osd"]);
                    writeln!(text, "\tstep chooseleaf {mode} {} type {kind}", r.below(3))
                }
            }
            .unwrap();
            text.push_str("\tstep emit\n");
        }
        text.push_str("}\n");
    }
}

fn choose_args<'a>(r: &mut Random, text: &mut String, buckets: impl Iterator<Item = &'a Bucket>) {
    text.push_str("choose_args 0 {\n");
    for bucket in buckets.filter(|b| b.size > 0) {
        if r.chance(40) {
            continue;
        }
        write!(text, "  {{\n    bucket_id {}\n    weight_set [\n", bucket.id).unwrap();
        for _ in 0..1 + r.below(3) {
            let set: Vec<_> = (0..bucket.size).map(|_| r.weight()).collect();
            writeln!(text, "      [ {} ]", set.join(" ")).unwrap();
        }
        text.push_str("    ]\n");
        if r.chance(30) {
            let ids: Vec<_> = (0..bucket.size).map(|n| (-(n as i64) - 100).to_string()).collect();
            writeln!(text, "    ids [ {} ]", ids.join(" ")).unwrap();
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
}
