//! TMAPGET, TMAPPUT, TMAPUP and TMAP2OMAP: a header and a map of keys in an object's data, from before there were omaps.
//! Images of format 1 are listed so.

use std::collections::BTreeMap;

use buffer::Rope;
use encoding::{DecodeError, Decoder, Encoder};
use messages::Blob;
use types::{Errno, Name};

use crate::run::{Extent, Runner, StepError, StepResult};

/// Ceph's CEPH_OSD_TMAP_*: what an update does.
const HEADER: u8 = b'h';
const SET: u8 = b's';
const CREATE: u8 = b'c';
const REMOVE: u8 = b'r';
const REMOVE_SLOPPY: u8 = b'R';

/// CEPH_OSD_TMAP2OMAP_NULLOK.
const NULL_OK: u8 = 1;

#[derive(Default)]
struct Tmap {
    header: Blob,
    pairs: BTreeMap<Name, Blob>,
}

impl Tmap {
    fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        if data.is_empty() {
            return Ok(Self::default());
        }
        let mut d = Decoder::new(data);
        Ok(Self { header: d.get()?, pairs: d.get()? })
    }

    fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::new(0);
        e.put(&self.header).put(&self.pairs);
        e.into_bytes()
    }

    /// One update: its kind, a key or the header, and for some a value.
    fn update(&mut self, d: &mut Decoder<'_>) -> Result<(), StepError> {
        let kind: u8 = Runner::parse(d)?;
        if kind == HEADER {
            self.header = Runner::parse(d)?;
            return Ok(());
        }
        let key: Name = Runner::parse(d)?;
        match kind {
            SET => drop(self.pairs.insert(key, Runner::parse(d)?)),
            CREATE if self.pairs.contains_key(&key) => return Err(Errno::EEXIST.into()),
            CREATE => drop(self.pairs.insert(key, Runner::parse(d)?)),
            REMOVE if self.pairs.remove(&key).is_none() => return Err(Errno::ENOENT.into()),
            REMOVE => {}
            REMOVE_SLOPPY => drop(self.pairs.remove(&key)),
            _ => return Err(Errno::EINVAL.into()),
        }
        Ok(())
    }
}

impl Runner<'_> {
    fn whole_data(&mut self) -> Result<Rope, StepError> {
        match self.state.info.size {
            0 => Ok(Rope::new()),
            size => self.fetch_data(0, size),
        }
    }

    pub fn tmap_get(&mut self) -> StepResult {
        self.read(&Extent::default())
    }

    /// Replaces the data by a map, whose keys are sorted if they are not.
    pub fn tmap_put(&mut self, indata: &Rope, flags: u32) -> StepResult {
        let tmap = Tmap::decode(&indata.to_piece()).map_err(|_| Errno::EINVAL)?;
        self.put_tmap(&tmap, flags)
    }

    fn put_tmap(&mut self, tmap: &Tmap, flags: u32) -> StepResult {
        let data = Rope::from(tmap.encode());
        let length = data.len() as u64;
        self.write_full(&Extent { length, ..Extent::default() }, &data, flags)
    }

    pub fn tmap_update(&mut self, indata: &Rope, flags: u32) -> StepResult {
        if indata.is_empty() {
            return Ok(Some(0));
        }
        let mut tmap = Tmap::decode(&self.whole_data()?.to_piece()).map_err(|_| Errno::EINVAL)?;
        let updates = indata.to_piece();
        let mut d = Decoder::new(&updates);
        while d.remaining() > 0 {
            tmap.update(&mut d)?;
        }
        self.put_tmap(&tmap, flags)
    }

    /// Makes an omap of the data.
    pub fn tmap_to_omap(&mut self, flags: u8) -> StepResult {
        self.check_pool_omap()?;
        self.check_visible()?;
        let tmap = match Tmap::decode(&self.whole_data()?.to_piece()) {
            Ok(tmap) if self.state.info.size > 0 => tmap,
            Ok(_) if flags & NULL_OK != 0 => return Ok(Some(0)),
            Ok(_) => return Err(Errno::ENODATA.into()),
            Err(_) => return Err(Errno::EINVAL.into()),
        };
        self.truncate(&Extent::default())?;
        self.omap_set_header(&tmap.header.0.clone().into())?;
        let bytes = tmap.pairs.iter().map(|(key, value)| 8 + key.len() + value.len()).sum::<usize>() as u64;
        self.omap_put(tmap.pairs.into_iter().map(|(key, value)| (key, value.0.into())).collect(), bytes)
    }
}
