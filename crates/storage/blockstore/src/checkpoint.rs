//! Checkpoints: deferred blocks go to their places, changes into the tree, a superblock publishes it, and the log is
//! trimmed. Each turn does a bounded part.

use blockdev::{DeviceError, DeviceQueue, Done, Durability};
use buffer::{Piece, Rope};
use store::StoreError;
use wal::Position;

use crate::layout::{BLOCK, Counters, Superblock, features};
use crate::page::PagePtr;
use crate::pass::Pass;
use crate::planted::Barrier;
use crate::records::bitmap_key;
use crate::stop::Stop;
use crate::store::{BlockStore, Purpose, io_error};
use crate::stranded::Rest;
use crate::tree::{Tables, Tree};

/// The part of a turn's pages that a checkpoint writes while nothing waits for it.
const CALM: usize = 8;

/// Deferred blocks that are written in place of a page.
const BLOCKS_PER_STEP: usize = 8;

/// Blocks that a step's pages and their copies take, but for entries that are longer than a page.
const PAGE_BLOCKS: u64 = 4;

/// Pages get copies where this part of the free blocks is more than checkpoints may need: a full store has room for what is due.
const COPIES_SHARE: u64 = 4;

/// What a checkpoint does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waits until the log says that the last record of the checkpoint is durable, and until no read wants what a block held
    /// before: a replay that still checked the blocks' old contents would miss them.
    Mark,
    /// Writes deferred blocks to their places, from this one on.
    WriteBack(u64),
    /// Writes pages.
    Pass,
    Flush,
    Superblock,
}

/// A checkpoint under way. It holds everything up to a record of the log.
#[derive(Debug)]
pub struct Checkpoint {
    /// The place after that record.
    end: Position,
    counters: Counters,
    /// Reads before this one may want old contents.
    reads_below: u64,
    phase: Phase,
    pass: Pass,
    /// What the pass goes on with in place of the frozen changes, once it has met a leaf that can't be read.
    rest: Option<Rest>,
    /// The pass waits for a page.
    waits: bool,
    /// The clock of the pages when the pass last began a step.
    tried: u64,
    tree: Option<Tree>,
    requests: usize,
    error: Option<DeviceError>,
    /// Blocks of pages made, with their copies, and without.
    made_blocks: u64,
    made_once_blocks: u64,
    /// Blocks of pages that the tree has no more, once it is there.
    replaced_blocks: u64,
    /// Of the superblock that is written.
    features: u64,
}

impl Checkpoint {
    /// Whether blocks that were given up must stay as they are: they may be written to.
    pub fn holds_blocks(&self) -> bool {
        matches!(self.phase, Phase::Mark | Phase::WriteBack(_))
    }

    /// Free blocks that clients must leave, of a tree of so many and changes that need at most so many: for the pages that are
    /// yet to be made, and then for those of the next checkpoint. That has the replaced ones too; after a power loss before this
    /// one is published it has the made ones instead, and the old tree.
    pub fn kept_blocks(&self, tree_blocks: u64, change_blocks: u64) -> u64 {
        match self.tree {
            // Nothing was kept for copies.
            None => (tree_blocks + change_blocks).saturating_sub(self.made_once_blocks),
            Some(_) => {
                let made = self.made_blocks.saturating_sub(self.replaced_blocks);
                tree_blocks.saturating_sub(self.replaced_blocks) + made
            }
        }
    }

    /// Blocks of the tree that the next checkpoint has, of one of so many now, as far as it knows that.
    pub fn next_tree_blocks(&self, tree_blocks: u64) -> u64 {
        match self.tree {
            None => tree_blocks,
            Some(_) => (tree_blocks + self.made_blocks).saturating_sub(self.replaced_blocks),
        }
    }

    /// Memory and keys of the changes that it strands, as far as it knows that.
    pub fn stranded(&self, tables: &Tables) -> (u64, usize) {
        match &self.rest {
            Some(rest) => (rest.bytes, rest.keys.len()),
            None if self.tree.is_some() => (0, 0),
            None => (tables.stranded_bytes, tables.stranded.len()),
        }
    }

    /// The clock of the pages from which on the pass needs what it used.
    pub fn needs_pages_from(&self) -> u64 {
        if self.waits { self.tried } else { u64::MAX }
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Whether a turn would bring a checkpoint on.
    pub(crate) fn checkpoint_runs(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|c| match c.phase {
            Phase::WriteBack(from) => self.has_frozen(from),
            Phase::Pass => !c.waits && c.tree.is_none(),
            Phase::Mark | Phase::Flush | Phase::Superblock => false,
        })
    }

    pub(crate) fn on_checkpoint(&mut self, result: Result<Done, DeviceError>) {
        // A store that failed has given up its checkpoint, and takes no answers.
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.requests -= 1;
        if let Err(error) = result {
            checkpoint.error.get_or_insert(error);
        }
    }

    pub(crate) fn checkpoint_work(&mut self) {
        // What is frozen then is in no tree yet: another checkpoint would freeze again and lose it.
        if self.stopped {
            return;
        }
        self.begin_checkpoint();
        if let Some(error) = self.checkpoint.as_ref().and_then(|c| c.error.clone()) {
            return self.fail(io_error("write of a checkpoint", &error));
        }
        // None is due.
        let Some(checkpoint) = &self.checkpoint else { return };
        match checkpoint.phase {
            Phase::Pass => self.pass_work(),
            Phase::WriteBack(from) if self.has_frozen(from) => self.write_back(from),
            _ if checkpoint.requests > 0 => {}
            Phase::Mark => self.begin_write_back(),
            Phase::WriteBack(_) => self.end_write_back(),
            Phase::Flush => self.write_superblock(),
            Phase::Superblock => self.publish(),
        }
    }

    /// Has the superblock say that there may be compressed blocks. There are none before it is durable, so that no build
    /// which can't read them opens a log or a tree with some.
    pub(crate) fn announce_compression(&mut self) {
        self.features |= features::COMPRESSED;
        self.checkpoint_wanted = true;
    }

    fn has_to_announce(&self) -> bool {
        self.features & features::COMPRESSED != 0 && !self.packer.is_announced
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.phase = phase;
        }
    }

    /// Whether a checkpoint begins as soon as nothing waits for its record.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let full = self.log_fill() > self.log.layout().bytes / 2;
        let is_last = self.empties_log && self.is_quiet() && !self.purge.is_wanted();
        let wanted = self.checkpoint_wanted
            || full
            // Stranded changes stay: no checkpoint makes them fewer.
            || self.tables.active_bytes > self.options.changes_bytes_max + self.tables.stranded_bytes
            || is_last && self.log.used_bytes() > 0;
        // The store frees the last checkpoint's changes some a turn. Until it has, the next checkpoint starts only if clients would
        // soon wait for it: so memory holds the changes of one published checkpoint at most.
        let waits = self.leftovers.changes_bytes() > 0 && !self.is_urgent();
        wanted && self.checkpoint.is_none() && !waits
    }

    /// Bytes of the log that are in use, or would be if it had all that is deferred: a payload beside it takes few of them.
    fn log_fill(&self) -> u64 {
        self.log.used_bytes().max(self.contents.deferred.len() as u64 * BLOCK)
    }

    fn begin_checkpoint(&mut self) {
        // What was changed since the last record belongs to the next one.
        if !self.is_checkpoint_due() || !self.pending.is_empty() {
            return;
        }
        self.checkpoint_wanted = false;
        if self.log.used_bytes() == 0 && !self.has_to_announce() && self.pages_in_one_place() == 0 {
            self.empties_log = false;
            // What waits for it is not woken by its end.
            self.wake_for_room();
            return;
        }
        if self.renew_pages() {
            // It begins when what it asked for is there.
            self.checkpoint_wanted = true;
            return;
        }
        for (region, bytes) in self.space.take_dirty() {
            self.tables.add(bitmap_key(region).into(), bytes.map(Piece::from));
        }
        for (key, now) in self.pool_use.take_changed() {
            self.tables.add(key.into(), now);
        }
        debug_assert!(
            self.tables.frozen.is_none() && self.contents.frozen.is_empty(),
            "one checkpoint at a time"
        );
        self.tables.freeze();
        self.contents.frozen = std::mem::take(&mut self.contents.deferred);
        self.checkpoint = Some(Checkpoint {
            end: self.log.end(),
            counters: self.counters,
            reads_below: self.next_read,
            phase: Phase::Mark,
            pass: Pass::new(!self.tables.stranded.is_empty()),
            rest: None,
            waits: false,
            tried: 0,
            tree: None,
            requests: 0,
            error: None,
            made_blocks: 0,
            made_once_blocks: 0,
            replaced_blocks: 0,
            features: 0,
        });
    }

    /// Begins to write deferred blocks to their places, if that may be.
    fn begin_write_back(&mut self) {
        let quiet = self.is_quiet();
        let reads_from = self.reads_from();
        // Only [`Self::checkpoint_work`] calls this and what follows, when there is a checkpoint.
        let Some(checkpoint) = &mut self.checkpoint else { return };
        if self.contents.frozen.is_empty() {
            return self.set_phase(Phase::Pass);
        }
        if self.log.marked() + 1 < checkpoint.end.sequence {
            self.mark_wanted |= quiet;
            return;
        }
        if reads_from < checkpoint.reads_below {
            return;
        }
        self.write_back(0);
    }

    fn has_frozen(&self, from: u64) -> bool {
        self.contents.frozen.range(from..).next().is_some()
    }

    /// Writes some deferred blocks to their places, from this one on.
    fn write_back(&mut self, from: u64) {
        // As above: there is a checkpoint.
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let mut runs: Vec<(u64, Rope)> = Vec::new();
        let mut next = None;
        let blocks_max = self.steps_left * BLOCKS_PER_STEP;
        for (block, bytes) in self.contents.frozen.range(from..).take(blocks_max) {
            if next != Some(*block) {
                runs.push((self.layout.block_offset(*block), Rope::new()));
            }
            if let Some((_, run)) = runs.last_mut() {
                run.push(bytes.clone());
            }
            next = Some(block + 1);
        }
        self.steps_left = 0;
        checkpoint.phase = Phase::WriteBack(next.unwrap_or(from));
        for (offset, bytes) in runs {
            checkpoint.requests += self.io.write(Purpose::Checkpoint, offset, &bytes, Durability::Volatile);
        }
    }

    /// Deferred blocks are in their places: they are read from there.
    fn end_write_back(&mut self) {
        self.leftovers.add_blocks(std::mem::take(&mut self.contents.frozen));
        self.set_phase(Phase::Pass);
    }

    fn pass_work(&mut self) {
        if self.checkpoint.as_ref().is_some_and(|c| c.tree.is_none()) {
            self.pass_steps();
        }
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let done = checkpoint.tree.is_some() && checkpoint.requests == 0;
        // Pages, deferred blocks and the log up to here become durable with one flush.
        if done && self.log.flushed() + 1 >= checkpoint.end.sequence {
            checkpoint.requests = 1;
            self.io.flush(Purpose::Checkpoint, Barrier::CheckpointPages);
            checkpoint.phase = Phase::Flush;
        }
    }

    /// Pages of a turn: few while there is room, for what clients want waits that long; and all that it may be where they would
    /// soon wait for the checkpoint's end.
    pub(crate) fn steps_of_a_turn(&self) -> usize {
        match self.is_urgent() {
            true => self.options.pages_per_turn,
            false => self.options.pages_per_turn.div_ceil(CALM),
        }
        .max(1)
    }

    /// Whether clients would soon wait for a checkpoint's end.
    fn is_urgent(&self) -> bool {
        let log = self.log.layout().bytes;
        self.log_fill() > log - log / 4 || self.tables.active_bytes > self.options.changes_bytes_max / 2 * 3
    }

    fn pass_steps(&mut self) {
        let (needed, stranded_max) = (self.kept_blocks(), self.stranded_bytes_max());
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.waits = false;
        // A checkpoint has frozen changes until it is published.
        let Some(frozen) = &self.tables.frozen else { return };
        // A file that grows has more for the asking; what it has now is for what is due.
        let (free, more) = (self.space.free_blocks(), self.space.unbacked_blocks());
        let of_steps = PAGE_BLOCKS * self.steps_left as u64;
        checkpoint.pass.copies = (free + more) / COPIES_SHARE >= needed && free >= needed + of_steps;
        while self.steps_left > 0 {
            checkpoint.tried = self.tables.pages.clock();
            if let Some(at) = checkpoint.pass.wants_notes() {
                match self.tables.strand(&checkpoint.pass.stranded, at, stranded_max) {
                    Ok(rest) => checkpoint.rest = Some(rest),
                    Err(error) => return self.fail(error),
                }
                checkpoint.pass.give_notes();
                self.features |= features::STRANDED;
            }
            let lowest = checkpoint.rest.as_ref().map_or(frozen, |rest| &rest.changes);
            let step =
                checkpoint.pass.step(lowest, &self.tables.tree, &mut self.tables.pages, &mut self.space);
            let pages = checkpoint.pass.made.len().max(1);
            for made in checkpoint.pass.made.drain(..) {
                for runs in [&made.ptr.runs, &made.ptr.copy] {
                    let mut at = 0;
                    for run in runs {
                        let bytes = run.count as usize * BLOCK as usize;
                        let part = made.bytes.slice(at..at + bytes).into();
                        at += bytes;
                        let offset = self.layout.block_offset(run.start);
                        checkpoint.requests +=
                            self.io.write(Purpose::Checkpoint, offset, &part, Durability::Volatile);
                    }
                }
                if !made.ptr.copy.is_empty() {
                    self.features |= features::PAGE_COPIES;
                }
                checkpoint.made_blocks += made.ptr.block_count();
                checkpoint.made_once_blocks += made.bytes.len() as u64 / BLOCK;
            }
            match step {
                // A step that waits for pages counts for nothing: one is left for when they come, before the cache may drop them.
                Ok(None) => self.steps_left = self.steps_left.saturating_sub(pages),
                Ok(Some(tree)) => {
                    checkpoint.tree = Some(tree);
                    checkpoint.replaced_blocks = checkpoint.pass.old.iter().map(PagePtr::block_count).sum();
                    return;
                }
                Err(Stop::Pages(missing)) => {
                    checkpoint.waits = true;
                    return self.read_pages(missing);
                }
                Err(Stop::Error(error)) => return self.fail(error),
                Err(
                    Stop::Blocks(_) | Stop::LogRoom | Stop::NextRecord | Stop::Space | Stop::Announcement,
                ) => return,
            }
        }
    }

    fn write_superblock(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.features = self.features;
        self.opening.kept = checkpoint.end;
        self.opening.flushed = self.log.flushed();
        let root = checkpoint.tree.as_ref().and_then(|tree| tree.root.clone());
        let counters = checkpoint.counters;
        let barriers = [Barrier::CheckpointSuperblock, Barrier::CheckpointCopy];
        let durabilities = barriers.map(|barrier| self.io.durability(barrier));
        match self.send_superblock(Purpose::Checkpoint, root, counters, durabilities) {
            Err(error) => self.fail(error),
            Ok(requests) => {
                if let Some(checkpoint) = &mut self.checkpoint {
                    (checkpoint.requests, checkpoint.phase) = (requests, Phase::Superblock);
                }
            }
        }
    }

    /// Writes the shard's next superblock, with this tree and the counters that belong to it, and its copy; returns how many requests
    /// that takes. Both are written at once: what they say is durable already, so after a power loss either of them is right, and so
    /// is the one before. It counts when both are there: what the one before needs may be given up then, and not earlier, or the loss
    /// of either would bring that one back.
    ///
    /// # Errors
    /// It has no room for the tree's root.
    pub(crate) fn send_superblock(
        &mut self,
        purpose: Purpose,
        root: Option<(u8, PagePtr)>,
        counters: Counters,
        durabilities: [Durability; 2],
    ) -> Result<usize, StoreError> {
        self.generation += 1;
        let superblock = Superblock {
            features: self.features,
            store: self.names.0,
            shard: self.names.1,
            generation: self.generation,
            root,
            counters,
            log: self.opening,
            grown: self.layout.grown.clone(),
        };
        let bytes = superblock
            .encode()
            .ok_or_else(|| StoreError::Damaged("the tree's root is in too many pieces".to_owned()))?;
        let (bytes, offsets) = (Rope::from(bytes), self.layout.superblock_offsets(self.generation));
        let write = |(offset, durability)| self.io.write(purpose.clone(), offset, &bytes, durability);
        Ok(offsets.zip(durabilities).map(write).sum())
    }

    /// Brings a checkpoint whose superblock is under way to its end, if the device has answered; returns whether it has not.
    pub(crate) fn end_publishing(&mut self) -> bool {
        let Some(checkpoint) = self.checkpoint.as_ref().filter(|c| c.phase == Phase::Superblock) else {
            return false;
        };
        if checkpoint.error.is_some() || checkpoint.requests == 0 {
            self.checkpoint_work();
            return false;
        }
        true
    }

    /// The superblock is durable: the new tree counts.
    fn publish(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        self.packer.is_announced = checkpoint.features & features::COMPRESSED != 0;
        self.tables.tree = checkpoint.tree.unwrap_or_default();
        self.published = checkpoint.counters;
        let (keys, bytes) = checkpoint.rest.map(|rest| (rest.keys, rest.bytes)).unwrap_or_default();
        self.tables.keep_stranded(keys, bytes);
        if self.tables.stranded.is_empty() {
            self.features &= !features::STRANDED;
        }
        let (changes, bytes) = self.tables.thaw();
        self.leftovers.add_changes(changes, bytes);
        self.tree_blocks += checkpoint.made_blocks;
        self.tree_blocks = self.tree_blocks.saturating_sub(checkpoint.replaced_blocks);
        checkpoint.pass.old.iter().for_each(|ptr| self.space.give_back(ptr.blocks()));
        checkpoint.pass.old.iter().for_each(|ptr| self.one_place.forget(ptr));
        self.leftovers.add_pages(checkpoint.pass.old);
        self.log.trim(checkpoint.end);
        self.empties_log &= self.log.used_bytes() > 0;
        self.release_payloads();
        self.wake_for_room();
    }
}
