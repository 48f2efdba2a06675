//! MFSMap and MFSMapUser of a cluster that has no file system.

use encoding::{DecodeError, Decoder, Encoder};
use types::UTime;

use crate::CompatSet;
use crate::codec::{Envelope, Payload};

/// Ceph's MFSMap: from a monitor to those who subscribed to `fsmap`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FsMap {
    pub epoch: u32,
    /// What a file system would begin with.
    pub features: CompatSet,
    /// When the map was made; known from 20.2 on.
    pub made: Option<UTime>,
}

/// Ceph's MFSMapUser: the same for `fsmap.user`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FsMapUser {
    pub epoch: u32,
}

/// FS_CLUSTER_ID_NONE (mds/mdstypes.h).
const NO_FILE_SYSTEM: i32 = -1;

/// The number of the first file system (mds/FSMap.h).
const FIRST_FILE_SYSTEM: u64 = 1;

/// The length of a collection that has nothing in it.
fn nothing(d: &mut Decoder<'_>, what: &'static str) -> Result<(), DecodeError> {
    match d.get::<u32>()? {
        0 => Ok(()),
        some => Err(DecodeError::BadValue { what, value: some.into() }),
    }
}

fn no_file_system(d: &mut Decoder<'_>) -> Result<(), DecodeError> {
    match d.get::<i32>()? {
        NO_FILE_SYSTEM => Ok(()),
        some => Err(DecodeError::BadValue { what: "default file system", value: some as u64 }),
    }
}

impl Payload for FsMap {
    const KIND: u16 = crate::kind::FS_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _: &mut Envelope) -> Result<Self, DecodeError> {
        let epoch = d.get()?;
        let (features, made) = d.versioned(8, "FSMap", |d, version| {
            let (_epoch, _next): (u32, u64) = (d.get()?, d.get()?);
            no_file_system(d)?;
            let features = d.get()?;
            let _several: bool = d.get()?;
            for what in ["file systems", "roles of metadata servers", "standby metadata servers", "their epochs"] {
                nothing(d, what)?;
            }
            let _several_before: bool = d.get()?;
            Ok((features, if version >= 8 { Some(d.get()?) } else { None }))
        })?;
        Ok(Self { epoch, features, made })
    }

    fn encode(&self, e: &mut Encoder, _: &mut Envelope) {
        e.put(&self.epoch);
        e.versioned(if self.made.is_some() { 8 } else { 7 }, 6, |e| {
            e.put(&self.epoch).put(&FIRST_FILE_SYSTEM).put(&NO_FILE_SYSTEM).put(&self.features);
            // There may be several file systems, and might have been.
            e.put(&true);
            for empty in [0u32; 4] {
                e.put(&empty);
            }
            e.put(&true);
            if let Some(made) = &self.made {
                e.put(made);
            }
        });
    }
}

impl Payload for FsMapUser {
    const KIND: u16 = crate::kind::FS_MAP_USER;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _: &mut Envelope) -> Result<Self, DecodeError> {
        let epoch = d.get()?;
        d.versioned(1, "FSMapUser", |d, _| {
            let _epoch: u32 = d.get()?;
            no_file_system(d)?;
            nothing(d, "file systems")
        })?;
        Ok(Self { epoch })
    }

    fn encode(&self, e: &mut Encoder, _: &mut Envelope) {
        e.put(&self.epoch);
        e.versioned(1, 1, |e| {
            e.put(&self.epoch).put(&NO_FILE_SYSTEM).put(&0u32);
        });
    }
}
