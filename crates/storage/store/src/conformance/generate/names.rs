//! Names, keys and bytes, odd ones among them.

use buffer::{Piece, PieceMut, Rope};
use types::{GHObject, HObject, Name, PoolId, ShardId, SnapId};

use super::super::model::Model;
use super::Generator;
use crate::CollectionId;

/// The attributes that a PG sets with most changes of an object.
const PG_ATTRS: [&str; 2] = ["_", "snapset"];

/// Longer than they are while an object has few snapshots, bytes.
const PG_ATTR_BYTES_MAX: u64 = 800;

/// The longest object name and key that Ceph allows by default, bytes.
const NAME_BYTES_MAX: usize = 2048;

impl Generator {
    /// An object that the collection has, or another.
    pub(super) fn object(&mut self, model: &Model, id: CollectionId) -> GHObject {
        let objects = model.get(id).map(|c| &c.objects).filter(|o| !o.is_empty());
        match objects {
            Some(objects) if !self.rng.one_in(4) => {
                let at = self.rng.below(objects.len() as u64) as usize;
                objects.keys().nth(at).cloned().unwrap_or_else(GHObject::max)
            }
            _ => self.new_object(id),
        }
    }

    /// One of the objects that are made in a collection: heads, a snapshot, the PG's own, a temporary one. Their names
    /// end with the PG's seed: a collection can be merged with another.
    pub(super) fn new_object(&mut self, id: CollectionId) -> GHObject {
        let (shard, seed) = match id {
            CollectionId::Meta => (ShardId::NONE, 77),
            CollectionId::Pg(spg) => (spg.shard, spg.pg.seed),
        };
        let n = self.rng.below(16) as u32;
        let hash = n.wrapping_mul(0x9e37_79b1).rotate_left(seed);
        let head = |name: Name| HObject::head(PoolId(1), Name::new(), Name::new(), name, hash);
        let plain = |n: u32| head(Name::from(format!("object{n}.{seed}")));
        let odd = |front: &[u8]| head([front, &[seed as u8]].concat().into());
        match n {
            0 => GHObject::pgmeta(PoolId(1), seed, shard),
            1 => HObject { snap: SnapId(4), ..plain(7) }.into(),
            2 => HObject { pool: PoolId(-3), ..plain(7) }.into(),
            3 => HObject { nspace: "ns\u{0}".into(), ..plain(4) }.into(),
            4 => HObject { key: [0xff, 0xff].as_slice().into(), ..plain(4) }.into(),
            5 => GHObject { generation: 3, ..plain(5).into() },
            6 => odd(&[0xff]).into(),
            7 => odd(&[0xff, 0xff, 0]).into(),
            8 => odd(b"a\0").into(),
            9 => odd(&[0xff; NAME_BYTES_MAX - 1]).into(),
            10 => HObject { nspace: vec![0xff; 200].into(), ..plain(6) }.into(),
            n => plain(n).into(),
        }
    }

    /// A key of an attribute or of an omap.
    pub(super) fn key(&mut self) -> Name {
        match self.rng.below(24) {
            0 => Name::new(),
            1 => [0].as_slice().into(),
            2 => [0xff].as_slice().into(),
            3 => [0xff, 0xff].as_slice().into(),
            4 => b"a\xff".as_slice().into(),
            5 => b"a\xff\xff".as_slice().into(),
            6 => b"a\xff\0".as_slice().into(),
            7 => b"a\0".as_slice().into(),
            8 => "b".into(),
            9 => vec![0xff; NAME_BYTES_MAX].into(),
            10 => vec![b'a'; NAME_BYTES_MAX].into(),
            n if n < 18 => Name::from(format!("a{}", self.rng.below(30))),
            _ => Name::from(format!("k{:05}", self.rng.below(1 + self.shape.omap_keys_max * 8))),
        }
    }

    pub(super) fn prefix(&mut self) -> Name {
        const PREFIXES: [&[u8]; 8] = [b"", b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"k0", b"\0"];
        PREFIXES[self.rng.below(PREFIXES.len() as u64) as usize].into()
    }

    /// Keys with values, at most `max`; a key may come twice.
    pub(super) fn pairs(&mut self, max: u64) -> Vec<(Name, Piece)> {
        let n = if self.rng.one_in(3) { self.rng.below(max + 1) } else { self.rng.below(7).min(max) };
        let mut pair = || {
            let len = self.rng.below(100) as usize;
            (self.key(), self.data(len).to_piece())
        };
        (0..n).map(|_| pair()).collect()
    }

    /// The name of an attribute.
    pub(super) fn attr_name(&mut self) -> Name {
        match self.shape.pg_attrs && self.rng.one_in(2) {
            true => PG_ATTRS[self.rng.below(2) as usize].into(),
            false => self.key(),
        }
    }

    /// Attributes, at most `max`; a name may come twice.
    pub(super) fn attrs(&mut self, max: u64) -> Vec<(Name, Piece)> {
        let mut attrs = self.pairs(max);
        if !self.shape.pg_attrs {
            return attrs;
        }
        for (name, value) in &mut attrs {
            *name = self.attr_name();
            if self.rng.one_in(3) {
                let len = self.rng.below(PG_ATTR_BYTES_MAX) as usize;
                *value = self.data(len).to_piece();
            }
        }
        attrs
    }

    /// Bytes that are never 0, in one piece, in pages or in odd pieces. Half of them can be compressed: some to nearly
    /// nothing, some to about half.
    pub fn data(&mut self, len: usize) -> Rope {
        let mut piece = PieceMut::zeroed(len);
        let mut first = None;
        for (n, bytes) in piece.as_mut_slice().chunks_mut(8).enumerate() {
            let random = self.rng.next_u64() | 0x0101_0101_0101_0101;
            let first = *first.get_or_insert(random);
            let repeats = match first >> 1 & 3 {
                0 => true,
                1 => n / 8 % 2 == 0,
                _ => false,
            };
            let word = if repeats { first } else { random };
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        let piece = piece.freeze();
        let cut = match self.rng.below(4) {
            0 => 1 + self.rng.below(len as u64 + 1) as usize,
            1 => 4096,
            2 => 12_288,
            _ => return piece.into(),
        };
        let mut rope = Rope::new();
        for start in (0..len).step_by(cut) {
            rope.push(piece.slice(start..len.min(start + cut)));
        }
        rope
    }
}
