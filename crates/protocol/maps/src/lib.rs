//! The cluster's maps: OSDMap and its increments, MonMap, MgrMap; and what the OSDMap says of an object's place.
//!
//! Decodes what Ceph 16 to 20 writes, encodes byte for byte what a release's canonical form asks for, applies
//! increments exactly as Ceph does (the checksum of the result is compared by every client and OSD). Never decides
//! what a next epoch should hold: that is the monitor's.

mod apply;
mod archive;
mod create;
mod delta;
mod incremental;
mod mapping;
mod mgrmap;
mod monmap;
mod osd;
mod osdmap;
mod placement;
mod pool;
mod pool_option;
mod pool_wire;
mod readable;
mod wire;

pub use apply::ApplyError;
pub use archive::{KEPT_WHOLE_EVERY, is_kept_whole, trim_bound};
pub use create::{NewCluster, Publication, publish};
pub use delta::{MapDelta, OsdChange, PoolChange};
pub use incremental::Incremental;
pub use mapping::UpActing;
pub use mgrmap::{MgrMap, ModuleInfo, ModuleOption, StandbyInfo};
pub use monmap::{MonCiphers, MonInfo, MonMap};
pub use osd::{Osd, OsdInfo, OsdState, OsdXInfo};
pub use osdmap::{MapFlags, OsdMap, Stretch};
pub use placement::{Mapping, Placement, Stale};
pub use pool::{CacheMode, HitSetParams, PeeringCrush, PgMergeMeta, PgPool, PoolFlags, PoolSnap};
pub use pool_option::{PoolOption, PoolOptionKey};
pub use pool_wire::pool_version;
pub use readable::UnreadableMap;
