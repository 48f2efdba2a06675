//! MMonSubscribe: what a client wants to be kept up to date about.

use std::collections::BTreeMap;

use encoding::{DecodeError, Decoder, Encoder};

use crate::codec::{Envelope, Payload, fields};
use crate::kind;

/// Ceph's MMonSubscribe. Adds to what the session has subscribed before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonSubscribe {
    /// By name: `osdmap`, `monmap`, `mgrmap`, `config`, `osd_pg_creates`, `kv:PREFIX`, ...
    pub what: BTreeMap<String, Subscription>,
    /// The asker's host name.
    pub hostname: String,
}

/// Ceph's ceph_mon_subscribe_item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Subscription {
    /// The first version wanted; 0 asks for the newest.
    pub start: u64,
    /// See [`Subscription::ONETIME`].
    pub flags: u8,
}

impl Subscription {
    /// CEPH_SUBSCRIBE_ONETIME: ends with the first answer.
    pub const ONETIME: u8 = 1;

    /// Whether it ends with the first answer.
    pub fn is_onetime(&self) -> bool {
        self.flags & Self::ONETIME != 0
    }
}

fields!(Subscription [start, flags]);

impl Payload for MonSubscribe {
    const KIND: u16 = kind::MON_SUBSCRIBE;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;
    /// Without the host name.
    const OLDEST: u16 = 2;

    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError> {
        let what = d.get()?;
        Ok(Self { what, hostname: if env.version >= 3 { d.get()? } else { String::new() } })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.what).put(&self.hostname);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, RawMessage};

    #[test]
    fn version_2_is_read_too() {
        let what = BTreeMap::from([("osdmap".to_owned(), Subscription { start: 5, flags: Subscription::ONETIME })]);
        let message = Message::from(MonSubscribe { what, hostname: String::new() });
        let mut raw = message.encode(0);
        raw.header.version = 2;
        // The empty host name was the last four bytes.
        let front = raw.front.slice(0..raw.front.len() - 4);
        assert_eq!(Message::decode(&RawMessage { front, ..raw }), Ok(message));
    }
}
