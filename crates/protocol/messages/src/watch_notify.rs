//! MWatchNotify: an OSD reports to a client a notify, the end of one, or a lost watch.

use buffer::Rope;
use encoding::{DecodeError, Decoder, Encoder};

use crate::codec::{Envelope, Payload};
use crate::{Blob, kind};

/// Ceph's MWatchNotify.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WatchNotify {
    /// [`WatchNotify::NOTIFY`] and its like.
    pub opcode: u8,
    /// The receiver's number for its watch, or (when complete) for its notify.
    pub cookie: u64,
    /// Unused.
    pub ver: u64,
    /// The OSD's number for the notify.
    pub notify_id: u64,
    /// What the notifier sent.
    pub payload: Blob,
    /// When complete: 0 or a negated error number.
    pub return_code: i32,
    /// The notifier's global id.
    pub notifier_gid: u64,
    /// When complete: what the watchers answered (data segment).
    pub data: Rope,
}

impl WatchNotify {
    /// CEPH_WATCH_EVENT_NOTIFY: to watchers.
    pub const NOTIFY: u8 = 1;
    /// CEPH_WATCH_EVENT_NOTIFY_COMPLETE: to the notifier.
    pub const NOTIFY_COMPLETE: u8 = 2;
    /// CEPH_WATCH_EVENT_DISCONNECT: the watch timed out.
    pub const DISCONNECT: u8 = 3;
}

/// The front's version, its first byte.
const FRONT_VERSION: u8 = 1;

impl Payload for WatchNotify {
    const KIND: u16 = kind::WATCH_NOTIFY;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            FRONT_VERSION => {}
            n => return Err(DecodeError::BadValue { what: "MWatchNotify msg_ver", value: n.into() }),
        }
        let (opcode, cookie, ver, notify_id) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let (payload, return_code, notifier_gid) = (d.get()?, d.get()?, d.get()?);
        let data = std::mem::take(&mut env.data);
        Ok(Self { opcode, cookie, ver, notify_id, payload, return_code, notifier_gid, data })
    }

    fn encode(&self, e: &mut Encoder, env: &mut Envelope) {
        e.put(&FRONT_VERSION).put(&self.opcode).put(&self.cookie).put(&self.ver).put(&self.notify_id);
        e.put(&self.payload).put(&self.return_code).put(&self.notifier_gid);
        env.data = self.data.clone();
    }
}
