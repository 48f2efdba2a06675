//! The transport overhead of a modelled disk: what a request takes besides the model, through a loop device and FUSE into
//! the disk's process and back.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use modelled::TransportOverhead;

use crate::error::{Doing, Result};

/// What everything takes on the device that is measured: as long as on a fast SSD, so that waking up costs the same.
pub(crate) const TIME: Duration = Duration::from_micros(100);

/// What each MiB takes on it besides: longer than the real bytes need.
pub(crate) const MIB_TIME: Duration = Duration::from_millis(4);

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// How often each is measured; the median counts.
const BLOCKS: u32 = 300;
const FLUSHES: u32 = 100;
const MIBS: u32 = 30;

/// Longer than this is a busy machine, not the overhead.
const LONGEST: Duration = Duration::from_millis(2);

/// Measures through the loop device over a device that takes [`TIME`] and [`MIB_TIME`]. Its bytes stay as they are.
pub(crate) fn measure(device: &Path) -> Result<TransportOverhead> {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(device);
    let file = file.doing("opening the modelled disk", device)?;
    all(&file).doing("measuring the overhead of the modelled disk", device)
}

fn all(file: &File) -> io::Result<TransportOverhead> {
    let mut buffer = vec![0; MIB + BLOCK];
    // Direct I/O wants its memory on a block's boundary.
    let start = buffer.as_ptr().align_offset(BLOCK);
    let aligned = buffer.get_mut(start..start + MIB).unwrap_or_default();
    let (block, mut at) = (BLOCK.min(aligned.len()), 0);
    let request = median(BLOCKS, || {
        at = (at + 37 * BLOCK as u64) % MIB as u64;
        file.read_exact_at(&mut aligned[..block], at)
    })?;
    let flush = median(FLUSHES, || file.sync_data())?;
    let mib = median(MIBS, || file.read_exact_at(aligned, 0))?;
    let besides = |took: Duration, model: Duration| took.saturating_sub(model).min(LONGEST);
    let request = besides(request, TIME);
    Ok(TransportOverhead {
        request,
        flush: besides(flush, TIME),
        mib: besides(mib, TIME + MIB_TIME + request),
    })
}

fn median(count: u32, mut one: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        one()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_faster_than_the_device_has_no_overhead() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MIB as u64).unwrap();
        let overhead = all(&file).unwrap();
        assert_eq!((overhead.request, overhead.mib), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn the_middle_of_all_counts() {
        let mut times = [1, 1, 1, 300, 300].into_iter();
        let one = || {
            std::thread::sleep(Duration::from_millis(times.next().unwrap_or(0)));
            Ok(())
        };
        let took = median(5, one).unwrap();
        assert!(took >= Duration::from_millis(1) && took < Duration::from_millis(300), "{took:?}");
    }
}
