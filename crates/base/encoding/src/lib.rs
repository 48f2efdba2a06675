//! Ceph's wire encoding: little-endian integers, length-prefixed strings and containers, versioned envelopes.
//!
//! [`Encode`] appends to an [`Encoder`], which carries the peer's features; [`Decode`] reads from a bounds-checked
//! [`Decoder`]. Lengths that a peer states are held against the bytes that are really there before any memory is
//! taken for them. This crate knows no Ceph type and never does I/O.

use std::sync::Arc;

mod decoder;
mod encoder;
mod impls;

pub use decoder::{DecodeError, Decoder};
pub use encoder::Encoder;

/// Bytes that most values fit into; longer ones grow from here.
const CAPACITY: usize = 512;

/// A value that can be written to the wire.
pub trait Encode {
    /// Appends the value in the form that `e.features()` asks for.
    fn encode(&self, e: &mut Encoder);

    /// The encoding as bytes of its own.
    fn to_bytes(&self, features: u64) -> Vec<u8> {
        let mut e = Encoder::with_capacity(features, CAPACITY);
        self.encode(&mut e);
        match e.len() < CAPACITY {
            // It may be kept for long: no more memory than it needs.
            true => e.as_slice().to_vec(),
            false => e.into_bytes(),
        }
    }

    /// The encoding as bytes that several may keep: one allocation, of no more memory than it needs.
    fn to_shared(&self, features: u64) -> Arc<[u8]> {
        let mut e = Encoder::with_capacity(features, CAPACITY);
        self.encode(&mut e);
        e.as_slice().into()
    }
}

/// A value that can be read from the wire.
pub trait Decode: Sized {
    /// Reads the value; what is wrong with the bytes is the peer's fault and says so.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Reads a value that must fill `bytes` to the last one.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let value = Self::decode(&mut d)?;
        d.finish()?;
        Ok(value)
    }

    /// As [`Decode::from_bytes`], and no envelope inside may hold bytes that this decoder does not know.
    fn from_bytes_exact(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let value = Self::decode(&mut d)?;
        d.finish()?;
        match d.unknown_bytes() {
            0 => Ok(value),
            n => Err(DecodeError::LeftOver(n)),
        }
    }
}
