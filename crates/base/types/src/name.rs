//! Byte-string names: Ceph puts no character set on object names, keys and namespaces.

use std::fmt;
use std::ops::Deref;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A name as bytes (an object's, a key's, a namespace's, an attribute's). Ordered bytewise, shown lossily as UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The empty name.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(s: &str) -> Self {
        Self(s.as_bytes().to_vec())
    }
}
impl From<String> for Name {
    fn from(s: String) -> Self {
        Self(s.into_bytes())
    }
}
impl From<&[u8]> for Name {
    fn from(s: &[u8]) -> Self {
        Self(s.to_vec())
    }
}
impl From<Vec<u8>> for Name {
    fn from(s: Vec<u8>) -> Self {
        Self(s)
    }
}

impl Deref for Name {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Encode for Name {
    fn encode(&self, e: &mut Encoder) {
        e.blob(&self.0);
    }
}
impl Decode for Name {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self(d.blob("name")?.to_vec()))
    }
}
