//! An image file's bytes, allocated ahead of the store in steps: a sparse file takes no more of the disk than the store
//! needs, and a write never finds the file system full.

use std::fs::File;
use std::ops::Range;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use blockdev::{DeviceQueue, Waker};
use blockstore::BlockStore;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use types::UTime;

/// Bytes of a step.
pub const STEP: u64 = 64 << 20;

/// The next step is begun while so many bytes are free.
const AHEAD: u64 = STEP / 2;

/// Bytes of the smallest step, where the file system has no more.
const SMALLEST: u64 = 1 << 20;

/// When a full file system is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub struct Growing {
    file: File,
    /// Where the part ends.
    end: u64,
    given: u64,
    under_way: Option<Receiver<Result<u64, Errno>>>,
    retry: Option<UTime>,
    waker: Option<Waker>,
}

impl Growing {
    /// For the part `part` of a file, a shard's. Gives it the bytes that are in use, those before `used`, and up to the
    /// end of their step.
    ///
    /// # Errors
    /// The file system lacks them.
    pub fn new(file: File, part: Range<u64>, used: u64) -> Result<Self, Errno> {
        let wanted = used.next_multiple_of(STEP).min(part.end);
        // A full file system is no reason not to open a store: it can be read, and deleted from.
        let given = match allocate(&file, part.start, wanted.saturating_sub(part.start)) {
            Err(Errno::NOSPC | Errno::DQUOT) => used,
            other => other.map(|()| wanted)?,
        };
        Ok(Self { file, end: part.end, given, under_way: None, retry: None, waker: None })
    }

    /// Where the bytes end that the part has been given.
    pub fn given(&self) -> u64 {
        self.given
    }

    pub fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Takes what a step came to, and begins the next one if the store wants it.
    pub fn turn<Q: DeviceQueue>(&mut self, now: UTime, store: &mut BlockStore<Q>) {
        self.take(now, store);
        let due = self.retry.is_none_or(|at| at <= now);
        if self.under_way.is_some() || !due || !store.wants_to_grow(AHEAD) {
            return;
        }
        let from = self.given.max(store.open_bytes());
        let to = (from + 1).next_multiple_of(STEP).min(self.end);
        if let Err(error) = self.begin(from, to) {
            tracing::warn!("the store's file can't be made to grow: {error}");
            self.retry = Some(now.after(RETRY));
        }
    }

    /// On a thread of its own: a file system may take its time.
    fn begin(&mut self, from: u64, to: u64) -> std::io::Result<()> {
        let (sender, receiver) = channel();
        let (file, waker) = (self.file.try_clone()?, self.waker.clone());
        std::thread::Builder::new().name("store-grow".into()).spawn(move || {
            // The store may have been closed meanwhile.
            let _ = sender.send(allocate_most(&file, from, to));
            if let Some(wake) = waker {
                wake();
            }
        })?;
        self.under_way = Some(receiver);
        Ok(())
    }

    fn take<Q: DeviceQueue>(&mut self, now: UTime, store: &mut BlockStore<Q>) {
        let outcome = match self.under_way.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return,
            Some(Err(TryRecvError::Disconnected)) => Err(Errno::IO),
            Some(Ok(outcome)) => outcome,
        };
        self.under_way = None;
        match outcome {
            Ok(given) => {
                (self.given, self.retry) = (given, None);
                store.open_to(given);
            }
            Err(error) => {
                tracing::info!("the store's file can't grow beyond {} bytes now: {error}", self.given);
                self.retry = Some(now.after(RETRY));
                store.stay_closed();
            }
        }
    }
}

/// Gives the file as many of these bytes as a file system that is nearly full has, by halves; returns where they end.
fn allocate_most(file: &File, from: u64, to: u64) -> Result<u64, Errno> {
    let mut len = to - from;
    loop {
        match allocate(file, from, len) {
            Err(Errno::NOSPC | Errno::DQUOT) if len >= 2 * SMALLEST => {
                len = (len / 2).next_multiple_of(blockstore::BLOCK);
            }
            other => return other.map(|()| from + len),
        }
    }
}

/// Gives the file these bytes. A file system that can't allocate ahead gives them when they are written.
fn allocate(file: &File, from: u64, len: u64) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, from, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}
