//! What of an object an operation left as it was (Ceph's ObjectCleanRegions): lets recovery copy only the rest.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::IntervalSet;

/// Ranges kept at most; the shortest clean ones are forgotten (osd_object_clean_region_max_num_intervals).
const RANGES_MAX: usize = 10;

/// The clean rest of an object after an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleanRegions {
    /// Data that is as before.
    pub clean_offsets: IntervalSet,
    /// Whether the omap is as before.
    pub clean_omap: bool,
    /// Whether the object did not exist before.
    pub new_object: bool,
}

impl Default for CleanRegions {
    fn default() -> Self {
        Self { clean_offsets: IntervalSet::range(0, u64::MAX), clean_omap: true, new_object: false }
    }
}

impl CleanRegions {
    /// `len` bytes from `offset` on were changed.
    pub fn mark_data_dirty(&mut self, offset: u64, len: u64) {
        self.clean_offsets.remove(offset, len);
        self.clean_offsets.keep_longest(RANGES_MAX);
    }
}

impl Encode for CleanRegions {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.clean_offsets).put(&self.clean_omap).put(&self.new_object);
        });
    }
}
impl Decode for CleanRegions {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "ObjectCleanRegions", |d, _| {
            Ok(Self { clean_offsets: d.get()?, clean_omap: d.get()?, new_object: d.get()? })
        })
    }
}
