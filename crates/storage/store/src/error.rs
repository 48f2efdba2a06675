//! What can go wrong, and whose fault it is.

use types::{EVersion, Errno, GHObject};

use crate::{CollectionId, StoreShard};

/// Who is to blame for a [`StoreError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The caller, who queued the transaction or asked for the read. The store is as it was.
    Caller,
    /// The device, its space or its contents.
    Disk,
}

/// Where a store's device failed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailedAt {
    /// It is the device of the log, which lies apart, and not that of the data.
    pub is_log: bool,
    /// The first byte that is known to be bad, or the request's first one.
    pub byte: Option<u64>,
    /// The device or file by its name, how it failed, and what to do, where who opened the store has said so.
    pub said: Option<String>,
}

fn io_text(what: &str, errno: Errno, at: Option<&FailedAt>) -> String {
    match at {
        Some(FailedAt { said: Some(said), .. }) => format!("{what}: {said}"),
        Some(FailedAt { is_log, byte: Some(byte), .. }) => {
            let device = if *is_log { "log's" } else { "data's" };
            format!("{what}: {errno} at byte {byte} of the {device} device")
        }
        _ => format!("{what}: {errno}"),
    }
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
    /// The object renamed or merged to exists: of a split or a merge, the first of those that both collections have.
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
    /// An appended log record is not newer than the log's head.
    #[error("log record {version} is not after the log's head {head}")]
    LogOrder {
        /// The newest version that the log has, or was trimmed or rewound to.
        head: EVersion,
        /// The record's version.
        version: EVersion,
    },
    /// A split or merge that makes no sense: with itself, of the meta collection, with another pool's, or by more than 32 bits.
    #[error("can't split or merge {from} and {into} by {bits} bits")]
    BadSplit {
        /// The collection to take objects from.
        from: CollectionId,
        /// The collection to put them into.
        into: CollectionId,
        /// Bits of the hash that name each.
        bits: u32,
    },
    /// An earlier transaction on the collection was refused and is not acknowledged yet.
    #[error("{0} takes nothing until an earlier refusal is acknowledged")]
    AfterRefused(CollectionId),
    /// The collections that a transaction names live in different store shards.
    #[error("{first} and {second} live in different store shards")]
    AcrossShards { first: CollectionId, second: CollectionId },
    /// An object is cloned or renamed only within a pool: what its data take counts for that.
    #[error("{from} and {to} are of different pools")]
    AcrossPools { from: CollectionId, to: CollectionId },
    /// The store has no such shard.
    #[error("the store has no shard {}, only {shards}", .shard.0)]
    NoSuchShard { shard: StoreShard, shards: u32 },
    /// The collection is being moved to another store shard (or, asked to move to a third, is on its way to this one).
    #[error("{collection} is on its way to store shard {}", .to.0)]
    Rehoming { collection: CollectionId, to: StoreShard },
    /// A small info is longer than [`crate::INFO_BYTES_MAX`].
    #[error("an info of {bytes} bytes is too long, {} are allowed", crate::INFO_BYTES_MAX)]
    InfoTooLarge { bytes: usize },
    /// Checksums that don't fit the data: their number, or an offset or length that is no whole block.
    #[error("{checksums} checksums don't fit {bytes} bytes at {offset}")]
    BadChecksums { offset: u64, bytes: usize, checksums: usize },
    /// Not enough free space for the whole transaction.
    #[error("no space: {needed} bytes needed, {available} available")]
    NoSpace {
        /// Bytes to be newly allocated.
        needed: u64,
        /// Bytes free for transactions.
        available: u64,
    },
    /// The device failed as a whole, or a write or a flush of it did. A store that could not make a transaction durable refuses all
    /// that follow.
    #[error("{}", io_text(what, *errno, at.as_deref()))]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        errno: Errno,
        /// Where, as far as the store knows it.
        at: Option<Box<FailedAt>>,
    },
    /// The device can't read these bytes: one of its sectors is bad, for all that is known. A transaction that needs them is refused
    /// as one that makes no sense is, and the store goes on.
    #[error("{}", io_text(what, *errno, at.as_deref()))]
    Unreadable {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        errno: Errno,
        /// Where, as far as the store knows it.
        at: Option<Box<FailedAt>>,
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
            | Self::Unreadable { .. }
            | Self::Checksum { .. }
            | Self::Damaged(_)
            | Self::Stopped => Fault::Disk,
            Self::NoSuchCollection(_)
            | Self::CollectionExists(_)
            | Self::CollectionNotEmpty(_)
            | Self::NoSuchObject(..)
            | Self::ObjectExists(..)
            | Self::NotAnObject(_)
            | Self::NoSuchAttr
            | Self::ObjectTooLarge { .. }
            | Self::LogOrder { .. }
            | Self::BadSplit { .. }
            | Self::AfterRefused(_)
            | Self::AcrossShards { .. }
            | Self::AcrossPools { .. }
            | Self::NoSuchShard { .. }
            | Self::Rehoming { .. }
            | Self::InfoTooLarge { .. }
            | Self::BadChecksums { .. } => Fault::Caller,
        }
    }

    /// Whether the error says nothing of the rest of the store: it lacks space, or a block or a record is bad.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::NoSpace { .. }) || self.is_damage()
    }

    /// Whether stored bytes can't be read, or are not what was written, and nothing says more of the rest of the store.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Checksum { .. } | Self::Damaged(_))
    }

    /// The error number that Ceph gives for it.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NoSuchCollection(_) | Self::NoSuchObject(..) => Errno::ENOENT,
            Self::CollectionExists(_) | Self::ObjectExists(..) => Errno::EEXIST,
            Self::CollectionNotEmpty(_) => Errno::ENOTEMPTY,
            Self::NoSuchAttr => Errno::ENODATA,
            Self::ObjectTooLarge { .. } => Errno::EFBIG,
            Self::NotAnObject(_)
            | Self::LogOrder { .. }
            | Self::BadSplit { .. }
            | Self::AcrossShards { .. }
            | Self::AcrossPools { .. }
            | Self::NoSuchShard { .. }
            | Self::InfoTooLarge { .. }
            | Self::BadChecksums { .. } => Errno::EINVAL,
            Self::AfterRefused(_) | Self::Rehoming { .. } => Errno::EBUSY,
            Self::NoSpace { .. } => Errno::ENOSPC,
            Self::Io { errno, .. } => *errno,
            // What the device says of a bad sector may be ENODATA, which clients take for a missing attribute.
            Self::Unreadable { .. } | Self::Checksum { .. } | Self::Damaged(_) | Self::Stopped => Errno::EIO,
        }
    }
}
