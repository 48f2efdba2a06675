//! A real cluster watched under load:
//! `LAB_CONF=ceph.conf LAB_PIDS=osd.0:17,mon.a:18 cargo test -p watch --test live -- --ignored`.
//! `LAB_SOCKETS=osd.0:/path` names admin socket of daemons that have one. The pool `lab-watch` is made and removed.
#![allow(clippy::unwrap_used)] // a test that gets nothing fails here

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use watch::counters::{Counters, changes, over_socket};
use watch::{Wanted, Watch};

fn pairs(name: &str) -> BTreeMap<String, String> {
    let text = std::env::var(name).unwrap_or_default();
    text.split(',').filter_map(|p| p.split_once(':')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn ceph(words: &[&str]) {
    let conf = std::env::var("LAB_CONF").unwrap();
    let done =
        Command::new("timeout").arg("60").arg("ceph").args(words).env("CEPH_CONF", conf).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn counters(sockets: &BTreeMap<String, String>) -> Counters {
    sockets.iter().flat_map(|(name, path)| over_socket(name, path.as_ref()).unwrap()).collect()
}

#[test]
#[ignore = "needs Ceph's programs"]
fn a_loaded_cluster_is_seen() {
    let sockets = pairs("LAB_SOCKETS");
    ceph(&["osd", "pool", "create", "lab-watch", "8"]);
    let samples = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&samples);
    let processes: Vec<_> = pairs("LAB_PIDS").into_iter().map(|(n, p)| (n, p.parse().unwrap())).collect();
    assert!(processes.iter().any(|(n, _)| n != "client"));
    let wanted = Wanted { processes, cycles: watch::cycles::counted(), ..Wanted::default() };
    let watch = Watch::start(wanted, Instant::now(), Box::new(move |s| own.lock().unwrap().push(s))).unwrap();
    let before = counters(&sockets);
    watch.begin("write");
    let client = Command::new("rados")
        .args(["-p", "lab-watch", "bench", "4", "write", "-b", "4096", "-t", "8"])
        .env("CEPH_CONF", std::env::var("LAB_CONF").unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    watch.add("client", client.id());
    let output = client.wait_with_output().unwrap();
    let used = watch.end().unwrap();
    let changed = changes(&before, &counters(&sockets));
    let cost = watch.stop();
    ceph(&["osd", "pool", "rm", "lab-watch", "lab-watch", "--yes-i-really-really-mean-it"]);

    let output = String::from_utf8(output.stdout).unwrap();
    let made = output.lines().find_map(|l| l.strip_prefix("Total writes made:")).unwrap();
    let operations: u64 = made.trim().parse().unwrap();
    let cpu = used.cpu(operations);
    println!("{operations} operations\n{used:#?}\n{cost:?}\n{} counters changed", changed.len());
    assert!((1.0..10_000.0).contains(&cpu.server_us_per_op), "{}", cpu.server_us_per_op);
    assert!(cpu.by_process["client"].user_s > 0.0);
    let busy: f64 = cpu.by_process.values().map(|p| p.user_s + p.system_s).sum();
    assert!(busy <= used.machine_s * 1.05 + 0.1, "{busy} of {}", used.machine_s);
    let samples = samples.lock().unwrap();
    let net = |s: &results::Sample| s.phase == "write" && s.values["net.lo.bytes"] > 4096.0 * 100.0;
    assert!(samples.iter().any(net), "{samples:?}");
    if let Some((name, _)) = sockets.iter().find(|(n, _)| n.starts_with("osd.")) {
        // The clean-up of rados bench writes too, and other OSDs have their share.
        assert!(changed[&format!("{name}.osd.op_w")] > 100.0, "{changed:?}");
    }
}
