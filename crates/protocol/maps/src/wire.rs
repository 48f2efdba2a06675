//! The OSDMap's encoding: an envelope around a part for clients, a part for OSDs, and a checksum.

use std::collections::BTreeMap;

use buffer::crc32c;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddrVec, Epoch, Fsid, Release};

use crate::osdmap::{MapFlags, OsdMap, Stretch};
use crate::{Osd, OsdInfo, OsdXInfo, PgPool};
use crush::CrushMap;

/// A release's number, on its own.
pub(crate) fn put_release(e: &mut Encoder, release: Release) {
    e.put(&release.0);
}

pub(crate) fn get_release(d: &mut Decoder<'_>) -> Result<Release, DecodeError> {
    Ok(Release(d.get()?))
}

/// Appends pools in `release`'s form.
pub(crate) fn put_pools(e: &mut Encoder, pools: &BTreeMap<types::PoolId, PgPool>, release: Release) {
    e.put(&(pools.len() as u32));
    for (id, pool) in pools {
        e.put(id);
        pool.encode_as(e, release);
    }
}

/// Completes an encoding whose envelope ends with a checksum and `tail` further bytes: the checksum covers all but
/// itself.
pub(crate) fn seal(e: &mut Encoder, start: usize, tail: usize) -> u32 {
    let bytes = &e.as_slice()[start..];
    let hole = bytes.len() - tail - 4;
    let crc = crc32c(crc32c(!0, &bytes[..hole]), &bytes[hole + 4..]);
    e.patch_u32(start + hole, crc);
    crc
}

/// Checks the checksum at `hole` of an envelope's `bytes`.
pub(crate) fn verify(what: &'static str, bytes: &[u8], hole: usize) -> Result<u32, DecodeError> {
    let truncated = DecodeError::Truncated { what, needed: hole + 4, left: bytes.len() };
    let (Some(front), Some(tail)) = (bytes.get(..hole), bytes.get(hole + 4..)) else { return Err(truncated) };
    let written = Decoder::new(&bytes[hole..]).get()?;
    let actual = crc32c(crc32c(!0, front), tail);
    match actual == written {
        true => Ok(written),
        false => Err(DecodeError::Checksum { what, expected: written, actual }),
    }
}

/// Splits off a whole envelope (version, compat, length, body): its bytes, and a decoder on the body.
pub(crate) fn whole_envelope<'a>(d: &mut Decoder<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let start = d.position();
    let (version, compat, len): (u8, u8, u32) = (d.get()?, d.get()?, d.get()?);
    if version < 8 {
        return Err(DecodeError::TooOld { what, version });
    }
    if compat > 8 {
        return Err(DecodeError::TooNew { what, compat, known: 8 });
    }
    d.take(len as usize, what)?;
    Ok(d.since(start))
}

impl Encode for OsdMap {
    /// The canonical form, whatever the reader knows.
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.encode_full());
    }
}

impl OsdMap {
    /// The canonical full map: what every monitor, OSD and client of this epoch must agree on.
    pub fn encode_full(&self) -> Vec<u8> {
        self.encode_full_and_crc().0
    }

    /// The canonical full map and its checksum (an Incremental's `full_crc`).
    pub fn encode_full_and_crc(&self) -> (Vec<u8>, u32) {
        self.encode_with(self.require_osd_release, self.require_osd_release.map_features())
    }

    /// Another form than the canonical one, as tools write it: the versions of `release`, the CRUSH map for a reader
    /// with `features`.
    pub fn encode_for(&self, release: Release, features: u64) -> Vec<u8> {
        self.encode_with(release, features).0
    }

    /// The encoding, and the checksum in it.
    fn encode_with(&self, release: Release, features: u64) -> (Vec<u8>, u32) {
        let mut e = Encoder::new(features);
        let start = e.len();
        e.versioned(8, 7, |e| {
            self.encode_client_part(e, release);
            self.encode_osd_part(e);
            e.put(&0u32);
        });
        let crc = seal(&mut e, start, 0);
        (e.into_bytes(), crc)
    }

    fn encode_client_part(&self, e: &mut Encoder, release: Release) {
        let version = if release >= Release::REEF { 10 } else { 9 };
        e.versioned(version, 1, |e| {
            e.put(&self.fsid).put(&self.epoch).put(&self.created).put(&self.modified);
            put_pools(e, &self.pools, release);
            e.put(&self.pool_names).put(&self.pool_max).put(&self.flags);
            e.put(&self.max_osd());
            self.put_each(e, |e, osd| e.put(&osd.state));
            e.put(&self.weights);
            self.put_each(e, |e, osd| e.put(&osd.client_addrs));
            e.put(&self.pg_temp).put(&self.primary_temp);
            e.put(self.primary_affinity.as_deref().unwrap_or(&[]));
            e.sized(|e| self.crush.encode(e));
            e.put(&self.erasure_code_profiles);
            e.put(&self.pg_upmap).put(&self.pg_upmap_items).put(&self.crush_version);
            e.put(&self.new_removed_snaps).put(&self.new_purged_snaps);
            e.put(&self.last_up_change).put(&self.last_in_change);
            if version >= 10 {
                e.put(&self.pg_upmap_primaries);
            }
        });
    }

    fn encode_osd_part(&self, e: &mut Encoder) {
        let version = match () {
            () if self.allow_crimson => 12,
            () if !self.range_blocklist.is_empty() => 11,
            () if self.stretch.enabled => 10,
            () => 9,
        };
        e.versioned(version, 1, |e| {
            self.put_each(e, |e, osd| e.put(&osd.hb_back_addrs));
            self.put_each(e, |e, osd| e.put(&osd.info));
            e.put(&self.blocklist);
            self.put_each(e, |e, osd| e.put(&osd.cluster_addrs));
            e.put(&self.cluster_snapshot_epoch).put(&self.cluster_snapshot);
            self.put_each(e, |e, osd| e.put(&osd.uuid));
            self.put_each(e, |e, osd| e.put(&osd.xinfo));
            self.put_each(e, |e, osd| e.put(&osd.hb_front_addrs));
            e.put(&self.nearfull_ratio).put(&self.full_ratio).put(&self.backfillfull_ratio);
            put_release(e, self.require_min_compat_client);
            put_release(e, self.require_osd_release);
            e.put(&self.removed_snaps_queue).put(&self.crush_node_flags).put(&self.device_class_flags);
            if version >= 10 {
                let s = &self.stretch;
                e.put(&s.enabled).put(&s.bucket_count).put(&s.degraded).put(&s.recovering).put(&s.bucket);
            }
            if version >= 11 {
                e.put(&self.range_blocklist);
            }
            if version >= 12 {
                e.put(&self.allow_crimson);
            }
        });
    }

    fn put_each(&self, e: &mut Encoder, put: impl for<'e> Fn(&'e mut Encoder, &Osd) -> &'e mut Encoder) {
        e.put(&(self.osds.len() as u32));
        for osd in &self.osds {
            put(e, osd);
        }
    }
}

/// OSDs' tables as they come off the wire, one vector a field.
#[derive(Default)]
struct Tables {
    max_osd: i32,
    states: Vec<u32>,
    client: Vec<EntityAddrVec>,
    cluster: Vec<EntityAddrVec>,
    hb_back: Vec<EntityAddrVec>,
    hb_front: Vec<EntityAddrVec>,
    infos: Vec<OsdInfo>,
    xinfos: Vec<OsdXInfo>,
    uuids: Vec<Fsid>,
}

impl Tables {
    /// One entry an OSD. All tables must be as long as max_osd says, as every writer leaves them.
    fn join(self, weights: usize, affinities: Option<usize>) -> Result<Vec<Osd>, DecodeError> {
        let n = self.states.len();
        let lengths = [
            self.client.len(),
            self.cluster.len(),
            self.hb_back.len(),
            self.hb_front.len(),
            self.infos.len(),
        ];
        let more = [self.xinfos.len(), self.uuids.len(), weights, affinities.unwrap_or(n)];
        if usize::try_from(self.max_osd) != Ok(n) || lengths.iter().chain(&more).any(|&len| len != n) {
            return Err(DecodeError::BadValue { what: "OSDMap max_osd", value: self.max_osd as u64 });
        }
        let addrs = self.client.into_iter().zip(self.cluster).zip(self.hb_back).zip(self.hb_front);
        let rest = self.infos.into_iter().zip(self.xinfos).zip(self.uuids);
        let osds = self.states.into_iter().zip(addrs).zip(rest);
        let join = |((state, (((client_addrs, cluster_addrs), hb_back_addrs), hb_front_addrs)), rest)| {
            let ((info, xinfo), uuid) = rest;
            Osd { state, client_addrs, cluster_addrs, hb_back_addrs, hb_front_addrs, info, xinfo, uuid }
        };
        Ok(osds.map(join).collect())
    }
}

impl Decode for OsdMap {
    /// Verifies the checksum first. Maps from before Luminous are refused as too old.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut look_ahead = Decoder::new(d.rest());
        let bytes = whole_envelope(&mut look_ahead, "OSDMap")?;
        // The checksum is the last thing that the envelope holds.
        verify("OSDMap", bytes, bytes.len().saturating_sub(4))?;
        d.versioned(8, "OSDMap", |d, _| {
            let (mut map, mut tables) = (Self::default(), Tables::default());
            d.versioned(10, "OSDMap client part", |d, v| map.decode_client_part(d, v, &mut tables))?;
            d.versioned(12, "OSDMap osd part", |d, v| map.decode_osd_part(d, v, &mut tables))?;
            d.get::<u32>()?;
            map.osds = tables.join(map.weights.len(), map.primary_affinity.as_ref().map(Vec::len))?;
            Ok(map)
        })
    }
}

impl OsdMap {
    fn decode_client_part(
        &mut self,
        d: &mut Decoder<'_>,
        version: u8,
        t: &mut Tables,
    ) -> Result<(), DecodeError> {
        // 7 is Luminous' and Mimic's; below, states are bytes and upmaps are missing.
        if version < 6 {
            return Err(DecodeError::TooOld { what: "OSDMap client part", version });
        }
        self.fsid = d.get()?;
        self.epoch = d.get()?;
        self.created = d.get()?;
        self.modified = d.get()?;
        self.pools = d.get()?;
        self.pool_names = d.get()?;
        self.pool_max = d.get()?;
        self.flags = d.get()?;
        t.max_osd = d.get()?;
        t.states = d.get()?;
        self.weights = d.get()?;
        t.client = d.get()?;
        self.pg_temp = d.get()?;
        self.primary_temp = d.get()?;
        self.primary_affinity = Some(d.get()?).filter(|v: &Vec<u32>| !v.is_empty());
        self.crush = CrushMap::from_bytes(d.blob("OSDMap crush")?)?;
        self.erasure_code_profiles = d.get()?;
        self.pg_upmap = d.get()?;
        self.pg_upmap_items = d.get()?;
        self.crush_version = d.get()?;
        if version >= 7 {
            self.new_removed_snaps = d.get()?;
            self.new_purged_snaps = d.get()?;
        }
        if version >= 9 {
            self.last_up_change = d.get()?;
            self.last_in_change = d.get()?;
        }
        if version >= 10 {
            self.pg_upmap_primaries = d.get()?;
        }
        Ok(())
    }

    fn decode_osd_part(
        &mut self,
        d: &mut Decoder<'_>,
        version: u8,
        t: &mut Tables,
    ) -> Result<(), DecodeError> {
        if version < 5 {
            return Err(DecodeError::TooOld { what: "OSDMap osd part", version });
        }
        t.hb_back = d.get()?;
        t.infos = d.get()?;
        self.blocklist = d.get()?;
        t.cluster = d.get()?;
        self.cluster_snapshot_epoch = Epoch(d.get()?);
        self.cluster_snapshot = d.get()?;
        t.uuids = d.get()?;
        t.xinfos = d.get()?;
        t.hb_front = d.get()?;
        self.nearfull_ratio = d.get()?;
        self.full_ratio = d.get()?;
        self.backfillfull_ratio = d.get()?;
        self.require_min_compat_client = get_release(d)?;
        self.require_osd_release = get_release(d)?;
        if self.require_osd_release >= Release::NAUTILUS {
            self.flags |= MapFlags::PGLOG_HARDLIMIT;
        }
        if self.require_osd_release >= Release::LUMINOUS {
            self.flags = self.flags & !MapFlags::LEGACY_REQUIRE | MapFlags::RECOVERY_DELETES;
        }
        if version >= 6 {
            self.removed_snaps_queue = d.get()?;
        }
        if version >= 8 {
            self.crush_node_flags = d.get()?;
        }
        if version >= 9 {
            self.device_class_flags = d.get()?;
        }
        if version >= 10 {
            self.stretch = Stretch {
                enabled: d.get()?,
                bucket_count: d.get()?,
                degraded: d.get()?,
                recovering: d.get()?,
                bucket: d.get()?,
            };
        }
        if version >= 11 {
            self.range_blocklist = d.get()?;
        }
        if version >= 12 {
            self.allow_crimson = d.get()?;
        }
        Ok(())
    }
}
