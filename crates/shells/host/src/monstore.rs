//! The monitor's durable state: one redb table on a thread of its own.
//!
//! Batches are taken in order; those that wait are committed together. A batch is reported only when redb's commit,
//! flush included, has returned.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use device::catch_redb;
use mon::state::{Batch, Key, State, StateKey};
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::HostError;

/// Service; version (0 for a name); name (empty for a version) → value.
const STATE: TableDefinition<(&str, u64, &str), &[u8]> = TableDefinition::new("state");

/// Bytes of redb's cache; the state is held in memory by the monitor anyway.
const CACHE_BYTES: usize = 4 << 20;

/// Why an empty state is refused.
const LOST: &str = "it is empty, though the cluster was started before";

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

/// No key has version 0: an empty name with it would be ambiguous.
fn state_key((service, version, name): (&str, u64, &str)) -> StateKey {
    match version {
        0 => StateKey::name(service, name),
        version => StateKey::version(service, version),
    }
}

impl MonStore {
    /// Opens the state on `backend`, or fills a new one with `first`, reads it whole, and starts the thread. `done` is
    /// called on that thread. A state that is empty without `first` has been lost: nothing is written there.
    pub fn open(
        path: &Path,
        backend: impl StorageBackend,
        first: Option<Batch>,
        done: impl Fn(CommitResult) + Send + 'static,
    ) -> Result<(Self, State), HostError> {
        let (db, state) = loaded(path, backend, first)?;
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

/// How often a full file system is asked again, and after which pause: for five seconds.
const FULL_TRIES: u32 = 100;
const FULL_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });

/// A backend that waits a while for a full file system to have space again. Stores give space back as they are deleted from, and
/// one that allocates ahead may hold the last of it for a moment. An error would end the monitor, with every OSD of its process.
#[derive(Debug)]
struct Patient<B>(B);

impl<B> Patient<B> {
    fn wait_for_space(&self, attempt: impl Fn(&B) -> io::Result<()>) -> io::Result<()> {
        for _ in 1..FULL_TRIES {
            match attempt(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => thread::sleep(FULL_PAUSE),
                other => return other,
            }
        }
        attempt(&self.0)
    }
}

impl<B: StorageBackend> StorageBackend for Patient<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.wait_for_space(|backend| backend.set_len(len))
    }

    // A flush that failed says nothing of what a second one finds: it is not tried again.
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.wait_for_space(|backend| backend.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Makes a new state of one batch and closes it.
pub(crate) fn make(path: &Path, backend: impl StorageBackend, first: Batch) -> Result<(), HostError> {
    loaded(path, backend, Some(first)).map(drop)
}

/// Why a state can't be opened or written.
#[derive(Debug)]
enum Failure {
    /// Its file system has no space.
    Full,
    Other(String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match error.into() {
            redb::Error::Io(error) if full(error.kind()) => Self::Full,
            other => Self::Other(other.to_string()),
        }
    }
}

impl Failure {
    /// For who reads why the process has ended.
    fn words(self) -> String {
        match self {
            Self::Full => "its file system is full. Make room there (delete other files, or make it larger), then start the cluster \
                           again: nothing acknowledged is lost"
                .to_owned(),
            Self::Other(reason) => reason,
        }
    }
}

fn loaded(
    path: &Path,
    backend: impl StorageBackend,
    first: Option<Batch>,
) -> Result<(Database, State), HostError> {
    let loaded = catch_redb(|| load(backend, first)).unwrap_or_else(|gave_up| Err(Failure::Other(gave_up)));
    loaded.map_err(|failure| match failure {
        Failure::Full => HostError::DiskFull(path.into()),
        Failure::Other(reason) => HostError::MonState { path: path.into(), reason },
    })
}

impl Drop for MonStore {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn load(backend: impl StorageBackend, first: Option<Batch>) -> Result<(Database, State), Failure> {
    let lost = || Failure::Other(LOST.into());
    if first.is_none() && backend.len().map_err(redb::Error::Io)? == 0 {
        return Err(lost());
    }
    let db = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(Patient(backend))?;
    if let Some(first) = first {
        write(&db, &[(0, first)])?;
    }
    match read_all(&db) {
        Ok(state) if !state.is_empty() => Ok((db, state)),
        Ok(_) | Err(redb::Error::TableDoesNotExist(_)) => Err(lost()),
        Err(error) => Err(error.into()),
    }
}

fn read_all(db: &Database) -> Result<State, redb::Error> {
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
        let written = catch_redb(|| write(db, &waiting).map_err(|error| Failure::from(error).words()));
        match written.unwrap_or_else(Err) {
            Ok(()) => done(CommitResult::UpTo(last)),
            Err(error) => return done(CommitResult::Failed(error)),
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

    type Opened = (MonStore, State, Receiver<CommitResult>);

    fn open(path: &Path, first: Option<Batch>) -> Result<Opened, String> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path).unwrap();
        let (sender, receiver) = channel();
        let done = move |c| drop(sender.send(c));
        let opened = MonStore::open(path, FileBackend::new(file).unwrap(), first, done);
        let (store, state) = opened.map_err(|e| e.to_string())?;
        Ok((store, state, receiver))
    }

    fn one(key: StateKey, value: &[u8]) -> Batch {
        let mut batch = Batch::default();
        batch.put(key, value);
        batch
    }

    #[test]
    fn what_was_committed_is_read_at_the_next_open() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("state.redb");
        let first = one(StateKey::name("config", "c"), b"first");
        let (store, state, done) = open(&path, Some(first)).unwrap();
        assert_eq!(state.len(), 1);
        let mut batch = Batch::default();
        batch.put(StateKey::version("osdmap", 3), *b"three");
        batch.put(StateKey::name("config", "a/b"), *b"value");
        store.commit(1, batch);
        let mut batch = Batch::default();
        batch.delete(StateKey::name("config", "a/b"));
        batch.delete(StateKey::name("config", "c"));
        store.commit(2, batch);
        while !matches!(done.recv(), Ok(CommitResult::UpTo(2))) {}
        drop(store);
        let (_store, state, _) = open(&path, None).unwrap();
        assert_eq!(state, [(StateKey::version("osdmap", 3), b"three".to_vec())].into());
    }

    /// A file whose file system is full for so many attempts.
    #[derive(Debug)]
    struct FullFor(std::sync::atomic::AtomicU32, FileBackend);

    impl StorageBackend for FullFor {
        fn len(&self) -> io::Result<u64> {
            self.1.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.1.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.1.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.1.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            use std::sync::atomic::Ordering::Relaxed;
            match self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
                Ok(_) => Err(io::ErrorKind::StorageFull.into()),
                Err(_) => self.1.write(offset, data),
            }
        }
    }

    #[test]
    fn a_file_system_that_is_full_for_a_moment_ends_no_monitor() {
        let opened = |attempts: u32| {
            let file = FileBackend::new(tempfile::tempfile().unwrap()).unwrap();
            let first = one(StateKey::name("config", "c"), b"first");
            load(FullFor(attempts.into(), file), Some(first)).map(|(_, state)| state.len())
        };
        assert!(matches!(opened(3), Ok(1)));
        assert!(matches!(opened(u32::MAX), Err(Failure::Full)));
    }

    #[test]
    fn a_state_that_was_lost_or_damaged_is_refused_with_its_path_and_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("state.redb");
        let refused = |contents: &[u8]| {
            std::fs::write(&path, contents).unwrap();
            let error = open(&path, None).err().unwrap();
            assert!(error.contains(&path.display().to_string()) && error.contains("from a copy"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert!(refused(b"").contains("it is empty, though the cluster was started before"));
        assert_eq!(std::fs::read(&path).unwrap(), b"", "nothing was written");
        drop(open(&path, Some(one(StateKey::version("osdmap", 3), &[3; 100_000]))).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(9 * 4096) {
            let mut damaged = whole.clone();
            damaged[at..at + 4096].fill(0xa5);
            std::fs::write(&path, &damaged).unwrap();
            // Some pages are not in use.
            if let Err(error) = open(&path, None) {
                assert!(error.contains(&path.display().to_string()) && error.lines().count() == 1, "{error}");
            }
        }
    }
}
