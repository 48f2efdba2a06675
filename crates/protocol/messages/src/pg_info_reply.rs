//! PgInfoReply: an OSD says what it has of a placement group. Loligo's own.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, Epoch, Fsid};

use crate::PgQuestion;
use crate::codec::{fields, payload};

/// Answers a question of [`crate::PgInfoQuery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgInfoReply {
    /// The cluster.
    pub fsid: Fsid,
    pub question: PgQuestion,
    /// The map that the PG has come to here, or the OSD if it has no such PG: not older than the question's.
    pub epoch: Epoch,
    pub has: PgHolding,
}
payload!(PgInfoReply = PG_INFO_REPLY, version 1, compat 1, [fsid, question, epoch, has]);

/// What an OSD has of a PG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PgHolding {
    /// Nothing at all.
    Nothing,
    /// Something that can't be read, or that is still part of another PG.
    Unreadable,
    Info(PgSummary),
}

/// How far a PG has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PgSummary {
    /// The newest log entry.
    pub last_update: EVersion,
    /// The version before the log's first entry.
    pub log_tail: EVersion,
    /// The last epoch in which it went active there, and that interval's first epoch.
    pub last_epoch_started: Epoch,
    pub last_interval_started: Epoch,
}
fields!(PgSummary "a PG's summary" version 1, compat 1, [last_update, log_tail, last_epoch_started, last_interval_started]);

const NOTHING: u8 = 0;
const UNREADABLE: u8 = 1;
const INFO: u8 = 2;

impl Encode for PgHolding {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Nothing => drop(e.put(&NOTHING)),
            Self::Unreadable => drop(e.put(&UNREADABLE)),
            Self::Info(summary) => drop(e.put(&INFO).put(summary)),
        }
    }
}
impl Decode for PgHolding {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get()? {
            NOTHING => Ok(Self::Nothing),
            UNREADABLE => Ok(Self::Unreadable),
            INFO => Ok(Self::Info(d.get()?)),
            kind => Err(DecodeError::BadValue { what: "what an OSD has of a PG", value: u8::into(kind) }),
        }
    }
}
