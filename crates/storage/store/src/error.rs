//! What can go wrong, and whose fault it is.

use types::{EVersion, Errno, GHObject};

use crate::CollectionId;

/// Who is to blame for a [`StoreError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Who queued the transaction or asked for the read. The store is as it was.
    Caller,
    /// The device, its space or its contents.
    Disk,
}

/// Why a transaction was refused (whole: nothing of it is there) or a read failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The collection does not exist.
    #[error("collection {0} does not exist")]
    NoSuchCollection(CollectionId),
    /// The collection to be created exists.
    #[error("collection {0} exists already")]
    CollectionExists(CollectionId),
    /// The collection to be removed still has objects.
    #[error("collection {0} is not empty")]
    CollectionNotEmpty(CollectionId),
    /// The object read, cloned or renamed does not exist.
    #[error("object {1} does not exist in {0}")]
    NoSuchObject(CollectionId, Box<GHObject>),
    /// The object renamed or merged to exists.
    #[error("object {1} exists already in {0}")]
    ObjectExists(CollectionId, Box<GHObject>),
    /// A sentinel (minimum or maximum) was named where an object is wanted.
    #[error("{0} is the end of an order, not an object")]
    NotAnObject(Box<GHObject>),
    /// The object has no such attribute.
    #[error("no such attribute")]
    NoSuchAttr,
    /// An object may not reach so far.
    #[error("an object can't reach to byte {end}, only to {max}")]
    ObjectTooLarge {
        /// The end asked for, bytes (saturated).
        end: u64,
        /// [`crate::OBJECT_BYTES_MAX`].
        max: u64,
    },
    /// An appended log entry is not newer than the log's head.
    #[error("log entry {version} is not after the log's head {head}")]
    LogOrder {
        /// The newest version that the log has, or was trimmed or rewound to.
        head: EVersion,
        /// The entry's version.
        version: EVersion,
    },
    /// A split or merge that makes no sense: with itself, of the meta collection, or by more than 32 bits.
    #[error("can't split or merge {from} and {into} by {bits} bits")]
    BadSplit {
        /// The collection to take objects from.
        from: CollectionId,
        /// The collection to put them into.
        into: CollectionId,
        /// Bits of the hash that name each.
        bits: u32,
    },
    /// Not enough free space for the whole transaction.
    #[error("no space: {needed} bytes needed, {available} available")]
    NoSpace {
        /// Bytes to be newly allocated.
        needed: u64,
        /// Bytes free for transactions.
        available: u64,
    },
    /// The device failed. A store that could not make a transaction durable refuses all that follow.
    #[error("{what}: {errno}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        errno: Errno,
    },
    /// Stored bytes don't match their checksum; they are never returned.
    #[error("bad checksum in object {object} of {collection} at byte {offset}")]
    Checksum {
        collection: CollectionId,
        object: Box<GHObject>,
        /// First byte of the bad block within the object.
        offset: u64,
    },
    /// The store's own records can't be read.
    #[error("damaged store: {0}")]
    Damaged(String),
    /// The store stopped after an earlier failure to commit; nothing more becomes durable until it is opened again.
    #[error("the store stopped after a failed commit")]
    Stopped,
}

impl StoreError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoSpace { .. }
            | Self::Io { .. }
            | Self::Checksum { .. }
            | Self::Damaged(_)
            | Self::Stopped => Fault::Disk,
            _ => Fault::Caller,
        }
    }

    /// The error number that Ceph gives for it.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NoSuchCollection(_) | Self::NoSuchObject(..) => Errno::ENOENT,
            Self::CollectionExists(_) | Self::ObjectExists(..) => Errno::EEXIST,
            Self::CollectionNotEmpty(_) => Errno::ENOTEMPTY,
            Self::NoSuchAttr => Errno::ENODATA,
            Self::ObjectTooLarge { .. } => Errno::EFBIG,
            Self::NotAnObject(_) | Self::LogOrder { .. } | Self::BadSplit { .. } => Errno::EINVAL,
            Self::NoSpace { .. } => Errno::ENOSPC,
            Self::Io { errno, .. } => *errno,
            Self::Checksum { .. } | Self::Damaged(_) | Self::Stopped => Errno::EIO,
        }
    }
}
