//! Steps on objects.

use buffer::crc32c;

use super::super::model::Model;
use super::Generator;
use crate::{Advice, AllocHint, CHECKSUM_BLOCK, CollectionId, ObjectChange, Step, Transaction};

impl Generator {
    pub(super) fn object_step(&mut self, model: &Model, txn: &mut Transaction, id: CollectionId) {
        let object = self.object(model, id);
        let change = match self.rng.below(40) {
            0 => ObjectChange::Touch,
            1..=10 => self.write(),
            11..=12 => ObjectChange::Zero { offset: self.offset(), len: self.len() },
            13..=15 => ObjectChange::Truncate(self.offset()),
            16..=18 => ObjectChange::Remove,
            19..=20 => ObjectChange::SetAttrs(self.attrs(6).into_iter().collect()),
            21 => ObjectChange::RemoveAttr(self.attr_name()),
            22 => ObjectChange::RemoveAttrs,
            23..=26 => ObjectChange::OmapSet(self.pairs(self.shape.omap_keys_max)),
            27 => ObjectChange::OmapRemove(self.pairs(20).into_iter().map(|p| p.0).collect()),
            28 => ObjectChange::OmapRemoveRange { first: self.key(), last: self.key() },
            29 => ObjectChange::OmapSetHeader(self.data(9).to_piece()),
            30 if self.rng.one_in(2) => ObjectChange::OmapClear,
            30 => ObjectChange::SetAllocHint(self.hint()),
            _ => return self.object_pair_step(model, txn, id),
        };
        txn.change(id, &object, change);
    }

    /// A step on two objects, the first of which exists (unless a step before took it away).
    fn object_pair_step(&mut self, model: &Model, txn: &mut Transaction, id: CollectionId) {
        // Without an object to begin with the transaction has a step less.
        let Some(c) = model.get(id).filter(|c| !c.objects.is_empty()) else { return };
        let at = self.rng.below(c.objects.len() as u64) as usize;
        let from = c.objects.keys().nth(at).expect("`at` is below their number");
        // What an earlier step may have removed is made again: the history is about what commits.
        let from_ref = txn.name(id, from);
        txn.push(Step::Object { object: from_ref, change: ObjectChange::Touch });
        let partner = if self.rng.one_in(3) { self.partner(model, id) } else { id };
        let to = if self.rng.one_in(3) { self.new_object(partner) } else { self.object(model, partner) };
        let to_ref = txn.name(partner, &to);
        let is_there = model.get(partner).is_some_and(|c| c.objects.contains_key(&to));
        txn.push(match self.rng.below(3) {
            0 => Step::Clone { from: from_ref, to: to_ref },
            1 if !is_there && *from != to => Step::Rename { from: from_ref, to: to_ref },
            _ => Step::CloneRange {
                from: from_ref,
                to: to_ref,
                from_offset: self.offset(),
                len: self.len(),
                to_offset: self.offset(),
            },
        });
    }

    fn write(&mut self) -> ObjectChange {
        let advice = Advice(self.rng.below(0x80) as u32 & 0x7c);
        if !self.rng.one_in(3) {
            let (offset, len) = (self.offset(), self.len() as usize);
            return ObjectChange::Write { offset, data: self.data(len), advice, checksums: None };
        }
        let block = CHECKSUM_BLOCK as u64;
        let offset = self.offset() / block * block;
        let len = self.len().next_multiple_of(block);
        let data = self.data(len as usize);
        let whole = data.to_piece();
        let checksums = whole.chunks(CHECKSUM_BLOCK).map(|block| crc32c(u32::MAX, block)).collect();
        ObjectChange::Write { offset, data, advice, checksums: Some(checksums) }
    }

    fn hint(&mut self) -> AllocHint {
        AllocHint { object_size: self.rng.below(1 << 22), write_size: 4096, flags: self.rng.below(64) as u32 }
    }

    pub(super) fn offset(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(1 + self.shape.object_bytes_max / 4096) * 4096,
            2 => self.rng.below(300),
            _ => self.rng.below(self.shape.object_bytes_max),
        }
    }

    pub(super) fn len(&mut self) -> u64 {
        match self.rng.below(6) {
            0 => self.rng.below(50),
            1 => 4096 * (1 + self.rng.below(4)),
            2 => 0,
            3 => self.rng.below(5000),
            _ => self.rng.below(self.shape.write_bytes_max),
        }
    }
}
