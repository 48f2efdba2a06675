//! A device's sizes and limits.

use crate::{DeviceError, Op, Request};

/// Bytes that a power loss keeps or drops as a whole.
pub const SECTOR_BYTES: usize = 512;

/// A device's sizes and limits. They stay the same while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// A multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of it. A power of two, at least [`SECTOR_BYTES`].
    pub block_bytes: u32,
    /// The longest read and the longest write; a multiple of `block_bytes`. A discard may be of any length.
    pub request_bytes_max: u64,
    /// How many requests the device performs concurrently, at least 1. More may be submitted: they wait.
    pub queue_depth: usize,
    /// Whether a discard frees space below. If not, it completes without an effect.
    pub discards: bool,
    /// Whether a head has to move: neighbouring requests are cheaper than distant ones.
    pub rotational: bool,
    /// Whether a durable write is a write and a flush behind it: what had completed when it was submitted is durable then, too.
    /// Not so where the device writes single requests through its cache (FUA).
    pub durable_flushes: bool,
}

impl Geometry {
    /// Checks a request to a device of this geometry. Every implementor calls this first.
    ///
    /// # Errors
    /// A mistake of the caller's.
    pub fn check(&self, request: &Request) -> Result<(), DeviceError> {
        let device = request.device;
        let (offset, len, limited) = match &request.op {
            Op::Read { offset, buffer } => (*offset, buffer.len() as u64, true),
            Op::Write { offset, data, durability: _ } => (*offset, data.len() as u64, true),
            Op::Flush => return Ok(()),
            Op::Discard { offset, len } => (*offset, *len, false),
        };
        if len == 0 {
            return Err(DeviceError::Empty { device, offset });
        }
        let block_bytes = self.block_bytes;
        if offset % u64::from(block_bytes) != 0 || len % u64::from(block_bytes) != 0 {
            return Err(DeviceError::Misaligned { device, offset, len, block_bytes });
        }
        if offset.checked_add(len).is_none_or(|end| end > self.size_bytes) {
            return Err(DeviceError::OutOfRange { device, offset, len, size_bytes: self.size_bytes });
        }
        if limited && len > self.request_bytes_max {
            return Err(DeviceError::TooLong { device, len, request_bytes_max: self.request_bytes_max });
        }
        Ok(())
    }
}
