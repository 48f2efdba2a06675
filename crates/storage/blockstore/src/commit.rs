//! Group commits: batches become one record of the log.

use std::collections::BTreeMap;

use blockdev::{DeviceError, DeviceQueue, Done, Durability};
use buffer::{Piece, PieceMut, Rope};
use store::{Completion, StoreError};
use wal::Beside;

use crate::context::Ended;
use crate::layout::BLOCK;
use crate::planted::Barrier;
use crate::stop::Stop;
use crate::store::{BlockStore, Purpose, io_error};

/// What becomes one record of the log.
#[derive(Default)]
pub struct Group {
    payload: Rope,
    /// Blocks that are written beside the log.
    placed: BTreeMap<u64, Piece>,
    /// Blocks for the payload itself, if it is too long for the log: as many as it needs.
    payload_blocks: Vec<u64>,
    pub outcomes: Vec<Completion>,
}

impl Group {
    /// Whether it needs no record. It may have refusals, which wait for nothing.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }
}

/// The flush that makes a record durable.
#[derive(Clone, Copy)]
enum Flush {
    /// The record is one durable write.
    None,
    /// Nothing lies beside the record.
    Log,
    All,
}

/// The group whose record is in flight.
pub struct Flight {
    outcomes: Vec<Completion>,
    /// What it writes beside the log.
    placed: Vec<u64>,
    requests: usize,
    /// What is to follow.
    flush: Flush,
    error: Option<DeviceError>,
}

impl Flight {
    #[cfg(feature = "planted")]
    pub fn placed(&self) -> &[u64] {
        &self.placed
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Lets a change take effect in memory and puts it into the group.
    ///
    /// # Errors
    /// Its record has no room in the log. The change had no effect.
    pub(crate) fn admit(&mut self, ended: Ended) -> Result<(), Stop> {
        let Ended { batch, placed, freed, packed } = ended;
        let payload = batch.encode();
        if let Err(stop) = self.make_log_room(payload.len(), placed.len()) {
            self.space.give_back(batch.allocated.iter().flat_map(|run| run.blocks()));
            return Err(stop);
        }
        self.peeked.clear();
        let sequence = self.log.end().sequence;
        self.space.mark_data(batch.allocated.iter().flat_map(|run| run.blocks()));
        for block in &freed {
            self.contents.deferred.remove(block);
            self.contents.writing.remove(block);
            self.contents.cache.forget(*block);
        }
        batch.deferred.iter().for_each(|(block, _)| self.contents.cache.forget(*block));
        self.space.leave(sequence, self.next_read, freed);
        self.contents.deferred.extend(batch.deferred);
        self.purge.wanted |= crate::purge::adds_dead(&batch.changes);
        self.tables.apply(batch.changes);
        self.counters = batch.counters;
        self.packer.note(packed);
        self.group.payload.append(payload);
        self.contents.writing.extend(placed.iter().map(|(block, bytes)| (*block, bytes.clone())));
        self.group.placed.extend(placed);
        Ok(())
    }

    /// Bytes of a payload that is written into the log; a longer one lies beside it.
    fn payload_bytes_max(&self) -> usize {
        (self.log.layout().record_bytes_max() / 2) as usize
    }

    /// Makes sure that the group's record has room with one more batch.
    ///
    /// # Errors
    /// It has none now, or never.
    fn make_log_room(&mut self, payload: usize, placed: usize) -> Result<(), Stop> {
        let payload = self.group.payload.len() + payload;
        let beside = payload > self.payload_bytes_max();
        let payload_blocks = if beside { (payload as u64).div_ceil(BLOCK) } else { 0 };
        let in_log = if beside { 8 } else { payload as u64 };
        // Each block beside the log may be a run.
        let blocks = (self.group.placed.len() + placed) as u64 + payload_blocks;
        let record = self.log.record_bytes(in_log + blocks * 16, &[]);
        let longest = self.log.layout().record_bytes_max();
        if record > longest {
            return Err(match self.group.is_empty() {
                true => StoreError::NoSpace { needed: record, available: longest }.into(),
                false => Stop::NextRecord,
            });
        }
        // So that marks always have some.
        let kept = 8 * u64::from(self.log.layout().unit_bytes);
        if record + kept > self.log.room_bytes() {
            return Err(Stop::LogRoom);
        }
        let more = payload_blocks.saturating_sub(self.group.payload_blocks.len() as u64);
        if more > 0 {
            if self.space.free_blocks() < more + self.kept_blocks() {
                return Err(Stop::Space);
            }
            let blocks = self.space.allocate(more).ok_or(Stop::Space)?;
            self.group.payload_blocks.extend(blocks);
        }
        Ok(())
    }

    /// Begins the next record, if one is wanted and none is in flight.
    pub(crate) fn submit_group(&mut self) {
        if self.flight.is_some() || self.stopped {
            return;
        }
        if self.group.payload.is_empty() && !self.mark_wanted {
            // Nothing to make durable.
            self.ready.append(&mut self.group.outcomes);
            return;
        }
        let Group { payload, placed, mut payload_blocks, outcomes } = std::mem::take(&mut self.group);
        let blocks = placed.keys().copied().collect();
        let (mut beside, mut data) = self.beside(placed);
        payload_blocks.sort_unstable();
        let begun = match payload_blocks.is_empty() {
            true => self.log.begin(payload, &beside),
            false => {
                let whole = padded(&payload);
                let pieces = payload_blocks.iter().zip((0..).step_by(BLOCK as usize));
                let pieces = pieces.map(|(block, at)| (*block, whole.slice(at..at + BLOCK as usize)));
                let (runs, bytes) = self.beside(pieces.collect());
                let payload_runs = runs.len() as u32;
                beside.extend(runs);
                data.extend(bytes);
                self.log.begin_beside(payload.len() as u64, &beside, payload_runs)
            }
        };
        let alone = beside.is_empty();
        let Some(begun) = begun else {
            // A mark without room waits for the checkpoint; a group was admitted only with room. Refusals need none.
            debug_assert!(
                outcomes.iter().all(|o| matches!(o, Completion::Refused { .. })),
                "a group has room"
            );
            self.mark_wanted = false;
            self.ready.extend(outcomes);
            self.checkpoint_wanted = true;
            return;
        };
        self.mark_wanted = false;
        self.keep_payload(begun.sequence, payload_blocks);
        let one = begun.writes.len() == 1
            && begun.writes.iter().all(|w| w.data.len() as u64 <= self.io.request_bytes_max());
        let (durability, flush) = match (alone, one) {
            (true, true) => (self.io.durability(Barrier::Record), Flush::None),
            (true, false) => (Durability::Volatile, Flush::Log),
            (false, _) => (Durability::Volatile, Flush::All),
        };
        let mut requests = 0;
        for (offset, bytes) in &data {
            requests += self.io.write(Purpose::Group, *offset, bytes, Durability::Volatile);
        }
        for write in &begun.writes {
            requests += self.io.write_log(Purpose::Group, write.offset, &write.data, durability);
        }
        self.flight = Some(Flight { outcomes, placed: blocks, requests, flush, error: None });
    }

    /// What is written beside the log: for the record, and for the device.
    fn beside(&self, placed: BTreeMap<u64, Piece>) -> (Vec<Beside>, Vec<(u64, Rope)>) {
        let mut all: Vec<(Beside, Rope)> = Vec::new();
        let mut next = None;
        for (block, bytes) in placed {
            let offset = self.layout.block_offset(block);
            if next != Some(block) {
                all.push((Beside { offset, checksums: Vec::new() }, Rope::new()));
            }
            if let Some((beside, data)) = all.last_mut() {
                beside.checksums.push(bytes.crc32c(!0));
                data.push(bytes);
            }
            next = Some(block + 1);
        }
        all.into_iter().map(|(beside, data)| (beside.clone(), (beside.offset, data))).unzip()
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
                for block in &placed {
                    self.contents.writing.remove(block);
                }
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

    /// Refuses the commits that are under way with the error, and those that wait for their turn with `Stopped`. The error is the
    /// answer to those that wait if no commit is under way, and to the next transaction if none waits either: so the store's
    /// owner always learns why it stopped.
    fn stop(&mut self, under_way: Vec<Completion>, error: StoreError) {
        self.stopped = true;
        let waiting = std::mem::take(&mut self.group).outcomes;
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
        self.flight.is_none() && self.group.is_empty()
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
