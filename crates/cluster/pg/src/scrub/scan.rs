//! A chunk of a scrub as one copy has it: what is to be read next, and what was read. Pure; nothing here compares.

use std::collections::VecDeque;

use store::{Advice, AttrChoice, CollectionId, ObjectHead, ReadOutcome, ReadRequest, StoreError};
use types::{GHObject, HObject, Name};

use crate::ScrubConfig;
use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};

/// The seed of digests of objects' data (Ceph's bufferhash(-1)).
const DIGEST_SEED: u32 = u32::MAX;
/// Bytes of keys and values that are read at once.
const OMAP_BYTES_AT_ONCE: usize = 1 << 20;

/// An object as a copy has it.
#[derive(Debug, PartialEq)]
pub(crate) struct Scanned {
    pub oid: HObject,
    /// Size, object info and SnapSet, or why the store can't give them.
    pub head: Result<ObjectHead, String>,
    /// Of a deep scrub, where `head` could be read.
    pub contents: Option<Contents>,
}

/// What a deep scrub reads of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    /// crc32c of the data from -1.
    pub digest: u32,
    pub omap_keys: u64,
    /// Bytes of the omap's values.
    pub omap_bytes: u64,
    /// Why a part can't be read; digest and counts are of what came before.
    pub read_error: Option<String>,
}

/// What comes next of an object.
#[derive(Debug)]
enum Part {
    Head,
    Data { offset: u64, size: u64 },
    Omap { after: Option<Name> },
}

/// The objects of a chunk, read one after the other.
#[derive(Debug)]
pub(crate) struct Scan {
    collection: CollectionId,
    deep: bool,
    stride: u64,
    omap_keys_at_once: usize,
    left: VecDeque<GHObject>,
    /// Of the first one that is left.
    part: Part,
    current: Option<Scanned>,
    done: Vec<Scanned>,
}

impl Scan {
    pub fn new(collection: CollectionId, objects: Vec<GHObject>, deep: bool, config: &ScrubConfig) -> Self {
        Self {
            collection,
            deep,
            stride: config.stride_bytes.max(1),
            omap_keys_at_once: config.omap_keys_at_once.max(1),
            left: objects.into(),
            part: Part::Head,
            current: None,
            done: Vec::new(),
        }
    }

    /// What is to be read next; `None` when everything is read.
    pub fn next_read(&self) -> Option<ReadRequest> {
        let (object, collection) = (self.left.front()?.clone(), self.collection);
        Some(match &self.part {
            Part::Head => ReadRequest::Object {
                collection,
                object,
                attrs: AttrChoice::These(vec![INFO_ATTR.into(), SNAPSET_ATTR.into()]),
            },
            Part::Data { offset, .. } => ReadRequest::Data {
                collection,
                object,
                offset: *offset,
                len: self.stride,
                advice: Advice::DONTNEED,
                verify: true,
            },
            Part::Omap { after } => ReadRequest::OmapRange {
                collection,
                object,
                after: after.clone(),
                before: None,
                prefix: Name::new(),
                entries_max: self.omap_keys_at_once,
                bytes_max: OMAP_BYTES_AT_ONCE,
                values: true,
            },
        })
    }

    /// Whether the next read is small, so that it may be answered at once from memory.
    pub fn is_at_metadata(&self) -> bool {
        matches!(self.part, Part::Head)
    }

    /// Takes the answer of [`Scan::next_read`].
    pub fn take(&mut self, result: Result<ReadOutcome, StoreError>) {
        match (&self.part, result) {
            (Part::Head, Ok(ReadOutcome::Object(Some(head)))) => self.take_head(head),
            (Part::Head, Ok(ReadOutcome::Object(None))) => self.end(Err("it is listed and not there".into())),
            (Part::Head, Err(error)) => self.end(Err(error.to_string())),
            (Part::Data { offset, size }, Ok(ReadOutcome::Data(data))) => {
                let (to, size) = (*offset + data.len() as u64, *size);
                if let Some(contents) = self.contents() {
                    contents.digest = data.crc32c(contents.digest);
                }
                self.part = match to < size && !data.is_empty() {
                    true => Part::Data { offset: to, size },
                    false => Part::Omap { after: None },
                };
            }
            // The omap may be whole all the same.
            (Part::Data { .. }, Err(error)) => {
                self.note_error(error.to_string());
                self.part = Part::Omap { after: None };
            }
            (Part::Omap { .. }, Ok(ReadOutcome::Omap(page))) => {
                if let Some(contents) = self.contents() {
                    contents.omap_keys += page.entries.len() as u64;
                    contents.omap_bytes +=
                        page.entries.iter().map(|(_, value)| value.len() as u64).sum::<u64>();
                }
                match page.entries.last().filter(|_| page.more) {
                    Some((key, _)) => self.part = Part::Omap { after: Some(key.clone()) },
                    None => self.end_object(),
                }
            }
            (Part::Omap { .. }, Err(error)) => {
                self.note_error(error.to_string());
                self.end_object();
            }
            (Part::Head, Ok(_)) => self.end(Err("the store answered another question".into())),
            (Part::Data { .. } | Part::Omap { .. }, Ok(_)) => {
                self.note_error("the store answered another question".into());
                self.end_object();
            }
        }
    }

    /// Everything that was read, in the order of the objects.
    pub fn into_objects(self) -> Vec<Scanned> {
        self.done
    }

    fn take_head(&mut self, head: ObjectHead) {
        let size = head.stat.size;
        if !self.deep {
            return self.end(Ok(head));
        }
        let contents = Contents { digest: DIGEST_SEED, omap_keys: 0, omap_bytes: 0, read_error: None };
        // There is a first one that is left: this is of it.
        let Some(object) = self.left.front() else { return };
        self.current = Some(Scanned { oid: object.hobj.clone(), head: Ok(head), contents: Some(contents) });
        self.part = match size {
            0 => Part::Omap { after: None },
            size => Part::Data { offset: 0, size },
        };
    }

    fn contents(&mut self) -> Option<&mut Contents> {
        self.current.as_mut()?.contents.as_mut()
    }

    fn note_error(&mut self, error: String) {
        if let Some(contents) = self.contents() {
            contents.read_error.get_or_insert(error);
        }
    }

    /// An object of which nothing more is read than this.
    fn end(&mut self, head: Result<ObjectHead, String>) {
        // There is a first one that is left: this is of it.
        let Some(object) = self.left.pop_front() else { return };
        self.done.push(Scanned { oid: object.hobj, head, contents: None });
        self.part = Part::Head;
    }

    fn end_object(&mut self) {
        self.done.extend(self.current.take());
        self.left.pop_front();
        self.part = Part::Head;
    }
}
