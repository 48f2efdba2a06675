//! A collection as a series of records.

use buffer::{Piece, Rope};
use store::{Attrs, CollectionId, LogRecord, ObjectStat};
use types::{EVersion, GHObject, Name};

/// A part of a collection. A series is one `Collection`, then its objects in Ceph's order, each followed by what it has
/// (data, omap header, omap), then the log, and `End`. Two stores that hold the same yield the same series: data comes in
/// runs of 4 KiB blocks that are not all zero, cut at multiples of [`crate::reader::WINDOW`], keys and log records in
/// parts of the same number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    Collection {
        collection: CollectionId,
        bits: u32,
        /// What the log was trimmed to.
        log_tail: EVersion,
    },
    /// An object without what follows.
    Object { object: GHObject, stat: ObjectStat, attrs: Attrs },
    /// Bytes of the object before it.
    Data { offset: u64, data: Rope },
    /// Of the object before it; none where it is empty.
    OmapHeader(Piece),
    /// Keys in order; several where they are many.
    Omap(Vec<(Name, Piece)>),
    /// Records in order; several where they are many.
    Log(Vec<LogRecord>),
    End {
        log_head: EVersion,
        /// The collection's small info.
        info: Piece,
    },
}

impl Record {
    /// What it is about, for a message.
    pub fn what(&self) -> String {
        match self {
            Self::Collection { collection, .. } => format!("collection {collection}"),
            Self::Object { object, .. } => format!("object {object}"),
            Self::Data { offset, data } => format!("{} bytes of data at {offset}", data.len()),
            Self::OmapHeader(header) => format!("an omap header of {} bytes", header.len()),
            Self::Omap(entries) => format!("{} omap keys", entries.len()),
            Self::Log(records) => format!("{} log records", records.len()),
            Self::End { log_head, .. } => format!("the end, with the log's head {log_head}"),
        }
    }
}
