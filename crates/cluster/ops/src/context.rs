//! The inputs of an execution besides the object and the operations.

use std::sync::Arc;

use types::{EntityAddrVec, EntityName, EntityType, IntervalSet, Release, ReqId, SnapContext, UTime};

use crate::{ClassTable, WatchContext};

/// OpLimits, by the names of Ceph's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpLimits {
    /// osd_max_object_size, bytes.
    pub object_size_max: u64,
    /// osd_max_attr_size, bytes; 0 is no limit.
    pub attr_size_max: u64,
    /// osd_max_attr_name_len, bytes.
    pub attr_name_len_max: u64,
    /// osd_max_omap_entries_per_request.
    pub omap_entries_max: u64,
    /// osd_max_omap_bytes_per_request; see [`OpLimits::omap_read_bytes_max`].
    pub omap_bytes_max: u64,
    /// osd_max_write_op_reply_len, bytes.
    pub write_op_reply_len_max: u64,
    /// osd_read_bytes_max, bytes: what all operations of a request may read together.
    pub read_bytes_max: u64,
    /// osd_client_watch_timeout: for watches that ask for none.
    pub watch_timeout_seconds: u32,
    /// osd_default_notify_timeout: for notifies that ask for none.
    pub notify_timeout_seconds: u32,
    /// osd_object_watchers_max; a watch beyond it gets EUSERS.
    pub object_watchers_max: u64,
    /// osd_notify_bytes_max, bytes: what the notifies of a PG and the answers to them may hold.
    pub notify_bytes_max: u64,
}

impl OpLimits {
    /// The most bytes of omap that one operation reads: beyond it the answer says that there is more. Less than
    /// [`OpLimits::read_bytes_max`], so that a single listing is cut short instead of refused.
    pub fn omap_read_bytes_max(&self) -> u64 {
        self.omap_bytes_max.min(self.read_bytes_max / 2)
    }
}

impl Default for OpLimits {
    /// Ceph's defaults.
    fn default() -> Self {
        Self {
            object_size_max: 128 << 20,
            attr_size_max: 0,
            attr_name_len_max: 100,
            omap_entries_max: 1024,
            omap_bytes_max: 1 << 30,
            write_op_reply_len_max: 64,
            read_bytes_max: 256 << 20,
            watch_timeout_seconds: 30,
            notify_timeout_seconds: 30,
            object_watchers_max: 4096,
            notify_bytes_max: 64 << 20,
        }
    }
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The instance, `client.4123`.
    pub name: EntityName,
    /// The same in every resend.
    pub reqid: ReqId,
    /// By which a map may shut it out.
    pub addrs: Arc<EntityAddrVec>,
    /// Features of its session.
    pub features: u64,
}

impl Caller {
    pub fn is_mds(&self) -> bool {
        self.name.kind == EntityType::Mds
    }
}

/// A request's circumstances.
#[derive(Clone, Debug)]
pub struct OpContext<'a> {
    pub caller: &'a Caller,
    pub limits: &'a OpLimits,
    /// The snapshots that a write must preserve: the client's, or the pool's.
    pub snapc: &'a SnapContext,
    /// The pool's snapshots whose removal has begun.
    pub removed_snaps: Option<&'a IntervalSet>,
    /// The message's flags ([`messages::osd_op::OsdFlags`]).
    pub flags: u32,
    /// Whether the pool can hold omap data.
    pub pool_has_omap: bool,
    /// Whether the pool is full, and whether by its quota.
    pub full: Option<FullKind>,
    pub classes: &'a ClassTable,
    /// When the request began; the same in each of its runs.
    pub now: UTime,
    /// The time that the client gave its request.
    pub mtime: UTime,
    /// Of the numbers that classes draw; another in each request, the same in each of its runs.
    pub seed: u64,
    /// The newest user version of the PG.
    pub last_user_version: u64,
    /// The map's.
    pub require_osd_release: Release,
    /// The map's.
    pub require_min_compat_client: Release,
    pub watches: WatchContext<'a>,
}

/// Why a pool is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullKind {
    /// Its quota is used up (FLAG_FULL_QUOTA): EDQUOT.
    Quota,
    /// Devices are full: ENOSPC.
    Space,
}
