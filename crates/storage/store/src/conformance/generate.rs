//! Random requests over few names, so that they meet.

use buffer::{Piece, PieceMut, Rope};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, ShardId, SnapId};

use crate::{AllocHint, Attrs, CollectionId, ReadRequest, Transaction, TxOp};

/// A small deterministic generator (splitmix64): the same seed, the same requests, on every machine.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (which is not 0).
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// Whether one of `n` equal chances hits.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Makes random transactions and reads.
pub struct Generator {
    /// Where they come from.
    pub rng: Rng,
    log_version: u64,
}

impl Generator {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), log_version: 0 }
    }

    /// The first transaction: the collections that most others use.
    pub fn setup() -> Transaction {
        let mut txn = Transaction::new();
        txn.create_collection(CollectionId::Meta, 0);
        (0..2).for_each(|seed| {
            txn.create_collection(collection(seed), 1);
        });
        txn
    }

    fn collection(&mut self) -> CollectionId {
        match self.rng.below(20) {
            0 => CollectionId::Meta,
            1 => collection(2),
            n => collection(n as u32 % 2),
        }
    }

    /// One of few objects: heads, a snapshot, the PG's own, a temporary one, rarely a sentinel.
    pub fn object(&mut self) -> GHObject {
        let n = self.rng.below(12) as u32;
        let name = |n: u32| Name::from(format!("object{n}"));
        let head =
            |n: u32| HObject::head(PoolId(1), Name::new(), Name::new(), name(n), n.wrapping_mul(0x9e37));
        match n {
            0 => GHObject::pgmeta(PoolId(1), 0, ShardId::NONE),
            1 => HObject { snap: SnapId(4), ..head(2) }.into(),
            2 => HObject { pool: PoolId(-3), ..head(2) }.into(),
            3 => HObject { nspace: "ns".into(), ..head(4) }.into(),
            4 => HObject { key: "key".into(), ..head(4) }.into(),
            5 => GHObject { generation: 3, ..head(5).into() },
            6 if self.rng.one_in(20) => GHObject::max(),
            n => head(n).into(),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(6) * 4096,
            2 => self.rng.below(300),
            _ => self.rng.below(30_000),
        }
    }

    fn len(&mut self) -> u64 {
        match self.rng.below(5) {
            0 => self.rng.below(50),
            1 => 4096 * (1 + self.rng.below(4)),
            2 => 0,
            _ => self.rng.below(20_000),
        }
    }

    /// Bytes, in one piece or in odd ones.
    pub fn data(&mut self, len: usize) -> Rope {
        let mut piece = PieceMut::zeroed(len);
        let mut state = self.rng.next_u64();
        for byte in piece.as_mut_slice() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8 | 1;
        }
        let piece = piece.freeze();
        let cut = self.rng.below(len as u64 + 1) as usize;
        match self.rng.below(3) {
            0 => {
                let mut rope = Rope::from(piece.slice(0..cut));
                rope.push(piece.slice(cut..len));
                rope
            }
            _ => piece.into(),
        }
    }

    fn key(&mut self) -> Name {
        let n = self.rng.below(30);
        Name::from(format!("{}{}", if n % 3 == 0 { "a" } else { "b" }, n))
    }

    fn entries(&mut self) -> Attrs {
        let n = self.rng.below(6);
        let mut map = Attrs::new();
        for _ in 0..n {
            let len = self.rng.below(100) as usize;
            map.insert(self.key(), self.data(len).to_piece());
        }
        map
    }

    fn version(&mut self) -> EVersion {
        let n = if self.rng.one_in(30) { 1 } else { self.log_version };
        EVersion::new(Epoch(1 + n as u32 / 10), n)
    }

    /// A transaction of a few steps, most of which make sense.
    pub fn transaction(&mut self) -> Transaction {
        let mut txn = Transaction::new();
        for _ in 0..=self.rng.below(5) {
            let op = self.step();
            txn.push(op);
        }
        txn
    }

    fn step(&mut self) -> TxOp {
        let (collection, object) = (self.collection(), self.object());
        match self.rng.below(40) {
            0 => TxOp::Touch { collection, object },
            1..=9 => {
                let (offset, len) = (self.offset(), self.len() as usize);
                TxOp::Write { collection, object, offset, data: self.data(len) }
            }
            10..=11 => TxOp::Zero { collection, object, offset: self.offset(), len: self.len() },
            12..=14 => TxOp::Truncate { collection, object, size: self.offset() },
            15..=16 => TxOp::Remove { collection, object },
            17..=18 => TxOp::SetAttrs { collection, object, attrs: self.entries() },
            19 => TxOp::RemoveAttr { collection, object, name: self.key() },
            20 if self.rng.one_in(3) => TxOp::RemoveAttrs { collection, object },
            20..=22 => TxOp::OmapSet { collection, object, entries: self.entries() },
            23 => TxOp::OmapRemove { collection, object, keys: self.entries().into_keys().collect() },
            24 => TxOp::OmapRemoveRange { collection, object, first: self.key(), last: self.key() },
            25 => {
                TxOp::OmapSetHeader { collection, object, header: Piece::copy_from(&[self.rng.0 as u8; 9]) }
            }
            26 if self.rng.one_in(2) => TxOp::OmapClear { collection, object },
            26 => TxOp::SetAllocHint {
                collection,
                object,
                hint: AllocHint { object_size: 9, ..Default::default() },
            },
            27..=28 => TxOp::Clone { collection, from: object, to: self.object() },
            29..=30 => TxOp::CloneRange {
                collection,
                from: object,
                to: self.object(),
                from_offset: self.offset(),
                len: self.len(),
                to_offset: self.offset(),
            },
            31 => {
                let to_collection = self.collection();
                TxOp::Rename { collection, from: object, to_collection, to: self.object() }
            }
            32..=35 => {
                self.log_version += 1;
                let len = self.rng.below(200) as usize;
                TxOp::LogAppend { collection, version: self.version(), entry: self.data(len).to_piece() }
            }
            36 => {
                let back = self.rng.below(20);
                TxOp::LogTrim { collection, to: version(self.log_version.saturating_sub(back)) }
            }
            37 => {
                let back = self.rng.below(5);
                TxOp::LogRewind { collection, to: version(self.log_version.saturating_sub(back)) }
            }
            _ => self.collection_step(),
        }
    }

    fn collection_step(&mut self) -> TxOp {
        let (c, into) = (collection(self.rng.below(3) as u32), collection(self.rng.below(3) as u32));
        match self.rng.below(4) {
            0 => TxOp::CreateCollection { collection: c, bits: 2 },
            1 => TxOp::RemoveCollection { collection: c },
            2 => {
                let (bits, rem) = (self.rng.below(4) as u32, self.rng.below(4) as u32);
                TxOp::SplitCollection { collection: c, bits, rem, into }
            }
            _ if self.rng.one_in(3) => TxOp::MergeCollection { collection: c, into, bits: 1 },
            _ => TxOp::CreateCollection { collection: collection(2), bits: 2 },
        }
    }

    /// A read that the model can answer.
    pub fn read(&mut self) -> ReadRequest {
        let (collection, object) = (self.collection(), self.object());
        let (entries_max, bytes_max) = (self.rng.below(10) as usize, self.rng.below(600) as usize);
        match self.rng.below(12) {
            0..=3 => ReadRequest::Data { collection, object, offset: self.offset(), len: self.len() },
            4 => ReadRequest::Stat { collection, object },
            5 => ReadRequest::Attr { collection, object, name: self.key() },
            6 => ReadRequest::Object { collection, object },
            7 => ReadRequest::OmapKeys { collection, object, keys: self.entries().into_keys().collect() },
            8..=9 => {
                let after = if self.rng.one_in(2) { Some(self.key()) } else { None };
                let prefix = if self.rng.one_in(2) { Name::new() } else { "b".into() };
                let values = self.rng.one_in(2);
                ReadRequest::OmapRange { collection, object, after, prefix, entries_max, bytes_max, values }
            }
            10 => ReadRequest::List {
                collection,
                start: object,
                end: GHObject::max(),
                objects_max: entries_max,
            },
            _ => ReadRequest::Log { collection, after: self.version(), entries_max, bytes_max },
        }
    }
}

fn collection(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1 + n as u32 / 10), n)
}
