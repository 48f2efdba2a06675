//! Reads and what they yield.

use std::collections::{BTreeMap, BTreeSet};

use buffer::{Piece, Rope};
use types::{EVersion, GHObject, Name, PoolId};

use crate::{Advice, Attrs, CollectionId, LogRecord, StoreError, StoreShard};

/// Which attributes are wanted beside something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttrChoice {
    None,
    All,
    /// Those of these that exist.
    These(Vec<Name>),
}

impl AttrChoice {
    /// The chosen ones of an object's attributes.
    pub fn choose(&self, attrs: &Attrs) -> Attrs {
        match self {
            Self::None => Attrs::new(),
            Self::All => attrs.clone(),
            Self::These(names) => {
                names.iter().filter_map(|n| Some((n.clone(), attrs.get(n)?.clone()))).collect()
            }
        }
    }
}

/// A read. Each names the [`ReadOutcome`] it yields. A missing collection or object is an error unless said otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadRequest {
    /// Bytes `offset..offset + len`, cut at the object's end: [`ReadOutcome::Data`]. Holes are zeros. `u64::MAX` reads
    /// to the end.
    Data {
        collection: CollectionId,
        object: GHObject,
        /// First byte.
        offset: u64,
        /// Bytes at most.
        len: u64,
        advice: Advice,
        /// Reads from the device what may be in a cache, and checks all of it (deep scrub).
        verify: bool,
    },
    /// The parts of a range that may hold bytes other than zero: [`ReadOutcome::Extents`]. May be coarser than what was
    /// written, never finer, cut at the object's end.
    Extents {
        collection: CollectionId,
        object: GHObject,
        /// First byte.
        offset: u64,
        /// Bytes at most.
        len: u64,
    },
    /// Size and hints: [`ReadOutcome::Stat`].
    Stat { collection: CollectionId, object: GHObject },
    /// One attribute: [`ReadOutcome::Attr`].
    Attr { collection: CollectionId, object: GHObject, name: Name },
    /// All attributes: [`ReadOutcome::Attrs`].
    Attrs { collection: CollectionId, object: GHObject },
    /// Stat and chosen attributes in one, what a PG needs to begin with an object: [`ReadOutcome::Object`], `None` when
    /// there is no such object.
    Object { collection: CollectionId, object: GHObject, attrs: AttrChoice },
    /// The omap's header, empty when none was set: [`ReadOutcome::OmapHeader`].
    OmapHeader { collection: CollectionId, object: GHObject },
    /// The values of those of `keys` that exist: [`ReadOutcome::Omap`], always whole.
    OmapKeys { collection: CollectionId, object: GHObject, keys: BTreeSet<Name> },
    /// Keys, with values if wanted, that come after `after` (from the first if `None`) and before `before` (to the last if
    /// `None`) and begin with `prefix`, in order, until a limit: [`ReadOutcome::Omap`]. At least one key is returned if
    /// there is one and `entries_max` > 0.
    OmapRange {
        collection: CollectionId,
        object: GHObject,
        /// Where to go on, exclusive.
        after: Option<Name>,
        /// Where to end, exclusive.
        before: Option<Name>,
        /// What keys begin with; empty for all.
        prefix: Name,
        /// Keys at most.
        entries_max: usize,
        /// Bytes of keys and values at most (but see above).
        bytes_max: usize,
        /// Whether values are wanted; empty ones come back otherwise.
        values: bool,
    },
    /// Objects from `start` (inclusive; may be a sentinel) on and before `end`, in Ceph's order, the PG's own and
    /// temporary objects included: [`ReadOutcome::Objects`].
    List {
        collection: CollectionId,
        /// Where to begin, inclusive.
        start: GHObject,
        /// Where to end, exclusive; usually [`GHObject::max`].
        end: GHObject,
        /// Objects at most.
        objects_max: usize,
        /// Attributes of each object.
        attrs: AttrChoice,
    },
    /// The same without attributes, also behind what can't be read: [`ReadOutcome::Objects`], whose gaps say where objects may be
    /// missing. For what takes away all that it can. Everything else would take a part for the whole.
    ListReadable { collection: CollectionId, start: GHObject, end: GHObject, objects_max: usize },
    /// All collections in order, as of what is queued: [`ReadOutcome::Collections`].
    Collections,
    /// Whether a collection exists, and what is known of it as a whole: [`ReadOutcome::Collection`], `None` if not.
    Collection { collection: CollectionId },
    /// The collection's log after a version: [`ReadOutcome::Log`]. At least one record is returned if there is one and
    /// `records_max` > 0.
    Log {
        collection: CollectionId,
        /// Where to go on, exclusive; the default version for the beginning.
        after: EVersion,
        /// Records at most.
        records_max: usize,
        /// Bytes of records at most (but see above).
        bytes_max: usize,
    },
    /// Space: [`ReadOutcome::StatFs`].
    StatFs,
}

impl ReadRequest {
    /// The collection that is read, if it is one.
    pub fn collection(&self) -> Option<CollectionId> {
        match self {
            Self::Data { collection, .. }
            | Self::Extents { collection, .. }
            | Self::Stat { collection, .. }
            | Self::Attr { collection, .. }
            | Self::Attrs { collection, .. }
            | Self::Object { collection, .. }
            | Self::OmapHeader { collection, .. }
            | Self::OmapKeys { collection, .. }
            | Self::OmapRange { collection, .. }
            | Self::List { collection, .. }
            | Self::ListReadable { collection, .. }
            | Self::Collection { collection }
            | Self::Log { collection, .. } => Some(*collection),
            Self::Collections | Self::StatFs => None,
        }
    }
}

/// What a read yielded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// Of [`ReadRequest::Data`].
    Data(Rope),
    /// Of [`ReadRequest::Extents`]: offset and length, ascending, not touching one another.
    Extents(Vec<(u64, u64)>),
    /// Of [`ReadRequest::Stat`].
    Stat(ObjectStat),
    /// Of [`ReadRequest::Attr`].
    Attr(Piece),
    /// Of [`ReadRequest::Attrs`].
    Attrs(Attrs),
    /// Of [`ReadRequest::Object`].
    Object(Option<ObjectHead>),
    /// Of [`ReadRequest::OmapHeader`].
    OmapHeader(Piece),
    /// Of [`ReadRequest::OmapKeys`] and [`ReadRequest::OmapRange`].
    Omap(OmapPage),
    /// Of [`ReadRequest::List`] and [`ReadRequest::ListReadable`].
    Objects(ObjectPage),
    /// Of [`ReadRequest::Collections`].
    Collections(Vec<CollectionId>),
    /// Of [`ReadRequest::Collection`].
    Collection(Option<CollectionStat>),
    /// Of [`ReadRequest::Log`].
    Log(LogPage),
    /// Of [`ReadRequest::StatFs`].
    StatFs(StatFs),
}

/// An object without its contents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectStat {
    /// Bytes.
    pub size: u64,
    /// The last allocation hint, if one was given.
    pub hint: Option<crate::AllocHint>,
}

/// An object's stat and attributes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectHead {
    /// Size and hints.
    pub stat: ObjectStat,
    /// The attributes that were chosen.
    pub attrs: Attrs,
}

/// A part of an omap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapPage {
    /// Keys and values in order.
    pub entries: Vec<(Name, Piece)>,
    /// Whether a limit ended it and more follow.
    pub more: bool,
}

/// A part of a collection's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectPage {
    /// Objects in order, with the attributes that were chosen.
    pub objects: Vec<(GHObject, Attrs)>,
    /// Where to begin the next; the request's end when nothing follows.
    pub next: GHObject,
    /// What was passed by, each gap once: none but of [`ReadRequest::ListReadable`]. Another page of the list may have the same.
    pub gaps: Vec<ObjectGap>,
}

/// A part of a collection's list that can't be read. There may be any number of its objects, also none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectGap {
    /// None of them is before this one.
    pub from: GHObject,
    /// They are before this one; `None`: nothing says so.
    pub behind: Option<GHObject>,
    pub why: StoreError,
}

impl ObjectGap {
    /// Adds gaps to others, each once: several searches, and several pages of a list, pass by the same.
    pub fn add(all: &mut Vec<Self>, more: impl IntoIterator<Item = Self>) {
        for gap in more {
            if !all.contains(&gap) {
                all.push(gap);
            }
        }
    }
}

/// The small info of a collection that a tool makes or removes, and has not come to the end of. No PG can be read with it, so
/// an OSD that finds one leaves it alone (the PG is down).
pub const UNFINISHED: &[u8] = b"unfinished copy";

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectionStat {
    /// How many low bits of the hash its objects have in common.
    pub bits: u32,
    /// The small info that was set last, empty before.
    pub info: Piece,
    /// The shard that the collection is on its way to: the caller continues with
    /// [`rehome`](crate::ObjectStore::rehome), to there or back.
    pub rehoming: Option<StoreShard>,
}

impl CollectionStat {
    /// Whether its info is not [`UNFINISHED`].
    pub fn is_whole(&self) -> bool {
        *self.info != *UNFINISHED
    }
}

/// A part of a collection's log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogPage {
    /// The version that the log was last trimmed to: what comes after is all there.
    pub tail: EVersion,
    /// The version of the newest record (or the tail).
    pub head: EVersion,
    /// Records, versions ascending.
    pub records: Vec<LogRecord>,
    /// Whether a limit ended it and more follow.
    pub more: bool,
}

/// Data that are stored compressed, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compressed {
    /// Of what compression made of them.
    pub stored: u64,
    /// Allocated to that.
    pub allocated: u64,
    /// Before compression: as far as objects still have them, and as often as they do.
    pub original: u64,
}

impl std::ops::AddAssign for Compressed {
    fn add_assign(&mut self, more: Self) {
        self.stored += more.stored;
        self.allocated += more.allocated;
        self.original += more.original;
    }
}

/// A store's space, as of what is queued.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Bytes that the store may hold.
    pub bytes_total: u64,
    /// Bytes that are not available to transactions because something is kept there.
    pub bytes_used: u64,
    /// Bytes that transactions can still allocate.
    pub bytes_available: u64,
    /// Bytes allocated to objects' data: exact, in the store's unit of allocation.
    pub data_bytes: u64,
    /// Bytes that names, attributes, omaps, logs and maps of data take.
    pub metadata_bytes: u64,
    /// So many bytes of the space are used, at most, by each byte of names, attributes and omaps that a transaction brings.
    pub metadata_factor: u64,
    /// Objects in all collections.
    pub objects: u64,
    /// Bytes allocated to objects' data, by pool; no pool without any. Nothing from a store that does not count them so.
    pub by_pool: BTreeMap<PoolId, u64>,
    /// Bytes of the keys and values of omaps, by pool; no pool without any.
    pub omaps_by_pool: BTreeMap<PoolId, u64>,
    /// Whether the store, or a shard of it, does not count omaps so.
    pub has_uncounted_omaps: bool,
    /// What is compressed, by the pool whose objects it was written for; no pool without any.
    pub compressed: BTreeMap<PoolId, Compressed>,
}

impl StatFs {
    /// Whether all data are counted by pool.
    pub fn is_by_pool(&self) -> bool {
        self.by_pool.values().sum::<u64>() == self.data_bytes
    }

    /// Bytes of the keys and values of all omaps, as far as they are counted.
    pub fn omap_bytes(&self) -> u64 {
        self.omaps_by_pool.values().sum()
    }

    /// What is compressed, of all pools.
    pub fn all_compressed(&self) -> Compressed {
        let mut sum = Compressed::default();
        self.compressed.values().for_each(|of_pool| sum += *of_pool);
        sum
    }
}
