//! A write-ahead log in a ring of a device: what its records look like, where the next one goes, and which records are
//! there when it is opened again.
//!
//! This crate performs no I/O. [`Log::begin`] says which bytes to write where, [`Log::on_durable`] is called when they are
//! durable, and [`Replay`] asks for reads. The format is in `docs/formats/block.md`.
//!
//! **One record is in flight.** A record is written when the one before it is durable: a group commit is one record. So at
//! most one record can be torn, and each record carries the sequence of the last one that was durable before it
//! ([`Header::flushed`]).
//!
//! **A record's data may lie beside the log** ([`Beside`]). Record and data are written together, and become durable with
//! one flush or each by itself. A power loss before that may keep the record and drop the data, so the record carries the data's
//! checksums, and a record above the highest flushed mark counts only if its data is there.
//!
//! **A large payload** lies beside the log, too. The record then has the places and checksums of its blocks, and its length.
//! A replay reads it, whatever is known durable.
//!
//! **An invalid record** above the highest flushed mark ends the log: it was never acknowledged. At or below that mark it
//! is corruption ([`WalError::Corrupt`]).
//!
//! **A record that the opening can't have had written**, with a larger salt or of a lap that it had no room for, says that a later
//! opening was durable and was lost since ([`WalError::Outdated`]): without it, acknowledged records would not count.
//!
//! **Nothing is erased.** Bytes of earlier laps and of records that were dropped stay in the ring. They are told apart by
//! the position and sequence in each record, and by a salt that grows each time the log is opened.

mod log;
mod record;
mod replay;

pub use log::{Begun, Log, Write};
pub use record::{BESIDE_BLOCK_BYTES, Beside, HEADER_BYTES, Header, decode_body};
pub use replay::{Record, Replay, Replayed};

/// Where a log lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// First byte on the device.
    pub offset: u64,
    /// Bytes of the ring: a multiple of `unit_bytes`.
    pub bytes: u64,
    /// Records begin at multiples of it: a multiple of the device's block size, at least 512.
    pub unit_bytes: u32,
    /// A random number that the log got when it was made. A record of another log never counts.
    pub id: u64,
}

impl Layout {
    /// The longest record, bytes. So a replay that finds an invalid record knows how far behind it the next one may begin. A longer
    /// payload is written beside the log.
    pub fn record_bytes_max(&self) -> u64 {
        (self.bytes / 4).min(2 << 20)
    }
}

/// A place between two records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Bytes since the log was made: it grows for ever, and modulo [`Layout::bytes`] it is the place in the ring.
    pub at: u64,
    /// The sequence of the record that begins here.
    pub sequence: u64,
}

impl Position {
    /// The beginning of a new log. Sequence 0 is no record's.
    pub const START: Self = Self { at: 0, sequence: 1 };
}

/// What the log's owner keeps of it outside the ring, durable before the opening writes its first record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Where the oldest record that is needed begins.
    pub kept: Position,
    /// Where the log ended when it was opened, or closed in order. Every record before it was durable then.
    pub sealed: Position,
    /// What the records of this opening carry: larger than that of every opening before. Older records behind `sealed`
    /// were dropped by the opening, and count no more.
    pub salt: u64,
    /// Of a record that was known durable when this was written, maybe a later one than the sealed end: what a log that was lost, or
    /// is of an earlier time, does not have any more.
    pub flushed: u64,
}

impl Opening {
    /// Of a log that was just made.
    pub const FIRST: Self = Self { kept: Position::START, sealed: Position::START, salt: 1, flushed: 0 };
}

/// Why a log can't be replayed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WalError {
    #[error(
        "the log is corrupt: record {sequence} at byte {offset} of the device is invalid, and record {flushed} was \
         durable"
    )]
    Corrupt { sequence: u64, offset: u64, flushed: u64 },
    /// The log's owner made a later [`Opening`] durable before this record was written, and has lost it since.
    #[error(
        "record {sequence} of the log, at byte {offset} of its device, is of a later time than the superblock: the newest superblock \
         was lost, or an earlier copy of it was put in its place"
    )]
    Outdated { sequence: u64, offset: u64 },
}
