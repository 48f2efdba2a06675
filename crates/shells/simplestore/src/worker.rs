//! The thread: takes what the handle's turns send, performs it in groups that share a commit, answers.
//!
//! A commit's steps, in this order:
//! 1. Each transaction writes its data to free blocks of the image, and its records into an open redb transaction.
//! 2. The image is flushed, if data was written.
//! 3. redb commits: it writes and flushes its pages, then its header. From here on the group's transactions are there.
//! 4. Blocks that the group gave up may be written again.
//! 5. The group's completions go to the handle, and its waker is called.
//!
//! A crash before 3 is complete leaves the state before the group; what lies in blocks that were free is never read.

use crossbeam_channel::{Receiver, Sender};
use device::{Device, NamedDevice, catch_redb};
use encoding::Encode;
use redb::{Database, ReadableDatabase, WriteTransaction};
use store::{
    CollectionId, Completion, FailedAt, ReadRequest, Rehoming, StoreError, StoreShard, Token, Transaction,
};
use types::Errno;

use crate::apply::{Applied, Closed};
use crate::object::Context;
use crate::open::COUNTERS;
use crate::records::Counters;
use crate::space::Space;
use crate::tables::{Failure, Table, Tables, database_error, seal};

/// What the handle asks.
pub enum Request {
    Apply(Transaction, Token),
    Read(Box<ReadRequest>, Token),
    Rehome { collection: CollectionId, to: StoreShard, token: Token },
    Acknowledge(Token),
}

impl Request {
    /// The completion if it can't be performed; an acknowledgement has none.
    pub fn fail(&self, error: StoreError) -> Option<Completion> {
        match self {
            Self::Apply(_, token) => Some(Completion::Refused { token: *token, error }),
            Self::Read(_, token) => Some(Completion::Read { token: *token, result: Err(error) }),
            Self::Rehome { token, .. } => Some(Completion::Rehomed { token: *token, result: Err(error) }),
            Self::Acknowledge(_) => None,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Apply(txn, _) => txn.payload_bytes(),
            Self::Read(read, _) => {
                if let ReadRequest::Data { len, .. } = **read {
                    len
                } else {
                    0
                }
            }
            Self::Rehome { .. } | Self::Acknowledge(_) => 0,
        }
    }

    fn is_apply(&self) -> bool {
        match self {
            Self::Apply(..) => true,
            Self::Read(..) | Self::Rehome { .. } | Self::Acknowledge(_) => false,
        }
    }
}

/// Requests at which a group takes no further turn that waits.
const GROUP_REQUESTS_MAX: usize = 128;
/// Bytes of data at which a group takes no further turn that waits.
const GROUP_BYTES_MAX: u64 = 32 << 20;

pub struct Worker {
    db: Database,
    /// The file that the database lies in.
    metadata: NamedDevice,
    image: Device,
    space: Space,
    counters: Counters,
    closed: Closed,
    /// Otherwise it is only read: no transaction is taken.
    writes: bool,
    stopped: bool,
}

impl Worker {
    pub fn new(
        (db, metadata): (Database, NamedDevice),
        image: Device,
        space: Space,
        counters: Counters,
        writes: bool,
    ) -> Self {
        Self { db, metadata, image, space, counters, closed: Closed::new(), writes, stopped: false }
    }

    /// Works until the handle is gone and its requests are done.
    pub fn run(&mut self, inbox: &Receiver<Vec<Request>>, outbox: &Sender<Vec<Completion>>, wake: &dyn Fn()) {
        while let Ok(mut group) = inbox.recv() {
            let total = |requests: &[Request]| requests.iter().fold(0u64, |n, r| n.saturating_add(r.bytes()));
            let mut bytes = total(&group);
            while group.len() < GROUP_REQUESTS_MAX && bytes < GROUP_BYTES_MAX {
                let Ok(next) = inbox.try_recv() else { break };
                bytes = bytes.saturating_add(total(&next));
                group.extend(next);
            }
            let completions = self.perform(&group);
            if !completions.is_empty() {
                // A handle that was dropped takes no completion; its queued work is done nevertheless.
                let _ = outbox.send(completions);
                wake();
            }
        }
    }

    /// Performs requests in order; returns only when what the completions show is durable.
    fn perform(&mut self, mut requests: &[Request]) -> Vec<Completion> {
        let mut done = Vec::with_capacity(requests.len());
        while !requests.is_empty() && !self.stopped {
            // redb panics on some damage of its file. The caller still gets its completions.
            let group = catch_redb(|| self.perform_group(requests));
            let group = group.unwrap_or_else(|why| Err(StoreError::Damaged(format!("the metadata: {why}"))));
            match group {
                Ok(group) => {
                    requests = &requests[group.requests..];
                    done.extend(group.completions);
                }
                Err(mut error) => {
                    name_metadata(&mut error, &self.metadata);
                    let store = std::thread::current().name().unwrap_or_default().to_owned();
                    tracing::error!(%error, "{store} stopped, and answers nothing until it is opened again");
                    self.stopped = true;
                    done.extend(requests.iter().filter_map(|r| r.fail(error.clone())));
                    return done;
                }
            }
        }
        done.extend(requests.iter().filter_map(|r| r.fail(StoreError::Stopped)));
        done
    }

    /// Performs the first of `requests` with one commit: all, unless one needs space that the commit frees.
    fn perform_group(&mut self, requests: &[Request]) -> Result<Group, StoreError> {
        if !requests.iter().any(Request::is_apply) {
            let begun = self.db.begin_read().map_err(|e| database_error("begin of a read", e))?;
            let tables = Tables::open_read(&begun, self.counters.metadata_bytes);
            return self.perform_with(tables.map_err(|e| database_error("metadata", e))?, requests);
        }
        if !self.writes {
            return Err(StoreError::Damaged("the store is opened to be read only".to_owned()));
        }
        let begun = self.db.begin_write().map_err(|e| database_error("begin of a transaction", e))?;
        let tables = Tables::open(&begun, self.counters.metadata_bytes);
        let group = self.perform_with(tables.map_err(|e| database_error("metadata", e))?, requests)?;
        if !group.changed {
            begun.abort().map_err(|e| database_error("metadata", e))?;
            return Ok(group);
        }
        if group.data_written {
            self.image.flush().map_err(|e| io_error("flush of the image", &self.image, None, &e))?;
        }
        write_counters(&begun, group.counters).map_err(|e| database_error("metadata", e))?;
        begun.commit().map_err(|e| database_error("commit of metadata", e))?;
        self.counters = group.counters;
        self.space.durable();
        Ok(group)
    }

    fn perform_with(&mut self, tables: Tables<'_>, requests: &[Request]) -> Result<Group, StoreError> {
        let mut context = Context::new(tables, &mut self.space, &self.image, self.counters.next_nid);
        let (mut performed, mut changed) = (0, false);
        let mut completions = Vec::with_capacity(requests.len());
        for request in requests {
            match request {
                Request::Apply(txn, token) => match context.apply_or_close(txn, *token, &mut self.closed)? {
                    Applied::Whole => {
                        changed |= !txn.is_empty();
                        completions.push(Completion::Committed { token: *token });
                    }
                    Applied::Refused(error) => completions.push(Completion::Refused { token: *token, error }),
                    Applied::AfterCommit => break,
                },
                Request::Read(read, token) => {
                    let result = answer(context.read(read))?;
                    completions.push(Completion::Read { token: *token, result });
                }
                Request::Rehome { collection, to, token } => {
                    let result = rehome(&context, *collection, *to, &self.closed)?;
                    completions.push(Completion::Rehomed { token: *token, result });
                }
                Request::Acknowledge(token) => self.closed.retain(|_, by| by != token),
            }
            performed += 1;
        }
        let (counters, data_written) = (context.counters(), context.data_written);
        Ok(Group { requests: performed, completions, changed, data_written, counters })
    }
}

/// What was done for requests that share a commit.
struct Group {
    requests: usize,
    completions: Vec<Completion>,
    changed: bool,
    data_written: bool,
    counters: Counters,
}

/// A request's answer, unless the store can't go on.
fn answer<T>(attempt: Result<T, Failure>) -> Result<Result<T, StoreError>, StoreError> {
    match attempt {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(error)) => Ok(Err(error)),
        Err(Failure::Fatal(error)) => Err(error),
    }
}

/// The only shard has all collections, so every step that may be done is done.
fn rehome(
    context: &Context<'_, '_>,
    collection: CollectionId,
    to: StoreShard,
    closed: &Closed,
) -> Result<Result<Rehoming, StoreError>, StoreError> {
    if to != StoreShard(0) {
        return Ok(Err(StoreError::NoSuchShard { shard: to, shards: 1 }));
    }
    if closed.contains_key(&collection) {
        return Ok(Err(StoreError::AfterRefused(collection)));
    }
    answer(context.collection_key(collection).map(|_| Rehoming::Done))
}

fn write_counters(txn: &WriteTransaction, counters: Counters) -> Result<(), redb::Error> {
    let key = COUNTERS.as_bytes();
    let mut table = txn.open_table(Table::Meta.definition())?;
    table.insert(key, &seal(key, &counters.to_bytes(0))[..])?;
    Ok(())
}

/// An error of the image in the contract's words.
pub fn io_error(what: &'static str, image: &Device, byte: Option<u64>, error: &std::io::Error) -> StoreError {
    let errno = error.raw_os_error().map_or(Errno::EIO, Errno);
    StoreError::Io { what, errno, at: Some(failed_at(image.name(), byte, errno)) }
}

/// The same of a read: a sector that can't be read says nothing of the others.
pub fn read_error(image: &Device, byte: u64, error: &std::io::Error) -> StoreError {
    let what = "read of the image";
    match error.raw_os_error().map(Errno) {
        // Linux gives ENODATA for a bad sector and EILSEQ for a bad checksum, and EIO for these where a driver does not say more.
        Some(errno @ (Errno::EIO | Errno::ENODATA | Errno::EILSEQ)) => {
            let at = Some(failed_at(image.name(), Some(byte), errno));
            StoreError::Unreadable { what, errno, at }
        }
        _ => io_error(what, image, Some(byte), error),
    }
}

fn failed_at(of: &NamedDevice, byte: Option<u64>, errno: Errno) -> Box<FailedAt> {
    Box::new(FailedAt { is_log: false, byte, said: Some(of.failed(errno, byte)) })
}

/// Names the file in an error of the metadata: those of the image have its name.
fn name_metadata(error: &mut StoreError, metadata: &NamedDevice) {
    if let StoreError::Io { errno, at: at @ None, .. } = error {
        *at = Some(failed_at(metadata, None, *errno));
    }
}

#[cfg(test)]
mod tests {
    use device::{DeviceOptions, DeviceRole};

    use super::*;

    #[test]
    fn a_sector_that_can_not_be_read_is_no_failure_of_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("block");
        let image = Device::open(&path, true, DeviceRole::Image, DeviceOptions::default()).unwrap();
        let error = |errno| read_error(&image, 8192, &std::io::Error::from_raw_os_error(errno));
        let (bad, gone) = (error(Errno::EIO.0), error(Errno::ENOMEM.0));
        assert!(bad.is_damage() && matches!(gone, StoreError::Io { .. }) && !gone.is_local(), "{bad} {gone}");
        for error in [bad, gone] {
            let words = format!("read of the image: {} failed at byte 8192: ", path.display());
            assert!(error.to_string().starts_with(&words), "{error}");
        }
    }
}
