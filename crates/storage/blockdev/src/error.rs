//! Why a request failed.

use types::Errno;

use crate::DeviceId;

/// Why a request failed. Those before [`DeviceError::Io`] are the caller's mistakes and had no effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{device} is not one of the devices that are open")]
    NoSuchDevice { device: DeviceId },
    #[error(
        "{device}: bytes {offset}..+{len} are not whole blocks of {block_bytes} bytes: align offset and length"
    )]
    Misaligned { device: DeviceId, offset: u64, len: u64, block_bytes: u32 },
    #[error("{device}: the request for byte {offset} has no bytes")]
    Empty { device: DeviceId, offset: u64 },
    #[error("{device}: bytes {offset}..+{len} reach past the device's end at {size_bytes}")]
    OutOfRange { device: DeviceId, offset: u64, len: u64, size_bytes: u64 },
    #[error("{device}: a request of {len} bytes is longer than the limit of {request_bytes_max}: divide it")]
    TooLong { device: DeviceId, len: u64, request_bytes_max: u64 },
    /// The device failed. `offset` is the first byte that is known to be bad, or the request's first byte; 0 for a
    /// flush. The range of a failed write holds old or new bytes, sector by sector, or cannot be read.
    #[error("{device} failed at byte {offset}: {errno}")]
    Io { device: DeviceId, offset: u64, errno: Errno },
    /// A flush or a durable write of the device failed earlier (see [`DeviceQueue`](crate::DeviceQueue), "Failures").
    #[error("{device} takes no writes since a flush of it failed: reopen it to see what is durable")]
    Poisoned { device: DeviceId },
    /// The devices were closed under this queue, or lost power.
    #[error("{device} is closed")]
    Closed { device: DeviceId },
}

impl DeviceError {
    /// The error as a number: EINVAL for a mistake of the caller's.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NoSuchDevice { .. }
            | Self::Misaligned { .. }
            | Self::Empty { .. }
            | Self::OutOfRange { .. }
            | Self::TooLong { .. } => Errno::EINVAL,
            Self::Io { errno, .. } => *errno,
            Self::Poisoned { .. } | Self::Closed { .. } => Errno::EIO,
        }
    }
}
