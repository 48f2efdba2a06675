//! Requests, each done in memory at once or not at all.

use blockdev::DeviceQueue;
use store::{
    CollectionId, Completion, ObjectChange, ReadOutcome, ReadRequest, Rehoming, Step, StoreError, StoreShard,
    Token, Transaction,
};

use crate::context::{Context, Fetched, NOTHING_FETCHED};
use crate::fetch::Waiter;
use crate::inbox::{Entry, Taken, Waits};
use crate::layout::BLOCK;
use crate::read::Answer;
use crate::stop::Stop;
use crate::store::BlockStore;

/// The part of the log up to which data go into it where writes come one by one. They fill it at twice the pace, and are written to
/// their places later: so a checkpoint comes sooner, and has more to write.
const LOG_PART_WITH_DATA: u64 = 3;

/// Contents of blocks go into the log up to this, whatever else is set: more is written to new blocks, beside it.
const CONTENTS_MAX: u64 = 64 << 10;

/// Of an object with more keys a removal leaves the work for later.
const KEYS_AT_ONCE: usize = 1024;

/// How many blocks a step may write where they are, at most: all that it writes, and those at the edges of what it makes zero.
fn blocks_merged(step: &Step) -> u64 {
    match step {
        Step::Object { change: ObjectChange::Write { offset, data, .. }, .. } => {
            (offset + data.len() as u64).div_ceil(BLOCK) - offset / BLOCK
        }
        Step::Object { change: ObjectChange::Zero { .. }, .. } => 2,
        Step::Object { change: ObjectChange::Truncate(_), .. } => 1,
        Step::CloneRange { len, .. } => len / BLOCK + 2,
        _ => 0,
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    pub(crate) fn context<'a>(&'a mut self, fetched: &'a Fetched) -> Context<'a> {
        let (kept_blocks, is_retry) = (self.kept_blocks(), self.is_retry);
        let blocks = (&mut self.space, &self.packer, &self.pool_use);
        let mut context = Context::new(&self.tables, &self.contents, fetched, blocks, self.counters);
        context.asks_recent = !is_retry;
        context.kept_blocks = kept_blocks;
        context.keys_at_once = KEYS_AT_ONCE;
        context.key_bytes_at_once = (self.log.layout().bytes / 16) as usize;
        context
    }

    /// Does a request, or lets it wait.
    pub(crate) fn take(&mut self, taken: Taken) {
        self.unbegun = true;
        self.run_inbox();
        let mut entry = self.inbox.entry(taken);
        if let Waits::Nothing = entry.waits {
            if self.try_entry(&mut entry) {
                return;
            }
        }
        self.inbox.push(entry);
    }

    /// Tries every request that waits for nothing any more, the oldest first.
    pub(crate) fn run_inbox(&mut self) {
        let mut at = 0;
        while let Some(mut entry) = self.inbox.next_ready(&mut at) {
            if !self.try_entry(&mut entry) {
                self.inbox.put_back(at, entry);
                at += 1;
            }
        }
    }

    /// Returns whether the request is done; otherwise the entry says what it waits for.
    fn try_entry(&mut self, entry: &mut Entry) -> bool {
        self.is_retry = entry.tried > 0;
        entry.tried = self.tables.pages.clock();
        let result = match &entry.taken {
            Taken::Transaction(txn, token) => self.run_transaction(txn, *token, &entry.fetched),
            Taken::Read(request, token) => self.run_read(request, *token),
            Taken::Acknowledge(token) => {
                self.closed.retain(|_, by| by != token);
                Ok(())
            }
            Taken::Rehome(collection, to, token) => self.run_rehome(*collection, *to, *token),
        };
        self.is_retry = false;
        entry.waits = match result {
            // Errors are answered where they come up.
            Ok(()) | Err(Stop::Error(_)) => return true,
            Err(Stop::Pages(pages)) => {
                Waits::Device(self.read_pages_for(pages, Waiter::Request(entry.number)))
            }
            Err(Stop::Blocks(blocks)) => Waits::Device(self.fetch(entry.number, blocks)),
            Err(Stop::LogRoom) => {
                self.checkpoint_wanted = true;
                Waits::Room
            }
            Err(Stop::Announcement) => {
                self.announce_compression();
                Waits::Room
            }
            Err(Stop::Space | Stop::NextRecord) => Waits::Room,
        };
        false
    }

    /// A stop, or the answer to a request that fails.
    fn run_transaction(&mut self, txn: &Transaction, token: Token, fetched: &Fetched) -> Result<(), Stop> {
        let collections = txn.collections();
        let closed = collections.iter().find(|id| self.closed.contains_key(id));
        let (error, by) = match closed {
            _ if self.stopped => (self.untold.take().unwrap_or(StoreError::Stopped), token),
            // Collections that were still open are closed with the others, by the refusal that closed those.
            Some(id) => (StoreError::AfterRefused(*id), self.closed[id]),
            None => match self.try_transaction(txn, token, fetched) {
                Err(Stop::Space) if !self.space_may_come() => (self.no_space(txn), token),
                Err(Stop::Error(error)) => (error, token),
                other => return other,
            },
        };
        for id in collections {
            self.closed.entry(id).or_insert(by);
        }
        self.pending.open.outcomes.push(Completion::Refused { token, error });
        Ok(())
    }

    fn no_space(&self, txn: &Transaction) -> StoreError {
        let free = self.spare_bytes();
        StoreError::NoSpace { needed: txn.payload_bytes().max(free + BLOCK), available: free }
    }

    fn try_transaction(&mut self, txn: &Transaction, token: Token, fetched: &Fetched) -> Result<(), Stop> {
        txn.check()?;
        let (changes, changes_max) = (self.tables.active_bytes, 2 * self.options.changes_bytes_max);
        let is_full = changes > changes_max || self.deferred_bytes() > self.log.layout().bytes;
        if self.checkpoint.is_some() && is_full {
            // Memory: the checkpoint has to end before there is more.
            return Err(Stop::LogRoom);
        }
        let limit = self.bytes_limit(txn.may_use_reserve());
        let before = Self::bytes_used(self.space.data_blocks(), &self.counters);
        let (needed, available) = (txn.payload_bytes(), limit.saturating_sub(before));
        if needed > available {
            return Err(StoreError::NoSpace { needed, available }.into());
        }
        let copied = txn.steps().iter().map(|step| match step {
            Step::CloneRange { len, .. } => *len,
            _ => 0,
        });
        let data_bytes = copied.fold(txn.data_bytes(), u64::saturating_add);
        let deferred_max = self.options.prefer_deferred_bytes;
        // With nothing else under way the log alone is the shortest way; otherwise new blocks are written to their places, once.
        let (is_alone, log) = (self.is_quiet(), self.log.layout().bytes);
        let has_room = self.log.used_bytes() <= log / LOG_PART_WITH_DATA;
        let alone = if is_alone && (has_room || !self.pending.one_by_one) { deferred_max } else { 0 };
        let log_max = self.options.new_deferred_bytes.of(self.io.is_rotational()).max(alone);
        let mut context = self.context(fetched);
        context.new_numbers = context.counters.next_number;
        let contents_max = deferred_max.max(log_max);
        // A block of which a byte is written is deferred as a whole.
        let blocks = txn.steps().iter().map(blocks_merged).fold(0, u64::saturating_add);
        context.in_place = data_bytes <= contents_max && blocks <= contents_max.max(CONTENTS_MAX) / BLOCK;
        if let Err(stop) = context.apply(txn) {
            context.take_back();
            return Err(stop);
        }
        let after = Self::bytes_used(context.data_blocks(), &context.counters);
        if after > limit && after > before {
            context.take_back();
            return Err(StoreError::NoSpace { needed: after - before, available }.into());
        }
        // What counts is what compression has left.
        let new_bytes = context.contents_blocks() * BLOCK;
        let direct = data_bytes.min(new_bytes) > log_max || new_bytes > log_max.max(CONTENTS_MAX);
        let ended = context.finish(direct);
        let at_once = is_alone && direct && new_bytes <= deferred_max;
        self.admit(ended)?;
        self.pending.open.at_once |= at_once;
        self.pending.open.outcomes.push(Completion::Committed { token });
        Ok(())
    }

    fn run_read(&mut self, request: &ReadRequest, token: Token) -> Result<(), Stop> {
        if let Some(read) = self.peeked.take(request) {
            self.read_data(read, token);
            return Ok(());
        }
        let result = match self.context(&NOTHING_FETCHED).perform(request) {
            Ok(Answer::Done(outcome)) => Ok(outcome),
            Ok(Answer::StatFs) => Ok(ReadOutcome::StatFs(self.statfs())),
            Ok(Answer::Data(read)) => {
                self.read_data(read, token);
                return Ok(());
            }
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => return Err(stop),
        };
        self.done.push(Completion::Read { token, result });
        Ok(())
    }

    fn run_rehome(&mut self, id: CollectionId, to: StoreShard, token: Token) -> Result<(), Stop> {
        let found = self.context(&NOTHING_FETCHED).find_collection(id);
        let result = match found {
            _ if to.0 > 0 => Err(StoreError::NoSuchShard { shard: to, shards: 1 }),
            _ if self.closed.contains_key(&id) => Err(StoreError::AfterRefused(id)),
            Ok(Some(_)) => Ok(Rehoming::Done),
            Ok(None) => Err(StoreError::NoSuchCollection(id)),
            Err(Stop::Error(error)) => Err(error),
            Err(stop) => return Err(stop),
        };
        self.done.push(Completion::Rehomed { token, result });
        Ok(())
    }
}
