//! The writer.

use crate::Encode;

/// A growing encoding and the features of the peer that will read it.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    features: u64,
}

impl Encoder {
    /// An empty encoding for a peer with `features` (see `types::Profile` for the words).
    #[inline]
    pub fn new(features: u64) -> Self {
        Self { bytes: Vec::new(), features }
    }

    /// The same with room for `bytes` bytes.
    #[inline]
    pub fn with_capacity(features: u64, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), features }
    }

    /// The reader's feature word.
    #[inline]
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Whether the reader has every bit of `mask`.
    #[inline]
    pub fn has(&self, mask: u64) -> bool {
        self.features & mask == mask
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written so far.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The finished encoding.
    #[inline]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a value.
    #[inline]
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) -> &mut Self {
        value.encode(self);
        self
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a u32 length and the bytes.
    #[inline]
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.put(&(bytes.len() as u32)).raw(bytes)
    }

    /// Appends a number in as few bytes as it needs: seven bits a byte, the lowest first, the top bit set on all but the
    /// last (Ceph's denc_varint).
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.put(&(value as u8 | 0x80));
            value >>= 7;
        }
        self.put(&(value as u8))
    }

    /// Overwrites the four bytes at `at` (a hole left for a length or a checksum).
    #[inline]
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes an envelope (version, compat, length; Ceph's ENCODE_START) around what `write` appends.
    #[inline]
    pub fn versioned(&mut self, version: u8, compat: u8, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.put(&version).put(&compat);
        self.sized(write)
    }

    /// Writes a u32 length and what `write` appends, counted.
    #[inline]
    pub fn sized(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        let hole = self.len();
        self.put(&0u32);
        write(self);
        self.patch_u32(hole, (self.len() - hole - 4) as u32);
        self
    }
}
