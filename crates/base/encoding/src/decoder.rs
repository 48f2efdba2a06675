//! The bounds-checked reader.

use crate::Decode;

/// Why bytes could not be decoded. Always the peer's fault (or the disk's, where the bytes came from one).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the value needs.
    #[error("truncated: {what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that remain.
        left: usize,
    },
    /// Bytes remain after the value's end.
    #[error("{0} bytes left over")]
    LeftOver(usize),
    /// The encoding's oldest compatible version is newer than we know.
    #[error("{what}: encoding needs a reader of version {compat}, this one knows {known}")]
    TooNew {
        /// The type.
        what: &'static str,
        /// The version that the writer asks of readers.
        compat: u8,
        /// The newest version known here.
        known: u8,
    },
    /// The encoding is older than any that we read.
    #[error("{what}: version {version} is older than any known")]
    TooOld {
        /// The type.
        what: &'static str,
        /// The version met.
        version: u8,
    },
    /// A value outside its type's range.
    #[error("{what}: bad value {value}")]
    BadValue {
        /// The type or field.
        what: &'static str,
        /// The value met.
        value: u64,
    },
    /// A checksum inside the encoding does not match.
    #[error("{what}: checksum {actual:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The type.
        what: &'static str,
        /// The checksum that was written.
        expected: u32,
        /// The checksum of the bytes.
        actual: u32,
    },
    /// A string that is not UTF-8 where only text makes sense.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
}

/// A cursor over a peer's bytes. Every read is checked; nothing is allocated beyond what the bytes can fill.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    pos: usize,
    unknown: usize,
}

impl<'a> Decoder<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pos: 0, unknown: 0 }
    }

    /// Bytes not yet read (within the innermost envelope).
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// Bytes read so far, counted from where this decoder was made.
    #[inline]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// The bytes between an earlier [`Decoder::position`] and now.
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.pos).unwrap_or(&[])
    }

    /// Bytes that envelopes held beyond what their readers knew.
    #[inline]
    pub fn unknown_bytes(&self) -> usize {
        self.unknown
    }

    /// Fails if bytes remain.
    #[inline]
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(DecodeError::LeftOver(n)),
        }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let left = self.remaining();
        let end = self.pos.checked_add(n).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(DecodeError::Truncated { what, needed: n, left })?;
        let out = &self.bytes[self.pos..end];
        self.pos = end;
        Ok(out)
    }

    /// All bytes that remain, left where they are.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or(&[])
    }

    /// All bytes that remain.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        let out = &self.bytes[self.pos..];
        self.pos = self.bytes.len();
        out
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(N, what)?;
        let mut out = [0; N];
        out.copy_from_slice(bytes);
        Ok(out)
    }

    /// A value of the type asked for.
    #[inline]
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// A u32 length and that many bytes.
    #[inline]
    pub fn blob(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len: u32 = self.get()?;
        self.take(len as usize, what)
    }

    /// What [`Encoder::varint`](crate::Encoder::varint) appends.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte: u8 = self.get()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::BadValue { what: "varint", value })
    }

    /// A u32 count of elements, each of at least `element_size_min` bytes (1 or more): refused when the bytes that
    /// remain cannot hold them.
    #[inline]
    pub fn count(&mut self, element_size_min: usize, what: &'static str) -> Result<usize, DecodeError> {
        let n = self.get()?;
        self.check_count(n, element_size_min, what)
    }

    /// See [`Decoder::count`], for a count that was read otherwise.
    #[inline]
    pub fn check_count(
        &self,
        n: u32,
        element_size_min: usize,
        what: &'static str,
    ) -> Result<usize, DecodeError> {
        let needed = (n as usize).saturating_mul(element_size_min.max(1));
        if needed <= self.remaining() {
            Ok(n as usize)
        } else {
            Err(DecodeError::Truncated { what, needed, left: self.remaining() })
        }
    }

    /// Reads an envelope (version, compat, length; Ceph's DECODE_START): `read` gets the version and a decoder that
    /// ends with the envelope. `known` is the newest version that `read` understands; bytes it leaves are skipped
    /// and counted in [`Decoder::unknown_bytes`].
    #[inline]
    pub fn versioned<T>(
        &mut self,
        known: u8,
        what: &'static str,
        read: impl FnOnce(&mut Decoder<'a>, u8) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let version: u8 = self.get()?;
        let compat: u8 = self.get()?;
        if compat > known {
            return Err(DecodeError::TooNew { what, compat, known });
        }
        let len: u32 = self.get()?;
        self.within(len as usize, what, |d| read(d, version))
    }

    /// Runs `read` on a decoder limited to the next `len` bytes; those it leaves are skipped and counted.
    #[inline]
    pub fn within<T>(
        &mut self,
        len: usize,
        what: &'static str,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut inner = Decoder::new(self.take(len, what)?);
        let value = read(&mut inner)?;
        self.unknown += inner.unknown + inner.remaining();
        Ok(value)
    }
}
