//! ASSERT_VER, LIST_WATCHERS, LIST_SNAPS.

use encoding::{Encode, Encoder};
use types::{Errno, SnapId};

use crate::run::{Runner, StepResult};

/// A clone, or the head, in LIST_SNAPS' answer (Ceph's clone_info).
struct CloneInfo<'a> {
    id: SnapId,
    /// Ascending.
    snaps: Vec<SnapId>,
    overlap: &'a [(u64, u64)],
    size: u64,
}

impl Encode for CloneInfo<'_> {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.id).put(&self.snaps).put(self.overlap).put(&self.size);
        });
    }
}

impl Runner<'_> {
    pub fn assert_version(&mut self, version: u64) -> StepResult {
        let current = self.state.info.user_version;
        match version {
            0 => Err(Errno::EINVAL.into()),
            v if v < current => Err(Errno::ERANGE.into()),
            v if v > current => Err(Errno::EOVERFLOW.into()),
            _ => Ok(None),
        }
    }

    pub fn list_watchers(&mut self) -> StepResult {
        let mut e = Encoder::new(u64::MAX);
        e.versioned(1, 1, |e| {
            e.put(&(self.state.info.watchers.len() as u32));
            for ((cookie, name), watch) in &self.state.info.watchers {
                e.versioned(2, 1, |e| {
                    e.put(name).put(cookie).put(&watch.timeout_seconds).put(&watch.addr);
                });
            }
        });
        self.data = e.into_bytes().into();
        self.delta.num_rd += 1;
        Ok(Some(0))
    }

    pub fn list_snaps(&mut self) -> StepResult {
        let snapset = &self.state.snapset;
        let mut clones = Vec::with_capacity(snapset.clones.len() + 1);
        for id in &snapset.clones {
            let parts =
                (snapset.clone_snaps.get(id), snapset.clone_overlap.get(id), snapset.clone_size.get(id));
            let (Some(snaps), Some(overlap), Some(&size)) = parts else { return Err(Errno::EINVAL.into()) };
            let snaps = snaps.iter().rev().copied().collect();
            clones.push(CloneInfo { id: *id, snaps, overlap: overlap.ranges(), size });
        }
        if self.state.is_visible() {
            let size = self.state.info.size;
            clones.push(CloneInfo { id: SnapId::HEAD, snaps: Vec::new(), overlap: &[], size });
        }
        let mut e = Encoder::new(0);
        e.versioned(2, 1, |e| {
            e.put(&clones).put(&snapset.seq);
        });
        self.data = e.into_bytes().into();
        self.delta.num_rd += 1;
        Ok(Some(0))
    }
}
