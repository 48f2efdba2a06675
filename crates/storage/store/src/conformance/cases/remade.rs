//! Logs and collections whose names come again, and the order of versions.

use types::{EVersion, Epoch};

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::history::reopened;
use super::super::reads::{object, pg, version};
use super::{bytes, empty, one_pg};
use crate::{
    CollectionId, CollectionStat, LogPage, LogRecordKind, ObjectStore, ReadOutcome, ReadRequest, StoreError,
    StoreShard, Transaction,
};

pub fn log_records_are_ordered_by_epoch_first<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let at = |epoch, version| EVersion::new(Epoch(epoch), version);
    let append = |h: &mut Harness<F::Store>, version| {
        let mut txn = Transaction::new();
        txn.log_append(c, version, LogRecordKind::Entry, bytes("record"));
        h.apply(txn)
    };
    let all = [at(1, 10), at(1, u64::MAX), at(2, 3), at(2, 4), at(3, 1), at(256, 0), at(u32::MAX, u64::MAX)];
    for (i, version) in all.into_iter().enumerate() {
        assert_eq!(append(&mut h, version), Ok(()), "{version} is newer than all before it");
        if i > 0 {
            let (head, older) = (version, all[i - 1]);
            assert_eq!(append(&mut h, older), Err(StoreError::LogOrder { head, version: older }));
        }
    }
    let versions = |h: &mut Harness<F::Store>| {
        let LogPage { tail, head, records, .. } = h.log(c);
        (tail, head, records.iter().map(|r| r.version).collect::<Vec<_>>())
    };
    assert_eq!(versions(&mut h), (EVersion::default(), all[6], all.to_vec()));
    let read = ReadRequest::Log { collection: c, after: all[1], records_max: 3, bytes_max: usize::MAX };
    match h.get(read) {
        Ok(ReadOutcome::Log(page)) => {
            assert_eq!(page.records.iter().map(|r| r.version).collect::<Vec<_>>(), all[2..5])
        }
        other => panic!("{other:?}"),
    }
    h.commit(|t| t.log_trim(c, at(2, 0)));
    assert_eq!(versions(&mut h), (at(2, 0), all[6], all[2..].to_vec()));
    h.commit(|t| t.log_rewind(c, at(2, 100)));
    assert_eq!(versions(&mut h), (at(2, 0), at(2, 100), all[2..4].to_vec()));
}

pub fn a_version_that_was_rewound_comes_with_other_bytes<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for n in 1..=5 {
        h.commit(|t| t.log_append(c, version(n), LogRecordKind::Entry, bytes("first")));
    }
    h.commit(|t| {
        t.log_rewind(c, version(2)).log_append(c, version(3), LogRecordKind::Duplicate, bytes("second"))
    });
    h.commit(|t| {
        t.log_append(c, version(5), LogRecordKind::Entry, bytes("second")).log_rewind(c, version(3));
        t.log_append(c, version(5), LogRecordKind::Duplicate, bytes("third"))
    });
    let check = |h: &mut Harness<F::Store>, when| {
        let records = h.log(c).records;
        let got: Vec<_> = records.iter().map(|r| (r.version.version, r.kind, r.bytes.to_vec())).collect();
        let (entry, duplicate) = (LogRecordKind::Entry, LogRecordKind::Duplicate);
        let want =
            [(1, entry, "first"), (2, entry, "first"), (3, duplicate, "second"), (5, duplicate, "third")];
        assert_eq!(got, want.map(|(n, kind, text)| (n, kind, text.as_bytes().to_vec())), "{when}");
    };
    check(&mut h, "rewound");
    let properties = factory.properties();
    if properties.crashes {
        h = reopened(factory, h, Some(1)).expect("the properties say so");
        check(&mut h, "after a power loss");
    }
    if properties.reopens {
        h = reopened(factory, h, None).expect("the properties say so");
        check(&mut h, "reopened");
    }
}

fn stat<S: ObjectStore>(h: &mut Harness<S>, collection: CollectionId) -> CollectionStat {
    match h.get(ReadRequest::Collection { collection }) {
        Ok(ReadOutcome::Collection(Some(stat))) => stat,
        other => panic!("{other:?}"),
    }
}

pub fn a_collection_made_again_by_one_transaction_is_new<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let child = pg(1);
    h.commit(|t| t.log_trim(c, Default::default()).create_collection(child, 3));
    let fill = |t: &mut Transaction| {
        t.set_info(child, bytes("info")).log_append(child, version(1), LogRecordKind::Entry, bytes("x"));
    };
    h.commit(|t| {
        fill(t);
        t
    });
    let new = |bits| CollectionStat { bits, ..CollectionStat::default() };
    h.commit(|t| t.remove_collection(child).create_collection(child, 1));
    assert_eq!((stat(&mut h, child), h.log(child)), (new(1), LogPage::default()), "removed and made");
    h.commit(|t| {
        fill(t);
        t.touch(child, &object("a", 1))
    });
    h.commit(|t| t.merge(child, c, 0).create_collection(child, 2));
    assert_eq!((stat(&mut h, child), h.log(child)), (new(2), LogPage::default()), "merged and made");
    assert_eq!((h.list(child), h.list(c)), (vec![], vec![object("a", 1)]));
    h.commit(|t| {
        fill(t);
        t.remove_collection(child)
    });
    h.commit(|t| t.create_collection(child, 0));
    assert_eq!((stat(&mut h, child), h.log(child)), (new(0), LogPage::default()), "filled and removed");
    if factory.properties().reopens {
        let mut h = reopened(factory, h, None).expect("the properties say so");
        assert_eq!((stat(&mut h, child), h.log(child)), (new(0), LogPage::default()), "reopened");
    }
}

pub fn a_split_may_look_at_all_bits_of_the_hash<F: Factory>(factory: &mut F) {
    const HASHES: [u32; 7] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];
    let (mut h, c) = one_pg(factory);
    h.commit(|t| HASHES.iter().fold(t, |t, hash| t.touch(c, &object(&format!("o{hash}"), *hash))));
    for (bits, rem) in
        [(32, 0xffff_ffff), (32, 0), (32, 5), (31, 0x7fff_ffff), (31, 1), (17, 0), (0, 0), (0, 7)]
    {
        h.commit(|t| {
            t.log_trim(c, Default::default()).create_collection(pg(1), 0).split(c, bits, rem, pg(1))
        });
        let low = |hash: u32| u64::from(hash) % (1 << bits);
        let want = HASHES.iter().filter(|hash| low(**hash) == low(rem)).count();
        assert_eq!(h.list(pg(1)).len(), want, "split by {bits} bits for {rem:#x}");
        assert_eq!(h.list(c).len(), HASHES.len() - want, "split by {bits} bits for {rem:#x}");
        h.commit(|t| t.merge(pg(1), c, bits));
        assert_eq!(h.list(c).len(), HASHES.len());
        assert_eq!(stat(&mut h, c).bits, bits);
    }
}

pub fn a_removed_collection_is_made_where_shard_of_shows<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let c = pg(0);
    let home = h.shard_of(c);
    let other = StoreShard((home.0 + 1) % h.shards());
    h.commit(|t| t.create_collection(c, 0));
    assert!(h.rehome(c, other, 10).is_ok());
    assert_eq!(h.shard_of(c), other);
    h.commit(|t| t.remove_collection(c));
    h.turn();
    let shown = h.shard_of(c);
    assert_eq!(shown, home, "what doesn't exist has the shard that it would be made in");
    h.commit(|t| t.create_collection(c, 0));
    assert_eq!(h.shard_of(c), shown);
    let beside = (1..1000).map(pg).find(|id| h.shard_of(*id) == home).expect("collections go to every shard");
    h.commit(|t| t.create_collection(beside, 0));
    h.commit(|t| t.touch(c, &object("a", 1)).touch(beside, &object("a", 1)));
}
