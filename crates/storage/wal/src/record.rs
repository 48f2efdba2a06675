//! What a record looks like on the device.

use buffer::{Rope, crc32c};
use encoding::{DecodeError, Decoder, Encoder};

use crate::{Layout, Position};

/// Bytes of a record's header; it never wraps around the ring's end.
pub const HEADER_BYTES: usize = 64;

/// Bytes that one checksum of [`Beside`] covers.
pub const BESIDE_BLOCK_BYTES: usize = 4096;

/// "LgWa", little-endian.
const MAGIC: u32 = 0x6157_674c;

/// Where the part of the header begins that its checksum covers.
const CHECKED_FROM: usize = 8;

/// Data that was written beside the log and becomes durable with the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    /// First byte on the data device.
    pub offset: u64,
    /// The crc32c (seed -1) of each block of [`BESIDE_BLOCK_BYTES`].
    pub checksums: Vec<u32>,
}

impl Beside {
    pub fn bytes(&self) -> usize {
        self.checksums.len() * BESIDE_BLOCK_BYTES
    }

    /// Whether these are the bytes that were written.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let blocks = bytes.chunks_exact(BESIDE_BLOCK_BYTES);
        bytes.len() == self.bytes() && blocks.zip(&self.checksums).all(|(b, crc)| crc32c(!0, b) == *crc)
    }
}

/// A record's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// [`Layout::id`].
    pub log: u64,
    /// Of the opening that wrote it.
    pub salt: u64,
    pub position: Position,
    /// The sequence up to which every record was known durable when this one was written; less than its own.
    pub flushed: u64,
    /// Bytes that follow the header.
    pub body_bytes: u32,
    /// Blocks written beside the log.
    pub beside_runs: u32,
    /// The crc32c (seed -1) of the body.
    pub body_crc: u32,
    /// The last so many of `beside_runs` have the payload; then its length (u64) is in its place.
    pub payload_runs: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut e = Encoder::with_capacity(0, HEADER_BYTES);
        e.put(&MAGIC).put(&0u32).put(&self.log).put(&self.salt);
        e.put(&self.position.sequence).put(&self.position.at).put(&self.flushed);
        e.put(&self.body_bytes).put(&self.beside_runs).put(&self.body_crc).put(&self.payload_runs);
        let crc = crc32c(!0, &e.as_slice()[CHECKED_FROM..]);
        e.patch_u32(4, crc);
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(e.as_slice());
        out
    }

    /// # Errors
    /// The bytes are no header.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let header = d.take(HEADER_BYTES, "log record header")?;
        let mut d = Decoder::new(header);
        let magic: u32 = d.get()?;
        if magic != MAGIC {
            return Err(DecodeError::BadValue { what: "log record magic", value: magic.into() });
        }
        let expected: u32 = d.get()?;
        let actual = crc32c(!0, &header[CHECKED_FROM..]);
        if expected != actual {
            return Err(DecodeError::Checksum { what: "log record header", expected, actual });
        }
        let (log, salt) = (d.get()?, d.get()?);
        let position = Position { sequence: d.get()?, at: d.get()? };
        let flushed = d.get()?;
        let (body_bytes, beside_runs, body_crc) = (d.get()?, d.get()?, d.get()?);
        let payload_runs: u32 = d.get()?;
        if payload_runs > beside_runs {
            return Err(DecodeError::BadValue { what: "runs of a payload", value: payload_runs.into() });
        }
        Ok(Self { log, salt, position, flushed, body_bytes, beside_runs, body_crc, payload_runs })
    }

    /// Bytes of the whole record with its padding.
    pub fn record_bytes(&self, layout: &Layout) -> u64 {
        record_bytes(layout, u64::from(self.body_bytes))
    }
}

/// Bytes that a record with a body of this length takes in the ring.
pub fn record_bytes(layout: &Layout, body_bytes: u64) -> u64 {
    (HEADER_BYTES as u64 + body_bytes).next_multiple_of(u64::from(layout.unit_bytes))
}

/// Bytes that the table of what lies beside the log takes in a record's body.
pub fn beside_bytes(beside: &[Beside]) -> u64 {
    beside.iter().map(|b| 12 + 4 * b.checksums.len() as u64).sum()
}

/// The body: the table of what lies beside, then the payload.
pub fn encode_body(beside: &[Beside], payload: Rope) -> Rope {
    let mut e = Encoder::new(0);
    for run in beside {
        e.put(&run.offset).put(&run.checksums);
    }
    let mut body = Rope::from(e.into_bytes());
    body.append(payload);
    body
}

/// What lies beside, and where in the body the payload begins.
///
/// # Errors
/// The body is shorter than its table, or a run in it is empty or reaches past the last byte that can be addressed.
pub fn decode_body(beside_runs: u32, body: &[u8]) -> Result<(Vec<Beside>, usize), DecodeError> {
    let mut d = Decoder::new(body);
    let mut beside = Vec::new();
    for _ in 0..beside_runs {
        let run = Beside { offset: d.get()?, checksums: d.get()? };
        if run.checksums.is_empty() || run.offset.checked_add(run.bytes() as u64).is_none() {
            return Err(DecodeError::BadValue { what: "data beside the log", value: run.offset });
        }
        beside.push(run);
    }
    Ok((beside, d.position()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let position = Position { at: 8192, sequence: 7 };
        let (body_bytes, beside_runs, body_crc) = (100, 3, 4);
        Header { log: 1, salt: 2, position, flushed: 6, body_bytes, beside_runs, body_crc, payload_runs: 1 }
    }

    #[test]
    fn a_header_comes_back_and_every_flipped_bit_is_noticed() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes), Ok(header()));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..HEADER_BYTES {
            assert!(Header::decode(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn a_body_comes_back_and_a_cut_table_is_refused() {
        let beside = vec![
            Beside { offset: 4096, checksums: vec![1, 2] },
            Beside { offset: 1 << 40, checksums: vec![3] },
        ];
        let body = encode_body(&beside, Rope::copy_from(b"payload")).to_vec();
        let table = beside_bytes(&beside) as usize;
        assert_eq!(decode_body(2, &body), Ok((beside, table)));
        assert_eq!(&body[table..], b"payload");
        for len in 0..table {
            assert!(decode_body(2, &body[..len]).is_err(), "cut at {len}");
        }
        assert!(decode_body(u32::MAX, &body).is_err());
    }
}
