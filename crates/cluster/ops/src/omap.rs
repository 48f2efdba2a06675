//! Operations on an object's omap.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use encoding::{Decoder, Encoder};
use types::{Errno, Name};

use crate::attrs::compare;
use crate::run::{Runner, StepError, StepResult, unasked};
use crate::{Fetched, Mutation, Need, ObjectFlags};

/// The order of Ceph's bufferlists where `char` is signed, as on x86: bytes from 0x80 on come first.
fn signed(bytes: &[u8]) -> impl Iterator<Item = i8> {
    bytes.iter().map(|byte| i8::from_ne_bytes([*byte]))
}

impl Runner<'_> {
    /// Whether the request itself has made the omap, of an object that was not there: the store knows of neither. What
    /// Ceph's operations make of that differs.
    pub fn omap_is_unstored(&self) -> bool {
        self.state.info.is_omap() && !self.stored
    }

    fn fetch_omap(&mut self, need: Need) -> Result<(Vec<(Name, Rope)>, bool), StepError> {
        if !self.state.info.is_omap() || !self.stored {
            return Ok((Vec::new(), false));
        }
        match self.fetch(need)? {
            Fetched::Omap { pairs, more } => Ok((pairs, more)),
            other => Err(unasked(&other)),
        }
    }

    /// OMAPGETKEYS and OMAPGETVALS: a count, the keys (with their values), and whether there is more.
    pub fn omap_range(&mut self, indata: &Rope, values: bool) -> StepResult {
        let indata = indata.to_piece();
        let mut d = Decoder::new(&indata);
        let (after, max): (Name, u64) = (Self::parse(&mut d)?, Self::parse(&mut d)?);
        let prefix: Name = if values { Self::parse(&mut d)? } else { Name::new() };
        if values && self.omap_is_unstored() {
            // Ceph's iteration fails, and the operation ends without an answer and without an error of its own.
            return Ok(None);
        }
        // Ceph lists what is behind a key, also behind the empty one, which it so never lists; a page asks for it from the start.
        let from_start = after.is_empty() && prefix.is_empty();
        let asked = max.saturating_add(u64::from(from_start));
        let (mut pairs, mut more) = self.omap_page(after, prefix, asked, values)?;
        if from_start && pairs.first().is_some_and(|(key, _)| key.is_empty()) {
            pairs.remove(0);
        }
        if pairs.len() as u64 > max {
            pairs.pop();
            more = true;
        }
        let mut e = Encoder::new(0);
        e.put(&(pairs.len() as u32));
        for (key, value) in &pairs {
            e.put(key);
            if values {
                e.blob(&value.to_piece());
            }
        }
        e.put(&more);
        self.data = e.into_bytes().into();
        Ok(None)
    }

    /// The pairs after `after` with `prefix`, up to `max` and as many as the limits allow; and whether there are more.
    pub fn omap_page(
        &mut self,
        after: Name,
        prefix: Name,
        max: u64,
        values: bool,
    ) -> Result<(Vec<(Name, Rope)>, bool), StepError> {
        let limits = self.ctx.limits;
        let max = max.min(limits.omap_entries_max);
        let (mut pairs, mut more) = self.fetch_omap(Need::OmapRange { after, prefix, max, values })?;
        // Bytes of the answer's encoding.
        let (mut count, mut bytes) = (0, 0);
        for (key, value) in &pairs {
            if count as u64 >= max || bytes >= limits.omap_read_bytes_max() {
                more = true;
                break;
            }
            bytes += 4 + key.len() as u64 + if values { 4 + value.len() as u64 } else { 0 };
            count += 1;
        }
        pairs.truncate(count);
        self.delta.read(bytes + 5);
        Ok((pairs, more))
    }

    pub fn omap_header(&mut self) -> StepResult {
        if self.state.info.is_omap() && self.stored {
            self.data = match self.fetch(Need::OmapHeader)? {
                Fetched::OmapHeader(header) => header,
                other => return Err(unasked(&other)),
            };
            self.delta.read(self.data.len() as u64);
        }
        Ok(None)
    }

    pub fn omap_values_by_keys(&mut self, indata: &Rope) -> StepResult {
        let keys: BTreeSet<Name> = Self::parse(&mut Decoder::new(&indata.to_piece()))?;
        let pairs = self.omap_values(keys)?;
        let mut e = Encoder::new(0);
        e.put(&(pairs.len() as u32));
        pairs.iter().for_each(|(key, value)| {
            e.put(key).blob(&value.to_piece());
        });
        self.data = e.into_bytes().into();
        Ok(None)
    }

    pub fn omap_values(&mut self, keys: BTreeSet<Name>) -> Result<Vec<(Name, Rope)>, StepError> {
        let (pairs, _) = self.fetch_omap(Need::OmapKeys(keys))?;
        self.delta
            .read(4 + pairs.iter().map(|(key, value)| (8 + key.len() + value.len()) as u64).sum::<u64>());
        Ok(pairs)
    }

    /// OMAP_CMP: ECANCELED unless every assertion holds; absent keys compare as empty.
    pub fn omap_compare(&mut self, indata: &Rope) -> StepResult {
        self.check_visible()?;
        let assertions: BTreeMap<Name, (Name, i32)> = Self::parse(&mut Decoder::new(&indata.to_piece()))?;
        if self.omap_is_unstored() {
            return Err(Errno::ENOENT.into());
        }
        let (pairs, _) = self.fetch_omap(Need::OmapKeys(assertions.keys().cloned().collect()))?;
        self.delta.num_rd += 1;
        let stored: BTreeMap<_, _> = pairs.into_iter().map(|(k, v)| (k, v.to_piece())).collect();
        for (key, (given, op)) in &assertions {
            let value: &[u8] = stored.get(key).map_or(&[], |v| v.as_slice());
            // Only these three exist here, and the stored value is the left operand.
            let op = u8::try_from(*op).ok().filter(|op| matches!(op, 1 | 3 | 5)).ok_or(Errno::EINVAL)?;
            if !compare(op, signed(value).cmp(signed(given.as_bytes())))? {
                return Err(Errno::ECANCELED.into());
            }
        }
        Ok(None)
    }

    fn omap_changed(&mut self) {
        self.clean.clean_omap = false;
        self.state.info.clear_omap_digest();
        self.delta.num_wr += 1;
    }

    pub fn omap_set(&mut self, indata: &Rope) -> StepResult {
        self.check_pool_omap()?;
        let bytes = indata.to_piece();
        let mut d = Decoder::new(&bytes);
        let count = d.count(8, "omap pairs").map_err(|_| StepError::from(Errno::EINVAL))?;
        let mut pairs = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            let key: Name = Self::parse(&mut d)?;
            let len: u32 = Self::parse(&mut d)?;
            let start = d.position();
            d.take(len as usize, "omap value").map_err(|_| StepError::from(Errno::EINVAL))?;
            pairs.push((key, bytes.slice(start..start + len as usize).into()));
        }
        self.omap_put(pairs, bytes.len() as u64)
    }

    /// Sets pairs that are `bytes` encoded.
    pub fn omap_put(&mut self, pairs: Vec<(Name, Rope)>, bytes: u64) -> StepResult {
        self.create_if_absent();
        self.mutations.push(Mutation::OmapSet(pairs));
        self.omap_changed();
        self.delta.num_wr_kb += bytes.div_ceil(1024) as i64;
        self.state.info.flags |= ObjectFlags::OMAP;
        Ok(Some(0))
    }

    pub fn omap_set_header(&mut self, indata: &Rope) -> StepResult {
        self.check_pool_omap()?;
        self.create_if_absent();
        self.mutations.push(Mutation::OmapHeader(indata.clone()));
        self.omap_changed();
        self.state.info.flags |= ObjectFlags::OMAP;
        Ok(Some(0))
    }

    pub fn omap_clear(&mut self) -> StepResult {
        self.check_pool_omap()?;
        self.check_visible()?;
        if self.state.info.is_omap() {
            self.mutations.push(Mutation::OmapClear);
            self.omap_changed();
            self.state.info.flags &= !ObjectFlags::OMAP;
        }
        Ok(Some(0))
    }

    pub fn omap_remove(&mut self, indata: &Rope) -> StepResult {
        self.check_has_omap()?;
        self.omap_remove_keys(Self::parse(&mut Decoder::new(&indata.to_piece()))?)
    }

    /// The checks of what takes something out of an omap.
    pub fn check_has_omap(&self) -> Result<(), StepError> {
        self.check_pool_omap()?;
        self.check_visible()
    }

    pub fn omap_remove_keys(&mut self, keys: Vec<Name>) -> StepResult {
        self.mutations.push(Mutation::OmapRemove(keys));
        self.omap_changed();
        Ok(Some(0))
    }

    pub fn omap_remove_range(&mut self, indata: &Rope) -> StepResult {
        self.check_has_omap()?;
        let indata = indata.to_piece();
        let mut d = Decoder::new(&indata);
        let (first, last) = (Self::parse(&mut d)?, Self::parse(&mut d)?);
        self.omap_remove_between(first, last)
    }

    /// Removes the keys from `first` up to, not including, `last`.
    pub fn omap_remove_between(&mut self, first: Name, last: Name) -> StepResult {
        self.mutations.push(Mutation::OmapRemoveRange(first, last));
        self.omap_changed();
        Ok(Some(0))
    }
}
