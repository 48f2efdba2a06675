//! What the file system below a store's file has left: a sparse file promises more than may be there.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::StatFs;
use types::UTime;

use crate::allocate::{Extensible, for_stores};

/// How long what the file system said is taken for true.
const FRESH: Duration = Duration::from_secs(1);

/// What the shards of a store use, each as of its last answer.
pub struct Used(Vec<AtomicU64>);

impl Used {
    pub fn of(shards: u32) -> Arc<Self> {
        Arc::new(Self((0..shards.max(1)).map(|_| AtomicU64::new(0)).collect()))
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|used| used.load(Ordering::Relaxed)).sum()
    }
}

/// A regular file's room to grow, as one of its shards sees it: each reports an equal part of what the file has to spare
/// and may yet get. A block device has all of its bytes.
pub struct Room {
    file: File,
    /// Stores on the file system, this one included: each reports an equal part of what is free, so that their sum
    /// counts it once.
    stores: u32,
    /// Bytes of the file that are not for objects: label, superblocks, logs.
    fixed: u64,
    shard: usize,
    used: Arc<Used>,
    /// The last answer, and until when it holds.
    known: Option<(UTime, u64)>,
}

impl Room {
    pub fn new(file: File, stores: u32, fixed: u64, (shard, used): (u32, Arc<Used>)) -> Self {
        Self { file, stores: stores.max(1), fixed, shard: shard as usize, used, known: None }
    }

    /// Bytes for objects that the file has been given and may yet get, all shards'.
    fn bytes(&mut self, now: UTime) -> u64 {
        match self.known {
            Some((until, bytes)) if now < until => bytes,
            _ => {
                // Where the system can't say, the file's own errors will.
                let bytes = self.ask().unwrap_or(u64::MAX);
                self.known = Some((now.after(FRESH), bytes));
                bytes
            }
        }
    }

    fn ask(&self) -> std::io::Result<u64> {
        let (given, free) = (self.file.bytes()?, for_stores(&self.file.system()?));
        Ok(given.saturating_sub(self.fixed).saturating_add(free / u64::from(self.stores)))
    }

    /// Takes from a store's answer what the file system lacks: fullness is that of the space that is there.
    pub fn limit(&mut self, now: UTime, of: &mut StatFs) {
        if let Some(used) = self.used.0.get(self.shard) {
            used.store(of.bytes_used, Ordering::Relaxed);
        }
        let spare = self.bytes(now).saturating_sub(self.used.sum()) / self.used.0.len() as u64;
        let available = of.bytes_available.min(spare);
        let lacking = of.bytes_available - available;
        of.bytes_available = available;
        of.bytes_total -= lacking.min(of.bytes_total);
    }
}
