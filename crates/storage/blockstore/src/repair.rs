//! Mending what a check has found, as far as the metadata itself says what is right.
//!
//! Objects and what they map count; what was counted of them, and what belongs to no object, is made to fit. A record that
//! can't be read, and data with a wrong checksum, are beyond that: other copies have them.

use std::collections::BTreeMap;

use blockdev::DeviceQueue;
use store::StoreError;

use crate::bitmap::Run;
use crate::check::{Checker, NO_POOL, PARTIAL};
use crate::chunk::CHUNK_BLOCKS;
use crate::context::{Context, NOTHING_FETCHED};
use crate::packer::Change;
use crate::records::{Counts, Dead, counts_key, dead_key};
use crate::stop::{Attempt, Stop};
use crate::store::BlockStore;

impl Checker {
    /// Whether the check could read everything: only then can anything be mended.
    pub fn can_repair(&self) -> bool {
        !self.is_partial
    }

    /// Changes the store that was checked, in one transaction; another check says what is left. `None` while pages are
    /// read: turn the store and ask again.
    ///
    /// # Errors
    /// Metadata can't be read, now or by the check, the store has no room, or it has stopped. Nothing was changed.
    pub fn repair<Q: DeviceQueue>(&self, store: &mut BlockStore<Q>) -> Option<Result<(), StoreError>> {
        let began = store.begin_check();
        if let Some(error) = store.failure() {
            return Some(Err(error));
        }
        if self.is_partial {
            // What is not known to be mapped would be given up, with all that is there.
            return Some(Err(StoreError::Damaged(PARTIAL.to_owned())));
        }
        let mut context = store.context(&NOTHING_FETCHED);
        let stop = match self.change(&mut context) {
            Ok(()) => {
                let ended = context.finish(false);
                match store.admit(ended) {
                    Ok(()) => return Some(Ok(())),
                    Err(stop) => stop,
                }
            }
            Err(stop) => {
                context.take_back();
                stop
            }
        };
        match stop {
            Stop::Pages(pages) => {
                store.read_for_check(pages, began);
                None
            }
            Stop::LogRoom | Stop::NextRecord => {
                store.request_checkpoint();
                None
            }
            Stop::Error(error) => Some(Err(error)),
            Stop::Blocks(_) | Stop::Space | Stop::Announcement => {
                Some(Err(StoreError::NoSpace { needed: 1, available: 0 }))
            }
        }
    }

    fn change(&self, context: &mut Context<'_>) -> Attempt<()> {
        let last = self.onodes.last().max(self.numbers.last()).copied().unwrap_or(0);
        context.counters.objects = self.objects;
        context.counters.metadata_bytes = self.metadata_bytes;
        context.counters.next_number = context.counters.next_number.max(last + 1);
        for number in self.ownerless() {
            context.pool = context.pool_use.counted.blocks().then_some(NO_POOL);
            context.put(dead_key(number), Dead::All(context.pool).encode())?;
        }
        for stray in &self.strays {
            context.delete(stray.clone())?;
        }
        self.change_counts(context)?;
        for pool in self.packed.keys().chain(context.packer.counted.keys()) {
            let before = context.packer.counted.get(pool).copied().unwrap_or_default();
            let after = self.packed.get(pool).copied().unwrap_or_default();
            context.packed.insert(*pool, Change::between(before, after));
        }
        if context.pool_use.counted.blocks() {
            for (pool, found, counted) in context.pool_use.unlike(&self.pool_use) {
                context.pools.add(pool, found.minus(counted));
            }
        }
        for block in self.mapped.blocks() {
            if !context.space.holds_data(block) && context.space.take([block]) {
                context.fresh.insert(Run { start: block, count: 1 });
            }
        }
        let mut at = context.space.next_data(0);
        while at < context.space.numbers() {
            if self.mapped.get(at).is_none() {
                context.freed.push(at);
            }
            at = context.space.next_data(at + 1);
        }
        Ok(())
    }

    fn change_counts(&self, context: &mut Context<'_>) -> Attempt<()> {
        let mut groups: BTreeMap<u64, Counts> = BTreeMap::new();
        for block in self.counts.keys().copied().chain(self.mapped.repeated()) {
            let times = self.mapped.get(block).map_or(0, |mapped| mapped.times);
            let group = groups.entry(block / CHUNK_BLOCKS).or_default();
            if times > 1 {
                group.0.insert((block % CHUNK_BLOCKS) as u8, times);
            }
        }
        for (group, counts) in groups {
            match counts.0.is_empty() {
                true => context.delete(counts_key(group))?,
                false => context.put(counts_key(group), counts.encode())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use blockdev::sim::SimQueue;
    use buffer::Piece;
    use store::{CollectionId, LogRecordKind, ObjectStore, Token, Transaction};
    use types::{EVersion, Epoch, HObject, Name, PgId, PoolId};

    use super::*;
    use crate::bitmap::runs_of;
    use crate::layer::layer_of;
    use crate::records::{Part, collection_key, log_key, part_key, table};
    use crate::shape::Shape;
    use crate::test_store::{checked, rest, store};

    fn repaired(store: &mut BlockStore<SimQueue>, checker: &Checker) {
        loop {
            match checker.repair(store) {
                Some(done) => break assert_eq!(done, Ok(())),
                None => rest(store),
            }
        }
        rest(store);
        assert_eq!(checked(store).1, [""; 0]);
        store.request_checkpoint();
        rest(store);
        assert_eq!(checked(store).1, [""; 0]);
    }

    #[test]
    fn what_was_counted_wrong_and_what_belongs_to_no_object_is_mended() {
        let mut store = store();
        let object = |name: &str| HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into();
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object("a"), 0, vec![1; 600_000].into());
        txn.clone_object(c, &object("a"), &object("b")).write(c, &object("c"), 0, vec![2; 50_000].into());
        store.queue(txn, Token(1));
        rest(&mut store);
        assert_eq!(checked(&mut store).1, [""; 0]);

        // Counters, an attribute without an object, a block that nothing maps, counts of shared blocks.
        store.counters.objects += 3;
        store.counters.metadata_bytes += 77;
        let leaked = store.space.allocate(5).expect("there are free blocks");
        store.space.mark_data(&runs_of(leaked));
        let counts: Vec<_> = store.tables.active().keys().filter(|key| key[0] == b'r').cloned().collect();
        assert!(counts.len() > 1, "blocks are shared");
        let wrong = Counts([(0, 9)].into()).encode();
        store.tables.apply([(counts[0].clone(), Some(wrong)), (counts[1].clone(), None)].into());
        let orphan = part_key(500, Part::Attr, b"name");
        store.tables.apply(layer_of([(orphan, Some(Piece::copy_from(b"value")))]));

        let (checker, problems) = checked(&mut store);
        assert!(problems.len() > 4, "{problems:?}");
        repaired(&mut store, &checker);
    }

    #[test]
    fn what_only_spaces_are_left_of_is_no_collection() {
        let mut store = store();
        let [there, gone] = [0, 1].map(|seed| CollectionId::Pg(PgId { pool: PoolId(1), seed }.into()));
        let mut txn = Transaction::new();
        txn.create_collection(there, 0);
        store.queue(txn, Token(1));
        rest(&mut store);
        let bytes = store.counters.metadata_bytes;
        let strays = [
            (collection_key(table::SHAPE, gone), Shape::whole(77).encode()),
            (collection_key(table::INFO, gone), Piece::copy_from(b"info")),
        ];
        for (key, value) in &strays {
            store.counters.metadata_bytes += crate::ENTRY_BYTES + (key.len() + value.len()) as u64;
        }
        store.tables.apply(layer_of(strays.map(|(key, value)| (key, Some(value)))));

        let (checker, problems) = checked(&mut store);
        let expected = [
            format!("there are spaces of a collection that is not there: {gone}"),
            format!("there is an info of a collection that is not there: {gone}"),
        ];
        assert_eq!(problems, expected);
        repaired(&mut store, &checker);
        assert_eq!(store.counters.metadata_bytes, bytes);
        // One that is made later has a space of its own.
        let object: types::GHObject =
            HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into();
        let mut txn = Transaction::new();
        txn.create_collection(gone, 0).touch(gone, &object);
        store.queue(txn, Token(2));
        rest(&mut store);
        assert_eq!(checked(&mut store).1, [""; 0]);
    }

    #[test]
    fn an_info_and_a_log_of_no_collection_are_found_and_removed() {
        let mut store = store();
        let [there, gone] = [0, 1].map(|seed| CollectionId::Pg(PgId { pool: PoolId(1), seed }.into()));
        let version = |n| EVersion { epoch: Epoch(1), version: n };
        let mut txn = Transaction::new();
        txn.create_collection(there, 0).set_info(there, b"info".to_vec());
        for n in 1..4 {
            txn.log_append(there, version(n), LogRecordKind::Entry, vec![7; 20]);
        }
        store.queue(txn, Token(1));
        rest(&mut store);
        let bytes = store.counters.metadata_bytes;
        let value = Piece::copy_from(b"value");
        let mut strays = vec![collection_key(table::INFO, gone)];
        strays.extend((1..4).map(|n| log_key(gone, version(n))));
        for key in &strays {
            store.counters.metadata_bytes += crate::ENTRY_BYTES + (key.len() + value.len()) as u64;
        }
        store.tables.apply(layer_of(strays.into_iter().map(|key| (key, Some(value.clone())))));

        let (checker, problems) = checked(&mut store);
        let expected = ["an info", "a log"]
            .map(|what| format!("there is {what} of a collection that is not there: {gone}"));
        assert_eq!(problems, expected);
        repaired(&mut store, &checker);
        assert_eq!(store.counters.metadata_bytes, bytes, "what is of a collection stays");
    }
}
