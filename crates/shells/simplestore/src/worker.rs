//! The thread: takes what is queued, applies it as one batch, makes it durable, answers.

use crossbeam_channel::{Receiver, Sender};
use device::Device;
use redb::{Database, ReadableDatabase};
use store::{Completion, ReadRequest, StoreError, Token, Transaction};
use types::Errno;

use crate::data::Space;
use crate::object::Context;
use crate::tables::{Failure, Tables, storage_error};

/// What the handle asks.
pub enum Request {
    Apply(Transaction, Token),
    Read(Box<ReadRequest>, Token),
}

impl Request {
    /// The answer when it can't be done.
    pub fn fail(&self, error: StoreError) -> Completion {
        match self {
            Self::Apply(_, token) => Completion::Refused { token: *token, error },
            Self::Read(_, token) => Completion::Read { token: *token, result: Err(error) },
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Apply(txn, _) => txn.data_bytes(),
            Self::Read(read, _) => match **read {
                ReadRequest::Data { len, .. } => len,
                _ => 0,
            },
        }
    }
}

/// Requests in a batch at the most.
const BATCH_REQUESTS_MAX: usize = 128;
/// Bytes of data at which a batch takes no more requests.
const BATCH_BYTES_MAX: u64 = 32 << 20;

pub struct Worker {
    db: Database,
    image: Device,
    space: Space,
    next_nid: u64,
    stopped: bool,
}

impl Worker {
    pub fn new(db: Database, image: Device, space: Space, next_nid: u64) -> Self {
        Self { db, image, space, next_nid, stopped: false }
    }

    /// Works until nobody can ask any more.
    pub fn run(&mut self, inbox: &Receiver<Request>, outbox: &Sender<Completion>, wake: &dyn Fn()) {
        while let Ok(first) = inbox.recv() {
            let mut bytes = first.bytes();
            let mut batch = vec![first];
            while batch.len() < BATCH_REQUESTS_MAX && bytes < BATCH_BYTES_MAX {
                let Ok(next) = inbox.try_recv() else { break };
                bytes = bytes.saturating_add(next.bytes());
                batch.push(next);
            }
            for completion in self.perform(batch) {
                // A handle that is gone wants no answer; what it queued is done all the same.
                let _ = outbox.send(completion);
            }
            wake();
        }
    }

    /// Performs a batch. Answers only when what they show is durable.
    fn perform(&mut self, batch: Vec<Request>) -> Vec<Completion> {
        if self.stopped {
            return batch.iter().map(|r| r.fail(StoreError::Stopped)).collect();
        }
        match self.try_perform(&batch) {
            Ok(completions) => completions,
            Err(error) => {
                tracing::error!(%error, "the store stops: a batch could not be made durable");
                self.stopped = true;
                batch.iter().map(|r| r.fail(error.clone())).collect()
            }
        }
    }

    fn try_perform(&mut self, batch: &[Request]) -> Result<Vec<Completion>, StoreError> {
        if batch.iter().all(|r| matches!(r, Request::Read(..))) {
            let begun = self.db.begin_read().map_err(|e| damaged(&e))?;
            let tables = Tables::open_read(&begun).map_err(|e| damaged(&e))?;
            let mut context = Context::new(tables, &mut self.space, &self.image, &mut self.next_nid);
            return batch.iter().map(|request| perform_one(&mut context, request)).collect();
        }
        let begun = self.db.begin_write().map_err(|e| damaged(&e))?;
        let (mut changed, mut data_written) = (false, false);
        let mut completions = Vec::with_capacity(batch.len());
        {
            let tables = Tables::open(&begun).map_err(|e| damaged(&e))?;
            let mut context = Context::new(tables, &mut self.space, &self.image, &mut self.next_nid);
            for request in batch {
                let completion = perform_one(&mut context, request)?;
                changed |= matches!((request, &completion),
                    (Request::Apply(txn, _), Completion::Committed { .. }) if !txn.is_empty());
                completions.push(completion);
            }
            data_written |= context.data_written;
        }
        if !changed {
            begun.abort().map_err(|e| storage_error("metadata", &e))?;
            return Ok(completions);
        }
        if data_written {
            self.image.flush().map_err(|e| io_error("flush of the image", &e))?;
        }
        begun.commit().map_err(|e| match e {
            redb::CommitError::Storage(e) => storage_error("commit of metadata", &e),
            other => damaged(&other),
        })?;
        self.space.committed();
        Ok(completions)
    }
}

/// Performs a request within a batch.
///
/// # Errors
/// The batch can't go on.
fn perform_one(context: &mut Context<'_, '_>, request: &Request) -> Result<Completion, StoreError> {
    Ok(match request {
        Request::Apply(txn, token) => match context.apply(txn)? {
            Ok(()) => Completion::Committed { token: *token },
            Err(error) => Completion::Refused { token: *token, error },
        },
        Request::Read(read, token) => {
            let result = match context.read(read) {
                Ok(outcome) => Ok(outcome),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Fatal(error)) => return Err(error),
            };
            Completion::Read { token: *token, result }
        }
    })
}

fn damaged(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(error.to_string())
}

/// The system's error in our words.
pub fn io_error(what: &'static str, error: &std::io::Error) -> StoreError {
    StoreError::Io { what, errno: error.raw_os_error().map_or(Errno::EIO, Errno) }
}
