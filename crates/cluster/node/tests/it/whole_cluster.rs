//! Monitor, OSD, PG and MemStore cores together, without a socket: a cluster boots, makes a pool, serves objects, and
//! the same seed gives the same trace twice.

use crate::sim::{LogOp, Shape, Sim};
use objecter::WatchEvent;
use types::OsdId;

/// Boots three OSDs, makes a pool and runs `ops` random operations from each of three clients, checking every read.
fn run(seed: u64, ops: usize) -> Sim {
    run_on(seed, ops, Shape::ONE)
}

fn run_on(seed: u64, ops: usize, shape: Shape) -> Sim {
    let mut sim = Sim::on_cores(seed, 3, shape);
    sim.run_until("every OSD is up", |s| s.osds_up() == 3);
    let clients: Vec<_> = (0..3).map(|_| sim.connect_client()).collect();
    let made = sim.command(clients[0], r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    assert_eq!(made.result, 0, "{}", made.status);
    for _ in 0..ops {
        let client = clients[sim.random(clients.len() as u64) as usize];
        sim.random_operation(client, "p");
    }
    sim.run_until("every operation is answered", |s| s.outstanding() == 0);
    sim.check_all("p");
    sim
}

#[test]
fn a_cluster_boots_and_serves_what_was_written() {
    for seed in 1..=5 {
        let sim = run(seed, 300);
        assert!(
            sim.acknowledged() > 100,
            "seed {seed}: only {} writes were acknowledged",
            sim.acknowledged()
        );
    }
}

#[test]
fn clients_see_the_same_however_many_cores_and_shards_an_osd_has() {
    let shapes = [(1, 1), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 4), (4, 7)];
    for (seed, (cores, shards)) in (20..).zip(shapes) {
        // Every answer is compared with what the object is.
        let sim = run_on(seed, 300, Shape { cores, shards });
        let acknowledged = sim.acknowledged();
        let crossed = sim.trace().iter().any(|line| line.contains("ToCore"));
        assert_eq!(crossed, cores > 1, "{cores} cores, {shards} shards");
        assert!(acknowledged > 100, "{cores} cores, {shards} shards: {acknowledged} writes acknowledged");
    }
    let again = |seed| run_on(seed, 100, Shape { cores: 4, shards: 4 });
    assert_eq!(again(7).trace(), again(7).trace());
}

/// Clients append to one object and read it, all at the same time. How many operations overlapped another.
fn run_log(seed: u64, shape: Shape) -> usize {
    let mut sim = Sim::on_cores(seed, 1, shape);
    sim.run_until("the OSD is up", |s| s.osds_up() == 1);
    let clients: Vec<_> = (0..6).map(|_| sim.connect_client()).collect();
    let made = sim.command(clients[0], r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    assert_eq!(made.result, 0, "{}", made.status);
    for n in 0..200 {
        let client = clients[sim.random(clients.len() as u64) as usize];
        let appends = (sim.random(2) == 0).then_some(n);
        sim.log_operation(client, "p", appends);
        sim.pause();
    }
    sim.run_until("every operation is answered", |s| s.outstanding() == 0);
    sim.log_operation(clients[0], "p", None);
    sim.run_until("the log is read", |s| s.outstanding() == 0);
    assert_eq!(sim.gates().len(), usize::from(shape.cores), "requests come to every gate");
    check_log(sim.log(), seed)
}

/// Whether there is one order in which every operation took effect between its request and its answer. The log's last
/// state is the order of the appends; a read belongs behind what it shows.
fn check_log(log: &[LogOp], seed: u64) -> usize {
    let ended = |op: &LogOp| op.ended.clone().expect("a log of operations");
    let whole = ended(log.last().expect("a log of operations")).1;
    let mut places = Vec::new();
    for op in log {
        let (end, read) = ended(op);
        let place = match op.appends {
            Some(tag) => {
                let mut at = whole.chunks(4).enumerate().filter(|(_, bytes)| **bytes == tag.to_le_bytes());
                let place = at.next().unwrap_or_else(|| panic!("seed {seed}: {tag} is lost")).0 + 1;
                assert!(at.next().is_none(), "seed {seed}: {tag} is there twice");
                place
            }
            None => {
                assert!(whole.starts_with(&read), "seed {seed}: a read shows what never was");
                read.len() / 4
            }
        };
        places.push((op.begun, end, place, op.appends.is_some()));
    }
    let mut overlaps = 0;
    for (begun, end, place, _) in &places {
        for (later, later_end, later_place, appends) in &places {
            if later > end {
                let follows = if *appends { later_place > place } else { later_place >= place };
                assert!(follows, "seed {seed}: the operation begun at {later} overtook that ended at {end}");
            } else if begun < later_end && begun != later {
                overlaps += 1;
            }
        }
    }
    overlaps
}

#[test]
#[should_panic(expected = "overtook")]
fn a_read_that_misses_an_append_that_was_answered_is_caught() {
    let op = |appends, begun, end, read: &[u8]| LogOp { appends, begun, ended: Some((end, read.to_vec())) };
    let one = 1u32.to_le_bytes();
    check_log(&[op(Some(1), 0, 10, &[]), op(None, 20, 30, &[]), op(None, 40, 50, &one)], 0);
}

#[test]
fn an_object_is_linearizable_whichever_cores_its_requests_come_to() {
    for (seed, (cores, shards)) in (40..).zip([(1, 1), (2, 1), (2, 2), (2, 2), (2, 2), (3, 2)]) {
        let overlaps = run_log(seed, Shape { cores, shards });
        assert!(overlaps > 100, "seed {seed}: {overlaps} overlaps: nothing was at the same time");
    }
}

#[test]
fn an_osd_is_taken_out_of_its_nodes_and_comes_back_on_its_stores() {
    for (cores, shards) in [(1, 1), (1, 2), (2, 2), (3, 5)] {
        let mut sim = Sim::on_cores(11, 2, Shape { cores, shards });
        sim.run_until("every OSD is up", |s| s.osds_up() == 2);
        let client = sim.connect_client();
        let made = sim.command(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":16}"#);
        assert_eq!(made.result, 0, "{}", made.status);
        sim.restart_osd(OsdId(1));
        (0..60).for_each(|_| sim.random_operation(client, "p"));
        sim.run_until("every operation is answered", |s| s.outstanding() == 0);
        sim.check_all("p");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_another_seed_another() {
    let (one, two, other) = (run(7, 200), run(7, 200), run(8, 200));
    let first = one.trace().iter().zip(two.trace()).position(|(a, b)| a != b);
    assert_eq!(first, None, "the traces part at line {first:?}");
    assert_eq!(one.trace().len(), two.trace().len());
    assert_ne!(one.trace(), other.trace());
}

#[test]
fn a_command_is_refused_in_words_and_the_cluster_goes_on() {
    let mut sim = Sim::new(3, 1);
    sim.run_until("the OSD is up", |s| s.osds_up() == 1);
    let client = sim.connect_client();
    let refused = sim.command(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"size":3}"#);
    assert_eq!(refused.result, -22);
    assert!(refused.status.len() > 20, "{}", refused.status);
    assert_eq!(sim.command(client, r#"{"prefix":"osd pool create","pool":"p"}"#).result, 0);
}

#[test]
fn what_a_client_notifies_reaches_every_watcher_however_many_cores_an_osd_has() {
    for (cores, shards) in [(1, 1), (2, 2), (4, 7)] {
        let mut sim = Sim::on_cores(31, 2, Shape { cores, shards });
        sim.run_until("every OSD is up", |s| s.osds_up() == 2);
        let clients: Vec<_> = (0..3).map(|_| sim.connect_client()).collect();
        let made = sim.command(clients[0], r#"{"prefix":"osd pool create","pool":"p","pg_num":16}"#);
        assert_eq!(made.result, 0, "{}", made.status);
        for object in ["a", "b", "c", "d"] {
            sim.create(clients[0], "p", object);
            clients[1..].iter().for_each(|client| sim.watch(*client, "p", object));
            for n in 0..5u8 {
                let outcome = sim.notify(clients[0], "p", object, &[n]);
                assert_eq!((outcome.result, outcome.missed.len(), outcome.answers.len()), (0, 0, 2));
                assert!(outcome.answers.values().all(|reply| reply[..] == [n]), "{:?}", outcome.answers);
            }
        }
        let notifies = |client: &usize| {
            let events = sim.watch_events(*client).iter();
            events.filter(|event| matches!(event, WatchEvent::Notify { .. })).count()
        };
        assert_eq!(clients.iter().map(notifies).collect::<Vec<_>>(), [0, 20, 20]);
    }
}
