//! An object's metadata (Ceph's object_info_t), kept with it in the attribute "_".

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EVersion, EntityAddr, EntityName, HObject, ObjectLocator, ReqId, UTime};

/// A registered watch (Ceph's watch_info_t).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchInfo {
    /// The watcher's own name for it.
    pub cookie: u64,
    /// Seconds without a ping after which it ends.
    pub timeout_seconds: u32,
    /// The watcher's address.
    pub addr: EntityAddr,
}

impl Encode for WatchInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 3, |e| {
            e.put(&self.cookie).put(&self.timeout_seconds).put(&self.addr);
        });
    }
}
impl Decode for WatchInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(4, "watch_info_t", |d, v| match v {
            0..4 => Err(DecodeError::TooOld { what: "watch_info_t", version: v }),
            _ => Ok(Self { cookie: d.get()?, timeout_seconds: d.get()?, addr: d.get()? }),
        })
    }
}

/// A tiering manifest, carried as it was written: an envelope that nothing here looks into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawManifest(Vec<u8>);

impl Encode for RawManifest {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}
impl Decode for RawManifest {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let start = d.position();
        d.get::<u16>()?;
        d.blob("object_manifest_t")?;
        Ok(Self(d.since(start).to_vec()))
    }
}

/// Bits of [`ObjectInfo::flags`].
pub struct ObjectFlags;

impl ObjectFlags {
    /// The object is lost.
    pub const LOST: u32 = 1 << 0;
    /// The object does not exist for clients, but clones of it do.
    pub const WHITEOUT: u32 = 1 << 1;
    /// Changed since it was last flushed to a base tier.
    pub const DIRTY: u32 = 1 << 2;
    /// It has, or may have, omap data.
    pub const OMAP: u32 = 1 << 3;
    /// `data_digest` holds.
    pub const DATA_DIGEST: u32 = 1 << 4;
    /// `omap_digest` holds.
    pub const OMAP_DIGEST: u32 = 1 << 5;
    /// It has a manifest.
    pub const MANIFEST: u32 = 1 << 7;
    /// Of old releases.
    pub const USES_TMAP: u32 = 1 << 8;
}

/// A watch of an object: the cookie, and the client's instance.
pub type WatchId = (u64, EntityName);

pub type Watchers = BTreeMap<WatchId, WatchInfo>;

/// What is known of an object besides its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    /// The object.
    pub oid: HObject,
    /// The log entry that last changed it.
    pub version: EVersion,
    /// The one before.
    pub prior_version: EVersion,
    /// What librados shows as its version.
    pub user_version: u64,
    /// The request that last changed it.
    pub last_reqid: ReqId,
    /// Bytes.
    pub size: u64,
    /// As the client set it.
    pub mtime: UTime,
    /// When the OSD changed it.
    pub local_mtime: UTime,
    /// [`ObjectFlags`].
    pub flags: u32,
    /// The newest truncation that it has seen (CephFS numbers them).
    pub truncate_seq: u64,
    /// Where that cut.
    pub truncate_size: u64,
    /// Who watches it.
    pub watchers: Watchers,
    /// crc32c of the data from -1, when flagged.
    pub data_digest: u32,
    /// crc32c of the omap, when flagged.
    pub omap_digest: u32,
    /// Allocation hint: bytes in the end.
    pub expected_object_size: u64,
    /// Allocation hint: bytes a write.
    pub expected_write_size: u64,
    /// Allocation hint's flags.
    pub alloc_hint_flags: u32,
    /// Carried for other writers.
    pub manifest: Option<RawManifest>,
}

impl ObjectInfo {
    /// An object that was never written.
    pub fn new(oid: HObject) -> Self {
        Self {
            oid,
            version: EVersion::default(),
            prior_version: EVersion::default(),
            user_version: 0,
            last_reqid: ReqId::default(),
            size: 0,
            mtime: UTime::default(),
            local_mtime: UTime::default(),
            flags: 0,
            truncate_seq: 0,
            truncate_size: 0,
            watchers: BTreeMap::new(),
            data_digest: u32::MAX,
            omap_digest: u32::MAX,
            expected_object_size: 0,
            expected_write_size: 0,
            alloc_hint_flags: 0,
            manifest: None,
        }
    }

    /// Whether `flag` is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Whether only clones of it exist.
    pub fn is_whiteout(&self) -> bool {
        self.has(ObjectFlags::WHITEOUT)
    }

    /// Whether it may have omap data.
    pub fn is_omap(&self) -> bool {
        self.has(ObjectFlags::OMAP)
    }

    /// The data has this crc32c, from -1.
    pub fn set_data_digest(&mut self, crc: u32) {
        self.flags |= ObjectFlags::DATA_DIGEST;
        self.data_digest = crc;
    }

    /// The data's digest, where it holds.
    pub fn known_data_digest(&self) -> Option<u32> {
        self.has(ObjectFlags::DATA_DIGEST).then_some(self.data_digest)
    }

    /// The data's digest no longer holds.
    pub fn clear_data_digest(&mut self) {
        self.flags &= !ObjectFlags::DATA_DIGEST;
        self.data_digest = u32::MAX;
    }

    /// The omap's digest no longer holds.
    pub fn clear_omap_digest(&mut self) {
        self.flags &= !ObjectFlags::OMAP_DIGEST;
        self.omap_digest = u32::MAX;
    }

    fn locator(&self) -> ObjectLocator {
        let HObject { pool, key, nspace, .. } = &self.oid;
        ObjectLocator { pool: *pool, key: key.clone(), nspace: nspace.clone(), hash: -1 }
    }

    fn encode_fields(&self, e: &mut Encoder) {
        e.put(&self.oid).put(&self.locator());
        e.put(&0u32); // Once a category.
        e.put(&self.version).put(&self.prior_version).put(&self.last_reqid).put(&self.size).put(&self.mtime);
        if self.oid.is_head() {
            e.put(&ReqId::default()); // Once the holder of a lock.
        } else {
            e.put(&0u32); // Once the clone's snapshots.
        }
        e.put(&self.truncate_seq).put(&self.truncate_size).put(&self.has(ObjectFlags::LOST));
        let mut by_name = BTreeMap::new();
        self.watchers.iter().for_each(|((_, name), w)| {
            by_name.entry(*name).or_insert(w);
        });
        e.put(&(by_name.len() as u32));
        by_name.iter().for_each(|(name, w)| {
            e.put(name).put(*w);
        });
        e.put(&EVersion { epoch: Default::default(), version: self.user_version });
        e.put(&self.has(ObjectFlags::USES_TMAP)).put(&self.watchers).put(&self.flags).put(&self.local_mtime);
        e.put(&self.data_digest).put(&self.omap_digest);
        e.put(&self.expected_object_size).put(&self.expected_write_size).put(&self.alloc_hint_flags);
        if let (true, Some(manifest)) = (self.has(ObjectFlags::MANIFEST), &self.manifest) {
            e.put(manifest);
        }
    }
}

impl Encode for ObjectInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(17, 8, |e| self.encode_fields(e));
    }
}
impl Decode for ObjectInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(17, "object_info_t", |d, v| match v {
            0..17 => Err(DecodeError::TooOld { what: "object_info_t", version: v }),
            _ => decode_fields(d),
        })
    }
}

fn decode_fields(d: &mut Decoder<'_>) -> Result<ObjectInfo, DecodeError> {
    let mut info = ObjectInfo::new(d.get()?);
    d.get::<ObjectLocator>()?;
    d.blob("category")?;
    info.version = d.get()?;
    info.prior_version = d.get()?;
    info.last_reqid = d.get()?;
    info.size = d.get()?;
    info.mtime = d.get()?;
    if info.oid.is_head() {
        d.get::<ReqId>()?;
    } else {
        d.get::<Vec<u64>>()?;
    }
    info.truncate_seq = d.get()?;
    info.truncate_size = d.get()?;
    d.get::<bool>()?;
    d.get::<BTreeMap<EntityName, WatchInfo>>()?;
    info.user_version = d.get::<EVersion>()?.version;
    d.get::<bool>()?;
    info.watchers = d.get()?;
    info.flags = d.get()?;
    info.local_mtime = d.get()?;
    info.data_digest = d.get()?;
    info.omap_digest = d.get()?;
    info.expected_object_size = d.get()?;
    info.expected_write_size = d.get()?;
    info.alloc_hint_flags = d.get()?;
    if info.has(ObjectFlags::MANIFEST) {
        info.manifest = Some(d.get()?);
    }
    Ok(info)
}
