//! What the metadata's tables hold: counted to the byte, and damage of one record fails only what needs it.

use std::path::Path;

use crate::common::{Look, META, Simple, fresh, object, pg, reopened, version};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use store::{AttrChoice, LogRecordKind, ObjectChange, StoreError};
use types::GHObject;

/// The tables whose keys and values count as metadata.
const COUNTED: [&str; 6] = ["collections", "infos", "onodes", "chunks", "omap", "log"];

fn table(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn database(dir: &Path) -> Database {
    Database::open(dir.join("meta.redb")).unwrap()
}

/// Bytes of all keys and values of a closed store.
fn recount(dir: &Path) -> u64 {
    // A database that is closed answers no more, also in a transaction that began before.
    let database = database(dir);
    let txn = database.begin_read().unwrap();
    let bytes = |name| {
        let entries = txn.open_table(table(name)).unwrap();
        let sizes = entries.iter().unwrap().map(|e| e.map(|(k, v)| k.value().len() + v.value().len()));
        sizes.sum::<Result<usize, _>>().unwrap() as u64
    };
    COUNTED.into_iter().map(bytes).sum()
}

/// Flips a bit in the value of the first key of a table that `wanted` accepts.
fn flip(dir: &Path, name: &str, wanted: impl Fn(&[u8]) -> bool) {
    let database = database(dir);
    let txn = database.begin_write().unwrap();
    {
        let mut entries = txn.open_table(table(name)).unwrap();
        let mut all = entries.iter().unwrap().map(|e| {
            let (key, value) = e.unwrap();
            (key.value().to_vec(), value.value().to_vec())
        });
        let (key, mut value) = all.find(|(key, _)| wanted(key)).unwrap();
        drop(all);
        value[8] ^= 0x10;
        entries.insert(&key[..], &value[..]).unwrap();
    }
    txn.commit().unwrap();
}

fn has(key: &[u8], name: &str) -> bool {
    key.windows(name.len()).any(|part| part == name.as_bytes())
}

fn pairs(n: u32) -> Vec<(types::Name, buffer::Piece)> {
    (0..n).map(|i| (format!("key{i}").as_str().into(), vec![i as u8; i as usize * 3].into())).collect()
}

/// A store with something in every table.
fn filled(dir: &Path) -> Simple {
    let mut h = fresh(dir, 16 << 20);
    for i in 0..20u32 {
        let o = object(&format!("object{i}"));
        h.commit(|t| {
            t.write(META, &o, u64::from(i) * 5000, vec![i as u8; 30_000].into()).omap_set(META, &o, pairs(i));
            t.set_attrs(META, &o, pairs(i % 5).into_iter().collect());
            t.log_append(META, version(u64::from(i) + 1), LogRecordKind::Entry, vec![1; 100 + i as usize]);
            t.set_info(META, vec![2; i as usize])
        });
    }
    h
}

#[test]
fn metadata_bytes_are_what_the_tables_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = filled(dir.path());
    let o = |i: u32| object(&format!("object{i}"));
    let mut counted = Vec::new();
    type Change =
        for<'a> fn(&'a mut store::Transaction, &dyn Fn(u32) -> GHObject) -> &'a mut store::Transaction;
    let changes: [Change; 6] = [
        |t, o| t.remove(META, &o(3)).truncate(META, &o(4), 10).zero(META, &o(5), 0, 9999),
        |t, o| t.clone_object(META, &o(6), &o(7)).clone_range(META, (&o(6), 0), (&o(8), 77_000), 9000),
        |t, o| t.create_collection(pg(1), 1).touch(pg(1), &o(30)).rename((META, &o(9)), (META, &o(31))),
        |t, o| {
            t.change(META, &o(10), ObjectChange::OmapClear);
            t.change(
                META,
                &o(11),
                ObjectChange::OmapRemoveRange { first: "key1".into(), last: "key5".into() },
            );
            t.change(META, &o(12), ObjectChange::OmapRemove(vec!["key0".into(), "none".into()]));
            t.omap_set(META, &o(13), vec![("key3".into(), vec![1; 1000].into())])
        },
        |t, _| t.log_trim(META, version(7)).log_rewind(META, version(15)).set_info(META, vec![1; 4000]),
        |t, o| {
            t.create_collection(pg(2), 1).rename((pg(1), &o(30)), (pg(2), &o(32)));
            t.merge(pg(1), pg(2), 0).set_info(pg(2), vec![1; 9])
        },
    ];
    for change in changes {
        h.commit(|t| change(t, &o));
        counted.push(h.statfs().metadata_bytes);
        let refused = h.refused(|t| {
            change(t, &o);
            t.remove(META, &o(14)).clone_object(META, &object("none"), &o(15))
        });
        assert!(!matches!(refused, StoreError::NoSpace { .. } | StoreError::Damaged(_)), "{refused}");
        assert_eq!(
            h.statfs().metadata_bytes,
            *counted.last().unwrap(),
            "a refused transaction counts nothing"
        );
        drop(h);
        assert_eq!(recount(dir.path()), *counted.last().unwrap());
        h = reopened(dir.path());
        assert_eq!(h.statfs().metadata_bytes, *counted.last().unwrap(), "remembered");
    }
    assert!(counted.windows(2).all(|w| w[0] != w[1]), "{counted:?}");
}

#[test]
fn metadata_stays_within_the_bound_of_the_documentation() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 16 << 20);
    let mut before = h.statfs().metadata_bytes;
    let mut grows_at_most = |h: &mut Simple, bytes: u64, what: &str| {
        let now = h.statfs().metadata_bytes;
        assert!(now <= before + bytes, "{what}: {} bytes more, not {bytes}", now - before);
        before = now;
    };
    let mut o = object("name");
    o.hobj.name = vec![0; 300].into();
    o.hobj.key = vec![0; 200].into();
    o.hobj.nspace = vec![0; 100].into();
    h.commit(|t| t.touch(META, &o));
    grows_at_most(&mut h, 128 + 4 * 600, "an object");
    h.commit(|t| t.set_attr(META, &o, "attr", vec![1; 1000]));
    grows_at_most(&mut h, 8 + 1004, "an attribute");
    h.commit(|t| t.omap_set(META, &o, vec![("key".into(), vec![1; 500].into())]));
    grows_at_most(&mut h, 12 + 503, "an omap key");
    h.commit(|t| t.log_append(META, version(1), LogRecordKind::Entry, vec![1; 500]));
    grows_at_most(&mut h, 32 + 500, "a log record");
    h.commit(|t| t.set_info(META, vec![1; 500]));
    grows_at_most(&mut h, 18 + 500, "an info");
    h.commit(|t| t.create_collection(pg(77), 5));
    grows_at_most(&mut h, 64, "a collection");
    h.commit(|t| t.write(META, &o, 10_000, vec![1; 3 << 20].into()));
    grows_at_most(&mut h, 13 * 769 + 20 * 14, "the map of 3 MiB");
}

#[test]
fn a_damaged_onode_fails_what_needs_it_and_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    flip(dir.path(), "onodes", |key| has(key, "object7"));
    let mut h = reopened(dir.path());
    let (bad, good) = (object("object7"), object("object8"));
    let is_damaged = |e: &StoreError| matches!(e, StoreError::Damaged(_));
    assert!(is_damaged(&h.try_data(META, &bad).unwrap_err()));
    assert!(is_damaged(&h.try_head(META, &bad).unwrap_err()));
    assert!(is_damaged(&h.try_list(META, AttrChoice::All).unwrap_err()));
    assert_eq!(h.try_list(META, AttrChoice::None).unwrap().len(), 20, "names need no record");
    assert!(is_damaged(&h.refused(|t| t.touch(META, &good).write(META, &bad, 0, vec![1; 10].into()))));
    assert!(is_damaged(&h.refused(|t| t.clone_object(META, &bad, &good))));
    h.commit(|t| t.write(META, &good, 0, vec![1; 10].into()));
    assert!(h.try_data(META, &good).unwrap().starts_with(&[1; 10]));
}

#[test]
fn a_damaged_value_is_found_and_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    flip(dir.path(), "omap", |key| key.ends_with(b"key9"));
    flip(dir.path(), "log", |_| true);
    flip(dir.path(), "infos", |_| true);
    let mut h = reopened(dir.path());
    let bad: Vec<GHObject> = (0..20)
        .map(|i| object(&format!("object{i}")))
        .filter(|o| matches!(h.try_omap(META, o), Err(StoreError::Damaged(_))))
        .collect();
    assert_eq!(bad.len(), 1);
    assert!(matches!(h.try_log(META), Err(StoreError::Damaged(_))));
    let stat = store::ReadRequest::Collection { collection: META };
    assert!(matches!(h.get(stat.clone()), Err(StoreError::Damaged(_))));
    h.commit(|t| {
        t.change(META, &bad[0], ObjectChange::OmapRemove(vec!["key9".into()]));
        t.log_trim(META, version(5)).set_info(META, vec![1; 50])
    });
    assert!(h.try_omap(META, &bad[0]).is_ok() && h.try_log(META).is_ok() && h.get(stat).is_ok());
}

#[test]
fn a_block_map_with_a_malformed_key_is_damage_not_block_0() {
    let dir = tempfile::tempdir().unwrap();
    let mut h = fresh(dir.path(), 16 << 20);
    h.commit(|t| t.write(META, &object("a"), 0, vec![1; 10].into()));
    drop(h);
    let txn = database(dir.path()).begin_write().unwrap();
    {
        let mut chunks = txn.open_table(table("chunks")).unwrap();
        let (key, _) =
            chunks.first().unwrap().map(|(k, v)| (k.value().to_vec(), v.value().to_vec())).unwrap();
        // An empty map with the right checksum, so that only the key is wrong.
        let long = &[&key[..], &[0]].concat()[..];
        let crc = buffer::crc32c(!0, long).to_le_bytes();
        chunks.insert(long, &crc[..]).unwrap();
    }
    txn.commit().unwrap();
    let mut h = reopened(dir.path());
    assert!(
        matches!(h.try_data(META, &object("a")), Err(StoreError::Damaged(why)) if why.contains("malformed key"))
    );
    let refused = h.refused(|t| t.remove(META, &object("a")));
    assert!(matches!(refused, StoreError::Damaged(_)));
}
