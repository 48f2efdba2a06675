//! MMgrConfigure: the manager says how often it wants to hear from a daemon, and of what.

use encoding::{DecodeError, Decoder, Encoder};

use crate::codec::{Envelope, Payload};
use crate::kind;

/// Ceph's MMgrConfigure, without queries for statistics of images or file systems.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrConfigure {
    /// Seconds between two reports; 0: none are wanted.
    pub stats_period: u32,
    /// The least priority of the counters that reports hold.
    pub stats_threshold: u32,
}

impl Payload for MgrConfigure {
    const KIND: u16 = kind::MGR_CONFIGURE;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        let this = Self { stats_period: d.get()?, stats_threshold: d.get()? };
        let (queries, others): (u32, bool) = (d.get()?, d.get()?);
        match (queries, others) {
            (0, false) => Ok(this),
            _ => Err(DecodeError::BadValue { what: "MMgrConfigure with queries", value: queries.into() }),
        }
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.stats_period).put(&self.stats_threshold);
        // No queries of an OSD's clients, and none of other daemons.
        e.put(&0_u32).put(&false);
    }
}
