//! Group commits: batches become one record of the log.
//!
//! **Data do not wait for the log.** What a batch writes to free blocks may go to the device at the end of its turn, also while a
//! record is in flight: no durable record refers to those blocks. When the log is free, the next record takes the oldest batches
//! whose data are there. So a device that flushes for each durable write ([`blockdev::Geometry::durable_flushes`]) makes data and
//! record durable with that one request. Data that nothing else accompanies have their record beside them, both in durable writes
//! where each is one request: that is sooner than one after the other, and no thread has to flush.
//!
//! **A few blocks wait for others** while enough is under way that the device is not idle: one request has the data of several turns.

use std::collections::VecDeque;

use blockdev::{DeviceError, DeviceQueue, Done, Durability};
use buffer::{Piece, PieceMut, Rope};
use store::{Completion, StoreError};
use wal::{Begun, Beside};

use crate::bitmap::Run;
use crate::block_runs::BlockMap;
use crate::context::Ended;
use crate::layout::BLOCK;
use crate::planted::Barrier;
use crate::stop::Stop;
use crate::store::{BlockStore, Purpose, io_error};

/// With fewer commits under way none waits to be sent: its client may have nothing else to ask for.
const BUSY_COMMITS: usize = 4;

/// So many blocks of data do not wait for more: their request costs little beside their bytes.
const FULL_BLOCKS: u64 = 16;

/// Batches that were admitted since the last ones were sent.
#[derive(Default)]
pub struct Group {
    payload: Rope,
    /// Blocks that are written beside the log.
    placed: BlockMap,
    /// Blocks for the payload itself, if it is too long for the log: as many as it needs. The group is one batch then.
    payload_blocks: Vec<u64>,
    /// How many of the batches give up blocks.
    leaving: usize,
    /// Its record does not wait for its data.
    pub at_once: bool,
    pub outcomes: Vec<Completion>,
}

/// Batches whose data are on their way to the device, or there, and that no record has yet.
pub struct Sent {
    number: u64,
    payload: Rope,
    payload_blocks: Vec<u64>,
    /// What of [`Sent::beside`] is the payload.
    payload_runs: u32,
    beside: Vec<Beside>,
    placed: Vec<Run>,
    /// Of its data, under way.
    requests: usize,
    /// No flush need follow its data.
    is_durable: bool,
    /// Bytes that it takes in the log if it is a record of its own.
    record_bytes: u64,
    leaving: usize,
    at_once: bool,
    outcomes: Vec<Completion>,
}

/// What becomes durable next, oldest first.
#[derive(Default)]
pub struct Pending {
    sent: VecDeque<Sent>,
    /// Of the next one that is sent.
    next: u64,
    pub open: Group,
    /// The last record had one batch alone: the client waits for each of its writes.
    pub one_by_one: bool,
}

impl Pending {
    /// Whether it needs no record. It may have refusals.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.open.payload.is_empty()
    }

    fn payload_bytes(&self) -> usize {
        self.open.payload.len() + self.sent.iter().map(|sent| sent.payload.len()).sum::<usize>()
    }

    /// Commits that were sent.
    fn sent_commits(&self) -> usize {
        self.sent.iter().map(|sent| sent.outcomes.len()).sum()
    }

    /// The outcomes of all that it had.
    fn give_up(&mut self) -> Vec<Completion> {
        let sent = std::mem::take(&mut self.sent).into_iter().flat_map(|sent| sent.outcomes);
        sent.chain(std::mem::take(&mut self.open).outcomes).collect()
    }

    #[cfg(feature = "planted")]
    pub fn placed(&self) -> impl Iterator<Item = &Run> {
        self.sent.iter().flat_map(|sent| &sent.placed)
    }
}

/// The flush that makes a record durable.
#[derive(Clone, Copy)]
enum Flush {
    /// The record is one durable write, and so are data beside it that nothing else makes durable.
    None,
    /// Nothing lies beside the record.
    Log,
    All,
}

/// What a record has beside the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataBeside {
    None,
    /// In durable writes.
    Durable,
    /// In others, that were written or are under way.
    Volatile,
}

/// The record in flight.
pub struct Flight {
    outcomes: Vec<Completion>,
    /// What it has beside the log.
    placed: Vec<Run>,
    requests: usize,
    /// What is to follow.
    flush: Flush,
    error: Option<DeviceError>,
}

impl Flight {
    #[cfg(feature = "planted")]
    pub fn placed(&self) -> &[Run] {
        &self.placed
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Lets a change take effect in memory and puts it into the group.
    ///
    /// # Errors
    /// Its record has no room in the log. The change had no effect.
    pub(crate) fn admit(&mut self, ended: Ended) -> Result<(), Stop> {
        let Ended { batch, placed, freed, packed, last_object } = ended;
        let payload = batch.encode();
        if let Err(stop) = self.make_log_room(payload.len(), placed.len()) {
            self.space.give_back(batch.allocated.iter().flat_map(|run| run.blocks()));
            return Err(stop);
        }
        self.peeked.clear();
        self.space.mark_data(&batch.allocated);
        for block in &freed {
            self.contents.deferred.remove(block);
            self.contents.cache.forget(*block);
        }
        batch.freed.iter().for_each(|run| self.contents.writing.remove(*run));
        batch.deferred.iter().for_each(|(block, _)| self.contents.cache.forget(*block));
        self.pending.open.leaving += usize::from(!freed.is_empty());
        self.space.leave(self.next_read, freed);
        self.contents.deferred.extend(batch.deferred);
        self.purge.wanted |= crate::purge::adds_dead(&batch.changes);
        self.tables.apply(batch.changes);
        if let Some(found) = last_object
            && let Some(stored) = &found.stored
        {
            debug_assert!(
                self.tables.active().get(found.key()).is_none_or(|value| value.as_ref() == Some(stored)),
                "the onode of {} is not the one that was stored",
                found.object
            );
            // What was just written is asked for sooner than most.
            self.tables.recent.get_mut().note_onode(found.place.space, found.object, stored.clone());
        }
        self.counters = batch.counters;
        self.packer.note(packed);
        self.pool_use.note(&batch.pools);
        self.pending.open.payload.append(payload);
        self.contents.writing.append(placed.clone());
        self.pending.open.placed.append(placed);
        Ok(())
    }

    /// Bytes of a payload that is written into the log; a longer one lies beside it.
    fn payload_bytes_max(&self) -> usize {
        (self.log.layout().record_bytes_max() / 2) as usize
    }

    /// Makes sure that what is pending has room in the log with one more batch: as one record, and as several.
    ///
    /// # Errors
    /// It has none now, or never.
    fn make_log_room(&mut self, payload: usize, placed: u64) -> Result<(), Stop> {
        let is_first = self.pending.is_empty();
        let beside = self.pending.payload_bytes() + payload > self.payload_bytes_max();
        if beside && !is_first {
            return Err(Stop::NextRecord);
        }
        let payload_blocks = if beside { (payload as u64).div_ceil(BLOCK) } else { 0 };
        let open = &self.pending.open;
        let in_log = if beside { 8 } else { (open.payload.len() + payload) as u64 };
        // Each block beside the log may be a run.
        let blocks = open.placed.len() + placed + payload_blocks;
        let record = self.log.record_bytes(in_log + blocks * 16, &[]);
        let all = record + self.pending.sent.iter().map(|sent| sent.record_bytes).sum::<u64>();
        let longest = self.log.layout().record_bytes_max();
        if all > longest {
            return Err(match is_first {
                true => StoreError::NoSpace { needed: record, available: longest }.into(),
                false => Stop::NextRecord,
            });
        }
        // So that marks always have some.
        let kept = 8 * u64::from(self.log.layout().unit_bytes);
        if all + kept > self.log.room_bytes() {
            return Err(Stop::LogRoom);
        }
        if payload_blocks > 0 {
            if self.space.free_blocks() < payload_blocks + self.kept_blocks() {
                return Err(Stop::Space);
            }
            self.pending.open.payload_blocks = self.space.allocate(payload_blocks).ok_or(Stop::Space)?;
        }
        Ok(())
    }

    /// Sends what was admitted and does not wait for more, and begins the next record, if one is wanted and none is in flight.
    pub(crate) fn submit_group(&mut self) {
        if self.stopped {
            return;
        }
        if !self.open_group_waits() {
            self.send_group();
        }
        if self.flight.is_some() {
            return;
        }
        if self.pending.is_empty() {
            match self.mark_wanted {
                true => self.begin_mark(),
                // Nothing to make durable.
                false => self.ready.append(&mut self.pending.open.outcomes),
            }
            return;
        }
        let taken = self.taken_groups();
        if taken > 0 {
            self.begin_record(taken);
        }
    }

    /// Whether the open group waits for more: it has a few blocks of data, and at least as many commits as it has are under way. It goes
    /// when enough of these are durable.
    fn open_group_waits(&self) -> bool {
        let under_way =
            self.flight.as_ref().map_or(0, |flight| flight.outcomes.len()) + self.pending.sent_commits();
        let open = &self.pending.open;
        let is_small = (1..FULL_BLOCKS).contains(&open.placed.len()) && open.payload_blocks.is_empty();
        is_small && under_way >= open.outcomes.len().max(BUSY_COMMITS) && !self.is_checkpoint_due()
    }

    /// Writes the data of the open group.
    fn send_group(&mut self) {
        if self.pending.open.payload.is_empty() {
            // Refusals follow what they came behind.
            if let Some(last) = self.pending.sent.back_mut() {
                last.outcomes.append(&mut self.pending.open.outcomes);
            }
            return;
        }
        let Group { payload, placed, mut payload_blocks, leaving, at_once, outcomes } =
            std::mem::take(&mut self.pending.open);
        let runs = placed.runs().collect();
        let (mut beside, mut data) = self.beside(placed);
        payload_blocks.sort_unstable();
        let mut payload_runs = 0;
        if !payload_blocks.is_empty() {
            let whole = padded(&payload);
            let mut pieces = BlockMap::default();
            for (block, at) in payload_blocks.iter().zip((0..).step_by(BLOCK as usize)) {
                pieces.insert(*block, whole.slice(at..at + BLOCK as usize));
            }
            let (of_payload, bytes) = self.beside(pieces);
            payload_runs = of_payload.len() as u32;
            beside.extend(of_payload);
            data.extend(bytes);
        }
        let number = self.pending.next;
        self.pending.next += 1;
        // Each durable write may be a flush of the device's, and what came in the same turn may have joined a small batch.
        let request_max = self.io.request_bytes_max();
        let is_one = matches!(&data[..], [(_, bytes)] if bytes.len() as u64 <= request_max);
        let is_durable = at_once && is_one;
        let durability =
            if is_durable { self.io.durability(Barrier::DataAtOnce) } else { Durability::Volatile };
        let mut requests = 0;
        for (offset, bytes) in &data {
            requests += self.io.write(Purpose::Beside(number), *offset, bytes, durability);
        }
        let in_log = if payload_runs > 0 { 8 } else { payload.len() as u64 };
        self.pending.sent.push_back(Sent {
            number,
            record_bytes: self.log.record_bytes(in_log, &beside),
            payload,
            payload_blocks,
            payload_runs,
            beside,
            placed: runs,
            requests,
            is_durable: is_durable || data.is_empty(),
            leaving,
            at_once,
            outcomes,
        });
    }

    /// How many of the groups become the next record: those whose data are there, or all of them with a flush of their own.
    fn taken_groups(&self) -> usize {
        let there = self.pending.sent.iter().take_while(|sent| sent.requests == 0).count();
        let all = self.pending.sent.len();
        match there {
            // A checkpoint begins between two records, when nothing is pending.
            _ if self.is_checkpoint_due() => all,
            0 if self.pending.sent.front().is_some_and(|sent| sent.at_once) => 1,
            0 if self.io.durable_write_covers_data() => 0,
            0 => all,
            there => there,
        }
    }

    fn begin_record(&mut self, groups: usize) {
        let mut taken = self.pending.sent.drain(..groups);
        // What is pending fits into one record, and a payload of its own blocks is alone.
        let Some(mut record) = taken.next() else { return };
        for next in taken {
            record.payload.append(next.payload);
            record.beside.extend(next.beside);
            record.placed.extend(next.placed);
            record.requests += next.requests;
            record.is_durable &= next.is_durable;
            record.leaving += next.leaving;
            record.outcomes.extend(next.outcomes);
        }
        let Sent { payload, beside, payload_runs, .. } = record;
        let begun = match payload_runs {
            0 => self.log.begin(payload, &beside),
            runs => self.log.begin_beside(payload.len() as u64, &beside, runs),
        };
        let Some(begun) = begun else {
            let error =
                StoreError::Damaged("a record has no room in the log that was kept for it".to_owned());
            return self.stop(record.outcomes, error);
        };
        self.mark_wanted = false;
        self.space.recorded(begun.sequence, record.leaving);
        self.keep_payload(begun.sequence, record.payload_blocks);
        self.pending.one_by_one = record.outcomes.len() == 1;
        let Sent { outcomes, placed, requests, is_durable, .. } = record;
        let flight = Flight { outcomes, placed, requests, flush: Flush::None, error: None };
        let data = match (beside.is_empty(), is_durable) {
            (true, _) => DataBeside::None,
            (false, true) => DataBeside::Durable,
            (false, false) => DataBeside::Volatile,
        };
        self.write_record(&begun, flight, data);
    }

    /// A record without batches. Without room it waits for the checkpoint.
    fn begin_mark(&mut self) {
        self.mark_wanted = false;
        let mut outcomes = std::mem::take(&mut self.pending.open.outcomes);
        match self.log.begin(Rope::new(), &[]) {
            Some(begun) => {
                let flight =
                    Flight { outcomes, placed: Vec::new(), requests: 0, flush: Flush::None, error: None };
                self.write_record(&begun, flight, DataBeside::None);
            }
            None => {
                self.ready.append(&mut outcomes);
                self.checkpoint_wanted = true;
            }
        }
    }

    /// Writes a record, and makes it durable with the data beside it, if there are some. Their requests under way are counted in
    /// `flight` already.
    fn write_record(&mut self, begun: &Begun, mut flight: Flight, data: DataBeside) {
        let one = begun.writes.len() == 1
            && begun.writes.iter().all(|w| w.data.len() as u64 <= self.io.request_bytes_max());
        let covers_data = flight.requests == 0 && self.io.durable_write_covers_data();
        let durable = match data {
            DataBeside::None => Some(Barrier::Record),
            DataBeside::Durable => Some(Barrier::RecordAtOnce),
            DataBeside::Volatile => covers_data.then_some(Barrier::RecordAfterData),
        };
        let (durability, flush) = match (durable.filter(|_| one), data) {
            (Some(barrier), _) => (self.io.durability(barrier), Flush::None),
            (None, DataBeside::None) => (Durability::Volatile, Flush::Log),
            (None, _) => (Durability::Volatile, Flush::All),
        };
        for write in &begun.writes {
            flight.requests += self.io.write_log(Purpose::Group, write.offset, &write.data, durability);
        }
        flight.flush = flush;
        self.flight = Some(flight);
    }

    /// What is written beside the log: for the record, and for the device.
    fn beside(&self, placed: BlockMap) -> (Vec<Beside>, Vec<(u64, Rope)>) {
        let (mut all, mut data): (Vec<Beside>, Vec<(u64, Rope)>) = (Vec::new(), Vec::new());
        let mut next = None;
        for (block, contents) in placed.into_runs() {
            let offset = self.layout.block_offset(block);
            if next != Some(block) {
                all.push(Beside { offset, checksums: Vec::new() });
                data.push((offset, Rope::new()));
            }
            next = Some(block + contents.len() as u64 / BLOCK);
            if let (Some(beside), Some((_, bytes))) = (all.last_mut(), data.last_mut()) {
                contents.pieces().iter().for_each(|piece| beside.checksums.extend(&*piece.page_checksums()));
                bytes.append(contents);
            }
        }
        (all, data)
    }

    /// Data beside the log were written.
    pub(crate) fn on_beside(&mut self, number: u64, result: Result<Done, DeviceError>) {
        let Some(sent) = self.pending.sent.iter_mut().find(|sent| sent.number == number) else {
            return self.on_group(result);
        };
        sent.requests -= 1;
        if let Err(error) = result {
            self.fail(io_error("write of data", &error));
        }
    }

    pub(crate) fn on_group(&mut self, result: Result<Done, DeviceError>) {
        // A store that failed has given up its group, and takes no answers.
        let Some(flight) = &mut self.flight else { return };
        flight.requests -= 1;
        if let Err(error) = result {
            flight.error.get_or_insert(error);
        }
        if flight.requests > 0 {
            return;
        }
        if flight.error.is_none() {
            flight.requests = match std::mem::replace(&mut flight.flush, Flush::None) {
                Flush::None => 0,
                Flush::Log => self.io.flush_log(Purpose::Group, Barrier::Record),
                Flush::All => self.io.flush_all(Purpose::Group, Barrier::RecordData, Barrier::RecordLog),
            };
        }
        if flight.requests > 0 {
            return;
        }
        let Some(Flight { outcomes, placed, error, .. }) = self.flight.take() else { return };
        match error {
            None => {
                self.log.on_durable();
                placed.iter().for_each(|run| self.contents.writing.remove(*run));
                #[cfg(feature = "planted")]
                {
                    self.newest = placed;
                }
                self.ready.extend(outcomes);
                self.wake_for_room();
            }
            Some(error) => {
                self.stop(outcomes, io_error("write of the log", &error));
            }
        }
    }

    fn refuse(&mut self, outcomes: Vec<Completion>, error: &StoreError) {
        self.ready.extend(outcomes.into_iter().map(|outcome| match outcome {
            Completion::Committed { token } => Completion::Refused { token, error: error.clone() },
            other => other,
        }));
    }

    /// Nothing becomes durable any more.
    pub(crate) fn fail(&mut self, error: StoreError) {
        let outcomes = self.flight.take().map(|flight| flight.outcomes).unwrap_or_default();
        self.stop(outcomes, error);
    }

    /// Takes no transaction, and writes nothing.
    pub(crate) fn only_read(&mut self) {
        self.fail(StoreError::Damaged("the store is opened to be read only".to_owned()));
    }

    /// Refuses the commits that are under way with the error, and those that wait for their turn with `Stopped`. The error is the
    /// answer to those that wait if no commit is under way, and to the next transaction if none waits either: so the store's
    /// owner always learns why it stopped.
    fn stop(&mut self, under_way: Vec<Completion>, error: StoreError) {
        // What stops the store is never what concerns one request alone.
        let error = match error {
            StoreError::Unreadable { what, errno, at } => StoreError::Io { what, errno, at },
            other => other,
        };
        self.stopped = true;
        let waiting = self.pending.give_up();
        let commits =
            |outcomes: &[Completion]| outcomes.iter().any(|o| matches!(o, Completion::Committed { .. }));
        let (of_waiting, untold) = match (commits(&under_way), commits(&waiting)) {
            (true, _) => (StoreError::Stopped, None),
            (false, true) => (error.clone(), None),
            (false, false) => (StoreError::Stopped, Some(error.clone())),
        };
        self.refuse(under_way, &error);
        self.refuse(waiting, &of_waiting);
        self.untold = untold;
        self.checkpoint = None;
        self.wake_for_room();
    }

    /// Blocks with a record's payload stay as they are until the log begins behind the record.
    pub(crate) fn keep_payload(&mut self, sequence: u64, blocks: Vec<u64>) {
        if !blocks.is_empty() {
            self.payloads.push_back((sequence, blocks));
        }
    }

    /// Gives back the blocks with payloads of records that the log does not keep.
    pub(crate) fn release_payloads(&mut self) {
        while let Some((sequence, _)) = self.payloads.front() {
            if *sequence >= self.log.kept().sequence {
                return;
            }
            if let Some((_, blocks)) = self.payloads.pop_front() {
                self.space.give_back(blocks);
            }
        }
    }

    /// Whether nothing is being made durable.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flight.is_none() && self.pending.is_empty()
    }
}

/// A payload as whole blocks.
fn padded(payload: &Rope) -> Piece {
    let mut whole = PieceMut::zeroed(payload.len().next_multiple_of(BLOCK as usize));
    let mut at = 0;
    for piece in payload.pieces() {
        whole.as_mut_slice()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use store::{CollectionId, ObjectStore, Token, Transaction};
    use types::{GHObject, HObject, Name, PoolId};

    use crate::onode::Onode;
    use crate::test_store::{rest, store};

    #[test]
    fn what_is_written_is_noted_until_it_is_removed() {
        let mut store = store();
        let object: GHObject = HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into();
        let c = CollectionId::Meta;
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object, 0, vec![1; 100_000].into());
        store.queue(txn, Token(1));
        rest(&mut store);
        let space = store.tables.recent.get_mut().collection(c).map(|collection| collection.space);
        let space = space.expect("the collection was made");
        let onode = store.tables.recent.get_mut().onode(space, &object).expect("it was written");
        let onode = Onode::decode(onode).expect("an onode");
        assert_eq!(onode.size, 100_000);
        assert!(store.tables.recent.get_mut().maps.record(onode.number, 0).is_some());
        let mut txn = Transaction::new();
        txn.remove(c, &object);
        store.queue(txn, Token(2));
        rest(&mut store);
        assert_eq!(store.tables.recent.get_mut().onode(space, &object), None);
        assert_eq!(store.tables.recent.get_mut().maps.record(onode.number, 0), None);
    }
}
