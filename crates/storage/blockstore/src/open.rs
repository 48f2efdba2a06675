//! Opening a shard: its superblock, the log replayed, the blocks that are taken, and the log sealed. What is refused was not written
//! to: the superblock that seals is written last.

use blockdev::{DeviceError, DeviceId, DeviceQueue, Done};
use buffer::Piece;
use encoding::DecodeError;
use store::StoreError;
use types::UTime;
use wal::{Log, Opening as LogOpening, Replay, Replayed, WalError};

use crate::batch::Batch;
use crate::choice::{self, Choice};
use crate::io::Io;
use crate::layout;
use crate::layout::{BLOCK, LABEL_BYTES, Label, Part, SUPERBLOCK_BYTES, ShardLayout, Superblock};
use crate::load::Loading;
use crate::planted::Barrier;
use crate::ranges::Grown;
use crate::store::{BlockStore, Options, Purpose};

/// Bytes of the log that are read at once.
const LOG_READ_BYTES: u64 = 1 << 20;

/// Why a store can't be made or opened.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the queue has no data device")]
    NoDevice,
    #[error("the store's log is on a device of its own, which is not there")]
    NoLogDevice,
    #[error("the log's device has not the log of this store: {0}")]
    OtherLog(DecodeError),
    #[error("a device of {device_bytes} bytes has no room for such a store: give it a larger one")]
    Sizes { device_bytes: u64 },
    #[error("a store of {bytes} bytes is larger than one can be: the limit is {most} bytes")]
    TooLarge { bytes: u64, most: u64 },
    /// It was as large when the store was made, or has grown since.
    #[error("the device has {device_bytes} bytes, and the store on it {needed}: it was made shorter")]
    Cut { device_bytes: u64, needed: u64 },
    #[error("the device has no block store of a known format: {0}")]
    NoStore(DecodeError),
    #[error("the store has no shard {shard}, only {shards}")]
    NoShard { shard: u32, shards: u32 },
    #[error("shard {shard} has no superblock that can be read: {error}")]
    NoSuperblock { shard: u32, error: DecodeError },
    #[error(
        "shard {shard} of the store is to end at byte {bytes}: shards only grow, and this one ends at {has}"
    )]
    Shrinks { shard: u32, bytes: u64, has: u64 },
    #[error("shard {shard} of the store has grown otherwise than the others")]
    GrownApart { shard: u32 },
    #[error("the log of shard {shard} is not empty: it is moved after a checkpoint alone")]
    LogNotEmpty { shard: u32 },
    #[error("the store was made with its log apart, and has no place for it beside the data")]
    NoPlaceForLog,
    /// The superblock before the newest may count, and what it refers to may have been written over.
    #[error(
        "{error}; the superblock of shard {shard} at byte {at} can't be read either: if it was the newest, that is the reason"
    )]
    WithoutSuperblock { shard: u32, at: u64, error: Box<OpenError> },
    #[error("record {sequence} of the log can't be read: {error}")]
    BadRecord { sequence: u64, error: DecodeError },
    #[error("shard {shard}: {error}")]
    Log { shard: u32, device: DeviceId, error: WalError },
    #[error("the collections of shard {shard} can't be listed: {error}")]
    Collections { shard: u32, error: StoreError },
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// The device of the log that it is about, if it is about one.
    pub fn log_device(&self) -> Option<DeviceId> {
        match self {
            Self::Log { device, .. } => Some(*device),
            Self::WithoutSuperblock { error, .. } => error.log_device(),
            _ => None,
        }
    }
}

/// The shard that is opened.
#[derive(Clone)]
struct Shard {
    layout: ShardLayout,
    superblock: Superblock,
    /// With the log elsewhere, if it is to move.
    moved: Option<ShardLayout>,
}

/// What comes next when everything that was asked has completed.
enum Step<Q: DeviceQueue> {
    /// What is read from here on is durable: nothing is shown that a power loss would take back.
    Flush,
    Label,
    Superblocks,
    Choose(ShardLayout, Label),
    Log(Shard, Box<Replay>),
    /// The same part of the log, unit by unit, since the device could not read it whole.
    LogUnits(Shard, Box<Replay>),
    /// What lies beside the log is being read: of this record.
    Prove(Shard, Replayed, u64),
    Load(Box<BlockStore<Q>>, Box<Loading>),
    /// Nothing was written yet.
    Loaded(Box<BlockStore<Q>>),
    /// The superblock that seals the log is under way.
    Seal(Box<BlockStore<Q>>),
    Ended,
}

/// A shard being opened.
pub struct Opener<Q: DeviceQueue> {
    io: Option<Io<Q, Purpose>>,
    shard: u32,
    options: Options,
    /// Where the store ends after each growth, if it is to grow.
    grows_to: Option<Vec<u64>>,
    /// Whether the log is to be apart from now on, if it is to move.
    log_apart: Option<bool>,
    /// The damage that was found, if the shard is opened in spite of it.
    damage: Option<Vec<String>>,
    /// Nothing is to be written.
    is_to_read: bool,
    /// See [`BlockStore::unread_superblocks`].
    unread_superblocks: Vec<u64>,
    /// See [`choice::Choice::lost`].
    lost_superblock: Option<u64>,
    step: Step<Q>,
    requests: usize,
    /// What was read, by its place among the reads of the step.
    read: Vec<(u64, Result<Piece, DeviceError>)>,
}

impl<Q: DeviceQueue> Opener<Q> {
    /// # Errors
    /// The queue has no data device.
    pub fn new(queue: Q, shard: u32, options: Options) -> Result<Self, OpenError> {
        let io = Some(Io::new(queue).ok_or(OpenError::NoDevice)?);
        let (step, read) = (Step::Flush, Vec::new());
        let (grows_to, log_apart, damage) = (None, None, None);
        let (unread_superblocks, lost_superblock) = (Vec::new(), None);
        Ok(Self {
            io,
            shard,
            options,
            grows_to,
            log_apart,
            damage,
            is_to_read: false,
            unread_superblocks,
            lost_superblock,
            step,
            requests: 0,
            read,
        })
    }

    /// Leaves out a barrier, here and in the store that is opened.
    #[cfg(feature = "planted")]
    pub fn leave_out(&mut self, barrier: Barrier) {
        if let Some(io) = &mut self.io {
            io.planted.left_out = Some(barrier);
        }
    }

    /// Opens a shard of a store on a device that has grown, and lets it use its part of that: the store ends here after each
    /// growth, in bytes of the device ([`Label::ends_with`]). The superblock that every opening writes says so: a crash leaves
    /// the shard with its old end or with the new one.
    pub fn growing_to(self, ends: Vec<u64>) -> Self {
        Self { grows_to: Some(ends), ..self }
    }

    /// Opens a shard whose log is empty, and has it on the device of logs from now on (`apart`), or beside the data again. The
    /// superblock that every opening writes says so: a crash leaves the log where it was or there, empty.
    pub fn moving_log(self, apart: bool) -> Self {
        Self { log_apart: Some(apart), ..self }
    }

    /// Opens a shard that is damaged, as far as it can be read: [`BlockStore::damage`] says what was found. Nothing is written,
    /// now or later. Of the log it has what lies before a record that can't be read; what its records had is missing.
    pub fn in_spite_of_damage(self) -> Self {
        Self { damage: Some(Vec::new()), ..self }
    }

    /// Opens a shard whose device can't be written: it is refused where it is damaged, as ever, and what the log has is replayed in
    /// memory alone. Nothing is written, now or later.
    pub fn to_read(self) -> Self {
        Self { is_to_read: true, ..self }
    }

    pub fn deadline(&self) -> Option<UTime> {
        match &self.step {
            Step::Load(store, _) | Step::Loaded(store) | Step::Seal(store) => store.io.deadline(),
            _ => self.io.as_ref().and_then(Io::deadline),
        }
    }

    /// Brings it on as far as it goes without a write. When there is an answer, [`Opener::turn`] does the rest: shards of a store
    /// wait there for one another, so that none is written to where one is refused.
    ///
    /// # Errors
    /// There is no such shard, it is damaged, or the device failed.
    pub fn load(&mut self, now: UTime) -> Option<Result<(), OpenError>> {
        let loaded = self.advance(now).map(|is_loaded| is_loaded.then_some(()));
        self.answer(loaded)
    }

    /// The shard, when it is loaded.
    pub fn loaded(&self) -> Option<&BlockStore<Q>> {
        match &self.step {
            Step::Loaded(store) | Step::Seal(store) => Some(store),
            _ => None,
        }
    }

    /// Brings it on; the store comes when it is open.
    ///
    /// # Errors
    /// There is no such shard, it is damaged, or the device failed.
    pub fn turn(&mut self, now: UTime) -> Option<Result<BlockStore<Q>, OpenError>> {
        let opened = match self.advance(now) {
            Ok(true) => self.seal(now),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        self.answer(opened)
    }

    fn answer<T>(&mut self, outcome: Result<Option<T>, OpenError>) -> Option<Result<T, OpenError>> {
        outcome
            .map_err(|error| {
                self.step = Step::Ended;
                self.explained(error)
            })
            .transpose()
    }

    /// The error with what may be its reason.
    fn explained(&self, error: OpenError) -> OpenError {
        let says_why =
            matches!(error, OpenError::Log { error: WalError::Outdated { .. }, .. } | OpenError::Device(_));
        match self.lost_superblock.filter(|_| !says_why) {
            Some(at) => OpenError::WithoutSuperblock { shard: self.shard, at, error: Box::new(error) },
            None => error,
        }
    }

    /// Returns whether everything is loaded.
    fn advance(&mut self, now: UTime) -> Result<bool, OpenError> {
        if let Some(io) = &mut self.io {
            io.queue().turn(now);
        }
        loop {
            if let Step::Load(store, loading) = &mut self.step {
                if !loading.advance(store, now)? {
                    return Ok(false);
                }
                self.step = match std::mem::replace(&mut self.step, Step::Ended) {
                    Step::Load(store, _) => Step::Loaded(store),
                    other => other,
                };
            }
            if let Step::Loaded(_) | Step::Seal(_) = self.step {
                return Ok(true);
            }
            let Some(io) = &mut self.io else { return Ok(false) };
            io.submit(now);
            for (purpose, result) in io.completions() {
                self.requests -= 1;
                match (purpose, result) {
                    (Purpose::Fetch { first, .. }, Ok(Done::Read(bytes))) => {
                        self.read.push((first, Ok(bytes.freeze())));
                    }
                    (Purpose::Fetch { first, .. }, Err(error)) => self.read.push((first, Err(error))),
                    (_, result) => drop(result?),
                }
            }
            if self.requests > 0 {
                return Ok(false);
            }
            self.read.sort_by_key(|(place, _)| *place);
            let read = std::mem::take(&mut self.read).into_iter().map(|(_, bytes)| bytes);
            self.step = match std::mem::replace(&mut self.step, Step::Ended) {
                // A superblock may be there a second time.
                Step::Choose(layout, label) => self.chosen(layout, &label, &read.collect::<Vec<_>>())?,
                Step::LogUnits(shard, replay) => self.read_units(shard, replay, read)?,
                step => match read.collect::<Result<_, _>>() {
                    Ok(read) => self.next(step, read)?,
                    Err(error) => self.next_without(step, error)?,
                },
            };
            if let Step::Ended = self.step {
                return Ok(false);
            }
        }
    }

    /// Seals the log of the shard that is loaded, and gives it out when that is durable.
    fn seal(&mut self, now: UTime) -> Result<Option<BlockStore<Q>>, OpenError> {
        match std::mem::replace(&mut self.step, Step::Ended) {
            // Nothing is written to it.
            Step::Loaded(store) if store.damage.is_some() => return Ok(Some(*store)),
            Step::Loaded(mut store) if self.is_to_read => {
                store.only_read();
                return Ok(Some(*store));
            }
            Step::Loaded(mut store) => {
                store.begin_seal(now)?;
                self.step = Step::Seal(store);
            }
            Step::Seal(mut store) => {
                store.drive(now);
                match store.is_sealed() {
                    Some(sealed) => return Ok(sealed.map(|()| Some(*store))?),
                    None => self.step = Step::Seal(store),
                }
            }
            other => self.step = other,
        }
        Ok(None)
    }

    /// Reads any number of bytes of the data device.
    fn ask(&mut self, offset: u64, bytes: u64) {
        self.ask_of(Io::read, offset, bytes);
    }

    fn ask_of(&mut self, read: fn(&mut Io<Q, Purpose>, Purpose, u64, usize), offset: u64, bytes: u64) {
        let Some(io) = &mut self.io else { return };
        for (from, len) in io.parts(bytes) {
            let purpose = Purpose::Fetch { waiter: 0, first: self.requests as u64, count: 0 };
            read(io, purpose, offset + from, len);
            self.requests += 1;
        }
    }

    /// Takes what a step has read, and begins the next.
    fn next(&mut self, step: Step<Q>, read: Vec<Piece>) -> Result<Step<Q>, OpenError> {
        match step {
            Step::Flush => {
                if let Some(io) = &mut self.io {
                    self.requests =
                        io.flush_all(Purpose::Checkpoint, Barrier::OpenedData, Barrier::OpenedLog);
                }
                Ok(Step::Label)
            }
            Step::Label => {
                self.ask(0, LABEL_BYTES);
                Ok(Step::Superblocks)
            }
            Step::Superblocks => {
                let label = Label::decode(&joined(&read), Part::Data).map_err(OpenError::NoStore)?;
                let (shard, shards) = (self.shard, label.shards);
                let layout = label.shard(shard).ok_or(OpenError::NoShard { shard, shards })?;
                layout.superblock_places().for_each(|(_, place)| self.ask(place, SUPERBLOCK_BYTES));
                let Some(io) = &mut self.io else { return Ok(Step::Ended) };
                if io.queue().geometry(DeviceId::Wal).is_some() {
                    io.set_log(DeviceId::Wal);
                    // The label is there, too, behind the superblocks.
                    self.ask_of(Io::read_log, 0, LABEL_BYTES);
                }
                Ok(Step::Choose(layout, label))
            }
            Step::Log(shard, mut replay) => {
                read.iter().for_each(|bytes| replay.on_read(bytes));
                self.read_log(shard, replay)
            }
            Step::Prove(shard, mut replayed, sequence) => {
                if let Err(corrupt) = replayed.on_beside(sequence, &shard.layout.log, &joined(&read)) {
                    self.pass(self.log_error(&shard, corrupt))?;
                    replayed.cut(sequence);
                }
                self.prove(shard, replayed, sequence + 1)
            }
            Step::Choose(..)
            | Step::LogUnits(..)
            | Step::Load(..)
            | Step::Loaded(_)
            | Step::Seal(_)
            | Step::Ended => Ok(Step::Ended),
        }
    }

    /// The device could not read what a step asked for: the opening ends, or, in spite of damage, does without that.
    fn next_without(&mut self, step: Step<Q>, error: DeviceError) -> Result<Step<Q>, OpenError> {
        match step {
            Step::Log(shard, replay) => {
                self.pass(error.into())?;
                let (offset, bytes) = replay.wanted().unwrap_or_default();
                let unit_bytes = u64::from(shard.layout.log.unit_bytes);
                for at in (0..bytes as u64).step_by(unit_bytes as usize) {
                    self.ask_of(Io::read_log, offset + at, unit_bytes);
                }
                Ok(Step::LogUnits(shard, replay))
            }
            Step::Prove(shard, mut replayed, sequence) => {
                self.pass(error.into())?;
                replayed.cut(sequence);
                self.prove(shard, replayed, sequence + 1)
            }
            _ => Err(error.into()),
        }
    }

    /// Takes a part of the log that was read unit by unit. One that can't be read counts as one that was never written: the record
    /// there ends the log.
    fn read_units(
        &mut self,
        shard: Shard,
        mut replay: Box<Replay>,
        units: impl Iterator<Item = Result<Piece, DeviceError>>,
    ) -> Result<Step<Q>, OpenError> {
        let unread = vec![0; shard.layout.log.unit_bytes as usize];
        for unit in units {
            match unit {
                Ok(bytes) => replay.on_read(&bytes),
                Err(_) => replay.on_read(&unread),
            }
        }
        self.read_log(shard, replay)
    }

    /// Takes the superblock that counts, of what was read of all of them and of the label of a device of logs.
    fn chosen(
        &mut self,
        layout: ShardLayout,
        label: &Label,
        read: &[Result<Piece, DeviceError>],
    ) -> Result<Step<Q>, OpenError> {
        let (superblocks, of_log) = read.split_at(layout.superblock_places().count().min(read.len()));
        let Choice { newest: mut superblock, unread, lost } =
            choice::choose(label, self.shard, &layout, superblocks)?;
        (self.unread_superblocks, self.lost_superblock) = (unread, lost);
        let layout = label.with_log_of(self.shard, layout, superblock.features);
        let layout = self.grown(label, layout, &mut superblock)?;
        let moved = self.moved(label, &layout)?;
        let devices = [Some(&layout), moved.as_ref()].into_iter().flatten();
        if devices.into_iter().any(|layout| layout.log_device == DeviceId::Wal) {
            let of_log = of_log.iter().cloned().collect::<Result<Vec<_>, _>>()?;
            self.check_log_device(label, &joined(&of_log))?;
        }
        if let Some(io) = &mut self.io {
            io.set_log(layout.log_device);
        }
        let io_max = self.io.as_ref().map_or(LOG_READ_BYTES, Io::request_bytes_max);
        let step = LOG_READ_BYTES.min(io_max);
        let replay = Box::new(Replay::new(layout.log, superblock.log, step));
        self.read_log(Shard { layout, superblock, moved }, replay)
    }

    /// Where the shard ends: by the label, by its superblock, or, from now on, by what it is to grow to.
    fn grown(
        &self,
        label: &Label,
        layout: ShardLayout,
        superblock: &mut Superblock,
    ) -> Result<ShardLayout, OpenError> {
        let shard = self.shard;
        let unsound = |error| OpenError::NoSuperblock { shard, error };
        let by_label = layout.clone();
        let layout = label.with_grown(shard, layout, superblock.grown.clone()).map_err(unsound)?;
        let device_bytes = self.io.as_ref().map_or(0, Io::device_bytes);
        let ends = self.grows_to.as_deref().unwrap_or_default();
        if layout.end > device_bytes {
            let of_store = match &superblock.grown {
                Grown::Ends(ends) => ends.last().copied().unwrap_or_default(),
                Grown::No | Grown::Blocks(_) => 0,
            };
            let needed = of_store.max(layout.end).max(label.size_bytes);
            return Err(OpenError::Cut { device_bytes, needed });
        }
        if ends.last().is_some_and(|wanted| *wanted > device_bytes) {
            return Err(OpenError::Sizes { device_bytes });
        }
        let Some(bytes) = ends.last().copied() else { return Ok(layout) };
        if bytes / BLOCK * BLOCK < layout.end {
            return Err(OpenError::Shrinks { shard, bytes, has: layout.end });
        }
        superblock.grown = match &superblock.grown {
            Grown::Ends(has) if !ends.starts_with(has) => return Err(OpenError::GrownApart { shard }),
            _ if label.shards > 1 => Grown::Ends(ends.to_vec()),
            _ => Grown::Blocks((bytes - layout.block_offset(0)) / BLOCK),
        };
        label.with_grown(shard, by_label, superblock.grown.clone()).map_err(unsound)
    }

    /// Where the shard's parts are when its log has moved, if it is to.
    fn moved(&self, label: &Label, layout: &ShardLayout) -> Result<Option<ShardLayout>, OpenError> {
        let is_apart = layout.log_device == DeviceId::Wal;
        let Some(apart) = self.log_apart.filter(|apart| *apart != is_apart) else { return Ok(None) };
        if label.log_apart {
            return Err(OpenError::NoPlaceForLog);
        }
        let features = if apart { layout::features::LOG_MOVED } else { 0 };
        let by_label = label.shard(self.shard).map(|layout| label.with_log_of(self.shard, layout, features));
        Ok(by_label.map(|by| ShardLayout { log_device: by.log_device, log: by.log, ..layout.clone() }))
    }

    /// The device of logs is there, is this store's by the label on it, and has room for the logs.
    fn check_log_device(&mut self, label: &Label, bytes: &[u8]) -> Result<(), OpenError> {
        let Some(io) = &mut self.io else { return Err(OpenError::NoLogDevice) };
        let geometry = io.queue().geometry(DeviceId::Wal).ok_or(OpenError::NoLogDevice)?;
        let found = Label::decode(bytes, Part::Log).map_err(OpenError::OtherLog)?;
        if found.id != label.id {
            let error = DecodeError::BadValue { what: "id of a block store", value: found.id };
            return Err(OpenError::OtherLog(error));
        }
        match geometry.size_bytes < label.log_device_bytes()
            || label.log_unit_bytes % geometry.block_bytes != 0
        {
            true => Err(OpenError::Sizes { device_bytes: geometry.size_bytes }),
            false => Ok(()),
        }
    }

    fn read_log(&mut self, shard: Shard, replay: Box<Replay>) -> Result<Step<Q>, OpenError> {
        match replay.wanted() {
            Some((offset, len)) => {
                self.ask_of(Io::read_log, offset, len as u64);
                Ok(Step::Log(shard, replay))
            }
            None => {
                let (replayed, corrupt) = replay.finish_damaged();
                if let Some(corrupt) = corrupt {
                    self.pass(self.log_error(&shard, corrupt))?;
                }
                self.prove(shard, replayed, 0)
            }
        }
    }

    fn log_error(&self, shard: &Shard, error: WalError) -> OpenError {
        OpenError::Log { shard: self.shard, device: shard.layout.log_device, error }
    }

    /// Passes over damage, if that is to be.
    ///
    /// # Errors
    /// It is not.
    fn pass(&mut self, error: OpenError) -> Result<(), OpenError> {
        match &mut self.damage {
            Some(damage) => damage.push(error.to_string()),
            None => return Err(error),
        }
        Ok(())
    }

    /// Reads what lies beside the next record that needs it, or goes on to the tree, with what the next superblock is to say of the log.
    fn prove(&mut self, mut shard: Shard, replayed: Replayed, from: u64) -> Result<Step<Q>, OpenError> {
        if let Some((sequence, runs)) = replayed.unread(from) {
            for run in &runs {
                self.ask(run.offset, run.bytes() as u64);
            }
            return Ok(Step::Prove(shard, replayed, sequence));
        }
        if self.damage.is_some() {
            return self.loading(shard, replayed);
        }
        let superblock = &mut shard.superblock;
        if let Some(moved) = shard.moved.take() {
            if replayed.end != superblock.log.kept {
                return Err(OpenError::LogNotEmpty { shard: self.shard });
            }
            superblock.features ^= layout::features::LOG_MOVED;
            shard.layout = moved;
            if let Some(io) = &mut self.io {
                io.set_log(shard.layout.log_device);
            }
        }
        superblock.log = LogOpening { sealed: replayed.end, salt: superblock.log.salt + 1, ..superblock.log };
        self.loading(shard, replayed)
    }

    /// Makes the store, whose tree and records are to be loaded.
    fn loading(&mut self, shard: Shard, replayed: Replayed) -> Result<Step<Q>, OpenError> {
        let Some(io) = self.io.take() else { return Ok(Step::Ended) };
        let Shard { layout, superblock, moved: _ } = shard;
        let Superblock { features, store, shard: number, generation, root, counters, log: opening, .. } =
            superblock;
        let log = Log::new(layout.log, opening.salt, opening.kept, replayed.end);
        let mut opened = BlockStore::new(io, layout.clone(), (store, number), self.options, log, opening);
        opened.features = features | layout::features::INLINE_PARTS;
        opened.unread_superblocks = std::mem::take(&mut self.unread_superblocks);
        opened.packer.is_announced = features & layout::features::COMPRESSED != 0;
        (opened.generation, opened.counters, opened.published) = (generation, counters, counters);
        opened.tables.tree.root = root;
        let mut batches = Vec::new();
        for record in replayed.records {
            let sequence = record.sequence;
            let places = record.payload_beside.iter().flat_map(|run| {
                // Where the shard has no block, the load refuses it.
                let first = layout.ranges.block_at(run.offset).unwrap_or(u64::MAX - 1);
                first..first.saturating_add(run.checksums.len() as u64)
            });
            opened.keep_payload(sequence, places.collect());
            match Batch::decode_all(&record.payload) {
                Ok(decoded) => batches.extend(decoded),
                Err(error) => {
                    self.pass(OpenError::BadRecord { sequence, error })?;
                    break;
                }
            }
        }
        opened.damage = self.damage.take();
        let loading = Loading::new(opened.tables.tree.root.as_ref().map(|(_, ptr)| ptr.clone()), batches);
        Ok(Step::Load(Box::new(opened), Box::new(loading)))
    }
}

fn joined(parts: &[Piece]) -> Piece {
    let mut rope = buffer::Rope::new();
    parts.iter().for_each(|part| rope.push(part.clone()));
    rope.to_piece()
}
