//! MMgrMap: the manager map.

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};

use crate::Blob;
use crate::codec::{Envelope, Payload};
use crate::kind;

/// Ceph's MMgrMap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrMap {
    /// The encoded manager map; it is the whole front, without a length of its own.
    pub map: Blob,
}

impl Payload for MgrMap {
    const KIND: u16 = kind::MGR_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        Ok(Self { map: Piece::from(d.take_rest().to_vec()).into() })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.raw(&self.map);
    }
}
