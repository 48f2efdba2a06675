//! An image file's bytes: allocated ahead of the store in steps, and given back to the file system when the store has no use
//! for them.
//!
//! The rule that no write of the store finds the file system full: it writes only to blocks that `fallocate` gave the file
//! and that no hole was made in since. So before a hole is made the store gives the blocks up
//! ([`BlockStore::give_back`]), and it gets them again only when they were allocated again ([`BlockStore::provide`]).

use std::fs::File;
use std::ops::Range;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use blockdev::{DeviceQueue, Waker};
use blockstore::BlockStore;
use rustix::io::Errno;
use types::UTime;

use crate::allocate::{Extensible, allocate_most, bytes_of};

/// Bytes of a step.
pub const STEP: u64 = 64 << 20;

/// The next step is begun while so many bytes are free.
const AHEAD: u64 = STEP / 2;

/// Bytes that a shard may take of what is left when it is opened: its OSD writes down maps also where clients may write nothing.
const OF_LEFT: u64 = 4 << 20;

/// When a full file system is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Free bytes that a store keeps. A step leaves it fewer than these, so that what was just allocated is not given back.
const KEPT: u64 = 2 * STEP;

/// What is given back was free for so long: a store that is written to uses blocks again and again.
const UNUSED_FOR: Duration = Duration::from_secs(5);

/// Pieces of the file that are allocated or given back at once.
const PIECES: u64 = 256;

/// How much of the disk an image file takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileSpace {
    /// It is allocated as the store needs more, and keeps that: for tools.
    #[default]
    Grows,
    /// The same, and what the store has no use for is given back.
    Follows,
    /// All, from the beginning on.
    Whole,
}

/// See the module's documentation.
pub struct Growing {
    file: File,
    under_way: Option<(Receiver<Done>, JoinHandle<()>)>,
    retry: Option<UTime>,
    /// The log has that the file can't grow.
    is_told: bool,
    waker: Option<Waker>,
    /// `None`: the file keeps what it was given.
    giving: Option<Giving>,
}

/// What a thread did to the file.
enum Done {
    /// The store may use these bytes.
    Allocated(Result<Vec<Range<u64>>, Errno>),
    /// These were given back.
    Punched(Result<(), Errno>),
}

/// What is given back.
struct Giving {
    /// The fewest bytes that were spare since the last look.
    least: u64,
    /// When it is looked at next.
    look: UTime,
    /// From where on holes are still to be made that an earlier process may not have come to.
    sweep: Option<u64>,
}

impl Growing {
    /// For the file of a shard that was just opened: from now on the shard uses what the file has been given.
    ///
    /// # Errors
    /// The file can't be allocated, though the file system has space.
    pub fn new<Q: DeviceQueue>(
        file: File,
        space: FileSpace,
        store: &mut BlockStore<Q>,
        now: UTime,
    ) -> Result<Self, Errno> {
        // Which free blocks have bytes the store does not know: those of the first step are made sure of, and others later.
        store.unback_free();
        let mut wanted = if space == FileSpace::Whole { u64::MAX } else { STEP };
        let mut of_left = OF_LEFT;
        loop {
            let lacking = store.unbacked(0, wanted, PIECES);
            if lacking.is_empty() {
                break;
            }
            let allocated = allocate_most(&file, &lacking, of_left);
            store.returned();
            match allocated {
                // A full file system is no reason not to open a store: it can be read, and deleted from.
                Err(Errno::NOSPC | Errno::DQUOT) => break,
                Err(error) => return Err(error),
                Ok((ranges, taken)) => {
                    wanted = wanted.saturating_sub(bytes_of(&ranges));
                    of_left = of_left.saturating_sub(taken);
                    ranges.into_iter().for_each(|range| store.provide(range));
                }
            }
        }
        let giving = Giving { least: 0, look: now.after(UNUSED_FOR), sweep: Some(0) };
        let giving = (space == FileSpace::Follows).then_some(giving);
        Ok(Self { file, under_way: None, retry: None, is_told: false, waker: None, giving })
    }

    pub fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// When a turn has something to do though nothing comes from outside.
    pub fn deadline<Q: DeviceQueue>(&self, store: &BlockStore<Q>) -> Option<UTime> {
        if self.under_way.is_some() {
            return None;
        }
        let retry = self.retry.filter(|_| store.wants_to_grow(AHEAD));
        let giving = self.giving.as_ref();
        let gives = giving.filter(|giving| giving.sweep.is_some() || store.spare_bytes() > KEPT);
        [retry, gives.map(|giving| giving.look)].into_iter().flatten().min()
    }

    /// Takes what a step came to, and begins the next one if the store wants it, or gives back what it doesn't.
    pub fn turn<Q: DeviceQueue>(&mut self, now: UTime, store: &mut BlockStore<Q>) {
        self.take(now, store);
        if self.under_way.is_some() {
            return;
        }
        self.retry.take_if(|at| *at <= now);
        let begun = if self.retry.is_none() && store.wants_to_grow(AHEAD) {
            let lacking = store.unbacked(0, STEP, PIECES);
            self.begin(move |file| {
                Done::Allocated(allocate_most(file, &lacking, 0).map(|(ranges, _)| ranges))
            })
        } else {
            match self.unused(now, store) {
                pieces if pieces.is_empty() => Ok(()),
                pieces => self
                    .begin(move |file| Done::Punched(pieces.iter().try_for_each(|piece| file.punch(piece)))),
            }
        };
        if let Err(error) = begun {
            store.returned();
            tracing::warn!("the store's file can't be made to grow or shrink: {error}");
            self.retry = Some(now.after(RETRY));
            if let Some(giving) = &mut self.giving {
                giving.look = now.after(RETRY);
            }
        }
    }

    /// What is to be given back now. The store does not use it any more.
    fn unused<Q: DeviceQueue>(&mut self, now: UTime, store: &mut BlockStore<Q>) -> Vec<Range<u64>> {
        let Some(giving) = &mut self.giving else { return Vec::new() };
        let spare = store.spare_bytes();
        giving.least = giving.least.min(spare);
        if now < giving.look {
            return Vec::new();
        }
        if let Some(from) = giving.sweep {
            let pieces = store.unbacked(from, 16 * STEP, PIECES);
            giving.sweep = pieces.last().map(|last| last.end);
            return pieces;
        }
        let pieces = match giving.least.saturating_sub(KEPT) {
            0 => Vec::new(),
            unused => store.give_back(unused.min(STEP)),
        };
        // As long as there is more, the next turn goes on.
        giving.least = store.spare_bytes().min(giving.least);
        if pieces.is_empty() {
            (giving.least, giving.look) = (spare, now.after(UNUSED_FOR));
        }
        pieces
    }

    /// On a thread of its own: a file system may take its time.
    fn begin(&mut self, work: impl FnOnce(&File) -> Done + Send + 'static) -> std::io::Result<()> {
        let (sender, receiver) = channel();
        let (file, waker) = (self.file.try_clone()?, self.waker.clone());
        let thread = std::thread::Builder::new().name("store-grow".into()).spawn(move || {
            // The store may have been closed meanwhile.
            let _ = sender.send(work(&file));
            if let Some(wake) = waker {
                wake();
            }
        })?;
        self.under_way = Some((receiver, thread));
        Ok(())
    }

    fn take<Q: DeviceQueue>(&mut self, now: UTime, store: &mut BlockStore<Q>) {
        let done = match self.under_way.as_ref().map(|(receiver, _)| receiver.try_recv()) {
            None | Some(Err(TryRecvError::Empty)) => return,
            Some(Err(TryRecvError::Disconnected)) => Done::Allocated(Err(Errno::IO)),
            Some(Ok(done)) => done,
        };
        self.under_way = None;
        store.returned();
        match done {
            Done::Allocated(Ok(ranges)) => {
                self.retry = None;
                if std::mem::take(&mut self.is_told) {
                    tracing::info!("the store's file grows again");
                }
                ranges.into_iter().for_each(|range| store.provide(range));
            }
            Done::Allocated(Err(error)) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    tracing::warn!("the store's file can't grow: {error}; it is tried again each second");
                }
                self.retry = Some(now.after(RETRY));
                store.refuse_growth();
            }
            Done::Punched(Ok(())) => {}
            Done::Punched(Err(error)) => {
                tracing::info!("the store's file keeps what it was given: {error}");
                self.giving = None;
            }
        }
    }
}

/// Who opens the store next must not meet holes that are still being made.
impl Drop for Growing {
    fn drop(&mut self) {
        // A thread that panicked has said so.
        self.under_way.take().map(|(_, thread)| thread.join());
    }
}
