//! A transaction's encoding, in two parts so that payload is never copied: the steps as bytes, and the data of all
//! writes, in order, as one rope.

use std::collections::BTreeMap;

use buffer::{Piece, Rope};
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::Name;

use crate::{AllocHint, Attrs, CollectionId, Transaction, TxOp};

const VERSION: u8 = 1;
const COMPAT: u8 = 1;

impl Transaction {
    /// The steps (a versioned envelope) and the data that they refer to.
    pub fn encode_parts(&self) -> (Vec<u8>, Rope) {
        let mut e = Encoder::new(0);
        let mut data = Rope::new();
        e.versioned(VERSION, COMPAT, |e| {
            e.put(&(self.ops.len() as u32));
            self.ops.iter().for_each(|op| encode_op(op, e, &mut data));
        });
        (e.into_bytes(), data)
    }

    /// Reads what [`Transaction::encode_parts`] wrote; `data` is shared, not copied.
    ///
    /// # Errors
    /// The bytes are not a transaction's, or `data` is shorter or longer than they say: the writer's fault.
    pub fn decode_parts(steps: &[u8], data: &Rope) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(steps);
        let mut data = Data { rope: data, pos: 0 };
        let ops = d.versioned(VERSION, "transaction", |d, _| {
            let n = d.count(2, "transaction steps")?;
            let mut ops = Vec::with_capacity(n.min(1024));
            for _ in 0..n {
                ops.push(decode_op(d, &mut data)?);
            }
            Ok(ops)
        })?;
        d.finish()?;
        match data.rope.len() - data.pos {
            0 => Ok(Self { ops }),
            n => Err(DecodeError::LeftOver(n)),
        }
    }
}

impl Encode for Transaction {
    /// Both parts with their lengths, one after the other.
    fn encode(&self, e: &mut Encoder) {
        let (steps, data) = self.encode_parts();
        e.blob(&steps).put(&(data.len() as u32));
        data.pieces().iter().for_each(|p| {
            e.raw(p);
        });
    }
}
impl Decode for Transaction {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let steps = d.blob("transaction steps")?;
        let data = Rope::copy_from(d.blob("transaction data")?);
        Self::decode_parts(steps, &data)
    }
}

/// The data part as it is handed out.
struct Data<'a> {
    rope: &'a Rope,
    pos: usize,
}

impl Data<'_> {
    fn take(&mut self, len: usize) -> Result<Rope, DecodeError> {
        let left = self.rope.len() - self.pos;
        if len > left {
            return Err(DecodeError::Truncated { what: "transaction data", needed: len, left });
        }
        self.pos += len;
        Ok(self.rope.slice(self.pos - len..self.pos))
    }
}

fn encode_map(map: &Attrs, e: &mut Encoder) {
    e.put(&(map.len() as u32));
    for (name, value) in map {
        e.put(name).blob(value);
    }
}

fn decode_map(d: &mut Decoder<'_>) -> Result<Attrs, DecodeError> {
    let n = d.count(8, "attributes")?;
    let mut map = BTreeMap::new();
    for _ in 0..n {
        let name: Name = d.get()?;
        map.insert(name, decode_piece(d)?);
    }
    Ok(map)
}

fn decode_piece(d: &mut Decoder<'_>) -> Result<Piece, DecodeError> {
    Ok(d.blob("value")?.to_vec().into())
}

/// The number of a step, for ever: never reused for another.
fn code(op: &TxOp) -> u8 {
    match op {
        TxOp::Touch { .. } => 1,
        TxOp::Write { .. } => 2,
        TxOp::Zero { .. } => 3,
        TxOp::Truncate { .. } => 4,
        TxOp::Remove { .. } => 5,
        TxOp::SetAttrs { .. } => 6,
        TxOp::RemoveAttr { .. } => 7,
        TxOp::RemoveAttrs { .. } => 8,
        TxOp::OmapSet { .. } => 9,
        TxOp::OmapRemove { .. } => 10,
        TxOp::OmapRemoveRange { .. } => 11,
        TxOp::OmapSetHeader { .. } => 12,
        TxOp::OmapClear { .. } => 13,
        TxOp::Clone { .. } => 14,
        TxOp::CloneRange { .. } => 15,
        TxOp::Rename { .. } => 16,
        TxOp::SetAllocHint { .. } => 17,
        TxOp::CreateCollection { .. } => 18,
        TxOp::RemoveCollection { .. } => 19,
        TxOp::SplitCollection { .. } => 20,
        TxOp::MergeCollection { .. } => 21,
        TxOp::LogAppend { .. } => 22,
        TxOp::LogTrim { .. } => 23,
        TxOp::LogRewind { .. } => 24,
    }
}

fn encode_op(op: &TxOp, e: &mut Encoder, rope: &mut Rope) {
    e.put(&code(op)).put(&op.collection());
    if let Some(object) = op.object() {
        e.put(object);
    }
    match op {
        TxOp::Touch { .. }
        | TxOp::Remove { .. }
        | TxOp::RemoveAttrs { .. }
        | TxOp::OmapClear { .. }
        | TxOp::RemoveCollection { .. } => e,
        TxOp::Write { offset, data, .. } => {
            rope.append(data.clone());
            e.put(offset).put(&(data.len() as u32))
        }
        TxOp::Zero { offset, len, .. } => e.put(offset).put(len),
        TxOp::Truncate { size, .. } => e.put(size),
        TxOp::SetAttrs { attrs: map, .. } | TxOp::OmapSet { entries: map, .. } => {
            encode_map(map, e);
            e
        }
        TxOp::RemoveAttr { name, .. } => e.put(name),
        TxOp::OmapRemove { keys, .. } => e.put(keys),
        TxOp::OmapRemoveRange { first, last, .. } => e.put(first).put(last),
        TxOp::OmapSetHeader { header, .. } => e.blob(header),
        TxOp::Clone { from, to, .. } => e.put(from).put(to),
        TxOp::CloneRange { from, to, from_offset, len, to_offset, .. } => {
            e.put(from).put(to).put(from_offset).put(len).put(to_offset)
        }
        TxOp::Rename { from, to_collection, to, .. } => e.put(from).put(to_collection).put(to),
        TxOp::SetAllocHint { hint, .. } => e.put(&hint.object_size).put(&hint.write_size).put(&hint.flags),
        TxOp::CreateCollection { bits, .. } => e.put(bits),
        TxOp::SplitCollection { bits, rem, into, .. } => e.put(bits).put(rem).put(into),
        TxOp::MergeCollection { into, bits, .. } => e.put(into).put(bits),
        TxOp::LogAppend { version, entry, .. } => e.put(version).blob(entry),
        TxOp::LogTrim { to, .. } | TxOp::LogRewind { to, .. } => e.put(to),
    };
}

fn decode_op(d: &mut Decoder<'_>, data: &mut Data<'_>) -> Result<TxOp, DecodeError> {
    let (code, collection) = (d.get::<u8>()?, d.get()?);
    match code {
        1..=13 | 17 => decode_object_op(code, collection, d, data),
        14 => Ok(TxOp::Clone { collection, from: d.get()?, to: d.get()? }),
        15 => Ok(TxOp::CloneRange {
            collection,
            from: d.get()?,
            to: d.get()?,
            from_offset: d.get()?,
            len: d.get()?,
            to_offset: d.get()?,
        }),
        16 => Ok(TxOp::Rename { collection, from: d.get()?, to_collection: d.get()?, to: d.get()? }),
        18 => Ok(TxOp::CreateCollection { collection, bits: d.get()? }),
        19 => Ok(TxOp::RemoveCollection { collection }),
        20 => Ok(TxOp::SplitCollection { collection, bits: d.get()?, rem: d.get()?, into: d.get()? }),
        21 => Ok(TxOp::MergeCollection { collection, into: d.get()?, bits: d.get()? }),
        22 => Ok(TxOp::LogAppend { collection, version: d.get()?, entry: decode_piece(d)? }),
        23 => Ok(TxOp::LogTrim { collection, to: d.get()? }),
        24 => Ok(TxOp::LogRewind { collection, to: d.get()? }),
        n => Err(DecodeError::BadValue { what: "transaction step", value: n.into() }),
    }
}

/// Steps on one object.
fn decode_object_op(
    code: u8,
    collection: CollectionId,
    d: &mut Decoder<'_>,
    data: &mut Data<'_>,
) -> Result<TxOp, DecodeError> {
    let object = d.get()?;
    Ok(match code {
        1 => TxOp::Touch { collection, object },
        2 => {
            let (offset, len) = (d.get()?, d.get::<u32>()?);
            TxOp::Write { collection, object, offset, data: data.take(len as usize)? }
        }
        3 => TxOp::Zero { collection, object, offset: d.get()?, len: d.get()? },
        4 => TxOp::Truncate { collection, object, size: d.get()? },
        5 => TxOp::Remove { collection, object },
        6 => TxOp::SetAttrs { collection, object, attrs: decode_map(d)? },
        7 => TxOp::RemoveAttr { collection, object, name: d.get()? },
        8 => TxOp::RemoveAttrs { collection, object },
        9 => TxOp::OmapSet { collection, object, entries: decode_map(d)? },
        10 => TxOp::OmapRemove { collection, object, keys: d.get()? },
        11 => TxOp::OmapRemoveRange { collection, object, first: d.get()?, last: d.get()? },
        12 => TxOp::OmapSetHeader { collection, object, header: decode_piece(d)? },
        13 => TxOp::OmapClear { collection, object },
        17 => {
            let hint = AllocHint { object_size: d.get()?, write_size: d.get()?, flags: d.get()? };
            TxOp::SetAllocHint { collection, object, hint }
        }
        n => return Err(DecodeError::BadValue { what: "transaction step", value: n.into() }),
    })
}

#[cfg(test)]
mod tests {
    use types::{EVersion, Epoch, GHObject, HObject, PgId, PoolId};

    use super::*;

    fn sample() -> Transaction {
        let c = CollectionId::Pg(PgId { pool: PoolId(3), seed: 5 }.into());
        let other = CollectionId::Pg(PgId { pool: PoolId(3), seed: 13 }.into());
        let o = |n: &str| GHObject::from(HObject::head(PoolId(3), Name::new(), Name::new(), n.into(), 5));
        let (a, b) = (o("a"), o("b"));
        let map: Attrs = [("k".into(), Piece::copy_from(b"v")), ("e".into(), Piece::empty())].into();
        let v = EVersion::new(Epoch(2), 7);
        let hint = AllocHint { object_size: 1, write_size: 2, flags: 3 };
        let mut t = Transaction::new();
        t.create_collection(CollectionId::Meta, 0).create_collection(c, 3).touch(c, a.clone());
        t.write(c, a.clone(), 4096, Rope::copy_from(b"hello")).zero(c, a.clone(), 1, 2).truncate(
            c,
            a.clone(),
            9,
        );
        t.write(c, b.clone(), 0, Rope::copy_from(&[7; 5000])).remove(c, a.clone());
        t.set_attrs(c, a.clone(), map.clone()).omap_set(c, a.clone(), map);
        t.push(TxOp::RemoveAttr { collection: c, object: a.clone(), name: "k".into() });
        t.push(TxOp::RemoveAttrs { collection: c, object: a.clone() });
        t.push(TxOp::OmapRemove { collection: c, object: a.clone(), keys: ["x".into(), "y".into()].into() });
        let (first, last) = ("a".into(), "z".into());
        t.push(TxOp::OmapRemoveRange { collection: c, object: a.clone(), first, last });
        t.push(TxOp::OmapSetHeader { collection: c, object: a.clone(), header: Piece::copy_from(b"h") });
        t.push(TxOp::OmapClear { collection: c, object: a.clone() });
        t.push(TxOp::Clone { collection: c, from: a.clone(), to: b.clone() });
        let (from, to) = (a.clone(), b.clone());
        t.push(TxOp::CloneRange { collection: c, from, to, from_offset: 1, len: 2, to_offset: 3 });
        t.push(TxOp::Rename { collection: c, from: b, to_collection: other, to: a.clone() });
        t.push(TxOp::SetAllocHint { collection: c, object: a, hint });
        t.push(TxOp::SplitCollection { collection: c, bits: 4, rem: 13, into: other });
        t.push(TxOp::MergeCollection { collection: other, into: c, bits: 3 });
        t.push(TxOp::RemoveCollection { collection: other });
        t.log_append(c, v, b"entry".to_vec()).log_trim(c, v).push(TxOp::LogRewind { collection: c, to: v });
        t
    }

    #[test]
    fn every_step_comes_back_from_its_bytes() {
        let t = sample();
        let mut codes: Vec<u8> = t.ops.iter().map(code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, (1..=24).collect::<Vec<u8>>(), "the sample has every step");
        assert_eq!(Transaction::from_bytes_exact(&t.to_bytes(0)), Ok(t.clone()));
        let (steps, data) = t.encode_parts();
        assert_eq!(data.len() as u64, t.data_bytes());
        assert_eq!(Transaction::decode_parts(&steps, &data), Ok(t));
    }

    #[test]
    fn data_is_shared_not_copied() {
        let t = sample();
        let (steps, data) = t.encode_parts();
        let back = Transaction::decode_parts(&steps, &data).unwrap();
        let pointers = |t: &Transaction| -> Vec<*const u8> {
            let writes = t.ops.iter().filter_map(|op| match op {
                TxOp::Write { data, .. } => Some(data.pieces()[0].as_ptr()),
                _ => None,
            });
            writes.collect()
        };
        assert_eq!(pointers(&back), pointers(&t));
    }

    #[test]
    fn every_truncation_and_bit_flip_is_an_error_or_another_transaction_never_a_panic() {
        let bytes = sample().to_bytes(0);
        for len in 0..bytes.len() {
            assert!(Transaction::from_bytes(&bytes[..len]).is_err(), "cut at {len}");
        }
        for i in 0..bytes.len().min(2000) {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[i] ^= 1 << bit;
                let _ = Transaction::from_bytes(&bad);
            }
        }
    }

    #[test]
    fn data_that_no_step_refers_to_is_refused() {
        let (steps, mut data) = sample().encode_parts();
        data.push(Piece::copy_from(b"x"));
        assert_eq!(Transaction::decode_parts(&steps, &data), Err(DecodeError::LeftOver(1)));
    }
}
