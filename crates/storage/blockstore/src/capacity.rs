//! How much a shard holds, and how much it may.

use std::ops::Range;

use blockdev::DeviceQueue;
use store::StatFs;

use crate::bitmap::REGION_BYTES;
use crate::layer::CHANGE_MEMORY;
use crate::layout::{BLOCK, Counters};
use crate::pool_use::USE_BYTES;
use crate::ranges::Grown;
use crate::store::{BlockStore, DISCARDED_BLOCKS_MIN};

/// More of the device, for whoever waits for space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    None,
    Wanted,
    Refused,
}

/// What a record of the bitmap takes of the tree, at most.
const BITMAP_CHANGE_BYTES: u64 = REGION_BYTES as u64 + CHANGE_MEMORY;

/// Blocks that a checkpoint needs at most for changes of so many bytes of memory and so many keys, beside as many as the tree has.
pub fn change_blocks(tree_blocks: u64, bytes: u64, keys: usize) -> u64 {
    // A change may divide a full page, and both halves take as many blocks as the whole.
    2 * bytes.div_ceil(BLOCK) + tree_blocks.min(2 * keys as u64) + 16
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Metadata counts so many times its bytes: pages that are partly empty, and the old ones while new ones are written.
    pub const METADATA_FACTOR: u64 = 4;

    fn bytes_total(&self) -> u64 {
        let hidden = 64 + self.space.blocks() / 256;
        self.space.blocks().saturating_sub(hidden) * BLOCK
    }

    pub(crate) fn bytes_used(data_blocks: u64, counters: &Counters) -> u64 {
        data_blocks * BLOCK + counters.metadata_bytes * Self::METADATA_FACTOR
    }

    /// What transactions may use in all.
    pub(crate) fn bytes_limit(&self, reserve: bool) -> u64 {
        let total = self.bytes_total();
        if reserve { total } else { total - (total / 64).min(4 << 20) }
    }

    pub(crate) fn statfs(&self) -> StatFs {
        let used = Self::bytes_used(self.space.data_blocks(), &self.counters);
        StatFs {
            bytes_total: self.bytes_total(),
            bytes_used: used,
            bytes_available: self.bytes_limit(false).saturating_sub(used),
            data_bytes: self.space.data_blocks() * BLOCK,
            metadata_bytes: self.counters.metadata_bytes * Self::METADATA_FACTOR,
            metadata_factor: Self::METADATA_FACTOR,
            objects: self.counters.objects,
            by_pool: self.pool_use.data_bytes(),
            omaps_by_pool: self.pool_use.omap_bytes(),
            has_uncounted_omaps: !self.pool_use.counted.omaps(),
            compressed: self.packer.counted.clone(),
        }
    }

    /// Blocks that checkpoints may need beside those that they have: the one under way, and the next one for what has changed
    /// since.
    pub(crate) fn kept_blocks(&self) -> u64 {
        let tables = &self.tables;
        let (of_pages, next_tree, (stranded_bytes, stranded_keys)) = match &self.checkpoint {
            None => (self.tree_blocks, self.tree_blocks, (0, 0)),
            Some(checkpoint) => {
                let frozen_keys = tables.frozen.as_ref().map_or(0, |frozen| frozen.len());
                let of_frozen = change_blocks(self.tree_blocks, tables.frozen_bytes, frozen_keys);
                let of_pages = checkpoint.kept_blocks(self.tree_blocks, of_frozen);
                // The next one has what is stranded among its changes again, and may find the leaves.
                (of_pages, checkpoint.next_tree_blocks(self.tree_blocks), checkpoint.stranded(tables))
            }
        };
        // A checkpoint begins with adding these to the changes: without them free blocks that are scattered over many regions could be
        // given out down to what the changes alone need.
        let regions = self.space.dirty_regions();
        let pools = self.pool_use.changed();
        let keys = tables.active().len() + stranded_keys + regions as usize + pools;
        let added = regions * BITMAP_CHANGE_BYTES + pools as u64 * (USE_BYTES + CHANGE_MEMORY);
        of_pages + change_blocks(next_tree, tables.active_bytes + stranded_bytes + added, keys)
    }

    /// Gives out no free block until the device's owner provides it: the file below may have a hole there.
    pub fn unback_free(&mut self) {
        self.space.unback_all();
    }

    /// Takes back free blocks of about so many bytes, in runs that are worth it, and tells where they were: the owner may make
    /// holes there until it says that they are [returned](BlockStore::returned). Nothing is written there before it is provided again.
    pub fn give_back(&mut self, bytes: u64) -> Vec<Range<u64>> {
        let runs = self.space.unback_last(bytes / BLOCK, u64::from(DISCARDED_BLOCKS_MIN));
        self.space.lend(&runs);
        self.places(runs)
    }

    /// Parts of the device from this byte on, so many bytes in so many pieces at most, where the store has nothing. It writes nothing
    /// there until the owner, who may make holes there, says that they are [returned](BlockStore::returned). Some are left for pages,
    /// if a checkpoint might need them meanwhile.
    pub fn unbacked(&mut self, from: u64, bytes: u64, pieces_max: u64) -> Vec<Range<u64>> {
        let from = self.layout.ranges.block_from(from);
        let unbacked = self.space.unbacked_blocks();
        let for_pages = self.kept_blocks().saturating_sub(self.space.free_blocks()).min(unbacked / 2);
        let count = bytes.div_ceil(BLOCK).min(unbacked - for_pages);
        let runs = self.space.unbacked_runs(from, count, pieces_max);
        self.space.lend(&runs);
        self.places(runs)
    }

    /// The device's owner has ended its work on what was lent to it: the store may write there again.
    pub fn returned(&mut self) {
        self.space.return_lent();
    }

    /// The device has these bytes: what is free there is given out from now on.
    pub fn provide(&mut self, device_bytes: Range<u64>) {
        let ranges = &self.layout.ranges;
        self.space.back(ranges.block_from(device_bytes.start)..ranges.block_from(device_bytes.end));
        self.growth = Growth::None;
        self.wake_for_room();
    }

    /// The device has no more for now: what needs more is refused. The next [`BlockStore::provide`] says otherwise.
    pub fn refuse_growth(&mut self) {
        self.growth = Growth::Refused;
        self.wake_for_room();
    }

    fn places(&self, runs: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let bytes = |run: Range<u64>| self.layout.block_offset(run.start)..self.layout.block_offset(run.end);
        runs.into_iter().map(bytes).collect()
    }

    /// The bytes of the device, from its beginning, that the store may use at most.
    pub fn device_bytes(&self) -> u64 {
        self.layout.end
    }

    /// Where the store ended after each growth, as the shard has it: the same in all shards, but that some lack the last ones
    /// where a growth was interrupted.
    pub fn ends(&self) -> Vec<u64> {
        match &self.layout.grown {
            Grown::No => Vec::new(),
            Grown::Blocks(_) => vec![self.layout.end],
            Grown::Ends(ends) => ends.clone(),
        }
    }

    /// Free bytes that may be given out, without those that the next checkpoint needs.
    pub fn spare_bytes(&self) -> u64 {
        self.space.free_blocks().saturating_sub(self.kept_blocks()) * BLOCK
    }

    /// Whether the store wants more of the device: less than `ahead_bytes` are free, or something waits for them, and there
    /// is more.
    pub fn wants_to_grow(&self, ahead_bytes: u64) -> bool {
        let wanted = self.growth == Growth::Wanted || self.spare_bytes() < ahead_bytes;
        wanted && self.space.unbacked_blocks() > 0
    }

    /// What waits for room may find some.
    pub(crate) fn wake_for_room(&mut self) {
        self.inbox.wake();
        self.purge.wake();
    }

    /// Whether waiting may bring space.
    pub(crate) fn space_may_come(&mut self) -> bool {
        let of_dead = self.purge.is_wanted();
        self.space_comes_or(of_dead)
    }

    /// The same, without what the removal of the dead brings: the removal itself waits.
    pub(crate) fn space_may_come_for_purge(&mut self) -> bool {
        self.space_comes_or(false)
    }

    fn space_comes_or(&mut self, of_dead: bool) -> bool {
        if self.growth != Growth::Refused && self.space.unbacked_blocks() > 0 {
            self.growth = Growth::Wanted;
            return true;
        }
        if self.checkpoint.is_some() || !self.is_quiet() || of_dead || self.discarding_blocks > 0 {
            return true;
        }
        if self.space.leaving_blocks() > 0 {
            // One record says of all before it that they are durable. What a read still wants comes back when that ends, and no
            // other record brings it sooner.
            self.mark_wanted |= self.space.newest_leaving() > self.log.marked();
            return true;
        }
        // With an empty log there are stranded changes at most, of which a checkpoint would make nothing.
        let may_free = self.log.used_bytes() > 0;
        self.checkpoint_wanted |= may_free;
        may_free
    }
}

#[cfg(test)]
mod tests {
    use blockdev::sim::SimQueue;
    use buffer::Piece;
    use store::{Advice, CollectionId, Completion, ObjectStore, ReadRequest, StoreError, Token, Transaction};
    use types::{GHObject, HObject, Name, PoolId, UTime};

    use crate::bitmap::REGION_BLOCKS;
    use crate::layer::Layer;
    use crate::layout::BLOCK;
    use crate::records::{Part, part_key, table};
    use crate::store::BlockStore;
    use crate::test_store::{rest, rests, store, store_of};

    fn object(name: &str) -> GHObject {
        HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into()
    }

    #[test]
    fn who_waits_for_what_a_read_holds_has_one_mark_written() {
        let mut store = store();
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object("a"), 0, vec![1; 400_000].into());
        store.queue(txn, Token(1));
        rest(&mut store);
        // A read that the device does not answer: the answer comes while the store does not know of the read.
        let read = ReadRequest::Data {
            collection: c,
            object: object("a"),
            offset: 0,
            len: 400_000,
            advice: Advice::default(),
            verify: true,
        };
        store.read(read, Token(9));
        let (id, held) = store.reads.pop_first().expect("the read is under way");
        rest(&mut store);
        store.reads.insert(id, held);
        let mut txn = Transaction::new();
        txn.remove(c, &object("a"));
        store.queue(txn, Token(2));
        rest(&mut store);
        assert_eq!(store.space.leaving_blocks(), 98);
        let spare = store.space.free_blocks() - store.kept_blocks();
        store.space.allocate(spare - 4).expect("they are free");
        let before = store.log.end().sequence;
        let mut txn = Transaction::new();
        txn.write(c, &object("b"), 0, vec![1; 100_000].into());
        store.queue(txn, Token(3));
        let rests = rests(&mut store, 1_000);
        let records = store.log.end().sequence - before;
        assert!(rests && records == 1, "{records} records");
        let mut done = Vec::new();
        store.completions(&mut done);
        assert_eq!(done.len(), 2, "the write waits: {done:?}");
        store.reads.remove(&id);
        rest(&mut store);
        store.completions(&mut done);
        assert_eq!(done.last(), Some(&Completion::Committed { token: Token(3) }));
    }

    #[test]
    fn a_checkpoint_has_blocks_for_records_of_the_bitmap_that_are_new() {
        const REGIONS: u64 = 120;
        let mut store = store_of((REGIONS + 8) * REGION_BLOCKS * BLOCK);
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0);
        store.queue(txn, Token(1));
        store.request_checkpoint();
        rest(&mut store);
        // All is taken, as by what leaves while a read wants it, but for a block in each of many regions and some in the next one.
        let all = store.space.allocate(store.space.free_blocks()).expect("they are free");
        let scattered = |block: &u64| match block / REGION_BLOCKS {
            region if region < REGIONS => block % REGION_BLOCKS == REGION_BLOCKS - 1,
            region => region == REGIONS && block % 2 == 0,
        };
        store.space.give_back(all.into_iter().filter(scattered));
        let mut txn = Transaction::new();
        txn.write(c, &object("a"), 0, vec![1; (REGIONS * BLOCK) as usize].into());
        store.queue(txn, Token(2));
        rest(&mut store);
        // Others take what they may.
        let spare = store.space.free_blocks() - store.kept_blocks();
        store.space.allocate(spare).expect("they are free");
        store.request_checkpoint();
        rest(&mut store);
        let mut done = Vec::new();
        store.completions(&mut done);
        assert_eq!(done, [1, 2].map(|token| Completion::Committed { token: Token(token) }));
        assert_eq!((store.has_failed(), store.log.used_bytes()), (false, 0), "{:?}", store.untold);
    }

    /// Free blocks that changes may take; fewer than none where some are kept that are not there.
    fn spare(store: &BlockStore<SimQueue>) -> i64 {
        store.space.free_blocks() as i64 - store.kept_blocks() as i64
    }

    #[test]
    fn a_checkpoint_keeps_blocks_for_what_it_strands() {
        let mut store = store_of(32 << 20);
        let c = CollectionId::Meta;
        let keys = (0..400).map(|n| (format!("key {n:04}").as_str().into(), vec![7; 200].into()));
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).omap_set(c, &object("a"), keys.collect());
        store.queue(txn, Token(1));
        store.request_checkpoint();
        rest(&mut store);
        // A leaf in the middle goes bad, and changes that belong there are acknowledged.
        let all = store.tables.range(&Layer::new(), &[table::NUMBERED], None).expect("all is in memory");
        let (key, _) = &all[200];
        let leaf = store.tables.tree.descend(&store.tables.pages, 0, key).expect("a page").expect("a leaf");
        let ptr = leaf.ptr(&store.tables.tree).expect("a pointer");
        store.tables.pages.remove(&ptr);
        store.tables.pages.on_bad(ptr, StoreError::Damaged("a page".to_owned()));
        store.held_from = Some(0);
        for n in 0..100u8 {
            let key = store::keys::joined(key, &[n]);
            store.tables.add(key.into(), Some(Piece::copy_from(&[n; 400])));
        }
        let mut txn = Transaction::new();
        txn.set_info(c, b"info".to_vec());
        store.queue(txn, Token(2));
        store.request_checkpoint();
        let (mut now, mut ends) = (UTime { sec: 2_000_000, nsec: 0 }, 0);
        for _ in 0..1000 {
            let before = store.checkpoint.as_ref().map(|_| spare(&store));
            store.turn(now);
            if let Some(before) = before.filter(|_| store.checkpoint.is_none()) {
                ends += 1;
                let after = spare(&store);
                assert!(after >= before, "{before} blocks could be taken before it ended, and {after} then");
            }
            now = store.deadline().unwrap_or(now).max(now).after(std::time::Duration::from_nanos(1));
        }
        assert_eq!((ends, store.stranded_changes(), store.has_failed()), (1, 100, false));
    }

    #[test]
    fn no_one_waits_for_space_that_a_stranded_change_would_bring() {
        let mut store = store();
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object("a"), 0, vec![1; 100_000].into());
        store.queue(txn, Token(1));
        store.request_checkpoint();
        rest(&mut store);
        assert_eq!(store.log.used_bytes(), 0);
        // Such a change is in no log and in no tree, and stays among those in memory.
        store.tables.add(part_key(500, Part::Attr, b"name").into(), Some(Piece::copy_from(b"value")));
        let spare = store.space.free_blocks() - store.kept_blocks();
        store.space.allocate(spare - 4).expect("they are free");
        let mut txn = Transaction::new();
        txn.write(c, &object("b"), 0, vec![1; 100_000].into());
        store.queue(txn, Token(2));
        rest(&mut store);
        store.acknowledge(Token(2));
        let mut txn = Transaction::new();
        txn.remove(c, &object("a"));
        store.queue(txn, Token(3));
        rest(&mut store);
        let mut done = Vec::new();
        store.completions(&mut done);
        let [_, refused, removed] = &done[..] else { panic!("{done:?}") };
        assert!(
            matches!(refused, Completion::Refused { token: Token(2), error: StoreError::NoSpace { .. } }),
            "{refused:?}"
        );
        assert_eq!(*removed, Completion::Committed { token: Token(3) });
    }
}
