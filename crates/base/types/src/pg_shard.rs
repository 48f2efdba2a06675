//! An OSD's part in a placement group.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{OsdId, ShardId};

/// An OSD and the shard that it holds of a placement group (Ceph's `pg_shard_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PgShard {
    pub osd: OsdId,
    /// [`ShardId::NONE`] in replicated pools.
    pub shard: ShardId,
}

impl Encode for PgShard {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.osd).put(&self.shard);
        });
    }
}
impl Decode for PgShard {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "pg_shard_t", |d, _| Ok(Self { osd: d.get()?, shard: d.get()? }))
    }
}
