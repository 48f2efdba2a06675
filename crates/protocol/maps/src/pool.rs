//! A pool (Ceph's pg_pool_t) and how names and placement groups fold into it.

use std::collections::{BTreeMap, BTreeSet};

use crush::hash::{hash32_2, str_linux, str_rjenkins};
use crush::stable_mod;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, Epoch, IntervalSet, PgId, PoolId, SnapContext, SnapId, UTime};

use crate::PoolOption;

/// Bits of a pool's flags (pg_pool_t::FLAG_*).
pub struct PoolFlags;

// Named as Ceph names them.
impl PoolFlags {
    /// The pool's number joins the placement seed by a hash, not by addition.
    pub const HASHPSPOOL: u64 = 1 << 0;
    pub const FULL: u64 = 1 << 1;
    pub const EC_OVERWRITES: u64 = 1 << 2;
    pub const INCOMPLETE_CLONES: u64 = 1 << 3;
    pub const NODELETE: u64 = 1 << 4;
    pub const NOPGCHANGE: u64 = 1 << 5;
    pub const NOSIZECHANGE: u64 = 1 << 6;
    pub const WRITE_FADVISE_DONTNEED: u64 = 1 << 7;
    pub const NOSCRUB: u64 = 1 << 8;
    pub const NODEEP_SCRUB: u64 = 1 << 9;
    pub const FULL_QUOTA: u64 = 1 << 10;
    pub const NEARFULL: u64 = 1 << 11;
    pub const BACKFILLFULL: u64 = 1 << 12;
    pub const SELFMANAGED_SNAPS: u64 = 1 << 13;
    pub const POOL_SNAPS: u64 = 1 << 14;
    pub const CREATING: u64 = 1 << 15;
    pub const EIO: u64 = 1 << 16;
    pub const BULK: u64 = 1 << 17;
    pub const CRIMSON: u64 = 1 << 18;
    pub const EC_OPTIMIZATIONS: u64 = 1 << 19;

    /// The names of the bits that are set, joined by commas, as `ceph osd pool ls detail` prints them.
    pub fn names(flags: u64) -> String {
        const NAMES: [&str; 20] = [
            "hashpspool",
            "full",
            "ec_overwrites",
            "incomplete_clones",
            "nodelete",
            "nopgchange",
            "nosizechange",
            "write_fadvise_dontneed",
            "noscrub",
            "nodeep-scrub",
            "full_quota",
            "nearfull",
            "backfillfull",
            "selfmanaged_snaps",
            "pool_snaps",
            "creating",
            "eio",
            "bulk",
            "crimson",
            "ec_optimizations",
        ];
        let set = (0..64).filter(|bit| flags >> bit & 1 == 1);
        set.map(|bit| NAMES.get(bit).copied().unwrap_or("???")).collect::<Vec<_>>().join(",")
    }
}

/// A named snapshot of a whole pool (Ceph's pool_snap_info_t).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSnap {
    pub id: SnapId,
    /// When it was made.
    pub stamp: UTime,
    pub name: String,
}

impl Encode for PoolSnap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.put(&self.id).put(&self.stamp).put(&self.name);
        });
    }
}
impl Decode for PoolSnap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "pool_snap_info_t", |d, _| Ok(Self { id: d.get()?, stamp: d.get()?, name: d.get()? }))
    }
}

/// The last merge of two of the pool's PGs (Ceph's pg_merge_meta_t).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PgMergeMeta {
    /// The PG that vanished.
    pub source: PgId,
    /// When both were ready.
    pub ready_epoch: Epoch,
    /// Epoch the source last started in.
    pub last_epoch_started: Epoch,
    /// Epoch the source was last clean in.
    pub last_epoch_clean: Epoch,
    /// The source's last version.
    pub source_version: EVersion,
    /// The target's last version.
    pub target_version: EVersion,
}

impl Default for PgMergeMeta {
    fn default() -> Self {
        Self {
            source: PgId { pool: PoolId(0), seed: 0 },
            ready_epoch: Epoch(0),
            last_epoch_started: Epoch(0),
            last_epoch_clean: Epoch(0),
            source_version: EVersion::default(),
            target_version: EVersion::default(),
        }
    }
}

impl Encode for PgMergeMeta {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.source).put(&self.ready_epoch);
            e.put(&self.last_epoch_started).put(&self.last_epoch_clean);
            e.put(&self.source_version).put(&self.target_version);
        });
    }
}
impl Decode for PgMergeMeta {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "pg_merge_meta_t", |d, _| {
            Ok(Self {
                source: d.get()?,
                ready_epoch: d.get()?,
                last_epoch_started: d.get()?,
                last_epoch_clean: d.get()?,
                source_version: d.get()?,
                target_version: d.get()?,
            })
        })
    }
}

/// How hit sets of a cache tier are kept (Ceph's HitSet::Params).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum HitSetParams {
    /// Not at all.
    #[default]
    None,
    /// As a set of hashes.
    ExplicitHash,
    /// As a set of names.
    ExplicitObject,
    /// As a Bloom filter.
    Bloom {
        /// Rate of false positives, in millionths.
        fpp_micro: u32,
        /// Objects it is sized for; 0: as many as there were last time.
        target_size: u64,
        /// Where its hashes start.
        seed: u64,
    },
}

/// The cache mode by the wire's number: 0 none, 1 writeback, ... 6 proxy.
pub type CacheMode = u8;

/// What a stretch pool asks of the CRUSH buckets that its PGs peer across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeeringCrush {
    /// Buckets that must take part.
    pub bucket_count: u32,
    /// Buckets that replicas are spread over.
    pub bucket_target: u32,
    /// The buckets' type.
    pub bucket_barrier: u32,
    /// A bucket that must be among them, 0x7fffffff for none.
    pub mandatory_member: i32,
}

/// A pool (Ceph's pg_pool_t). Fields carry Ceph's names.
#[derive(Clone, PartialEq, Debug)]
pub struct PgPool {
    /// [`PgPool::REPLICATED`] or [`PgPool::ERASURE`].
    pub kind: u8,
    pub size: u8,
    pub min_size: u8,
    pub crush_rule: u8,
    /// 1 linux, 2 rjenkins.
    pub object_hash: u8,
    pub pg_num: u32,
    pub pgp_num: u32,
    pub pg_num_target: u32,
    pub pgp_num_target: u32,
    pub pg_num_pending: u32,
    /// Two obsolete counts of localized PGs; 0 in every map since Nautilus.
    pub localized: (u32, u32),
    pub last_change: Epoch,
    pub snap_seq: SnapId,
    pub snap_epoch: Epoch,
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    pub removed_snaps: IntervalSet,
    pub auid: u64,
    /// Bits of [`PoolFlags`].
    pub flags: u64,
    pub crash_replay_interval: u32,
    /// In bytes; 0: none.
    pub quota_max_bytes: u64,
    pub quota_max_objects: u64,
    pub tiers: BTreeSet<u64>,
    pub tier_of: PoolId,
    pub cache_mode: CacheMode,
    pub read_tier: PoolId,
    pub write_tier: PoolId,
    pub properties: BTreeMap<String, String>,
    pub hit_set_params: HitSetParams,
    pub hit_set_period: u32,
    pub hit_set_count: u32,
    pub stripe_width: u32,
    pub target_max_bytes: u64,
    pub target_max_objects: u64,
    pub cache_target_dirty_ratio_micro: u32,
    pub cache_target_dirty_high_ratio_micro: u32,
    pub cache_target_full_ratio_micro: u32,
    pub cache_min_flush_age: u32,
    pub cache_min_evict_age: u32,
    pub erasure_code_profile: String,
    pub last_force_op_resend_preluminous: Epoch,
    pub last_force_op_resend_prenautilus: Epoch,
    pub last_force_op_resend: Epoch,
    pub min_read_recency_for_promote: u32,
    pub min_write_recency_for_promote: u32,
    pub expected_num_objects: u64,
    pub use_gmt_hitset: bool,
    pub fast_read: bool,
    pub hit_set_grade_decay_rate: u32,
    pub hit_set_search_last_n: u32,
    pub opts: BTreeMap<i32, PoolOption>,
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    pub create_time: UTime,
    /// Two epochs that 14.1 kept of a merge; 0 since.
    pub old_merge_epochs: (Epoch, Epoch),
    /// 0 off, 1 warn, 2 on, 255 unknown.
    pub pg_autoscale_mode: u8,
    pub last_pg_merge_meta: PgMergeMeta,
    /// Set in stretch pools; written from Reef on.
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that can't be primary, as two words of bits; written from Tentacle on.
    pub nonprimary_shards: (u64, u64),
}

impl PgPool {
    /// The type of replicated pools.
    pub const REPLICATED: u8 = 1;
    /// The type of erasure-coded pools.
    pub const ERASURE: u8 = 3;

    /// A replicated pool as a Pacific monitor makes it by default (hashpspool, rjenkins, no quotas, no tiers). The
    /// caller sets `create_time`, `last_change`, and flag CREATING if it creates PGs step by step.
    pub fn replicated(size: u8, min_size: u8, pg_num: u32, crush_rule: u8) -> Self {
        Self {
            kind: Self::REPLICATED,
            size,
            min_size,
            crush_rule,
            object_hash: 2,
            pg_num,
            pgp_num: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pg_num,
            pg_num_pending: pg_num,
            flags: PoolFlags::HASHPSPOOL,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_dirty_high_ratio_micro: 600_000,
            cache_target_full_ratio_micro: 800_000,
            ..Self::default()
        }
    }

    /// Whether holes in an OSD set close up (replicated) or stay (erasure-coded: the place names the shard).
    pub fn can_shift_osds(&self) -> bool {
        self.kind != Self::ERASURE
    }

    /// The value of one of the options that are floating-point numbers ([`PoolOptionKey`](crate::PoolOptionKey)), where
    /// the pool has it.
    pub fn double_option(&self, key: i32) -> Option<f64> {
        match self.opts.get(&key)? {
            PoolOption::Double(value) => Some(*value),
            PoolOption::Int(_) | PoolOption::Str(_) => None,
        }
    }

    /// Whether all bits of `mask` are set in the flags.
    pub fn has_flags(&self, mask: u64) -> bool {
        self.flags & mask == mask
    }

    /// `pg_num` rounded up to a power of two, less one.
    pub fn pg_num_mask(&self) -> u32 {
        mask_of(self.pg_num)
    }

    /// `pgp_num` rounded up to a power of two, less one.
    pub fn pgp_num_mask(&self) -> u32 {
        mask_of(self.pgp_num)
    }

    /// The hash of an object's name (or locator key) within its namespace.
    pub fn hash_key(&self, name: &[u8], nspace: &[u8]) -> u32 {
        const SEPARATOR: u8 = 0x1f;
        let hash = |bytes: &[u8]| match self.object_hash {
            1 => str_linux(bytes),
            2 => str_rjenkins(bytes),
            _ => u32::MAX,
        };
        match nspace {
            [] => hash(name),
            nspace => hash(&[nspace, &[SEPARATOR], name].concat()),
        }
    }

    /// The placement group that a raw one (whose seed is a whole hash) folds into.
    pub fn raw_pg_to_pg(&self, raw: PgId) -> PgId {
        PgId { pool: raw.pool, seed: stable_mod(raw.seed, self.pg_num, self.pg_num_mask()) }
    }

    /// The seed that CRUSH places a placement group by.
    pub fn raw_pg_to_pps(&self, raw: PgId) -> u32 {
        let seed = stable_mod(raw.seed, self.pgp_num, self.pgp_num_mask());
        match self.has_flags(PoolFlags::HASHPSPOOL) {
            true => hash32_2(seed, raw.pool.0 as u32),
            false => seed.wrapping_add(raw.pool.0 as u32),
        }
    }

    /// The snapshots of a pool whose snapshots are the pool's own, newest first.
    pub fn snap_context(&self) -> SnapContext {
        SnapContext { seq: self.snap_seq.0, snaps: self.snaps.keys().rev().copied().collect() }
    }
}

impl Default for PgPool {
    fn default() -> Self {
        Self {
            kind: 0,
            size: 0,
            min_size: 0,
            crush_rule: 0,
            object_hash: 0,
            pg_num: 0,
            pgp_num: 0,
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            localized: (0, 0),
            last_change: Epoch(0),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::new(),
            auid: 0,
            flags: 0,
            crash_replay_interval: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiers: BTreeSet::new(),
            tier_of: PoolId(-1),
            cache_mode: 0,
            read_tier: PoolId(-1),
            write_tier: PoolId(-1),
            properties: BTreeMap::new(),
            hit_set_params: HitSetParams::None,
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 0,
            cache_target_dirty_high_ratio_micro: 0,
            cache_target_full_ratio_micro: 0,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            erasure_code_profile: String::new(),
            last_force_op_resend_preluminous: Epoch(0),
            last_force_op_resend_prenautilus: Epoch(0),
            last_force_op_resend: Epoch(0),
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
            expected_num_objects: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            opts: BTreeMap::new(),
            application_metadata: BTreeMap::new(),
            create_time: UTime::default(),
            old_merge_epochs: (Epoch(0), Epoch(0)),
            pg_autoscale_mode: 255,
            last_pg_merge_meta: PgMergeMeta::default(),
            peering_crush: None,
            nonprimary_shards: (0, 0),
        }
    }
}

fn mask_of(n: u32) -> u32 {
    n.checked_next_power_of_two().map_or(u32::MAX, |p| p - 1)
}
