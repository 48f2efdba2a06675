//! The reads of one request: what it has asked of the store and what came back.

use std::collections::BTreeMap;

use ops::{Fetched, Need, ObjectView};
use store::{CollectionId, ReadOutcome, ReadRequest, StoreError};
use types::{Errno, GHObject};

/// So many needs are looked through one by one; an ordinary request has one or two.
const SEARCHED_MAX: usize = 8;

/// Needs in the order in which they were met.
#[derive(Debug, Default)]
pub(crate) struct ReadCache {
    entries: Vec<(Need, Option<Fetched>)>,
    /// Their places, once there are so many that looking through them all would cost more: a request may hold
    /// thousands of operations.
    places: BTreeMap<Need, usize>,
    /// How many of them were handed out by [`ReadCache::take_new`].
    asked: usize,
}

impl ObjectView for ReadCache {
    fn fetch(&mut self, need: Need) -> Option<Fetched> {
        if let Some(place) = self.place(&need) {
            return self.entries[place].1.clone();
        }
        if self.entries.len() >= SEARCHED_MAX {
            self.places.insert(need.clone(), self.entries.len());
        }
        self.entries.push((need, None));
        None
    }
}

impl ReadCache {
    fn place(&self, need: &Need) -> Option<usize> {
        let searched = &self.entries[..self.entries.len().min(SEARCHED_MAX)];
        searched.iter().position(|(n, _)| n == need).or_else(|| self.places.get(need).copied())
    }

    /// The needs that were not asked for yet, with their places.
    pub fn take_new(&mut self) -> Vec<(usize, Need)> {
        let from = std::mem::replace(&mut self.asked, self.entries.len());
        self.entries.iter().enumerate().skip(from).map(|(i, (need, _))| (i, need.clone())).collect()
    }

    /// Notes the answer to the need at `index`.
    pub fn answer(&mut self, index: usize, result: Result<ReadOutcome, StoreError>) {
        if let Some((need, fetched)) = self.entries.get_mut(index) {
            *fetched = Some(fetched_of(need, result));
        }
    }
}

/// What the store is asked for a need.
pub(crate) fn read_request(
    need: Need,
    collection: CollectionId,
    object: GHObject,
    bytes_max: u64,
) -> ReadRequest {
    match need {
        Need::Data { offset, len } => ReadRequest::Data { collection, object, offset, len },
        Need::Extents { offset, len } => ReadRequest::Extents { collection, object, offset, len },
        Need::Attr(name) => ReadRequest::Attr { collection, object, name },
        Need::Attrs => ReadRequest::Attrs { collection, object },
        Need::OmapHeader => ReadRequest::OmapHeader { collection, object },
        Need::OmapKeys(keys) => ReadRequest::OmapKeys { collection, object, keys },
        Need::OmapRange { after, prefix, max } => ReadRequest::OmapRange {
            collection,
            object,
            after: if after.is_empty() { None } else { Some(after) },
            prefix,
            entries_max: usize::try_from(max).unwrap_or(usize::MAX),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            values: true,
        },
    }
}

fn fetched_of(need: &Need, result: Result<ReadOutcome, StoreError>) -> Fetched {
    match (need, result) {
        (Need::Attr(_), Err(StoreError::NoSuchAttr)) => Fetched::Attr(None),
        (_, Err(error)) => Fetched::Failed(error.errno()),
        (Need::Data { .. }, Ok(ReadOutcome::Data(data))) => Fetched::Data(data),
        (Need::Extents { .. }, Ok(ReadOutcome::Extents(extents))) => Fetched::Extents(extents),
        (Need::Attr(_), Ok(ReadOutcome::Attr(value))) => Fetched::Attr(Some(value.into())),
        (Need::Attrs, Ok(ReadOutcome::Attrs(attrs))) => {
            Fetched::Attrs(attrs.into_iter().map(|(name, value)| (name, value.into())).collect())
        }
        (Need::OmapHeader, Ok(ReadOutcome::OmapHeader(header))) => Fetched::OmapHeader(header.into()),
        (Need::OmapRange { .. } | Need::OmapKeys(_), Ok(ReadOutcome::Omap(page))) => Fetched::Omap {
            pairs: page.entries.into_iter().map(|(key, value)| (key, value.into())).collect(),
            more: page.more,
        },
        // A store that answers another question than it was asked.
        _ => Fetched::Failed(Errno::EIO),
    }
}
