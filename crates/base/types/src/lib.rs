//! The identifiers and small values that every layer shares: ids, names, addresses, versions, objects, features.
//!
//! Plain data with Ceph's encodings. Never holds behaviour of a daemon, never does I/O.

mod addr;
mod entity;
mod errno;
mod features;
mod hobject;
mod ids;
mod interval_set;
mod invariant;
mod log_level;
mod name;
mod pg_shard;
mod random;
mod slab;
mod snap;
mod time;
mod version;

pub use addr::{AddrType, EntityAddr, EntityAddrVec};
pub use entity::{EntityId, EntityName, EntityType};
pub use errno::Errno;
pub use features::{FeatureBits, Profile, Release};
pub use hobject::{GHObject, HObject, ObjectLocator};
pub use ids::{Epoch, Fsid, OsdId, PgId, PoolId, ShardId, SpgId};
pub use interval_set::IntervalSet;
pub use invariant::BrokenInvariant;
pub use log_level::LogLevel;
pub use name::Name;
pub use pg_shard::PgShard;
pub use random::SplitMix64;
pub use slab::Slab;
pub use snap::{SnapContext, SnapId};
pub use time::UTime;
pub use version::{EVersion, ReqId};

/// Delegates a newtype's encoding to its only field.
macro_rules! encode_as_inner {
    ($($t:ident),* $(,)?) => {$(
        impl encoding::Encode for $t {
            fn encode(&self, e: &mut encoding::Encoder) {
                self.0.encode(e);
            }
        }
        impl encoding::Decode for $t {
            fn decode(d: &mut encoding::Decoder<'_>) -> Result<Self, encoding::DecodeError> {
                Ok(Self(d.get()?))
            }
        }
    )*};
}
pub(crate) use encode_as_inner;
