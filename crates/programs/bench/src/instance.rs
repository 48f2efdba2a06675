//! An instance: a thread with a client and a pool.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use messages::{Op, OpArgs, OpCode};
use runtime::Clock;
use types::{Errno, PoolId};

use crate::cleanup::remove_objects;
use crate::content::Content;
use crate::error::BenchError;
use crate::load::{Load, Measured, Objects};
use crate::names;
use crate::pace::Pace;
use crate::plan::{Kind, Operation, Plan};
use crate::record::Record;
use crate::run::{Note, Stage};
use crate::session::{Access, LOOK, Session, failed, read_op, request};
use crate::spec::{Mode, Spec};
use crate::unfinished;

/// Requests at once while objects are prepared.
const FILL_IN_FLIGHT: usize = 16;
/// The most that one request writes then.
const FILL_BYTES_MAX: u64 = 4 << 20;
/// A record is shorter.
const RECORD_BYTES_MAX: u64 = 4096;

/// Blocks and objects where nothing else was asked for.
const BLOCK_WRITE: u64 = 4 << 20;
const BLOCK_MIXED: u64 = 4 << 10;
const OBJECT_MIXED: u64 = 4 << 20;
const OBJECTS_MIXED: u64 = 64;

/// What is left in the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// This run has written nothing.
    Nothing,
    /// So many objects were removed.
    Removed(u64),
    /// They are kept, as was asked for.
    Kept(u64),
    /// They could not be removed.
    Stuck(String),
}

/// What an instance has done.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub pool: String,
    pub prefix: String,
    pub block_size: u64,
    pub object_size: u64,
    /// Whether what was read was compared; `None` if nothing could be read.
    pub verified: Option<bool>,
    pub measured: Measured,
    pub left: Left,
}

/// What an instance is given.
#[derive(Clone)]
pub(crate) struct Given {
    pub spec: Arc<Spec>,
    pub access: Access,
    pub number: usize,
    pub clock: Clock,
    pub stage: Arc<Stage>,
    pub notes: Sender<Note>,
}

/// What the measurement works on.
struct Prepared {
    plan: Plan,
    objects: Objects,
    block_size: u64,
    /// The record of objects that were there before, or were prepared.
    record: Option<Record>,
    /// Whether this run has made or makes the objects.
    owns: bool,
}

impl Given {
    fn pool_name(&self) -> &str {
        &self.spec.pools[self.number % self.spec.pools.len()]
    }

    fn record_name(&self) -> String {
        names::record(self.spec.run_name.as_deref(), self.number / self.spec.pools.len())
    }

    fn writer(&self) -> i32 {
        names::writer(std::process::id() as i32, self.number)
    }

    /// Of the objects that this instance makes.
    fn prefix(&self) -> String {
        names::prefix(&names::host(), self.writer())
    }

    /// Runs the instance.
    pub(crate) fn run(&self) -> Result<Ended, BenchError> {
        // In an open loop no more than these wait for room.
        let requests_max = self.spec.in_flight.max(FILL_IN_FLIGHT);
        let mut session =
            Session::open(&self.access, requests_max, self.clock, self.stage.clone(), self.number)?;
        let pool = session.pool(self.pool_name())?;
        let mut prepared = self.prepare(&mut session, pool)?;
        self.say(Note::Ready);
        let start = loop {
            match self.stage.start() {
                Some(start) => break start,
                None => self.idle(&mut session).map_err(|error| self.with_prefix(error, &prepared))?,
            }
        };
        let end = start.after(self.spec.duration);
        let share = (self.number, self.spec.instances);
        let pace = Pace::new(self.spec.arrivals, self.spec.in_flight, (start, end), share, self.spec.seed);
        let Prepared { plan, objects, .. } = &mut prepared;
        let (instance, notes) = (self.number, &self.notes);
        let load = Load { session: &mut session, objects, plan, pace, start, end, instance, notes };
        let mut measured = load.run()?;
        self.say(Note::Measured);
        while !self.stage.may_clean_up() {
            self.idle(&mut session)?;
        }
        let left = self.finish(&mut session, pool, &prepared, &mut measured);
        Ok(Ended {
            pool: self.pool_name().into(),
            prefix: prepared.objects.prefix.clone(),
            block_size: prepared.block_size,
            object_size: prepared.objects.object_size,
            verified: (self.spec.mode != Mode::Write).then_some(prepared.objects.verifies),
            measured,
            left,
        })
    }

    /// The error of an interruption, which says what is left.
    fn with_prefix(&self, error: BenchError, prepared: &Prepared) -> BenchError {
        match (error, prepared.owns) {
            (BenchError::Interrupted, true) => BenchError::InterruptedFill {
                pool: self.pool_name().into(),
                prefix: prepared.objects.prefix.clone(),
            },
            (error, _) => error,
        }
    }

    fn say(&self, note: Note) {
        // The main thread has ended: the process does.
        let _ = self.notes.send(note);
    }

    /// Lets the client go on while other instances have something to do.
    fn idle(&self, session: &mut Session) -> Result<(), BenchError> {
        let mut events = Vec::new();
        let until = session.client.now().after(LOOK / 20);
        session.turn(Some(until), &mut events)?;
        events.iter().for_each(|event| session.note(event));
        Ok(())
    }

    // --- before the measurement ---

    fn prepare(&self, session: &mut Session, pool: PoolId) -> Result<Prepared, BenchError> {
        match self.spec.mode {
            Mode::Write => {
                let block_size = self.spec.block_size.unwrap_or(BLOCK_WRITE);
                let object_size = self.spec.object_size.unwrap_or(block_size);
                let content = Content::new(block_size, object_size, self.spec.compressible_percent);
                let prefix = self.prefix();
                unfinished::mark(session, pool, &prefix, self.spec.run_name.as_deref())?;
                let hints = self.spec.hints;
                let objects = Objects { pool, prefix, object_size, content, verifies: false, hints };
                let plan = Plan::write(block_size, object_size, self.spec.objects);
                Ok(Prepared { plan, objects, block_size, record: None, owns: true })
            }
            Mode::Seq | Mode::Rand => {
                let record = self.found_record(session, pool)?;
                self.on_record(pool, record, self.spec.block_size, false)
            }
            Mode::Mixed { .. } => {
                let block_size = self.spec.block_size.unwrap_or(BLOCK_MIXED);
                let before = match self.spec.run_name {
                    Some(_) => self.read_record(session, pool, &self.record_name())?,
                    None => None,
                };
                let wanted = self.mixed_record(block_size);
                let fits = |record: &Record| {
                    record.object_size == wanted.object_size && record.objects() >= wanted.objects()
                };
                match before.filter(fits) {
                    Some(record) => self.on_record(pool, record, Some(block_size), false),
                    None => {
                        self.fill(session, pool, &wanted)?;
                        self.on_record(pool, wanted, Some(block_size), true)
                    }
                }
            }
        }
    }

    /// The objects that the mode works on, if none are there.
    fn mixed_record(&self, block_size: u64) -> Record {
        let object_size = self.spec.object_size.unwrap_or(OBJECT_MIXED.max(block_size));
        let objects = self.spec.objects.unwrap_or(OBJECTS_MIXED);
        // A divisor of the object's size that a request can carry.
        let parts = (object_size.div_ceil(FILL_BYTES_MAX)..=object_size).find(|n| object_size % n == 0);
        let op_size = object_size / parts.unwrap_or(1);
        Record {
            object_size,
            operations: i32::try_from(objects * (object_size / op_size)).unwrap_or(i32::MAX),
            writer: self.writer(),
            op_size,
            compressible_percent: Some(self.spec.compressible_percent),
        }
    }

    /// Works on the objects of a record.
    fn on_record(
        &self,
        pool: PoolId,
        record: Record,
        block_size: Option<u64>,
        owns: bool,
    ) -> Result<Prepared, BenchError> {
        let block_size = block_size.unwrap_or(record.op_size);
        if record.object_size % block_size != 0 {
            return Err(BenchError::BadRecord {
                pool: self.pool_name().into(),
                record: self.record_name(),
                why: format!(
                    "its objects have {} bytes, which is no multiple of the block size {block_size} (-b)",
                    record.object_size
                ),
            });
        }
        let percent = record.compressible_percent;
        let objects = Objects {
            pool,
            prefix: names::prefix(&names::host(), record.writer),
            object_size: record.object_size,
            content: Content::new(record.op_size, record.object_size, percent.unwrap_or(0)),
            verifies: self.spec.verifies && percent.is_some(),
            hints: false,
        };
        let seed = self.spec.seed.wrapping_add(self.number as u64);
        let plan = Plan::on(&record, self.spec.mode, block_size, seed);
        Ok(Prepared { plan, objects, block_size, record: Some(record), owns })
    }

    /// The record of what is to be read: this instance's, or where fewer instances wrote, the first one's.
    fn found_record(&self, session: &mut Session, pool: PoolId) -> Result<Record, BenchError> {
        let first = names::record(self.spec.run_name.as_deref(), 0);
        for name in [self.record_name(), first.clone()] {
            if let Some(record) = self.read_record(session, pool, &name)? {
                return Ok(record);
            }
        }
        let run_name = self.spec.run_name.as_deref();
        Err(BenchError::NoRecord {
            pool: self.pool_name().into(),
            record: first,
            run_name: run_name.map_or(String::new(), |name| format!(" --run-name {name}")),
        })
    }

    fn read_record(
        &self,
        session: &mut Session,
        pool: PoolId,
        name: &str,
    ) -> Result<Option<Record>, BenchError> {
        read_record(session, pool, self.pool_name(), name)
    }

    /// Writes the objects that a mixed load works on, and their record.
    fn fill(&self, session: &mut Session, pool: PoolId, record: &Record) -> Result<(), BenchError> {
        let prefix = names::prefix(&names::host(), record.writer);
        unfinished::mark(session, pool, &prefix, self.spec.run_name.as_deref())?;
        let content =
            Content::new(record.op_size, record.object_size, record.compressible_percent.unwrap_or(0));
        let object_size = record.object_size;
        let objects = Objects { pool, prefix, object_size, content, verifies: false, hints: false };
        self.say(Note::Filling(record.objects(), record.objects() * object_size));
        let per_object = record.ops_per_object();
        let mut blocks = 0..record.operations as u64;
        let next = || {
            let block = blocks.next()?;
            let (object, offset) = (block / per_object, block % per_object * record.op_size);
            let operation = Operation { kind: Kind::Write, object, offset, length: record.op_size };
            Some((operation, objects.request(&operation)))
        };
        let mut is_silent = false;
        let result = session.stream(FILL_IN_FLIGHT, next, |operation, outcome| {
            is_silent |= outcome.result() == Errno::ETIMEDOUT.code();
            objects.check(&operation, outcome).map_err(|wrong| BenchError::Request {
                what: "preparing the objects".into(),
                pool: self.pool_name().into(),
                why: wrong.text(&operation, &objects),
            })
        });
        // Objects that are removed at the end need none, and an earlier run keeps its own.
        let result = match self.spec.cleans_up {
            true => result,
            false => result.and_then(|()| self.write_record(session, pool, record)),
        };
        match result {
            Err(BenchError::Interrupted) => {
                Err(BenchError::InterruptedFill { pool: self.pool_name().into(), prefix: objects.prefix })
            }
            // What was written is useless. A cluster that does not answer is not asked to remove it.
            Err(error) if is_silent || self.discard(session, &objects, record.objects()).is_err() => {
                let error = Box::new(error);
                Err(BenchError::FillLeft { error, pool: self.pool_name().into(), prefix: objects.prefix })
            }
            Err(error) => Err(error),
            Ok(()) => Ok(()),
        }
    }

    fn write_record(&self, session: &mut Session, pool: PoolId, record: &Record) -> Result<(), BenchError> {
        let bytes = record.encode();
        let args = OpArgs::extent(0, bytes.len() as u64);
        let op = Op::new(OpCode::WRITEFULL, args).with_indata(bytes);
        let outcome = session.call(request(pool, self.record_name(), vec![op]))?;
        match outcome.result() {
            0.. => Ok(()),
            _ => Err(failed("writing the run's record", self.pool_name(), &outcome)),
        }
    }

    // --- after the measurement ---

    /// Removes the run's objects and its mark.
    fn discard(&self, session: &mut Session, objects: &Objects, count: u64) -> Result<(), BenchError> {
        remove_objects(session, self.pool_name(), objects, count)?;
        self.unmark(session, objects)
    }

    /// The run's objects are removed, or its record is written.
    fn unmark(&self, session: &mut Session, objects: &Objects) -> Result<(), BenchError> {
        unfinished::unmark(session, (objects.pool, self.pool_name()), &objects.prefix)
    }

    /// Removes the objects, or writes down what they are.
    fn finish(
        &self,
        session: &mut Session,
        pool: PoolId,
        prepared: &Prepared,
        measured: &mut Measured,
    ) -> Left {
        if !prepared.owns {
            return Left::Nothing;
        }
        let written = match &prepared.record {
            Some(record) => record.clone(),
            None => Record {
                object_size: prepared.objects.object_size,
                operations: i32::try_from(prepared.plan.written()).unwrap_or(i32::MAX),
                writer: self.writer(),
                op_size: prepared.block_size,
                compressible_percent: Some(self.spec.compressible_percent),
            },
        };
        let objects = written.objects();
        if objects == 0 {
            return match self.unmark(session, &prepared.objects) {
                Ok(()) => Left::Nothing,
                Err(error) => Left::Stuck(error.to_string()),
            };
        }
        if !self.spec.cleans_up {
            if prepared.record.is_none() && measured.failed.is_none() {
                if let Err(error) = self.write_record(session, pool, &written) {
                    measured.failed = Some(error.to_string());
                }
            }
            // Without a record the mark stays, by which a cleanup finds them.
            if measured.failed.is_none() {
                measured.failed =
                    self.unmark(session, &prepared.objects).err().map(|error| error.to_string());
            }
            return Left::Kept(objects);
        }
        if measured.tally.errors.contains_key(&Errno::ETIMEDOUT.code()) {
            return Left::Stuck("the cluster did not answer in time".into());
        }
        match self.discard(session, &prepared.objects, objects) {
            Ok(()) => Left::Removed(objects),
            Err(error) => Left::Stuck(error.to_string()),
        }
    }
}

/// The record of a run; `None` if there is none.
pub(crate) fn read_record(
    session: &mut Session,
    pool: PoolId,
    pool_name: &str,
    name: &str,
) -> Result<Option<Record>, BenchError> {
    let outcome = session.call(request(pool, name.into(), vec![read_op(0, RECORD_BYTES_MAX)]))?;
    match outcome.result() {
        0.. => {
            let record = Record::decode(&outcome.data().to_vec());
            let bad =
                |why: String| BenchError::BadRecord { pool: pool_name.into(), record: name.into(), why };
            record.map(Some).map_err(|error| bad(error.to_string()))
        }
        code if code == Errno::ENOENT.code() => Ok(None),
        _ => Err(failed(&format!("reading '{name}'"), pool_name, &outcome)),
    }
}
