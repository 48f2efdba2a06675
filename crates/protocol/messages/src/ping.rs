//! MPing: a sign of life, empty but for a monitor's answer.

use encoding::{DecodeError, Decoder, Encoder};
use types::Name;

use crate::codec::{Envelope, Payload};

/// Ceph's MPing. `ceph ping mon.ID` and librados' `ping_monitor` send it empty, and wait for one with a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ping {
    /// A monitor's answer: JSON with its state and the cluster's health. Empty in a request, where nothing is encoded.
    pub answer: Name,
}

impl Payload for Ping {
    const KIND: u16 = crate::kind::PING;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _: &mut Envelope) -> Result<Self, DecodeError> {
        Ok(match d.remaining() {
            0 => Self::default(),
            _ => Self { answer: d.get()? },
        })
    }

    fn encode(&self, e: &mut Encoder, _: &mut Envelope) {
        if !self.answer.is_empty() {
            e.put(&self.answer);
        }
    }
}
