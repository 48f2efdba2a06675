//! An object in memory: its data as shared pieces, attributes, omap.

use std::collections::BTreeMap;

use buffer::{Piece, PieceMut, Rope, copy_payload};
use types::Name;

use super::extents::Extents;
use crate::{AllocHint, Attrs, ObjectChange};

/// Granularity of the extent map, bytes. Every extent begins on it, so an aligned write is kept as it came.
const PAGE: u64 = 4096;

/// Data as extents that begin on a page; what no extent covers is zero.
#[derive(Clone, Default)]
pub(super) struct Data {
    extents: Extents,
    size: u64,
    /// Bytes of the pages that extents lie on. No page has parts of two, so this depends on which pages are allocated
    /// alone, not on how they came to be.
    used: u64,
}

/// Bytes of the pages that a piece lies on; every extent begins on a page.
fn allocated(piece: &Piece) -> u64 {
    (piece.len() as u64).next_multiple_of(PAGE)
}

/// `n` rounded down to a page.
fn floor(n: u64) -> u64 {
    n & !(PAGE - 1)
}

impl Data {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes allocated, in pages (holes cost nothing).
    pub fn bytes_used(&self) -> u64 {
        self.used
    }

    /// Puts a piece where nothing is.
    fn insert(&mut self, at: u64, piece: Piece) {
        self.used += allocated(&piece);
        self.extents.insert(at, piece);
    }

    fn remove(&mut self, at: u64) -> Option<Piece> {
        let piece = self.extents.remove(at)?;
        self.used -= allocated(&piece);
        Some(piece)
    }

    /// Puts `data` at `offset`. Whole pages are shared; parts of pages at either end are merged into copies.
    pub fn write(&mut self, offset: u64, data: &Rope) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        if offset % PAGE == 0 && (end % PAGE == 0 || end >= self.size) && is_page_aligned(data) {
            self.punch(offset, end);
            let mut at = offset;
            for piece in data.pieces() {
                self.insert(at, piece.clone());
                at += piece.len() as u64;
            }
        } else {
            self.write_unaligned(offset, end, data);
        }
        self.size = self.size.max(end);
    }

    /// Copies the pages at both ends (or the whole, when it is small or in odd pieces) into one new piece.
    fn write_unaligned(&mut self, offset: u64, end: u64, data: &Rope) {
        let first = floor(offset);
        let last = (end.next_multiple_of(PAGE)).min(self.size.max(end));
        let mut merged = PieceMut::zeroed((last - first) as usize);
        let bytes = merged.as_mut_slice();
        self.copy_out(first, &mut bytes[..(offset - first) as usize]);
        let mut at = (offset - first) as usize;
        for piece in data.pieces() {
            copy_payload(&mut bytes[at..at + piece.len()], piece);
            at += piece.len();
        }
        self.copy_out(end, &mut bytes[at..]);
        self.punch(first, last);
        self.insert(first, merged.freeze());
    }

    /// Fills `out`, zeros so far, with what lies at `offset`.
    fn copy_out(&self, offset: u64, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        let end = offset + out.len() as u64;
        for (start, piece) in self.overlapping(offset, end) {
            let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
            copy_payload(
                &mut out[(from - offset) as usize..(to - offset) as usize],
                &piece[(from - start) as usize..(to - start) as usize],
            );
        }
    }

    /// The extents that hold a byte of `offset..end`, ascending.
    fn overlapping(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let before = self.extents.last_begin(offset).unwrap_or(offset);
        self.extents
            .range(before, end.max(before))
            .filter(move |(start, piece)| start + piece.len() as u64 > offset)
    }

    /// Drops the extents' parts in `start..end`; `start` is on a page, and so is `end` unless nothing lies behind it.
    fn punch(&mut self, start: u64, end: u64) {
        // An overwrite of what was once written in one piece: the map keeps its shape.
        if self.extents.get(start).is_some_and(|p| start + p.len() as u64 == end) {
            self.remove(start);
            return;
        }
        let hit: Vec<u64> = self.overlapping(start, end).map(|(at, _)| at).collect();
        for at in hit {
            let Some(piece) = self.remove(at) else { continue };
            let piece_end = at + piece.len() as u64;
            if at < start {
                self.insert(at, keep(&piece, 0, (start - at) as usize));
            }
            if piece_end > end {
                self.insert(end, keep(&piece, (end - at) as usize, piece.len()));
            }
        }
    }

    pub fn zero(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let end = offset + len;
        let (first, last) = (offset.next_multiple_of(PAGE), floor(end));
        if first < last {
            self.punch(first, last);
        }
        // Parts of pages at the ends, where there is something to be made zero.
        for (from, to) in [(offset, first.min(end)), (last.max(first.min(end)), end)] {
            if from < to && self.overlapping(from, to).next().is_some() {
                self.write(from, &Rope::zeros((to - from) as usize));
            }
        }
        self.size = self.size.max(end);
    }

    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            let dropped = self.extents.split_off(size);
            self.used -= dropped.pieces().map(allocated).sum::<u64>();
            if let Some(at) = self.extents.last_begin(u64::MAX) {
                if let Some(piece) = self.remove(at) {
                    let len = (piece.len() as u64).min(size - at) as usize;
                    self.insert(at, keep(&piece, 0, len));
                }
            }
        }
        self.size = size;
    }

    /// Bytes `offset..offset + len`, cut at the end.
    pub fn read(&self, offset: u64, len: u64) -> Rope {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Rope::new();
        }
        let mut out = Rope::new();
        let mut at = offset;
        for (start, piece) in self.overlapping(offset, end) {
            let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
            if from > at {
                out.append(Rope::zeros((from - at) as usize));
            }
            out.push(piece.slice((from - start) as usize..(to - start) as usize));
            at = to;
        }
        if at < end {
            out.append(Rope::zeros((end - at) as usize));
        }
        out
    }

    /// Allocated ranges within `offset..offset + len`, joined where they touch.
    pub fn extents(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let end = offset.saturating_add(len).min(self.size);
        let mut out: Vec<(u64, u64)> = Vec::new();
        if offset >= end {
            return out;
        }
        for (start, piece) in self.overlapping(offset, end) {
            let (from, to) = (start.max(offset), (start + piece.len() as u64).min(end));
            match out.last_mut() {
                Some((at, len)) if *at + *len == from => *len += to - from,
                _ => out.push((from, to - from)),
            }
        }
        out
    }
}

/// Whether every piece but the last is a multiple of a page.
fn is_page_aligned(data: &Rope) -> bool {
    data.pieces().split_last().is_some_and(|(_, front)| front.iter().all(|p| p.len() as u64 % PAGE == 0))
        // Small data would keep a whole message's slab alive.
        && data.len() as u64 >= PAGE
}

/// The part `from..to` of a piece: shared, or copied when it is small and sharing would keep much more memory alive.
fn keep(piece: &Piece, from: usize, to: usize) -> Piece {
    const COPIED_BYTES_MAX: usize = 64 << 10;
    match to - from <= COPIED_BYTES_MAX && (to - from) * 4 < piece.len() {
        true => Piece::copy_from(&piece[from..to]),
        false => piece.slice(from..to),
    }
}

/// An omap with the bytes that it holds.
#[derive(Clone, Default)]
pub(super) struct Omap {
    entries: BTreeMap<Name, Piece>,
    bytes: u64,
}

fn pair_bytes(key: &Name, value: &Piece) -> u64 {
    OVERHEAD_BYTES + (key.len() + value.len()) as u64
}

impl Omap {
    fn set(&mut self, key: Name, value: Piece) {
        self.bytes += pair_bytes(&key, &value);
        let key_len = key.len() as u64;
        if let Some(old) = self.entries.insert(key, value) {
            self.bytes -= OVERHEAD_BYTES + key_len + old.len() as u64;
        }
    }

    fn remove(&mut self, key: &Name) {
        if let Some(value) = self.entries.remove(key) {
            self.bytes -= pair_bytes(key, &value);
        }
    }

    fn remove_range(&mut self, first: &Name, last: &Name) {
        if first >= last {
            return;
        }
        let mut removed = self.entries.split_off(first);
        let mut rest = removed.split_off(last);
        self.entries.append(&mut rest);
        self.bytes -= removed.iter().map(|(k, v)| pair_bytes(k, v)).sum::<u64>();
    }
}

/// Counted for each object, attribute and omap key beside their bytes, so that the metadata's bytes follow memory.
pub(super) const OVERHEAD_BYTES: u64 = 64;

#[derive(Clone, Default)]
pub(super) struct Object {
    pub data: Data,
    attrs: Attrs,
    attr_bytes: u64,
    pub hint: Option<AllocHint>,
    /// The omap and its header. Most objects have none, and take no room for it.
    omap: Option<Box<(Omap, Piece)>>,
}

impl Object {
    pub fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    pub fn omap(&self) -> &BTreeMap<Name, Piece> {
        const NONE: &BTreeMap<Name, Piece> = &BTreeMap::new();
        self.omap.as_ref().map_or(NONE, |with_header| &with_header.0.entries)
    }

    pub fn omap_header(&self) -> Piece {
        self.omap.as_ref().map_or(Piece::empty(), |with_header| with_header.1.clone())
    }

    /// Bytes that the object counts for beside its data and its name.
    pub fn metadata_bytes(&self) -> u64 {
        let of_omap = |with_header: &(Omap, Piece)| with_header.0.bytes + with_header.1.len() as u64;
        OVERHEAD_BYTES + self.attr_bytes + self.omap.as_deref().map_or(0, of_omap)
    }

    /// Applies a change that is no removal, and those that follow it up to a removal, which is returned.
    pub fn change_until_removed(
        &mut self,
        first: ObjectChange,
        more: &mut impl Iterator<Item = ObjectChange>,
    ) -> Option<ObjectChange> {
        self.change(first);
        for change in more {
            if matches!(change, ObjectChange::Remove) {
                return Some(change);
            }
            self.change(change);
        }
        None
    }

    fn change(&mut self, change: ObjectChange) {
        match change {
            ObjectChange::Touch => {}
            ObjectChange::Write { offset, data, advice: _, checksums: _ } => self.data.write(offset, &data),
            ObjectChange::Zero { offset, len } => self.data.zero(offset, len),
            ObjectChange::Truncate(size) => self.data.truncate(size),
            ObjectChange::Remove => *self = Self::default(),
            ObjectChange::SetAttrs(attrs) => self.change_attrs(|all| match all.is_empty() {
                true => *all = attrs,
                false => all.extend(attrs),
            }),
            ObjectChange::RemoveAttr(name) => self.change_attrs(|all| drop(all.remove(&name))),
            ObjectChange::RemoveAttrs => self.change_attrs(Attrs::clear),
            ObjectChange::OmapSet(entries) => {
                let omap = &mut self.omap.get_or_insert_default().0;
                entries.into_iter().for_each(|(k, v)| omap.set(k, v));
            }
            ObjectChange::OmapRemove(keys) => {
                self.change_omap(|omap| keys.iter().for_each(|key| omap.remove(key)));
            }
            ObjectChange::OmapRemoveRange { first, last } => {
                self.change_omap(|omap| omap.remove_range(&first, &last));
            }
            ObjectChange::OmapSetHeader(header) => self.omap.get_or_insert_default().1 = header,
            ObjectChange::OmapClear => self.omap = None,
            ObjectChange::SetAllocHint(hint) => self.hint = Some(hint),
        }
    }

    /// Changes the omap, if there is one.
    fn change_omap(&mut self, change: impl FnOnce(&mut Omap)) {
        if let Some(with_header) = &mut self.omap {
            change(&mut with_header.0);
        }
    }

    fn change_attrs(&mut self, change: impl FnOnce(&mut Attrs)) {
        change(&mut self.attrs);
        self.attr_bytes = self.attrs.bytes() + self.attrs.len() as u64 * OVERHEAD_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8, len: usize) -> Rope {
        let mut piece = PieceMut::zeroed(len);
        piece.as_mut_slice().fill(byte);
        piece.freeze().into()
    }

    #[test]
    fn aligned_data_is_kept_and_read_without_a_copy() {
        for len in [4096, 4 << 20] {
            let mut data = Data::default();
            for byte in 1..4 {
                let rope = page(byte, len);
                data.write(0, &rope);
                let read = data.read(0, len as u64);
                assert_eq!(read.pieces().len(), 1);
                assert_eq!(read.pieces()[0].as_ptr(), rope.pieces()[0].as_ptr());
            }
            assert_eq!((data.extents.len(), data.bytes_used()), (1, len as u64));
        }
    }

    #[test]
    fn a_page_written_into_a_large_extent_leaves_its_neighbours_shared() {
        let mut data = Data::default();
        let large = page(1, 4 << 20);
        data.write(0, &large);
        data.write(1 << 20, &page(2, 4096));
        assert_eq!((data.extents.len(), data.bytes_used()), (3, 4 << 20));
        let after = data.read((1 << 20) + 4096, 1);
        assert_eq!(after.pieces()[0].as_ptr(), large.pieces()[0][(1 << 20) + 4096..].as_ptr());
    }

    #[test]
    fn small_writes_keep_neither_messages_nor_many_pieces_alive() {
        let mut data = Data::default();
        let message = page(7, 1 << 20);
        (0..10_000u64).for_each(|i| data.write(i * 16, &message.slice(0..16)));
        assert_eq!(data.extents.len(), 40, "an extent a page");
        assert_eq!((data.bytes_used(), data.size()), (163_840, 160_000));
        data.truncate(10);
        assert_eq!((data.bytes_used(), data.read(0, 99)), (4096, page(7, 10)));
    }
}
