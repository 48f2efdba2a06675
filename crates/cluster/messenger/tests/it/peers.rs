//! Sessions between OSDs over a network that breaks.

use std::time::Duration;

use crate::network::{PEER_BYTES_MAX, Plan, World};
use messenger::Role;

const PLAN: Plan = Plan { seed: 0, nodes: 2, role: Role::Cluster, steps: 600, fault_every: 30 };

fn holds(plan: Plan) {
    let checked = World::run(plan, None).and_then(|world| world.check_lossless());
    if let Err(reason) = checked {
        panic!("{plan:?}: {reason}");
    }
}

#[test]
fn messages_of_lossless_sessions_arrive_once_and_in_order_between_two() {
    (1..=300).for_each(|seed| holds(Plan { seed, ..PLAN }));
}

#[test]
fn messages_of_lossless_sessions_arrive_once_and_in_order_among_three() {
    (1..=200).for_each(|seed| holds(Plan { seed, nodes: 3, fault_every: 25, ..PLAN }));
}

#[test]
fn a_network_that_breaks_all_the_time_loses_nothing() {
    (1..=200).for_each(|seed| holds(Plan { seed, fault_every: 8, ..PLAN }));
}

#[test]
fn what_a_peer_has_not_acknowledged_is_bounded_and_room_is_reported() {
    let mut refused = 0;
    for seed in 1..=50 {
        // Breaks that last, so that messages pile up.
        let plan = Plan { seed, fault_every: 10, ..PLAN };
        let world = World::run(plan, None).unwrap();
        world.check_lossless().unwrap_or_else(|reason| panic!("{plan:?}: {reason}"));
        refused += world.refused;
        // The last message may run over.
        assert!(world.unacked_most < PEER_BYTES_MAX + 4000, "{} bytes", world.unacked_most);
    }
    assert!(refused > 0, "the window was never full");
}

#[test]
fn a_lossy_session_delivers_a_run_of_what_was_sent() {
    for role in [Role::HeartbeatBack, Role::HeartbeatFront, Role::Public] {
        for seed in 1..=70 {
            let plan = Plan { seed, role, ..PLAN };
            let world = World::run(plan, None).unwrap();
            world.check_lossy().unwrap_or_else(|reason| panic!("{plan:?}: {reason}"));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let world = World::run(Plan { seed, nodes: 3, ..PLAN }, None).unwrap();
        (world.trace, world.now)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn nothing_of_before_reaches_an_osd_at_its_new_address() {
    for seed in 1..=20 {
        let plan = Plan { seed, ..PLAN };
        let mut world = World::new(plan, None);
        world.send(0, 1);
        world.heal().unwrap();
        assert_eq!(world.nodes[1].arrived[0], [1]);
        let old = world.nodes[1].addr;
        // Under way, and not read yet, when the address changes.
        (2..=4).for_each(|_| world.send(0, 1));
        world.send(1, 0);
        world.rebind(1);
        assert_eq!((world.nodes[1].closed, world.nodes[1].messenger.peers()), (1, 0));
        world.pass(Duration::from_secs(1));
        world.forget(0, old);
        (5..=7).for_each(|_| world.send(0, 1));
        world.heal().unwrap();
        assert_eq!(world.nodes[1].arrived[0], [1, 5, 6, 7], "{plan:?}");
        assert!(world.nodes[0].arrived[1].len() <= 1);
    }
}
