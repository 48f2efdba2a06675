//! Monitor, OSD, PG and MemStore cores together, without a socket: a cluster boots, makes a pool, serves objects, and
//! the same seed gives the same trace twice.

mod sim;

use sim::Sim;

/// Boots three OSDs, makes a pool and runs `ops` random operations from each of three clients, checking every read.
fn run(seed: u64, ops: usize) -> Sim {
    let mut sim = Sim::new(seed, 3);
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
