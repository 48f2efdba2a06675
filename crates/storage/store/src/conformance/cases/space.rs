//! Full stores, and space that comes back.

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::reads::{object, pg, version};
use super::{bytes, noise, one_pg, pattern};
use crate::{CollectionId, Fault, LogRecordKind, ObjectChange, ObjectStore, StoreError, Transaction};

const SMALL_STORE_BYTES: u64 = 32 << 20;

pub(super) fn small<F: Factory>(factory: &mut F) -> (Harness<F::Store>, CollectionId) {
    let mut h = Harness::new(factory.fresh(SMALL_STORE_BYTES), factory.properties());
    h.commit(|t| t.create_collection(pg(0), 0).create_collection(pg(1), 0));
    (h, pg(0))
}

/// Writes objects of `len` bytes, some in flight, until the store is full; returns how many there are.
pub(super) fn fill<S: ObjectStore>(h: &mut Harness<S>, c: CollectionId, len: usize, first: u32) -> u32 {
    for n in (first..).step_by(8) {
        let mut write = |n| {
            let mut txn = Transaction::new();
            txn.touch(c, &object("beside", n)).write(c, &object("full", n), 0, noise(len, n));
            h.queue(txn)
        };
        let tokens: Vec<_> = (n..n + 8).map(&mut write).collect();
        let mut refused = None;
        for (i, token) in tokens.iter().enumerate() {
            match (h.outcome(*token), refused) {
                (Ok(()), None) => {}
                (Err(StoreError::NoSpace { needed, available }), None) => {
                    assert!(needed > available, "{needed} bytes needed, {available} available");
                    refused = Some((*token, n + i as u32));
                }
                (Err(StoreError::AfterRefused(_)), Some(_)) => {}
                (other, _) => panic!("object {i} after {n}: {other:?}"),
            }
        }
        if let Some((token, full)) = refused {
            h.acknowledge(token);
            assert_eq!(
                h.size(c, &object("full", full)),
                None,
                "a transaction without space is refused whole"
            );
            assert_eq!(
                h.size(c, &object("beside", full)),
                None,
                "a transaction without space is refused whole"
            );
            return full;
        }
        assert!(
            u64::from(n - first) * len as u64 <= 2 * SMALL_STORE_BYTES,
            "a store of {SMALL_STORE_BYTES} bytes is never full"
        );
    }
    unreachable!("the loop has no end")
}

pub fn a_full_store_refuses_whole_and_takes_what_makes_room<F: Factory>(factory: &mut F) {
    let (mut h, c) = small(factory);
    let before = h.statfs();
    let large = fill(&mut h, c, 256 << 10, 0);
    assert!(
        u64::from(large) * (256 << 10) > before.bytes_available / 2,
        "only {large} objects fit: {before:?}"
    );
    let all = fill(&mut h, c, 4096, 100_000);
    let data = u64::from(large) * (256 << 10) + u64::from(all - 100_000) * 4096;
    assert_eq!(h.statfs().data_bytes, before.data_bytes + data, "refused transactions took nothing");
    fill(&mut h, c, 1, 200_000);
    for n in 0..large.min(40) {
        let mut txn = Transaction::new();
        match n % 3 {
            0 => txn.remove(c, &object("full", n)),
            1 => txn.truncate(c, &object("full", n), 100),
            _ => txn.zero(c, &object("full", n), 0, 256 << 10),
        };
        txn.log_append(c, version(u64::from(n) + 1), LogRecordKind::Entry, vec![1; 150]);
        txn.set_info(c, vec![n as u8; 500]).set_attr(c, &object("beside", n), "_", vec![1; 300]);
        if n == 4 {
            assert!(h.statfs().bytes_available < 4 << 20, "it was full until now");
        }
        assert_eq!(h.apply(txn), Ok(()), "removal {n}: what makes room is taken");
    }
    let room = h.statfs().bytes_available;
    assert!(room >= (4 << 20), "{room} bytes are available after removals");
    h.commit(|t| t.write(c, &object("again", 1), 0, pattern(1 << 20, 1)));
    h.commit(|t| t.remove(c, &object("again", 1)));
    for object in h.list(c) {
        h.commit(|t| t.remove(c, &object));
    }
    h.commit(|t| t.log_rewind(c, Default::default()).set_info(c, Vec::new()));
    let after = h.statfs();
    assert_eq!((after.data_bytes, after.objects), (before.data_bytes, 0), "space comes back to the byte");
    assert_eq!(fill(&mut h, c, 256 << 10, 0), large, "and as much fits again");
}

pub fn a_refusal_for_space_closes_its_collection_only<F: Factory>(factory: &mut F) {
    let (mut h, c) = small(factory);
    let mut txn = Transaction::new();
    for n in 0..40 {
        txn.write(c, &object("large", n), 0, pattern(1 << 20, n));
    }
    let refused = h.queue(txn);
    let mut touch = |collection| {
        let mut txn = Transaction::new();
        txn.touch(collection, &object("a", 1));
        h.queue(txn)
    };
    let (after, elsewhere) = (touch(c), touch(pg(1)));
    match h.outcome(refused) {
        Err(error @ StoreError::NoSpace { .. }) => {
            assert_eq!((error.fault(), error.errno()), (Fault::Disk, types::Errno::ENOSPC));
        }
        other => panic!("more than fits: {other:?}"),
    }
    assert_eq!((h.outcome(after), h.outcome(elsewhere)), (Err(StoreError::AfterRefused(c)), Ok(())));
    h.acknowledge(refused);
    assert_eq!(h.list(c), vec![]);
    h.commit(|t| t.write(c, &object("large", 0), 0, pattern(1 << 20, 1)));
}

pub fn space_comes_back_from_clones_overwrites_truncates_and_refusals<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let before = h.statfs();
    let (a, b, d) = (object("a", 1), object("b", 2), object("d", 3));
    for round in 0..5u32 {
        h.commit(|t| t.write(c, &a, 0, pattern(500_000, round)).clone_object(c, &a, &b));
        h.commit(|t| {
            t.clone_range(c, (&b, 4096), (&d, 8192), 300_000).write(c, &a, 100_000, pattern(70_001, 9))
        });
        h.refused(|t| {
            t.write(c, &a, 0, pattern(200_000, 3)).clone_object(c, &a, &d).remove(c, &b);
            t.create_collection(c, 0)
        });
        h.commit(|t| t.clone_object(c, &d, &a).truncate(c, &b, 12_345).zero(c, &d, 10_000, 100_000));
        h.commit(|t| {
            t.write(c, &b, 0, pattern(500_000, round)).clone_object(c, &b, &b).clone_object(c, &b, &d)
        });
        h.commit(|t| {
            t.omap_set(c, &a, vec![("k".into(), bytes("v"))]).change(c, &a, ObjectChange::OmapClear)
        });
        h.commit(|t| t.truncate(c, &a, 0).truncate(c, &b, 0).truncate(c, &d, 0));
        assert_eq!(h.statfs().data_bytes, before.data_bytes, "round {round}: truncated objects have no data");
        h.commit(|t| {
            t.write(c, &a, 0, pattern(100_000, 1)).rename((c, &a), (c, &object("e", 4))).remove(c, &b)
        });
        h.commit(|t| t.remove(c, &object("e", 4)).remove(c, &d));
        let after = h.statfs();
        assert_eq!(
            (after.data_bytes, after.objects),
            (before.data_bytes, 0),
            "round {round}: nothing is left"
        );
        assert_eq!(after.bytes_available, before.bytes_available, "round {round}: all is available");
    }
}
