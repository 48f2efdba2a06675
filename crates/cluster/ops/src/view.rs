//! What an execution may look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use buffer::Rope;
use types::{Errno, Name, SnapId};

use crate::{CopiedObject, CopySource};

/// Which object a [`Need`] is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NeedOf {
    /// The object that the request runs on.
    Own,
    /// A clone of the same head, by its id. Requests for a head and its clones have one queue, so that such a need waits
    /// for no other request.
    Clone(SnapId),
}

/// Something of a stored object that an operation must see.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// Bytes; fewer come back where the object ends before.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// CEPH_OSD_OP_FLAG_FADVISE_* of the operation.
        flags: u32,
    },
    /// Which parts of a range are allocated.
    Extents {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// An attribute, by the store's name.
    Attr(Name),
    /// All attributes.
    Attrs,
    /// The omap's header.
    OmapHeader,
    /// Omap pairs in order: those after `after` that start with `prefix`.
    OmapRange {
        /// Only keys after this one; empty for all.
        after: Name,
        /// Only keys that start so.
        prefix: Name,
        /// Pairs at most.
        max: u64,
        /// Whether values are wanted; without, empty ones come.
        values: bool,
    },
    /// Omap pairs of these keys.
    OmapKeys(BTreeSet<Name>),
    /// Another object, whole: it is in no store that the request's PG could ask.
    Copy(Box<CopySource>),
}

/// What the store gave for a [`Need`]; always of the kind asked for, or `Failed`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// Of [`Need::Data`].
    Data(Rope),
    /// Of [`Need::Extents`]: offset and length, ascending, within the range asked for.
    Extents(Vec<(u64, u64)>),
    /// Of [`Need::Attr`]: `None` where the object has no such attribute.
    Attr(Option<Rope>),
    /// Of [`Need::Attrs`].
    Attrs(BTreeMap<Name, Rope>),
    /// Of [`Need::OmapHeader`]: empty where there is none.
    OmapHeader(Rope),
    /// Of [`Need::OmapRange`] and [`Need::OmapKeys`].
    Omap {
        /// The pairs, ascending.
        pairs: Vec<(Name, Rope)>,
        /// Whether the range holds more.
        more: bool,
    },
    /// Of [`Need::Copy`].
    Copied(Arc<CopiedObject>),
    /// The store could not (an I/O error, or the object is not there).
    Failed(Errno),
}

impl Fetched {
    /// Bytes of what has no length before it is read.
    pub(crate) fn unannounced_bytes(&self) -> u64 {
        let pairs = |(name, value): (&Name, &Rope)| (name.len() + value.len()) as u64;
        match self {
            // What is copied from another object was bounded on its way here.
            Self::Data(_) | Self::Failed(_) | Self::Attr(None) | Self::Copied(_) => 0,
            Self::Extents(extents) => size_of_val(extents.as_slice()) as u64,
            Self::Attr(Some(value)) | Self::OmapHeader(value) => value.len() as u64,
            Self::Attrs(attrs) => attrs.iter().map(pairs).sum(),
            Self::Omap { pairs: all, .. } => all.iter().map(|(key, value)| pairs((key, value))).sum(),
        }
    }
}

/// The stored object as it was before the request: operations see sizes and existence as changed by those before them
/// in the same request, but data, attributes and omap as stored (as Ceph does).
pub trait ObjectView {
    /// What is asked for if it is resident; otherwise `None`, and the need is remembered. Answers must not change
    /// between the runs of one request.
    fn fetch(&mut self, of: NeedOf, need: Need) -> Option<Fetched>;
}
