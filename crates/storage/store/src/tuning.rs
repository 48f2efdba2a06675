//! What a store may be told otherwise while it is used.

use crate::ByMedium;

/// What a store on a device is tuned by. Others ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The device is told which blocks are not needed any more, from those on that are freed next.
    pub discard: bool,
    /// The log takes contents of new blocks up to this in any case.
    pub new_deferred_bytes: ByMedium,
}

impl Default for Tuning {
    /// The defaults of Ceph's BlueStore.
    fn default() -> Self {
        Self { discard: false, new_deferred_bytes: ByMedium { hdd: (64 << 10) - 1, ssd: 0 } }
    }
}
