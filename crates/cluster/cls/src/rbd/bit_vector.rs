//! An array of 2-bit numbers with checksums (ceph::BitVector<2>).
//!
//! Encoded as a header (a blob: an envelope around the number of elements), the data (4 elements a byte, the first one in
//! the highest bits) and a footer (a blob: the header's crc32c, the number of blocks, each block's crc32c; or nothing).

use buffer::crc32c;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Bytes of the data that share a checksum.
const BLOCK: u64 = 4096;
const PER_BYTE: u64 = 4;
/// Bytes of an encoded header.
pub(super) const HEADER_LEN: u64 = 18;

/// How many elements there are, from which follows where an encoding has what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout(pub u64);

impl Layout {
    fn data_len(self) -> u64 {
        self.0.div_ceil(PER_BYTE)
    }

    fn blocks(self) -> u64 {
        self.data_len().div_ceil(BLOCK)
    }

    /// The blocks that elements `first` up to, not including, `end` are in: the first one, and the one after the last.
    /// `end` is greater than `first`.
    pub fn blocks_of(self, first: u64, end: u64) -> (u64, u64) {
        (first / PER_BYTE / BLOCK, (end - 1) / PER_BYTE / BLOCK + 1)
    }

    /// A block's first element.
    pub fn first_of(self, block: u64) -> u64 {
        block * BLOCK * PER_BYTE
    }

    /// Where an encoding has the bytes of these blocks: offset and length.
    pub fn data_extent(self, (first, end): (u64, u64)) -> (u64, u64) {
        let end = (end * BLOCK).min(self.data_len());
        (HEADER_LEN + first * BLOCK, end.saturating_sub(first * BLOCK))
    }

    /// Where an encoding has the header's checksum.
    pub fn header_crc_offset(self) -> u64 {
        HEADER_LEN + self.data_len() + 4
    }

    /// Where an encoding has the checksums of these blocks: offset and length.
    pub fn crcs_extent(self, (first, end): (u64, u64)) -> (u64, u64) {
        (self.header_crc_offset() + 8 + first * 4, (end - first) * 4)
    }
}

impl Encode for Layout {
    fn encode(&self, e: &mut Encoder) {
        e.sized(|e| {
            e.versioned(1, 1, |e| {
                e.put(&self.0);
            });
        });
    }
}
impl Decode for Layout {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let header = d.blob("BitVector header")?;
        let size = Decoder::new(header).versioned(1, "BitVector header", |d, _| d.get())?;
        Ok(Self(size))
    }
}

impl Layout {
    pub fn header_crc(self) -> u32 {
        crc32c(0, &self.to_bytes(0)[4..])
    }
}

/// Consecutive elements, from the start of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Elements(Vec<u8>);

impl Elements {
    /// Of bytes as an encoding has them, whose blocks have these checksums.
    pub fn checked(data: Vec<u8>, crcs: &[u32]) -> Result<Self, DecodeError> {
        let mut crcs = crcs.iter();
        for block in data.chunks(BLOCK as usize) {
            let (what, actual) = ("BitVector block", crc32c(0, block));
            match crcs.next() {
                Some(expected) if *expected == actual => {}
                Some(expected) => return Err(DecodeError::Checksum { what, expected: *expected, actual }),
                None => return Err(DecodeError::Truncated { what, needed: 4, left: 0 }),
            }
        }
        Ok(Self(data))
    }

    fn shift(at: u64) -> u64 {
        (PER_BYTE - 1 - at % PER_BYTE) * 2
    }

    /// # Panics
    /// Where there is no such element.
    pub fn get(&self, at: u64) -> u8 {
        self.0[(at / PER_BYTE) as usize] >> Self::shift(at) & 3
    }

    /// # Panics
    /// Where there is no such element.
    pub fn set(&mut self, at: u64, value: u8) {
        let byte = &mut self.0[(at / PER_BYTE) as usize];
        *byte = *byte & !(3 << Self::shift(at)) | (value & 3) << Self::shift(at);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn crcs(&self) -> Vec<u32> {
        self.0.chunks(BLOCK as usize).map(|block| crc32c(0, block)).collect()
    }
}

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BitVector {
    len: u64,
    elements: Elements,
    /// Whether its encoding has checksums.
    pub with_crcs: bool,
}

impl BitVector {
    pub fn new() -> Self {
        Self { len: 0, elements: Elements(Vec::new()), with_crcs: true }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn get(&self, at: u64) -> Option<u8> {
        (at < self.len).then(|| self.elements.get(at))
    }

    /// Sets every element to what `change` makes of its position and value; whether one is another now.
    pub fn change_all(&mut self, change: impl Fn(u64, u8) -> u8) -> bool {
        let mut changed = false;
        for at in 0..self.len {
            let old = self.elements.get(at);
            let new = change(at, old);
            if new != old {
                self.elements.set(at, new);
                changed = true;
            }
        }
        changed
    }

    /// Cuts, or fills up with `value`.
    pub fn resize(&mut self, len: u64, value: u8) {
        let old_bytes_end = Layout(self.len).data_len() * PER_BYTE;
        let four_times = (value & 3) * 0b0101_0101;
        self.elements.0.resize(Layout(len).data_len() as usize, four_times);
        (self.len..len.min(old_bytes_end)).for_each(|at| self.elements.set(at, value));
        if len > old_bytes_end {
            // No element: Ceph has zeros there.
            (len..Layout(len).data_len() * PER_BYTE).for_each(|at| self.elements.set(at, 0));
        }
        self.len = len;
    }
}

impl Encode for BitVector {
    fn encode(&self, e: &mut Encoder) {
        let layout = Layout(self.len);
        e.put(&layout).raw(self.elements.bytes());
        e.sized(|e| {
            if self.with_crcs {
                e.put(&layout.header_crc()).put(&self.elements.crcs());
            }
        });
    }
}
impl Decode for BitVector {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let layout: Layout = d.get()?;
        let len = usize::try_from(layout.data_len()).unwrap_or(usize::MAX);
        let data = d.take(len, "BitVector data")?.to_vec();
        let footer = d.blob("BitVector footer")?;
        if footer.is_empty() {
            return Ok(Self { len: layout.0, elements: Elements(data), with_crcs: false });
        }
        let (header_crc, crcs): (u32, Vec<u32>) = Decoder::new(footer).get()?;
        check_header_crc(layout, header_crc)?;
        if crcs.len() as u64 != layout.blocks() {
            return Err(DecodeError::BadValue { what: "BitVector blocks", value: crcs.len() as u64 });
        }
        Ok(Self { len: layout.0, elements: Elements::checked(data, &crcs)?, with_crcs: true })
    }
}

fn check_header_crc(layout: Layout, expected: u32) -> Result<(), DecodeError> {
    match layout.header_crc() {
        actual if actual == expected => Ok(()),
        actual => Err(DecodeError::Checksum { what: "BitVector header", expected, actual }),
    }
}
