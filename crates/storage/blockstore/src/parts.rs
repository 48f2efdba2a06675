//! Parts of an object: in its onode or under keys of their own. **A part is in one of the two places**, and the onode says which
//! ([`crate::onode::Home`]).

use std::ops::Range;

use buffer::Piece;
use store::{AttrChoice, Attrs, keys};
use types::Name;

use crate::chunk::{CHUNK_BLOCKS, Chunk};
use crate::context::Context;
use crate::onode::{Home, Inline, Onode};
use crate::page::Key;
use crate::records::{Part, chunk_key, chunk_of, name_of, part_key};
use crate::stop::{Attempt, damaged};

/// As many records of the map are looked up one by one; of more those that are there are searched.
const FEW_CHUNKS: u64 = 2;

/// Inline parts.
impl Context<'_> {
    /// What an object has under a key of its numbers.
    pub fn get_keyed(&self, onode: &Onode, key: &[u8]) -> Attempt<Option<Piece>> {
        if onode.has_keys() { self.get(key) } else { Ok(None) }
    }

    fn part(&self, onode: &Onode, part: Inline) -> Attempt<Option<Piece>> {
        match onode.home(part) {
            Home::Nowhere => Ok(None),
            Home::Here(value) => Ok(Some(value.clone())),
            Home::Apart => self.get(&part.key(onode.number)),
        }
    }

    /// Sets a part whose value was `old`. The caller stores the object.
    fn set_part(&mut self, onode: &mut Onode, part: Inline, old: Option<&Piece>, value: Piece) {
        let key = || part.key(onode.number);
        let apart = old.filter(|_| *onode.home(part) == Home::Apart);
        if value.len() > part.bytes_max() {
            self.put_over(key(), apart.map(|old| old.len()), value);
            return onode.set_home(part, Home::Apart);
        }
        if let Some(old) = apart {
            self.delete_known(key(), old);
        }
        onode.set_home(part, Home::Here(value));
    }

    /// Removes a part whose value was `old`. The caller stores the object.
    fn remove_part(&mut self, onode: &mut Onode, part: Inline, old: &Piece) {
        if *onode.home(part) == Home::Apart {
            self.delete_known(part.key(onode.number), old);
        }
        onode.set_home(part, Home::Nowhere);
    }
}

/// Attributes.
impl Context<'_> {
    pub fn attr(&self, onode: &Onode, name: &[u8]) -> Attempt<Option<Piece>> {
        match Inline::of_attr(name) {
            Some(part) => self.part(onode, part),
            None => self.get_keyed(onode, &part_key(onode.number, Part::Attr, name)),
        }
    }

    pub fn set_attr(&mut self, onode: &mut Onode, name: &[u8], value: &Piece) -> Attempt<()> {
        let Some(part) = Inline::of_attr(name) else {
            onode.note_key();
            return self.put(part_key(onode.number, Part::Attr, name), Piece::copy_from(value));
        };
        let old = self.part(onode, part)?;
        // What stays in the onode is copied when that is encoded.
        let own = if value.len() > part.bytes_max() { Piece::copy_from(value) } else { value.clone() };
        self.set_part(onode, part, old.as_ref(), own);
        Ok(())
    }

    pub fn remove_attr(&mut self, onode: &mut Onode, name: &[u8]) -> Attempt<()> {
        let Some(part) = Inline::of_attr(name) else {
            return match onode.has_keys() {
                true => self.delete(part_key(onode.number, Part::Attr, name)),
                false => Ok(()),
            };
        };
        if let Some(old) = self.part(onode, part)? {
            self.remove_part(onode, part, &old);
        }
        Ok(())
    }

    pub fn remove_attrs(&mut self, onode: &mut Onode) -> Attempt<()> {
        if onode.has_keys() {
            let prefix = part_key(onode.number, Part::Attr, &[]);
            self.delete_range(&prefix, keys::after_prefix(&prefix).as_deref())?;
        }
        for part in Inline::ATTRS {
            onode.set_home(part, Home::Nowhere);
        }
        Ok(())
    }

    pub fn attrs(&self, onode: &Onode, choice: &AttrChoice) -> Attempt<Attrs> {
        let number = onode.number;
        let here = |part: Inline| match (part.attr_name(), onode.home(part)) {
            (Some(name), Home::Here(value)) => Some((Name::from(name), value.clone())),
            _ => None,
        };
        Ok(match choice {
            AttrChoice::None => Attrs::new(),
            AttrChoice::All => {
                let apart = match onode.has_keys() {
                    true => self.with_prefix(&part_key(number, Part::Attr, &[]))?,
                    false => Vec::new(),
                };
                let apart = apart.into_iter().map(|(key, value)| (name_of(&key), value));
                Inline::ATTRS.into_iter().filter_map(here).chain(apart).collect()
            }
            AttrChoice::These(names) => {
                let inline =
                    |name: &Name| Inline::of_attr(name).filter(|part| *onode.home(*part) != Home::Apart);
                let in_onode = names.iter().filter_map(inline).filter_map(here);
                let may_be_apart = |name: &&Name| onode.has_keys() && inline(name).is_none();
                let mut names: Vec<&Name> = names.iter().filter(may_be_apart).collect();
                names.sort_unstable();
                let keys: Vec<Key> = names.iter().map(|name| part_key(number, Part::Attr, name)).collect();
                let values = self.tables.get_all(&self.top, &keys)?;
                let apart = names.into_iter().zip(values);
                let apart = apart.filter_map(|(name, value)| Some((name.clone(), value?)));
                in_onode.chain(apart).collect()
            }
        })
    }
}

/// Records of the map of data.
impl Context<'_> {
    pub fn record(&self, onode: &Onode, chunk: u64) -> Attempt<Option<Piece>> {
        match Inline::of_chunk(chunk) {
            Some(part) => self.part(onode, part),
            None => self.get_keyed(onode, &chunk_key(onode.number, chunk)),
        }
    }

    /// Sets a record that was `old`. The caller stores the object.
    pub fn put_record(&mut self, onode: &mut Onode, chunk: u64, old: Option<&Piece>, value: Piece) {
        match Inline::of_chunk(chunk) {
            Some(part) => self.set_part(onode, part, old, value),
            None => {
                onode.note_key();
                self.put_over(chunk_key(onode.number, chunk), old.map(|old| old.len()), value);
            }
        }
    }

    /// Removes a record that was `old`. The caller stores the object.
    pub fn delete_record(&mut self, onode: &mut Onode, chunk: u64, old: &Piece) {
        match Inline::of_chunk(chunk) {
            Some(part) => self.remove_part(onode, part, old),
            None => self.delete_known(chunk_key(onode.number, chunk), old),
        }
    }

    /// The records that have blocks of `first..end`, with their numbers.
    pub fn records(&self, onode: &Onode, blocks: &Range<u64>) -> Attempt<Vec<(u64, Piece)>> {
        let chunks = blocks.start / CHUNK_BLOCKS..blocks.end.div_ceil(CHUNK_BLOCKS);
        if chunks.end.saturating_sub(chunks.start) <= FEW_CHUNKS {
            let found = chunks.map(|chunk| Ok(self.record(onode, chunk)?.map(|value| (chunk, value))));
            return found.filter_map(Attempt::transpose).collect();
        }
        let start = chunk_key(onode.number, chunks.start);
        let stop = match chunks.end {
            chunk if chunk <= u64::from(u32::MAX) => Some(chunk_key(onode.number, chunk)),
            _ => keys::after_prefix(&part_key(onode.number, Part::Chunk, &[])),
        };
        let here = match onode.home(Inline::FirstChunk) {
            Home::Here(value) if chunks.start == 0 => Some(Ok((0, value.clone()))),
            _ => None,
        };
        let number = |key: &Key| chunk_of(key).ok_or_else(|| damaged("a key of a map of blocks"));
        let apart = match onode.has_keys() {
            true => self.range(&start, stop.as_deref())?,
            false => Vec::new(),
        };
        here.into_iter().chain(apart.into_iter().map(|(key, value)| Ok((number(&key)?, value)))).collect()
    }

    /// Shows a record, if it is there.
    pub fn with_record(
        &self,
        onode: &Onode,
        chunk: u64,
        show: impl FnOnce(&[u8]) -> Attempt<()>,
    ) -> Attempt<()> {
        match Inline::of_chunk(chunk).map(|part| onode.home(part)) {
            Some(Home::Nowhere) => return Ok(()),
            Some(Home::Here(value)) => return show(value),
            None if !onode.has_keys() => return Ok(()),
            Some(Home::Apart) | None => {}
        }
        if let Some(recent) = self.recent()
            && let Some(record) = recent.maps.record(onode.number, chunk)
        {
            return show(record);
        }
        let Some(value) = self.get(&chunk_key(onode.number, chunk))? else { return Ok(()) };
        self.note(|recent| recent.maps.note(onode.number, chunk, &value));
        show(&value)
    }

    /// Gives up the blocks that a record maps.
    pub fn give_up_record(&mut self, record: &Piece) -> Attempt<()> {
        let chunk = Chunk::decode(record).map_err(damaged)?;
        for slot in chunk.slots.values() {
            self.give_up(*slot)?;
        }
        chunk.blobs.iter().try_for_each(|blob| self.drop_blob(blob))
    }
}

#[cfg(test)]
mod tests {
    use store::{CollectionId, ObjectStore, Token, Transaction};
    use types::{GHObject, HObject, PoolId};

    use super::*;
    use crate::layer::layer_of;
    use crate::records::table;
    use crate::test_store::{checked, rest, store};

    #[test]
    fn a_small_object_is_one_key_and_is_removed_as_one() {
        let mut store = store();
        let object: GHObject = HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into();
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object, 0, vec![1; 20_000].into());
        txn.set_attr(c, &object, "_", vec![2; 280]).set_attr(c, &object, "snapset", vec![3; 31]);
        store.queue(txn, Token(1));
        rest(&mut store);
        let tables = |store: &crate::BlockStore<blockdev::sim::SimQueue>| {
            let keys = store.tables.active().keys().map(|key| key[0]);
            keys.filter(|first| [table::ONODE, table::NUMBERED, table::DEAD].contains(first))
                .collect::<Vec<_>>()
        };
        assert_eq!(tables(&store), [table::ONODE]);
        let mut txn = Transaction::new();
        txn.remove(c, &object);
        store.queue(txn, Token(2));
        rest(&mut store);
        assert_eq!((tables(&store), store.space.data_blocks()), (vec![table::ONODE], 0));
    }

    #[test]
    fn a_part_that_gets_small_leaves_its_key() {
        let mut store = store();
        let object: GHObject = HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into();
        let c = CollectionId::Meta;
        for (len, blocks) in [(513, 40), (512, 1)] {
            let mut txn = Transaction::new();
            if len == 513 {
                txn.create_collection(c, 0);
            }
            txn.truncate(c, &object, 0).write(c, &object, 0, vec![1; blocks * 4096].into());
            txn.set_attr(c, &object, "_", vec![2; len]);
            store.queue(txn, Token(len as u64));
            rest(&mut store);
            let number = store.counters.next_number - 1;
            for part in [Inline::FirstChunk, Inline::Info] {
                let value = store.tables.active().get(&part.key(number));
                assert_eq!(value.is_some_and(|value| value.is_some()), len == 513, "{part}: {value:?}");
            }
        }
    }

    #[test]
    fn a_check_finds_a_part_that_is_in_two_places() {
        for (blocks, has_keys) in [(1, false), (2, true)] {
            let mut store = store();
            let object: GHObject = HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into();
            let c = CollectionId::Meta;
            let mut txn = Transaction::new();
            txn.create_collection(c, 0).write(c, &object, 0, vec![1; blocks * 4096].into());
            if has_keys {
                txn.set_attr(c, &object, "other", vec![2]);
            }
            store.queue(txn, Token(1));
            rest(&mut store);
            let number = store.counters.next_number - 1;
            let key = Inline::Info.key(number);
            store.counters.metadata_bytes += crate::ENTRY_BYTES + (key.len() + 1) as u64;
            store.tables.apply(layer_of([(key, Some(vec![3].into()))]));
            let (_, problems) = checked(&mut store);
            let what =
                if has_keys { "has a key of its attribute _" } else { "its onode says that it has none" };
            assert!(problems.len() == 1 && problems[0].contains(what), "{problems:?}");
        }
    }
}
