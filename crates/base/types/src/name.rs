//! Byte-string names: Ceph puts no character set on object names, keys and namespaces.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A name as bytes (an object's, a key's, a namespace's, an attribute's). Ordered bytewise, shown lossily as UTF-8.
/// Clones share the bytes: a name passes through sessions, logs and transactions without a copy.
///
/// Invariant: the empty name is `None`, never an empty slice, so that the derived order and equality are the bytes'.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Option<Arc<[u8]>>);

impl Name {
    /// The empty name.
    pub const fn new() -> Self {
        Self(None)
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl From<&str> for Name {
    fn from(s: &str) -> Self {
        s.as_bytes().into()
    }
}
impl From<String> for Name {
    fn from(s: String) -> Self {
        s.as_bytes().into()
    }
}
impl From<&[u8]> for Name {
    fn from(s: &[u8]) -> Self {
        Self((!s.is_empty()).then(|| s.into()))
    }
}
impl From<Vec<u8>> for Name {
    fn from(s: Vec<u8>) -> Self {
        s.as_slice().into()
    }
}

impl Deref for Name {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self.as_bytes()).fmt(f)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl Encode for Name {
    fn encode(&self, e: &mut Encoder) {
        e.blob(self.as_bytes());
    }
}
impl Decode for Name {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(d.blob("name")?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_order_bytewise_and_the_empty_one_is_one() {
        let sorted: [&[u8]; 6] = [b"", b"\0", b"\0\xff", b"a", b"a\0", b"\xff"];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(Name::from(*a).cmp(&Name::from(*b)), i.cmp(&j));
            }
        }
        assert_eq!((Name::from(""), Name::from(Vec::new())), (Name::new(), Name::default()));
    }

    #[test]
    fn a_clone_shares_the_bytes() {
        let name = Name::from("object");
        assert_eq!(name.clone().as_bytes().as_ptr(), name.as_bytes().as_ptr());
    }
}
