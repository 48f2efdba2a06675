//! Encodings of the standard types: integers, booleans, floats, strings, vectors, sets, maps, pairs, options.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Encode for $t {
            #[inline]
            fn encode(&self, e: &mut Encoder) {
                e.raw(&self.to_le_bytes());
            }
        }
        impl Decode for $t {
            #[inline]
            fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(<$t>::from_le_bytes(d.array(stringify!($t))?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl Encode for bool {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&u8::from(*self));
    }
}
impl Decode for bool {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(d.get::<u8>()? != 0)
    }
}

impl Encode for str {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.blob(self.as_bytes());
    }
}
impl Encode for String {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(self.as_str());
    }
}
impl Decode for String {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bytes = d.blob("string")?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::NotUtf8("string"))
    }
}

impl<T: Encode> Encode for [T] {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&(self.len() as u32));
        self.iter().for_each(|v| v.encode(e));
    }
}
impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(self.as_slice());
    }
}
impl<T: Decode> Decode for Vec<T> {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(1, "vector")?;
        // Grown as elements really come: a count that the bytes can't fill costs the peer, not us.
        let mut out = Vec::with_capacity(n.min(1024));
        for _ in 0..n {
            out.push(d.get()?);
        }
        Ok(out)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&(self.len() as u32));
        self.iter().for_each(|v| v.encode(e));
    }
}
impl<T: Decode + Ord> Decode for BTreeSet<T> {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(1, "set")?;
        (0..n).map(|_| d.get()).collect()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&(self.len() as u32));
        self.iter().for_each(|(k, v)| {
            k.encode(e);
            v.encode(e);
        });
    }
}
impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let n = d.count(1, "map")?;
        (0..n).map(|_| Ok((d.get()?, d.get()?))).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0).put(&self.1);
    }
}
impl<A: Decode, B: Decode> Decode for (A, B) {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok((d.get()?, d.get()?))
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.is_some());
        if let Some(v) = self {
            v.encode(e);
        }
    }
}
impl<T: Decode> Decode for Option<T> {
    #[inline]
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if d.get()? { Ok(Some(d.get()?)) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let map: BTreeMap<u32, Vec<String>> = [(7, vec!["a".into(), String::new()]), (9, vec![])].into();
        assert_eq!(BTreeMap::from_bytes_exact(&map.to_bytes(0)), Ok(map));
        assert_eq!(Option::<u8>::from_bytes(&[1, 5]), Ok(Some(5)));
    }

    #[test]
    fn a_varint_has_seven_bits_a_byte() {
        for value in [0, 127, 128, 300, u64::MAX] {
            let mut e = Encoder::new(0);
            e.varint(value);
            let bytes = e.into_bytes();
            assert_eq!(bytes.len(), (64 - value.leading_zeros()).div_ceil(7).max(1) as usize);
            assert_eq!(Decoder::new(&bytes).varint(), Ok(value));
        }
        assert_eq!(Decoder::new(&[0xac, 0x02]).varint(), Ok(300));
        assert!(Decoder::new(&[0x80; 11]).varint().is_err());
        assert!(Decoder::new(&[0x80]).varint().is_err());
    }

    #[test]
    fn an_absurd_count_is_refused_before_memory_is_taken() {
        let bytes = u32::MAX.to_bytes(0);
        assert!(matches!(Vec::<u64>::from_bytes(&bytes), Err(DecodeError::Truncated { .. })));
        assert!(matches!(String::from_bytes(&bytes), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn an_envelope_hides_what_a_newer_writer_added_and_counts_it() {
        let mut e = Encoder::new(0);
        e.versioned(3, 1, |e| {
            e.put(&5u32).put(&9u8);
        });
        let bytes = e.into_bytes();
        let mut d = Decoder::new(&bytes);
        let value = d.versioned(2, "test", |d, v| Ok((v, d.get::<u32>()?))).unwrap();
        assert_eq!((value, d.unknown_bytes(), d.remaining()), ((3, 5), 1, 0));
    }

    #[test]
    fn an_incompatible_envelope_is_refused() {
        let mut e = Encoder::new(0);
        e.versioned(9, 8, |_| ());
        let bytes = e.into_bytes();
        let got = Decoder::new(&bytes).versioned(7, "test", |_, _| Ok(()));
        assert_eq!(got, Err(DecodeError::TooNew { what: "test", compat: 8, known: 7 }));
    }

    #[test]
    fn what_remains_can_be_seen_without_being_taken() {
        let mut d = Decoder::new(&[1, 2, 3]);
        assert_eq!((d.get::<u8>(), d.rest(), d.remaining()), (Ok(1), &[2, 3][..], 2));
    }

    #[test]
    fn an_envelope_longer_than_the_bytes_is_truncated() {
        let bytes = [1, 1, 9, 0, 0, 0, 1];
        let got = Decoder::new(&bytes).versioned(7, "test", |_, _| Ok(()));
        assert!(matches!(got, Err(DecodeError::Truncated { .. })));
    }
}
