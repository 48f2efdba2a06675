//! MOSDPing: heartbeats between OSDs.

use encoding::{DecodeError, Decoder, Encoder};
use types::{Epoch, Fsid, UTime};

use crate::codec::{Envelope, Payload};
use crate::{TimeSpan, kind};

/// Ceph's MOSDPing, version 5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdPing {
    /// The cluster.
    pub fsid: Fsid,
    /// The sender's map.
    pub map_epoch: Epoch,
    /// [`OsdPing::PING`] and its like.
    pub op: u8,
    /// When the ping was sent, by the pinger's clock; the reply repeats it.
    pub ping_stamp: UTime,
    /// When the replier was last marked up, or the pinger.
    pub up_from: Epoch,
    /// When the ping was sent, by the pinger's monotonic clock; the reply repeats it.
    pub mono_ping_stamp: TimeSpan,
    /// When this message was sent, by its sender's monotonic clock.
    pub mono_send_stamp: TimeSpan,
    /// The pinger's bound on the difference of the clocks.
    pub delta_ub: Option<TimeSpan>,
    /// Zero bytes at the end, to make the message as large as the network must carry; the reply has as many.
    pub padding_len: u32,
}

impl OsdPing {
    /// HEARTBEAT: no longer sent.
    pub const HEARTBEAT: u8 = 0;
    /// START_HEARTBEAT: no longer sent.
    pub const START_HEARTBEAT: u8 = 1;
    /// YOU_DIED: the receiver is down in the sender's map.
    pub const YOU_DIED: u8 = 2;
    /// STOP_HEARTBEAT: no longer sent.
    pub const STOP_HEARTBEAT: u8 = 3;
    pub const PING: u8 = 4;
    pub const PING_REPLY: u8 = 5;
}

impl Payload for OsdPing {
    const KIND: u16 = kind::OSD_PING;
    const VERSION: u16 = 5;
    const COMPAT: u16 = 4;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        let (fsid, map_epoch, op, ping_stamp) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let padding_len: u32 = d.get()?;
        let (up_from, mono_ping_stamp, mono_send_stamp, delta_ub) = (d.get()?, d.get()?, d.get()?, d.get()?);
        d.take(padding_len as usize, "MOSDPing padding")?;
        Ok(Self {
            fsid,
            map_epoch,
            op,
            ping_stamp,
            up_from,
            mono_ping_stamp,
            mono_send_stamp,
            delta_ub,
            padding_len,
        })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.fsid).put(&self.map_epoch).put(&self.op).put(&self.ping_stamp).put(&self.padding_len);
        e.put(&self.up_from).put(&self.mono_ping_stamp).put(&self.mono_send_stamp).put(&self.delta_ub);
        e.raw(&vec![0; self.padding_len as usize]);
    }
}
