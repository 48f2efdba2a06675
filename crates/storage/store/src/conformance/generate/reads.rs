//! Reads.

use types::{GHObject, Name};

use super::super::model::Model;
use super::Generator;
use crate::{Advice, AttrChoice, CollectionId, ReadRequest};

impl Generator {
    /// A read of one collection.
    pub fn read(&mut self, model: &Model) -> ReadRequest {
        let collection = self.collection(model);
        let object = self.object(model, collection);
        let bytes_max = self.rng.below(600) as usize;
        match self.rng.below(14) {
            0..=3 => self.read_data(collection, object),
            4 => ReadRequest::Stat { collection, object },
            5 => ReadRequest::Attr { collection, object, name: self.attr_name() },
            6 => ReadRequest::Object { collection, object, attrs: self.attr_choice() },
            7 => {
                let keys = self.pairs(20).into_iter().map(|p| p.0).collect();
                ReadRequest::OmapKeys { collection, object, keys }
            }
            8..=9 => self.read_omap(collection, object),
            10 => {
                let start = if self.rng.one_in(2) { GHObject::min() } else { object };
                let end = if self.rng.one_in(2) { GHObject::max() } else { self.object(model, collection) };
                let objects_max = self.rng.below(10) as usize;
                match self.attr_choice() {
                    AttrChoice::None if objects_max % 2 == 0 => {
                        ReadRequest::ListReadable { collection, start, end, objects_max }
                    }
                    attrs => ReadRequest::List { collection, start, end, objects_max, attrs },
                }
            }
            11 => ReadRequest::Collection { collection },
            12 => ReadRequest::Extents { collection, object, offset: self.offset(), len: self.len() },
            _ => ReadRequest::Log {
                collection,
                after: self.version_back(100 * self.shape.log_records_max),
                records_max: self.rng.below(10) as usize,
                bytes_max,
            },
        }
    }

    fn read_data(&mut self, collection: CollectionId, object: GHObject) -> ReadRequest {
        let (offset, len) = match self.rng.below(3) {
            0 => (0, u64::MAX),
            _ => (self.offset(), self.len()),
        };
        let advice = Advice(self.rng.below(0x80) as u32 & 0x7c);
        ReadRequest::Data { collection, object, offset, len, advice, verify: self.rng.one_in(5) }
    }

    fn read_omap(&mut self, collection: CollectionId, object: GHObject) -> ReadRequest {
        ReadRequest::OmapRange {
            collection,
            object,
            after: self.maybe_key(),
            before: self.maybe_key(),
            prefix: self.prefix(),
            entries_max: self.rng.below(10) as usize,
            bytes_max: self.rng.below(600) as usize,
            values: self.rng.one_in(2),
        }
    }

    fn maybe_key(&mut self) -> Option<Name> {
        if self.rng.one_in(2) { Some(self.key()) } else { None }
    }

    fn attr_choice(&mut self) -> AttrChoice {
        match self.rng.below(3) {
            0 => AttrChoice::None,
            1 => AttrChoice::All,
            _ => AttrChoice::These(self.attrs(6).into_iter().map(|p| p.0).collect()),
        }
    }
}
