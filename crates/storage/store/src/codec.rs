//! A transaction's encoding, in two parts so that payload is never copied: the table and the steps as bytes, and the
//! data of all writes, in order, as one rope.

use buffer::{Piece, Rope};
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{GHObject, Name};

use crate::{
    Advice, AllocHint, Attrs, CollectionChange, CollectionId, LogChange, LogRecord, LogRecordKind,
    ObjectChange, ObjectRef, Step, Transaction,
};

const VERSION: u8 = 2;
const COMPAT: u8 = 2;

/// The least that a name of the table takes: kind of collection, and an object's envelope.
const NAME_BYTES_MIN: usize = 8;

impl Transaction {
    /// Table and steps (a versioned envelope) and the data that they refer to.
    pub fn encode_parts(&self) -> (Vec<u8>, Rope) {
        let mut e = Encoder::new(0);
        let mut data = Rope::new();
        e.versioned(VERSION, COMPAT, |e| {
            e.put(&self.objects).put(&(self.steps.len() as u32));
            self.steps.iter().for_each(|step| encode_step(step, e, &mut data));
        });
        (e.into_bytes(), data)
    }

    /// Reads what [`Transaction::encode_parts`] wrote; `data` is shared, not copied.
    ///
    /// # Errors
    /// The bytes are not a transaction's, a step refers to no place of the table, or `data` is shorter or longer than
    /// they say: the writer's fault.
    pub fn decode_parts(steps: &[u8], data: &Rope) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(steps);
        let mut data = Data { rope: data, pos: 0 };
        let txn = d.versioned(VERSION, "transaction", |d, version| match version {
            VERSION => decode_body(d, &mut data),
            version => Err(DecodeError::TooOld { what: "transaction", version }),
        })?;
        d.finish()?;
        match data.rope.len() - data.pos {
            0 => Ok(txn),
            n => Err(DecodeError::LeftOver(n)),
        }
    }
}

fn decode_body(d: &mut Decoder<'_>, data: &mut Data<'_>) -> Result<Transaction, DecodeError> {
    let mut txn = Transaction::new();
    for _ in 0..d.count(NAME_BYTES_MIN, "transaction objects")? {
        let name: (CollectionId, GHObject) = d.get()?;
        txn.objects.push(name);
    }
    for _ in 0..d.count(2, "transaction steps")? {
        let step = decode_step(d, data)?;
        for object in step.references().into_iter().flatten() {
            if object.0 as usize >= txn.objects.len() {
                return Err(DecodeError::BadValue { what: "transaction object", value: object.0.into() });
            }
        }
        txn.steps.push(step);
    }
    Ok(txn)
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

fn encode_pairs<'a>(pairs: impl ExactSizeIterator<Item = &'a (Name, Piece)>, e: &mut Encoder) {
    e.put(&(pairs.len() as u32));
    for (name, value) in pairs {
        e.put(name).blob(value);
    }
}

fn decode_pairs(d: &mut Decoder<'_>) -> Result<Vec<(Name, Piece)>, DecodeError> {
    let n = d.count(8, "names and values")?;
    (0..n).map(|_| Ok((d.get()?, decode_piece(d)?))).collect()
}

fn decode_piece(d: &mut Decoder<'_>) -> Result<Piece, DecodeError> {
    Ok(d.blob("value")?.to_vec().into())
}

impl Encode for ObjectRef {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0);
    }
}
impl Decode for ObjectRef {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self(d.get()?))
    }
}

impl LogRecordKind {
    /// The number that a kind has in every encoding, for ever.
    pub fn code(self) -> u8 {
        match self {
            Self::Entry => 1,
            Self::Duplicate => 2,
        }
    }

    /// # Errors
    /// No kind has this number.
    pub fn of_code(code: u8) -> Result<Self, DecodeError> {
        match code {
            1 => Ok(Self::Entry),
            2 => Ok(Self::Duplicate),
            n => Err(DecodeError::BadValue { what: "log record kind", value: n.into() }),
        }
    }
}

/// The number of a step, for ever: never reused for another. Numbers below 32 are changes of an object.
fn code(step: &Step) -> u8 {
    match step {
        Step::Object { change, .. } => match change {
            ObjectChange::Touch => 1,
            ObjectChange::Write { .. } => 2,
            ObjectChange::Zero { .. } => 3,
            ObjectChange::Truncate(_) => 4,
            ObjectChange::Remove => 5,
            ObjectChange::SetAttrs(_) => 6,
            ObjectChange::RemoveAttr(_) => 7,
            ObjectChange::RemoveAttrs => 8,
            ObjectChange::OmapSet(_) => 9,
            ObjectChange::OmapRemove(_) => 10,
            ObjectChange::OmapRemoveRange { .. } => 11,
            ObjectChange::OmapSetHeader(_) => 12,
            ObjectChange::OmapClear => 13,
            ObjectChange::SetAllocHint(_) => 14,
        },
        Step::Clone { .. } => 32,
        Step::CloneRange { .. } => 33,
        Step::Rename { .. } => 34,
        Step::Log { change, .. } => match change {
            LogChange::Append(_) => 35,
            LogChange::Trim(_) => 36,
            LogChange::Rewind(_) => 37,
        },
        Step::SetInfo { .. } => 38,
        Step::Collection { change, .. } => match change {
            CollectionChange::Create { .. } => 39,
            CollectionChange::Remove => 40,
            CollectionChange::Split { .. } => 41,
            CollectionChange::Merge { .. } => 42,
        },
    }
}

fn encode_step(step: &Step, e: &mut Encoder, rope: &mut Rope) {
    e.put(&code(step));
    match step {
        Step::Object { object, change } => {
            e.put(object);
            encode_change(change, e, rope);
        }
        Step::Clone { from, to } | Step::Rename { from, to } => {
            e.put(from).put(to);
        }
        Step::CloneRange { from, to, from_offset, len, to_offset } => {
            e.put(from).put(to).put(from_offset).put(len).put(to_offset);
        }
        Step::Log { collection, change } => {
            e.put(collection);
            match change {
                LogChange::Append(LogRecord { version, kind, bytes }) => {
                    e.put(version).put(&kind.code()).blob(bytes)
                }
                LogChange::Trim(to) | LogChange::Rewind(to) => e.put(to),
            };
        }
        Step::SetInfo { collection, info } => {
            e.put(collection).blob(info);
        }
        Step::Collection { collection, change } => {
            e.put(collection);
            match change {
                CollectionChange::Create { bits } => e.put(bits),
                CollectionChange::Remove => e,
                CollectionChange::Split { bits, rem, into } => e.put(bits).put(rem).put(into),
                CollectionChange::Merge { into, bits } => e.put(into).put(bits),
            };
        }
    }
}

fn encode_change(change: &ObjectChange, e: &mut Encoder, rope: &mut Rope) {
    match change {
        ObjectChange::Touch | ObjectChange::Remove | ObjectChange::RemoveAttrs | ObjectChange::OmapClear => {}
        ObjectChange::Write { offset, data, advice, checksums } => {
            rope.append(data.clone());
            e.put(offset).put(&(data.len() as u32)).put(&advice.0).put(checksums);
        }
        ObjectChange::Zero { offset, len } => drop(e.put(offset).put(len)),
        ObjectChange::Truncate(size) => drop(e.put(size)),
        ObjectChange::SetAttrs(attrs) => encode_pairs(attrs.iter(), e),
        ObjectChange::OmapSet(entries) => encode_pairs(entries.iter(), e),
        ObjectChange::RemoveAttr(name) => drop(e.put(name)),
        ObjectChange::OmapRemove(keys) => drop(e.put(keys)),
        ObjectChange::OmapRemoveRange { first, last } => drop(e.put(first).put(last)),
        ObjectChange::OmapSetHeader(header) => drop(e.blob(header)),
        ObjectChange::SetAllocHint(hint) => {
            e.put(&hint.object_size).put(&hint.write_size).put(&hint.flags);
        }
    }
}

fn decode_step(d: &mut Decoder<'_>, data: &mut Data<'_>) -> Result<Step, DecodeError> {
    let code: u8 = d.get()?;
    Ok(match code {
        0..32 => Step::Object { object: d.get()?, change: decode_change(code, d, data)? },
        32 => Step::Clone { from: d.get()?, to: d.get()? },
        33 => Step::CloneRange {
            from: d.get()?,
            to: d.get()?,
            from_offset: d.get()?,
            len: d.get()?,
            to_offset: d.get()?,
        },
        34 => Step::Rename { from: d.get()?, to: d.get()? },
        35..=37 => Step::Log { collection: d.get()?, change: decode_log_change(code, d)? },
        38 => Step::SetInfo { collection: d.get()?, info: decode_piece(d)? },
        39..=42 => Step::Collection { collection: d.get()?, change: decode_collection_change(code, d)? },
        n => return Err(DecodeError::BadValue { what: "transaction step", value: n.into() }),
    })
}

fn decode_log_change(code: u8, d: &mut Decoder<'_>) -> Result<LogChange, DecodeError> {
    Ok(match code {
        35 => {
            let (version, kind) = (d.get()?, LogRecordKind::of_code(d.get()?)?);
            LogChange::Append(LogRecord { version, kind, bytes: decode_piece(d)? })
        }
        36 => LogChange::Trim(d.get()?),
        37 => LogChange::Rewind(d.get()?),
        n => return Err(DecodeError::BadValue { what: "log step", value: n.into() }),
    })
}

fn decode_collection_change(code: u8, d: &mut Decoder<'_>) -> Result<CollectionChange, DecodeError> {
    Ok(match code {
        39 => CollectionChange::Create { bits: d.get()? },
        40 => CollectionChange::Remove,
        41 => CollectionChange::Split { bits: d.get()?, rem: d.get()?, into: d.get()? },
        42 => CollectionChange::Merge { into: d.get()?, bits: d.get()? },
        n => return Err(DecodeError::BadValue { what: "collection step", value: n.into() }),
    })
}

fn decode_change(code: u8, d: &mut Decoder<'_>, data: &mut Data<'_>) -> Result<ObjectChange, DecodeError> {
    Ok(match code {
        1 => ObjectChange::Touch,
        2 => {
            let (offset, len) = (d.get()?, d.get::<u32>()?);
            let (advice, checksums) = (Advice(d.get()?), d.get()?);
            ObjectChange::Write { offset, data: data.take(len as usize)?, advice, checksums }
        }
        3 => ObjectChange::Zero { offset: d.get()?, len: d.get()? },
        4 => ObjectChange::Truncate(d.get()?),
        5 => ObjectChange::Remove,
        6 => ObjectChange::SetAttrs(decode_pairs(d)?.into_iter().collect::<Attrs>()),
        7 => ObjectChange::RemoveAttr(d.get()?),
        8 => ObjectChange::RemoveAttrs,
        9 => ObjectChange::OmapSet(decode_pairs(d)?),
        10 => ObjectChange::OmapRemove(d.get()?),
        11 => ObjectChange::OmapRemoveRange { first: d.get()?, last: d.get()? },
        12 => ObjectChange::OmapSetHeader(decode_piece(d)?),
        13 => ObjectChange::OmapClear,
        14 => {
            let hint = AllocHint { object_size: d.get()?, write_size: d.get()?, flags: d.get()? };
            ObjectChange::SetAllocHint(hint)
        }
        n => return Err(DecodeError::BadValue { what: "object change", value: n.into() }),
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
        let (a, b) = (&o("a"), &o("b"));
        let pairs = || vec![("e".into(), Piece::empty()), ("k".into(), Piece::copy_from(b"v"))];
        let v = EVersion::new(Epoch(2), 7);
        let hint = AllocHint { object_size: 1, write_size: 2, flags: 3 };
        let mut t = Transaction::new();
        t.create_collection(CollectionId::Meta, 0).create_collection(c, 3).touch(c, a);
        t.write(c, a, 4096, Rope::copy_from(b"hello")).zero(c, a, 1, 2).truncate(c, a, 9);
        let checksums = Some(vec![7, 8]);
        let data = Rope::copy_from(&[7; 8192]);
        t.change(c, b, ObjectChange::Write { offset: 0, data, advice: Advice::NOCACHE, checksums });
        t.remove(c, a).set_attrs(c, a, pairs().into_iter().collect()).omap_set(c, a, pairs());
        t.change(c, a, ObjectChange::RemoveAttr("k".into())).change(c, a, ObjectChange::RemoveAttrs);
        t.change(c, a, ObjectChange::OmapRemove(vec!["x".into(), "y".into()]));
        t.change(c, a, ObjectChange::OmapRemoveRange { first: "a".into(), last: "z".into() });
        t.change(c, a, ObjectChange::OmapSetHeader(Piece::copy_from(b"h")));
        t.change(c, a, ObjectChange::OmapClear).change(c, a, ObjectChange::SetAllocHint(hint));
        t.clone_object(c, a, b).clone_range(c, (a, 1), (b, 3), 2).rename((c, b), (other, a));
        t.split(c, 4, 13, other).merge(other, c, 3).remove_collection(other);
        t.log_append(c, v, LogRecordKind::Duplicate, b"entry".to_vec()).log_trim(c, v).log_rewind(c, v);
        t.set_info(c, b"info".to_vec());
        t
    }

    #[test]
    fn every_step_comes_back_from_its_bytes() {
        let t = sample();
        let mut codes: Vec<u8> = t.steps.iter().map(code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, (1..=14).chain(32..=42).collect::<Vec<u8>>(), "the sample has every step");
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
            let writes = t.steps.iter().filter_map(|step| match step {
                Step::Object { change: ObjectChange::Write { data, .. }, .. } => {
                    Some(data.pieces()[0].as_ptr())
                }
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
    fn a_step_that_refers_to_no_name_is_refused() {
        let mut t = Transaction::new();
        t.touch(CollectionId::Meta, &GHObject::max());
        let (mut steps, data) = t.encode_parts();
        let at = steps.len() - 4;
        steps[at] = 1;
        let bad = Err(DecodeError::BadValue { what: "transaction object", value: 1 });
        assert_eq!(Transaction::decode_parts(&steps, &data), bad);
    }

    #[test]
    fn appended_steps_keep_their_names() {
        let (mut all, other) = (sample(), sample());
        let before = all.steps().len();
        all.append(other.clone());
        let names = |t: &Transaction, step: &Step| -> Vec<_> {
            step.references().into_iter().flatten().map(|r| t.object(r).1.clone()).collect()
        };
        for (i, step) in other.steps().iter().enumerate() {
            assert_eq!(names(&all, &all.steps()[before + i]), names(&other, step));
        }
    }

    #[test]
    fn data_that_no_step_refers_to_is_refused() {
        let (steps, mut data) = sample().encode_parts();
        data.push(Piece::copy_from(b"x"));
        assert_eq!(Transaction::decode_parts(&steps, &data), Err(DecodeError::LeftOver(1)));
    }
}
