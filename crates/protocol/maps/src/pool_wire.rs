//! pg_pool_t's encoding.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::Release;

use crate::{HitSetParams, PeeringCrush, PgPool, PoolFlags, PoolOption};

/// The version of pg_pool_t in the canonical maps of a release: 29, 30 for stretch pools; from Tentacle on 32.
pub fn pool_version(release: Release, pool: &PgPool) -> u8 {
    match (release >= Release::TENTACLE, pool.peering_crush) {
        (true, _) => 32,
        (false, Some(_)) => 30,
        (false, None) => 29,
    }
}

impl Encode for PgPool {
    /// The form of releases before Tentacle.
    fn encode(&self, e: &mut Encoder) {
        self.encode_as(e, Release::PACIFIC);
    }
}

impl PgPool {
    /// Appends the form of `release`'s canonical maps.
    pub fn encode_as(&self, e: &mut Encoder, release: Release) {
        let version = pool_version(release, self);
        e.versioned(version, 5, |e| {
            self.encode_placement(e);
            self.encode_tiering(e);
            self.encode_recent(e, version);
        });
    }

    fn encode_placement(&self, e: &mut Encoder) {
        e.put(&self.kind).put(&self.size).put(&self.crush_rule).put(&self.object_hash);
        e.put(&self.pg_num).put(&self.pgp_num).put(&self.localized);
        e.put(&self.last_change).put(&self.snap_seq).put(&self.snap_epoch);
        e.put(&self.snaps).put(&self.removed_snaps).put(&self.auid).put(&self.flags);
        e.put(&self.crash_replay_interval).put(&self.min_size);
        e.put(&self.quota_max_bytes).put(&self.quota_max_objects);
    }

    fn encode_tiering(&self, e: &mut Encoder) {
        e.put(&self.tiers)
            .put(&self.tier_of)
            .put(&self.cache_mode)
            .put(&self.read_tier)
            .put(&self.write_tier);
        e.put(&self.properties).put(&self.hit_set_params).put(&self.hit_set_period).put(&self.hit_set_count);
        e.put(&self.stripe_width).put(&self.target_max_bytes).put(&self.target_max_objects);
        e.put(&self.cache_target_dirty_ratio_micro).put(&self.cache_target_full_ratio_micro);
        e.put(&self.cache_min_flush_age).put(&self.cache_min_evict_age).put(&self.erasure_code_profile);
        e.put(&self.last_force_op_resend_preluminous).put(&self.min_read_recency_for_promote);
        e.put(&self.expected_num_objects).put(&self.cache_target_dirty_high_ratio_micro);
        e.put(&self.min_write_recency_for_promote).put(&self.use_gmt_hitset).put(&self.fast_read);
        e.put(&self.hit_set_grade_decay_rate).put(&self.hit_set_search_last_n);
    }

    fn encode_recent(&self, e: &mut Encoder, version: u8) {
        e.versioned(2, 1, |e| {
            e.put(&self.opts);
        });
        e.put(&self.last_force_op_resend_prenautilus).put(&self.application_metadata).put(&self.create_time);
        e.put(&self.pg_num_target).put(&self.pgp_num_target).put(&self.pg_num_pending);
        e.put(&self.old_merge_epochs).put(&self.last_force_op_resend).put(&self.pg_autoscale_mode);
        e.put(&self.last_pg_merge_meta);
        match (version, &self.peering_crush) {
            (30, Some(peering)) => {
                e.put(peering);
            }
            (31.., peering) => {
                e.put(peering);
            }
            _ => {}
        }
        if version >= 32 {
            e.varint(self.nonprimary_shards.0).varint(self.nonprimary_shards.1);
        }
    }
}

impl Decode for PgPool {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(32, "pg_pool_t", |d, version| {
            // 14 is Firefly's; nothing that we can meet writes less.
            if version < 14 {
                return Err(DecodeError::TooOld { what: "pg_pool_t", version });
            }
            let mut pool = Self::default();
            pool.decode_placement(d)?;
            pool.decode_tiering(d)?;
            pool.decode_middle(d, version)?;
            pool.decode_recent(d, version)?;
            Ok(pool)
        })
    }
}

impl PgPool {
    fn decode_placement(&mut self, d: &mut Decoder<'_>) -> Result<(), DecodeError> {
        self.kind = d.get()?;
        self.size = d.get()?;
        self.crush_rule = d.get()?;
        self.object_hash = d.get()?;
        self.pg_num = d.get()?;
        self.pgp_num = d.get()?;
        self.localized = d.get()?;
        self.last_change = d.get()?;
        self.snap_seq = d.get()?;
        self.snap_epoch = d.get()?;
        self.snaps = d.get()?;
        self.removed_snaps = d.get()?;
        self.auid = d.get()?;
        self.flags = d.get()?;
        self.crash_replay_interval = d.get()?;
        // Maps from before Mimic don't say which kind of snapshots the pool uses.
        let known = PoolFlags::SELFMANAGED_SNAPS | PoolFlags::POOL_SNAPS;
        if self.snap_seq.0 > 0 && self.flags & known == 0 {
            self.flags |= match self.removed_snaps.is_empty() {
                true => PoolFlags::POOL_SNAPS,
                false => PoolFlags::SELFMANAGED_SNAPS,
            };
        }
        self.min_size = d.get()?;
        self.quota_max_bytes = d.get()?;
        self.quota_max_objects = d.get()?;
        Ok(())
    }

    fn decode_tiering(&mut self, d: &mut Decoder<'_>) -> Result<(), DecodeError> {
        self.tiers = d.get()?;
        self.tier_of = d.get()?;
        self.cache_mode = d.get()?;
        self.read_tier = d.get()?;
        self.write_tier = d.get()?;
        self.properties = d.get()?;
        self.hit_set_params = d.get()?;
        self.hit_set_period = d.get()?;
        self.hit_set_count = d.get()?;
        self.stripe_width = d.get()?;
        self.target_max_bytes = d.get()?;
        self.target_max_objects = d.get()?;
        self.cache_target_dirty_ratio_micro = d.get()?;
        self.cache_target_full_ratio_micro = d.get()?;
        self.cache_min_flush_age = d.get()?;
        self.cache_min_evict_age = d.get()?;
        self.erasure_code_profile = d.get()?;
        Ok(())
    }

    /// Versions 15 to 24: what came between Firefly and Jewel.
    fn decode_middle(&mut self, d: &mut Decoder<'_>, version: u8) -> Result<(), DecodeError> {
        self.min_read_recency_for_promote = 1;
        self.min_write_recency_for_promote = 1;
        self.use_gmt_hitset = false;
        self.hit_set_search_last_n = 1;
        if version >= 15 {
            self.last_force_op_resend_preluminous = d.get()?;
        }
        if version >= 16 {
            self.min_read_recency_for_promote = d.get()?;
        }
        if version >= 17 {
            self.expected_num_objects = d.get()?;
        }
        self.cache_target_dirty_high_ratio_micro = match version {
            19.. => d.get()?,
            _ => self.cache_target_dirty_ratio_micro,
        };
        if version >= 20 {
            self.min_write_recency_for_promote = d.get()?;
        }
        if version >= 21 {
            self.use_gmt_hitset = d.get()?;
        }
        if version >= 22 {
            self.fast_read = d.get()?;
        }
        if version >= 23 {
            self.hit_set_grade_decay_rate = d.get()?;
            self.hit_set_search_last_n = d.get()?;
        }
        if version >= 24 {
            self.opts = decode_opts(d)?;
        }
        Ok(())
    }

    /// Versions 25 on: Luminous and later.
    fn decode_recent(&mut self, d: &mut Decoder<'_>, version: u8) -> Result<(), DecodeError> {
        self.last_force_op_resend_prenautilus = match version {
            25.. => d.get()?,
            _ => self.last_force_op_resend_preluminous,
        };
        if version >= 26 {
            self.application_metadata = d.get()?;
        }
        if version >= 27 {
            self.create_time = d.get()?;
        }
        if version >= 28 {
            self.pg_num_target = d.get()?;
            self.pgp_num_target = d.get()?;
            self.pg_num_pending = d.get()?;
            self.old_merge_epochs = d.get()?;
            self.last_force_op_resend = d.get()?;
            self.pg_autoscale_mode = d.get()?;
        } else {
            self.pg_num_target = self.pg_num;
            self.pgp_num_target = self.pgp_num;
            self.pg_num_pending = self.pg_num;
            self.last_force_op_resend = self.last_force_op_resend_prenautilus;
            self.pg_autoscale_mode = 1;
        }
        if version >= 29 {
            self.last_pg_merge_meta = d.get()?;
        } else {
            self.last_pg_merge_meta.last_epoch_started = self.old_merge_epochs.0;
            self.last_pg_merge_meta.last_epoch_clean = self.old_merge_epochs.1;
        }
        if version == 30 {
            self.peering_crush = Some(d.get()?);
        }
        if version >= 31 {
            self.peering_crush = d.get()?;
        }
        if version >= 32 {
            self.nonprimary_shards = (d.varint()?, d.varint()?);
        }
        Ok(())
    }
}

impl Encode for PeeringCrush {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.bucket_count)
            .put(&self.bucket_target)
            .put(&self.bucket_barrier)
            .put(&self.mandatory_member);
    }
}
impl Decode for PeeringCrush {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            bucket_count: d.get()?,
            bucket_target: d.get()?,
            bucket_barrier: d.get()?,
            mandatory_member: d.get()?,
        })
    }
}

impl Encode for PoolOption {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Str(s) => e.put(&0i32).put(s),
            Self::Int(n) => e.put(&1i32).put(n),
            Self::Double(x) => e.put(&2i32).put(x),
        };
    }
}

/// pool_opts_t: version 1 had 32-bit numbers.
pub(crate) fn decode_opts(d: &mut Decoder<'_>) -> Result<BTreeMap<i32, PoolOption>, DecodeError> {
    d.versioned(2, "pool_opts_t", |d, version| {
        let n = d.count(12, "pool_opts_t")?;
        let mut opts = BTreeMap::new();
        for _ in 0..n {
            let key = d.get()?;
            let value = match d.get::<i32>()? {
                0 => PoolOption::Str(d.get()?),
                1 if version >= 2 => PoolOption::Int(d.get()?),
                1 => PoolOption::Int(d.get::<i32>()?.into()),
                2 => PoolOption::Double(d.get()?),
                n => return Err(DecodeError::BadValue { what: "pool option type", value: n as u64 }),
            };
            opts.insert(key, value);
        }
        Ok(opts)
    })
}

impl Encode for HitSetParams {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| match self {
            Self::None => {
                e.put(&0u8);
            }
            Self::ExplicitHash => {
                e.put(&1u8);
            }
            Self::ExplicitObject => {
                e.put(&2u8);
            }
            Self::Bloom { fpp_micro, target_size, seed } => {
                e.put(&3u8).versioned(1, 1, |e| {
                    e.put(fpp_micro).put(target_size).put(seed);
                });
            }
        });
    }
}
impl Decode for HitSetParams {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "HitSet::Params", |d, _| match d.get::<u8>()? {
            0 => Ok(Self::None),
            1 => Ok(Self::ExplicitHash),
            2 => Ok(Self::ExplicitObject),
            3 => d.versioned(1, "BloomHitSet::Params", |d, _| {
                Ok(Self::Bloom { fpp_micro: d.get()?, target_size: d.get()?, seed: d.get()? })
            }),
            n => Err(DecodeError::BadValue { what: "hit set type", value: n.into() }),
        })
    }
}
