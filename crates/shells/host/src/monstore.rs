//! The monitor's durable state: one redb table on a thread of its own.
//!
//! Batches are taken in order; those that wait are committed together. A batch is reported only when redb's commit,
//! flush included, has returned.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mon::state::{Batch, Key, State, StateKey};
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::HostError;

/// Service; version (0 for a name); name (empty for a version) → value.
const STATE: TableDefinition<(&str, u64, &str), &[u8]> = TableDefinition::new("state");

/// Bytes of redb's cache; the state is held in memory by the monitor anyway.
const CACHE_BYTES: usize = 4 << 20;

/// What the thread says of a batch.
#[derive(Debug)]
pub enum CommitResult {
    /// Durable, up to and with this token.
    UpTo(u64),
    /// The disk failed; nothing more will be written.
    Failed(String),
}

/// The handle on the thread.
pub struct MonStore {
    batches: Option<Sender<(u64, Batch)>>,
    thread: Option<JoinHandle<()>>,
}

fn key_of(key: &StateKey) -> (&str, u64, &str) {
    match &key.key {
        Key::Version(version) => (&key.service, *version, ""),
        Key::Name(name) => (&key.service, 0, name),
    }
}

/// Version 0 is nobody's: an empty name with it would be ambiguous.
fn state_key((service, version, name): (&str, u64, &str)) -> StateKey {
    match version {
        0 => StateKey::name(service, name),
        version => StateKey::version(service, version),
    }
}

impl MonStore {
    /// Opens the state on `backend`, or fills a new one with what `make` gives, reads it whole, and starts the thread.
    /// `done` is called on that thread.
    pub fn open(
        path: &Path,
        backend: impl StorageBackend,
        make: impl FnOnce() -> Result<Batch, HostError>,
        done: impl Fn(CommitResult) + Send + 'static,
    ) -> Result<(Self, State), HostError> {
        let failed = |reason: String| HostError::MonState { path: path.into(), reason };
        let db = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)
            .map_err(|e| failed(e.to_string()))?;
        let mut state = read_all(&db).map_err(|e| failed(e.to_string()))?;
        if state.is_empty() {
            let first = [(0, make()?)];
            write(&db, &first).map_err(|e| failed(e.to_string()))?;
            first[0].1.apply_to(&mut state);
        }
        let (batches, receiver) = channel();
        let path = PathBuf::from(path);
        let thread = std::thread::Builder::new()
            .name("monstore".into())
            .spawn(move || run(&db, &receiver, &done))
            .map_err(HostError::io(path))?;
        Ok((Self { batches: Some(batches), thread: Some(thread) }, state))
    }

    /// Hands a batch over; tokens grow. One proposal is in flight at a time, so this queue stays short.
    pub fn commit(&self, token: u64, batch: Batch) {
        if let Some(batches) = &self.batches {
            // A thread that ended has said Failed.
            let _ = batches.send((token, batch));
        }
    }
}

impl Drop for MonStore {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read_all(db: &Database) -> Result<State, redb::Error> {
    // Makes the table in a new file, so that reading it is no special case.
    let txn = db.begin_write()?;
    txn.open_table(STATE)?;
    txn.commit()?;
    let mut state = State::new();
    for entry in db.begin_read()?.open_table(STATE)?.iter()? {
        let (key, value) = entry?;
        state.insert(state_key(key.value()), value.value().to_vec());
    }
    Ok(state)
}

fn run(db: &Database, batches: &Receiver<(u64, Batch)>, done: &dyn Fn(CommitResult)) {
    while let Ok(first) = batches.recv() {
        let waiting: Vec<(u64, Batch)> = std::iter::once(first).chain(batches.try_iter()).collect();
        let last = waiting.last().map_or(0, |(token, _)| *token);
        match write(db, &waiting) {
            Ok(()) => done(CommitResult::UpTo(last)),
            Err(error) => return done(CommitResult::Failed(error.to_string())),
        }
    }
}

fn write(db: &Database, batches: &[(u64, Batch)]) -> Result<(), redb::Error> {
    let txn = db.begin_write()?;
    {
        let mut table = txn.open_table(STATE)?;
        for (_, batch) in batches {
            for (key, value) in &batch.0 {
                match value {
                    Some(value) => drop(table.insert(key_of(key), value.as_slice())?),
                    None => drop(table.remove(key_of(key))?),
                }
            }
        }
    }
    txn.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::FileBackend;

    fn open(path: &Path) -> (MonStore, State, Receiver<CommitResult>) {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path).unwrap();
        let (sender, receiver) = channel();
        let done = move |c| drop(sender.send(c));
        let (store, state) =
            MonStore::open(path, FileBackend::new(file).unwrap(), || Ok(Batch::default()), done).unwrap();
        (store, state, receiver)
    }

    #[test]
    fn what_was_committed_is_read_at_the_next_open() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("state.redb");
        let (store, state, done) = open(&path);
        assert!(state.is_empty());
        let mut batch = Batch::default();
        batch.put(StateKey::version("osdmap", 3), *b"three");
        batch.put(StateKey::name("config", "a/b"), *b"value");
        store.commit(1, batch);
        let mut batch = Batch::default();
        batch.delete(StateKey::name("config", "a/b"));
        store.commit(2, batch);
        while !matches!(done.recv(), Ok(CommitResult::UpTo(2))) {}
        drop(store);
        let (_store, state, _) = open(&path);
        assert_eq!(state, [(StateKey::version("osdmap", 3), b"three".to_vec())].into());
    }
}
