//! Changes that are acknowledged although their leaf has gone bad, since they need nothing of it, stop no checkpoint and are not lost.

use std::collections::BTreeMap;

use blockdev::DeviceId;
use blockdev::sim::SimDisks;
use blockstore::{BLOCK, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, LogRecordKind, ReadRequest, StoreError, Transaction};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, SplitMix64, UTime};

use crate::common::{Sim, Simulated, check, drive};
use crate::gaps::blocks_with;

const LOG_BYTES: u64 = 256 << 10;
const SIZE: u64 = 16 << 20;
const PGS: u32 = 8;
const RECORDS: u64 = 120;

type Damaged = Vec<(u64, Vec<u8>)>;

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(seed: u32, n: u64) -> GHObject {
    let hash = seed | (n as u32).wrapping_mul(0x9e37_79b1) << 3;
    let name = format!("object {seed} {n:05} {:0100}", 0);
    HObject::head(PoolId(1), Name::new(), Name::new(), name.as_str().into(), hash).into()
}

fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1), n)
}

fn record(seed: u32, n: u64, mark: u64) -> Vec<u8> {
    format!("record of {seed}, {n:05} {mark:0150}").into_bytes()
}

fn append(txn: &mut Transaction, seed: u32, n: u64, mark: u64) {
    txn.log_append(pg(seed), version(n), LogRecordKind::Entry, record(seed, n, mark));
}

/// PGs with logs of several leaves each, closed in order with everything in the tree.
fn filled(options: Options) -> (Sim, SimDisks) {
    let mut factory = Sim::new(options, LOG_BYTES);
    let mut h = Harness::new(factory.fresh(SIZE), factory.properties());
    // What is made first has copies.
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    (0..40).for_each(|n| h.commit(|t| t.touch(CollectionId::Meta, &object(0, n))));
    h.commit(|t| (0..PGS).fold(t, |t, seed| t.create_collection(pg(seed), 3)));
    for seed in 0..PGS {
        for n in 1..=RECORDS {
            h.commit(|t| {
                append(t, seed, n, 0);
                t.touch(pg(seed), &object(seed, n))
            });
        }
    }
    let disks = closed(&factory, h);
    (factory, disks)
}

/// Brings everything into the tree, and closes the store in order.
fn closed(factory: &Sim, h: Harness<Simulated>) -> SimDisks {
    let Simulated { mut store, disks } = h.take();
    store.request_checkpoint();
    drive(&mut store, UTime { sec: 2_000_000_000, nsec: 0 }, |store, _| {
        assert!(!store.has_failed(), "a checkpoint goes on beside a page that can't be read");
        store.is_clean().then_some(())
    });
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    disks
}

/// Damages the leaf that has a record of a log, if it has no copy.
fn damage(disks: &SimDisks, seed: u32, n: u64) -> Damaged {
    damage_leaf(disks, format!("record of {seed}, {n:05}").as_bytes())
}

fn damage_leaf(disks: &SimDisks, bytes: &[u8]) -> Damaged {
    let all = blocks_with(disks, bytes);
    let is_alone = |block: &[u8]| all.iter().filter(|(_, other)| other == block).count() == 1;
    let is_note = |block: &[u8]| block.windows(NOTE.len()).any(|some| some == NOTE);
    let found = all.iter().filter(|(_, block)| is_alone(block) && !is_note(block));
    let found: Damaged = found.cloned().collect();
    found.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
    found
}

/// Puts back what was damaged, where nothing else was written since. What the store writes meanwhile stays.
fn restore(disks: &SimDisks, damaged: Damaged) {
    for (at, mut bytes) in damaged {
        bytes[9] ^= 2;
        if disks.visible(DeviceId::Data, at, BLOCK as usize) == bytes {
            disks.flip_bit(DeviceId::Data, at + 9, 1);
        }
    }
}

/// How notes of a PG's log begin: their table, the table of the key, and the PG.
const NOTE: [u8; 4] = [b'~', b'l', 1, 128];

/// Damages one of the two places of each leaf with notes.
fn damage_notes(disks: &SimDisks) -> Damaged {
    let mut found: Damaged = Vec::new();
    // The first block of a leaf begins with its level and the number of its entries.
    let is_leaf = |block: &[u8]| block[0] == 0 && block[1] > 0 && block[3..5] == [0, 0];
    for (at, block) in blocks_with(disks, &NOTE).into_iter().filter(|(_, block)| is_leaf(block)) {
        if !found.iter().any(|(_, other)| *other == block) {
            found.push((at, block));
        }
    }
    found.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
    found
}

fn versions(h: &mut Harness<Simulated>, seed: u32) -> Vec<u64> {
    h.log(pg(seed)).records.iter().map(|record| record.version.version).collect()
}

#[test]
fn appends_to_a_log_whose_leaf_is_bad_stop_no_checkpoint_and_are_there_when_it_is_back() {
    let (factory, disks) = filled(Options::default());
    let damaged = damage(&disks, 3, RECORDS);
    assert!(!damaged.is_empty());
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    assert_eq!(h.store().store.stranded_changes(), 0);
    let appended = RECORDS + 40;
    for n in RECORDS + 1..=appended {
        h.commit(|t| {
            append(t, 3, n, 0);
            t.write(pg(0), &object(0, n), 0, vec![7; 5000].into())
        });
        if n % 10 == 0 {
            // Each opening has them, from the tree or from the log.
            let disks = closed(&factory, h);
            h = Harness::new(factory.open(&disks), factory.properties());
            let stranded = h.store().store.stranded_changes() as u64;
            assert!((n - RECORDS..n).contains(&stranded), "{stranded} of {}", n - RECORDS);
        }
    }
    let log = ReadRequest::Log {
        collection: pg(3),
        after: EVersion::default(),
        records_max: 1000,
        bytes_max: 1 << 20,
    };
    assert!(h.get(log).is_err_and(|error| error.is_damage()), "what can't be read is not missed");
    assert_eq!(versions(&mut h, 2).len() as u64, RECORDS);
    let disks = closed(&factory, h);

    restore(&disks, damaged);
    let mut simulated = factory.open(&disks);
    check(&mut simulated, "with the leaf back");
    let mut h = Harness::new(simulated, factory.properties());
    assert!(h.store().store.stranded_changes() > 0);
    assert_eq!(versions(&mut h, 3), (1..=appended).collect::<Vec<_>>());
    h.commit(|t| t.touch(pg(0), &object(0, 9999)));
    let disks = closed(&factory, h);
    let mut simulated = factory.open(&disks);
    check(&mut simulated, "merged");
    assert_eq!(simulated.store.stranded_changes(), 0);
    let mut h = Harness::new(simulated, factory.properties());
    assert_eq!(versions(&mut h, 3), (1..=appended).collect::<Vec<_>>());
    for n in RECORDS + 1..=appended {
        assert_eq!(h.data(pg(0), &object(0, n)), vec![7; 5000]);
    }
}

#[test]
fn an_opening_in_spite_of_damage_says_that_it_leaves_stranded_changes_out() {
    let (factory, disks) = filled(Options::default());
    assert!(!damage(&disks, 3, RECORDS).is_empty());
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| {
        append(t, 3, RECORDS + 1, 0);
        t.touch(pg(0), &object(0, RECORDS + 1))
    });
    let disks = closed(&factory, h);
    let said = |disks: &SimDisks| {
        let opened = factory.open_damaged(disks).unwrap_or_else(|e| panic!("what can be read is: {e}"));
        let (changes, damage) = (opened.store.stranded_changes(), opened.store.damage().unwrap_or_default());
        (changes, damage.join("\n"))
    };
    assert_eq!(said(&disks), (1, String::new()));
    let [(one, _), (other, _)] = &blocks_with(&disks, &NOTE)[..] else { panic!("the note is in two places") };
    disks.flip_bit(DeviceId::Data, one + 9, 1);
    assert_eq!(said(&disks), (1, String::new()), "one of them is enough");
    disks.flip_bit(DeviceId::Data, other + 9, 1);
    let (changes, damage) = said(&disks);
    assert_eq!(changes, 0);
    assert!(
        damage.contains("shard 0: the last changes of pages that can't be read are left out"),
        "{damage}"
    );
    assert!(factory.try_open(&disks).is_err(), "no one serves without them");
}

/// The tree's last leaf is the one that would have the notes.
#[test]
fn the_last_leaf_may_be_the_bad_one() {
    let (factory, disks) = filled(Options { cache_bytes: 64 << 10, ..Options::default() });
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    // The ranges of hashes get known, so that who makes an object later searches for nothing.
    (0..300).for_each(|n| h.commit(|t| t.touch(pg(7), &object(7, 1000 + n))));
    h.store().store.request_checkpoint();
    assert!(h.comes_to_rest());
    let last = (1..=RECORDS).chain(1000..1300).map(|n| object(7, n)).max().expect("there are objects");
    let damaged = damage_leaf(&disks, last.hobj.name.as_bytes());
    assert!(!damaged.is_empty());
    // Other pages take its place in memory.
    (0..4).for_each(|seed| drop(versions(&mut h, seed)));
    let mut made = Vec::new();
    for n in 2000..2200 {
        let mut txn = Transaction::new();
        txn.touch(pg(7), &object(7, n));
        match h.apply(txn) {
            Ok(()) => made.push(n),
            Err(error) => assert!(error.is_damage(), "{error}"),
        }
        if n % 50 == 0 {
            h.store().store.request_checkpoint();
        }
    }
    assert!(made.len() > 20, "{} made", made.len());
    let disks = closed(&factory, h);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    assert!(h.store().store.stranded_changes() > 0, "some lie in that leaf");
    made.iter().for_each(|n| assert!(h.size(pg(7), &object(7, *n)).is_some(), "{n}"));
    let disks = closed(&factory, h);
    restore(&disks, damaged);
    let mut simulated = factory.open(&disks);
    check(&mut simulated, "with the leaf back");
    let mut h = Harness::new(simulated, factory.properties());
    h.commit(|t| t.touch(pg(0), &object(0, 9999)));
    let mut simulated = factory.open(&closed(&factory, h));
    check(&mut simulated, "merged");
    assert_eq!(simulated.store.stranded_changes(), 0);
    let mut h = Harness::new(simulated, factory.properties());
    made.iter().chain(&[1, RECORDS]).for_each(|n| assert!(h.size(pg(7), &object(7, *n)).is_some(), "{n}"));
}

#[test]
fn what_is_stranded_is_bounded() {
    let options = Options { changes_bytes_max: 64 << 10, ..Options::default() };
    let (factory, disks) = filled(options);
    let damaged = damage(&disks, 3, RECORDS);
    assert!(!damaged.is_empty());
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let mut last = RECORDS;
    let error = loop {
        assert!(last < RECORDS + 2000, "it stops");
        let mut txn = Transaction::new();
        append(&mut txn, 3, last + 1, 0);
        match h.apply(txn) {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("take over 16384 bytes"), "{error}");
    assert!(last > RECORDS + 20);
    drop(h.abandon());
    disks.close();
    restore(&disks, damaged);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let found = versions(&mut h, 3);
    assert!(
        found.len() as u64 >= last && found.iter().copied().eq(1..=found.len() as u64),
        "{}",
        found.len()
    );
}

#[test]
fn less_memory_ends_no_store_for_what_is_stranded_already() {
    let (mut factory, disks) = filled(Options::default());
    let damaged = damage(&disks, 3, RECORDS);
    assert!(!damaged.is_empty());
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let stranded = RECORDS + 300;
    (RECORDS + 1..=stranded).for_each(|n| {
        h.commit(|t| {
            append(t, 3, n, 0);
            t.touch(pg(0), &object(0, n))
        });
    });
    let mut disks = closed(&factory, h);
    // A quarter of this is less than they take.
    factory.options.changes_bytes_max = 64 << 10;
    for n in 5000..5003 {
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        assert!(h.store().store.stranded_changes() > 100);
        h.commit(|t| t.touch(pg(0), &object(0, n)));
        disks = closed(&factory, h);
    }
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let ends = (stranded + 1..stranded + 1000).any(|n| {
        let mut txn = Transaction::new();
        append(&mut txn, 3, n, 0);
        h.apply(txn).is_err()
    });
    assert!(ends, "there is a bound for more");
    drop(h.abandon());
    disks.close();
    restore(&disks, damaged);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    assert!(versions(&mut h, 3).len() as u64 >= stranded);
}

/// What the logs hold: records by version, with their marks.
type Logs = Vec<BTreeMap<u64, u64>>;

fn change(random: &mut SplitMix64, h: &mut Harness<Simulated>, logs: &mut Logs, heads: &mut [u64]) {
    let seed = random.below(u64::from(PGS)) as u32;
    let (log, head) = (&mut logs[seed as usize], &mut heads[seed as usize]);
    let mut txn = Transaction::new();
    let (mut next, mark) = (log.clone(), random.below(1000));
    match random.below(8) {
        0 => {
            let to = *head - random.below(60).min(*head - 1);
            txn.log_trim(pg(seed), version(to));
            next.retain(|n, _| *n > to);
        }
        1 => drop(txn.write(pg(seed), &object(seed, random.below(400)), 0, vec![1; 3000].into())),
        2 => drop(txn.remove(pg(seed), &object(seed, random.below(400)))),
        _ => {
            append(&mut txn, seed, *head + 1, mark);
            next.insert(*head + 1, mark);
        }
    }
    match h.apply(txn) {
        Ok(()) => {
            *head = next.keys().next_back().map_or(*head, |last| (*head).max(*last));
            *log = next;
        }
        Err(StoreError::NoSuchObject(..)) => {}
        Err(error) => {
            assert!(error.is_damage(), "{error}");
            assert!(!h.store().store.has_failed(), "{error}");
        }
    }
}

#[test]
fn leaves_go_bad_and_come_back_while_logs_are_appended_to_and_power_is_lost() {
    let seeds = std::env::var("STRANDED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for seed in 0..seeds {
        let mut random = SplitMix64::new(seed);
        let cache_bytes = if seed % 2 == 0 { 96 << 10 } else { 32 << 10 };
        let (factory, mut disks) = filled(Options { cache_bytes, ..Options::default() });
        let mut logs: Logs = (0..PGS).map(|_| (1..=RECORDS).map(|n| (n, 0)).collect()).collect();
        let mut heads = vec![RECORDS; PGS as usize];
        let mut damaged: Vec<Damaged> = Vec::new();
        let mut most = 0;
        for _ in 0..12 {
            let mut h = Harness::new(factory.open(&disks), factory.properties());
            let mut notes = Vec::new();
            for _ in 0..random.below(120) {
                if notes.is_empty() && random.one_in(30) {
                    notes.push(damage_notes(&disks));
                }
                if random.one_in(20) {
                    notes.drain(..).for_each(|all| restore(&disks, all));
                }
                change(&mut random, &mut h, &mut logs, &mut heads);
                if random.one_in(40) && damaged.len() < 4 {
                    let pg = random.below(u64::from(PGS)) as u32;
                    // The last records, so that the next ones belong to their leaf.
                    let last = heads[pg as usize].saturating_sub(random.below(3));
                    let found = damage(&disks, pg, last);
                    match found.iter().any(|(at, _)| damaged.iter().flatten().any(|(other, _)| at == other)) {
                        // It is bad already: as it was before.
                        true => {
                            found.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
                        }
                        false => damaged.push(found),
                    }
                }
                if random.one_in(30) {
                    h.store().store.request_checkpoint();
                }
            }
            most = most.max(h.store().store.stranded_changes());
            assert!(!h.store().store.has_failed(), "seed {seed}");
            notes.drain(..).for_each(|all| restore(&disks, all));
            if random.one_in(2) {
                disks = closed(&factory, h);
            } else {
                drop(h.abandon());
                disks.power_loss();
            }
            if random.one_in(4) {
                damaged.drain(..).for_each(|all| restore(&disks, all));
            }
        }
        damaged.drain(..).for_each(|all| restore(&disks, all));
        let simulated = factory.open(&disks);
        let mut h = Harness::new(simulated, factory.properties());
        for (pg, log) in (0..PGS).zip(&logs) {
            let found = h.log(self::pg(pg)).records;
            let want: Vec<_> = log.iter().map(|(n, mark)| (version(*n), record(pg, *n, *mark))).collect();
            let found: Vec<_> = found.iter().map(|r| (r.version, r.bytes.to_vec())).collect();
            let numbers =
                |all: &[(EVersion, Vec<u8>)]| all.iter().map(|(v, _)| v.version).collect::<Vec<_>>();
            assert_eq!(numbers(&found), numbers(&want), "seed {seed}, pg {pg}");
            assert!(found == want, "seed {seed}, pg {pg}");
        }
        check(&mut h.take(), &format!("seed {seed}"));
        eprintln!("seed {seed}: {most} stranded at most");
    }
}
