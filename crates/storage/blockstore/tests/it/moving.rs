//! A log that moves to a device of its own and back: it is in the one place or the other, empty, whenever power is lost.

use blockdev::sim::SimDisks;
use blockdev::{DeviceId, Durability, Op};
use blockstore::{Label, OpenError, Options, Part};
use store::CollectionId;
use store::conformance::{Factory, Harness};
use types::{GHObject, HObject, Name, PgId, PoolId};

use crate::common::shards::{Shards, Whole};
use crate::common::{Sim, perform};

const SHARDS: u32 = 3;
const BYTES: u64 = 24 << 20;

fn object(n: usize) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").into(), n as u32).into()
}

/// Stores with their logs beside the data, on disks that have a place for logs, too.
fn of() -> Shards {
    Shards {
        sim: Sim { log_apart: true, ..Sim::new(Options::default(), 1 << 20) },
        shards: SHARDS,
        grown: false,
    }
}

fn beside(of: &Shards) -> Label {
    Label { log_apart: false, ..of.label(BYTES) }
}

fn write_log_label(disks: &SimDisks, label: &Label) {
    let data = Label { log_apart: true, ..label.clone() }.encode(Part::Log).into();
    perform(disks, DeviceId::Wal, Op::Write { offset: 0, data, durability: Durability::Durable });
}

fn made() -> (Shards, SimDisks, Harness<Whole>) {
    let of = of();
    let disks = of.sim.disks_for(&of.label(BYTES));
    let label = beside(&of);
    of.sim.make(&disks, label.clone());
    write_log_label(&disks, &label);
    let mut h = Harness::new(of.open(&disks, "new"), of.properties());
    pgs(&mut h).into_iter().for_each(|c| h.commit(|t| t.create_collection(c, 0)));
    (of, disks, h)
}

/// A collection of each shard.
fn pgs(h: &mut Harness<Whole>) -> Vec<CollectionId> {
    let pg = |seed| CollectionId::Pg(PgId { pool: PoolId(1), seed }.into());
    let mut of_shard = |shard| (0..99).map(pg).find(|c| h.shard_of(*c).0 == shard).expect("there is one");
    (0..SHARDS).map(&mut of_shard).collect()
}

fn contents(n: usize) -> Vec<u8> {
    // In the log, or beside it.
    vec![(n % 250) as u8 + 1; if n % 2 == 0 { 3000 } else { 200_000 }]
}

fn write(h: &mut Harness<Whole>, n: usize) {
    pgs(h).into_iter().for_each(|c| {
        h.commit(|t| {
            t.write(c, &object(n % 40), 0, contents(n).into()).truncate(
                c,
                &object(n % 40),
                contents(n).len() as u64,
            )
        })
    });
}

/// What was written last, and all of the few before it.
fn expect(h: &mut Harness<Whole>, last: usize, when: &str) {
    for c in pgs(h) {
        for n in last.saturating_sub(20)..=last {
            assert!(h.data(c, &object(n % 40)) == contents(n), "{when}: object {n}");
        }
    }
}

/// Which shards have their logs apart.
fn apart(h: &mut Harness<Whole>) -> Vec<bool> {
    h.store().store.handles().iter().map(|handle| handle.state().log_apart).collect()
}

#[test]
fn logs_are_in_one_place_or_the_other_and_empty_whenever_power_is_lost_while_they_move() {
    let (mut of, disks, mut h) = made();
    let mut n = 0;
    write(&mut h, n);
    // There, back, and there again, over what an earlier stay has left.
    for (lap, to) in [true, false, true].into_iter().enumerate() {
        let mut seen = [0; SHARDS as usize + 1];
        for turns in 0.. {
            let when = format!("lap {lap}, after {turns} turns");
            // As a tool does it: a checkpoint, and nothing in the log.
            of.close_clean(h.take());
            disks.reseed(turns as u64);
            let done = of.change(&disks, turns, |opener| opener.moving_log(to)).unwrap();
            disks.power_loss();
            h = Harness::new(of.open(&disks, &when), of.properties());
            let there: Vec<bool> = apart(&mut h).iter().map(|apart| *apart == to).collect();
            let count = there.iter().filter(|there| **there).count();
            assert!(there[..count].iter().all(|there| *there) && (!done || count == 3), "{when}: {there:?}");
            seen[count] += 1;
            expect(&mut h, n, &when);
            n += 1;
            write(&mut h, n);
            let whole = of.crash(h.abandon(), turns as u64).expect("power can be lost");
            h = Harness::new(whole, of.properties());
            expect(&mut h, n, &when);
            if done {
                break;
            }
        }
        assert!(seen.iter().any(|times| *times > 0) && seen[3] > 0, "lap {lap}: {seen:?}");
        for _ in 0..60 {
            n += 1;
            write(&mut h, n);
        }
        h = Harness::new(of.crash(h.abandon(), lap as u64).expect("power can be lost"), of.properties());
        expect(&mut h, n, "after some laps of the log");
    }
}

/// Where superblocks have their copies does not depend on where the logs are.
#[test]
fn a_shard_whose_log_has_moved_finds_the_copies_of_its_superblocks() {
    let (of, disks, mut h) = made();
    for (n, to) in [true, false].into_iter().enumerate() {
        of.close_clean(h.take());
        assert_eq!(of.change(&disks, usize::MAX, |opener| opener.moving_log(to)), Ok(true));
        disks.close();
        lose_superblocks(&disks, &beside(&of));
        h = Harness::new(of.open(&disks, "moved"), of.properties());
        assert_eq!(apart(&mut h), [to; SHARDS as usize]);
        write(&mut h, n);
        expect(&mut h, n, "moved");
    }
}

/// Zeros in place of each shard's first pair of superblocks.
fn lose_superblocks(disks: &SimDisks, label: &Label) {
    for shard in 0..label.shards {
        let at = label.shard(shard).expect("it is there").superblocks;
        crate::common::write(disks, at, vec![0; 2 * 4096]);
    }
}

#[test]
fn a_store_that_has_grown_finds_the_copies_of_its_superblocks() {
    let of = Shards { sim: Sim::new(Options::default(), 256 << 10), shards: SHARDS, grown: true };
    let disks = of.sim.disks_for(&of.label(BYTES));
    of.make_grown(&disks, BYTES);
    let mut h = Harness::new(of.open(&disks, "new"), of.properties());
    pgs(&mut h).into_iter().for_each(|c| h.commit(|t| t.create_collection(c, 0)));
    (0..12).for_each(|n| write(&mut h, n));
    drop(h.take());
    disks.close();
    lose_superblocks(&disks, &of.label(of.least_bytes()));
    let mut h = Harness::new(of.open(&disks, "grown"), of.properties());
    let ends: Vec<_> = h.store().store.handles().iter().map(|handle| handle.ends().len()).collect();
    assert_eq!(ends, [2; SHARDS as usize]);
    expect(&mut h, 11, "grown");
}

#[test]
fn a_log_that_is_not_empty_or_has_nowhere_to_go_stays() {
    let (of, disks, mut h) = made();
    write(&mut h, 0);
    drop(h.abandon());
    disks.power_loss();
    let refused = |to: bool| of.change(&disks, usize::MAX, |opener| opener.moving_log(to)).unwrap_err();
    assert_eq!(refused(true), OpenError::LogNotEmpty { shard: 0 });
    assert_eq!(of.change(&disks, usize::MAX, |opener| opener.moving_log(false)), Ok(true));
    let other = Label { id: 99, ..beside(&of) };
    write_log_label(&disks, &other);
    assert!(matches!(refused(true), OpenError::OtherLog(_)));
    h = Harness::new(of.open(&disks, "refused"), of.properties());
    assert_eq!(apart(&mut h), [false; SHARDS as usize]);
    expect(&mut h, 0, "refused");
    // Made with its log apart, it has no room for it elsewhere.
    let disks = of.sim.disks_for(&of.label(BYTES));
    of.sim.make(&disks, of.label(BYTES));
    let back = of.change(&disks, usize::MAX, |opener| opener.moving_log(false));
    assert_eq!(back, Err(OpenError::NoPlaceForLog));
}
