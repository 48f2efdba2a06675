//! What a class's method may do with its object and know of its request.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use encoding::{Decode, Encode, Encoder};
use types::{EntityAddr, EntityName, Errno, Name, Release, SplitMix64, UTime};

use crate::attrs::{self, XattrArgs};
use crate::class::Method;
use crate::run::{Extent, Runner, StepError, StepResult};
use crate::{SnapSet, Watchers};

/// A page of an omap.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OmapPage {
    /// Ascending.
    pub pairs: Vec<(Name, Rope)>,
    /// Whether there are keys after these.
    pub more: bool,
}

/// A method's object and request, as Ceph's objclass.h shows them.
///
/// Reads show the object as stored before the request, whatever the request changed already; existence and size are as
/// changed so far. A method that reads without being declared to, or writes so, fails with EIO.
///
/// Errors of the object itself are the operations': ENOENT where it does not exist, unless said otherwise.
pub struct ClassContext<'c, 'r> {
    run: &'c mut Runner<'r>,
    method: &'static Method,
    /// It read or wrote without being declared to.
    misused: bool,
    output: Rope,
}

impl<'c, 'r> ClassContext<'c, 'r> {
    pub(crate) fn new(run: &'c mut Runner<'r>, method: &'static Method) -> Self {
        Self { run, method, misused: false, output: Rope::new() }
    }

    /// The output, and whether the method did what it is not declared to do.
    pub(crate) fn finish(self) -> (Rope, bool) {
        (self.output, self.misused)
    }

    fn check(&mut self, declared: bool) -> Result<(), StepError> {
        self.misused |= !declared;
        if declared { Ok(()) } else { Err(Errno::EIO.into()) }
    }

    fn step(&mut self, step: impl FnOnce(&mut Runner<'r>) -> StepResult) -> Result<Rope, StepError> {
        step(self.run)?;
        self.run.steps += 1;
        Ok(std::mem::take(&mut self.run.data))
    }

    fn read_step(&mut self, step: impl FnOnce(&mut Runner<'r>) -> StepResult) -> Result<Rope, StepError> {
        self.check(self.method.reads)?;
        self.step(step)
    }

    fn write_step(&mut self, step: impl FnOnce(&mut Runner<'r>) -> StepResult) -> Result<(), StepError> {
        self.check(self.method.writes)?;
        self.step(step).map(drop)
    }
}

/// Reading.
impl ClassContext<'_, '_> {
    /// Whether clients see the object. No method needs to be declared to read for it.
    pub fn exists(&self) -> bool {
        self.run.state.is_visible()
    }

    /// Size in bytes and time of the last change. No method needs to be declared to read for it.
    pub fn stat(&mut self) -> Result<(u64, UTime), StepError> {
        self.step(Runner::stat)?;
        Ok((self.run.state.info.size, self.run.state.info.mtime))
    }

    /// Up to `length` bytes, all of them where it is 0; nothing of an object that does not exist.
    pub fn read(&mut self, offset: u64, length: u64) -> Result<Rope, StepError> {
        self.read_with_flags(offset, length, 0)
    }

    /// As [`ClassContext::read`], with advice (CEPH_OSD_OP_FLAG_FADVISE_*).
    pub fn read_with_flags(&mut self, offset: u64, length: u64, flags: u32) -> Result<Rope, StepError> {
        self.read_step(|run| {
            let of_call = std::mem::replace(&mut run.op_flags, flags);
            let result = run.read(&Extent { offset, length, ..Extent::default() });
            run.op_flags = of_call;
            result
        })
    }

    /// `None` where the object has no such attribute.
    pub fn xattr(&mut self, name: impl Into<Name>) -> Result<Option<Rope>, StepError> {
        let name = name.into();
        let args = XattrArgs { name_len: name.len() as u32, value_len: 0, cmp_op: 0, cmp_mode: 0 };
        match self.read_step(|run| run.get_xattr(&args, &Rope::copy_from(&name))) {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is(Errno::ENODATA) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// All attributes of clients.
    pub fn xattrs(&mut self) -> Result<BTreeMap<Name, Rope>, StepError> {
        let mut attrs = BTreeMap::new();
        self.read_step(|run| {
            attrs = run.client_attrs()?;
            run.delta.read(attrs.iter().map(|(name, value)| (8 + name.len() + value.len()) as u64).sum());
            Ok(Some(0))
        })?;
        Ok(attrs)
    }

    /// `None` where there is no such key, or no object.
    pub fn omap_value(&mut self, key: impl Into<Name>) -> Result<Option<Rope>, StepError> {
        let key = key.into();
        Ok(self.omap_values([key.clone()].into())?.remove(&key))
    }

    /// Those of `keys` that there are; none where there is no object.
    pub fn omap_values(&mut self, keys: BTreeSet<Name>) -> Result<BTreeMap<Name, Rope>, StepError> {
        let mut pairs = Vec::new();
        self.read_step(|run| {
            pairs = run.omap_values(keys)?;
            Ok(None)
        })?;
        Ok(pairs.into_iter().collect())
    }

    /// The pairs after `after` (from the first, where it is empty) whose keys begin with `prefix`: up to `max` and to
    /// osd_max_omap_entries_per_request; none where there is no object.
    pub fn omap_range(
        &mut self,
        after: impl Into<Name>,
        prefix: impl Into<Name>,
        max: u64,
    ) -> Result<OmapPage, StepError> {
        self.omap_page(after.into(), prefix.into(), max, true)
    }

    /// As [`ClassContext::omap_range`], without values and of all keys.
    pub fn omap_keys(&mut self, after: impl Into<Name>, max: u64) -> Result<(Vec<Name>, bool), StepError> {
        let page = self.omap_page(after.into(), Name::new(), max, false)?;
        Ok((page.pairs.into_iter().map(|(key, _)| key).collect(), page.more))
    }

    fn omap_page(
        &mut self,
        after: Name,
        prefix: Name,
        max: u64,
        values: bool,
    ) -> Result<OmapPage, StepError> {
        let mut page = OmapPage::default();
        self.read_step(|run| {
            if values && run.omap_is_unstored() {
                // Ceph's operation gives an empty answer, in which its class interface finds no page.
                return Err(Errno::EIO.into());
            }
            (page.pairs, page.more) = run.omap_page(after, prefix, max, values)?;
            Ok(None)
        })?;
        Ok(page)
    }

    /// Empty where there is none, or no object.
    pub fn omap_header(&mut self) -> Result<Rope, StepError> {
        self.read_step(Runner::omap_header)
    }

    /// Who watches the object; nobody where it does not exist.
    pub fn watchers(&mut self) -> Result<Watchers, StepError> {
        self.check(self.method.reads)?;
        self.run.steps += 1;
        self.run.delta.num_rd += 1;
        Ok(self.run.state.info.watchers.clone())
    }

    /// The object's snapshots as of the request's begin.
    pub fn snapset(&self) -> &SnapSet {
        &self.run.state.snapset
    }
}

/// Changing.
impl ClassContext<'_, '_> {
    /// EEXIST where it is to be `exclusive` and there is one.
    pub fn create(&mut self, exclusive: bool) -> Result<(), StepError> {
        self.write_step(|run| run.create(exclusive, &Rope::new()))
    }

    pub fn remove(&mut self) -> Result<(), StepError> {
        self.write_step(Runner::delete)
    }

    pub fn write(&mut self, offset: u64, data: impl Into<Rope>) -> Result<(), StepError> {
        self.write_with_flags(offset, data, 0)
    }

    /// As [`ClassContext::write`], with advice (CEPH_OSD_OP_FLAG_FADVISE_*).
    pub fn write_with_flags(
        &mut self,
        offset: u64,
        data: impl Into<Rope>,
        flags: u32,
    ) -> Result<(), StepError> {
        let data = data.into();
        let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
        self.write_step(|run| run.write(&extent, &data, flags))
    }

    /// Makes `data` all that the object has.
    pub fn write_full(&mut self, data: impl Into<Rope>) -> Result<(), StepError> {
        let data = data.into();
        let extent = Extent { offset: 0, length: data.len() as u64, ..Extent::default() };
        self.write_step(|run| run.write_full(&extent, &data, 0))
    }

    /// Cuts or extends to `size` bytes; nothing where there is no object.
    pub fn truncate(&mut self, size: u64) -> Result<(), StepError> {
        self.write_step(|run| run.truncate(&Extent { offset: size, ..Extent::default() }))
    }

    /// Fills with zeros; up to the end of the object it is a truncation.
    pub fn zero(&mut self, offset: u64, length: u64) -> Result<(), StepError> {
        self.write_step(|run| run.zero(&Extent { offset, length, ..Extent::default() }))
    }

    pub fn set_xattr(&mut self, name: impl Into<Name>, value: impl Into<Rope>) -> Result<(), StepError> {
        let stored = attrs::stored_name(&name.into());
        self.write_step(|run| run.put_xattr(stored, value.into()))
    }

    pub fn omap_set(&mut self, key: impl Into<Name>, value: impl Into<Rope>) -> Result<(), StepError> {
        self.omap_set_all(vec![(key.into(), value.into())])
    }

    pub fn omap_set_all(&mut self, pairs: Vec<(Name, Rope)>) -> Result<(), StepError> {
        let bytes = pairs.iter().map(|(key, value)| (8 + key.len() + value.len()) as u64).sum();
        self.write_step(|run| {
            run.check_pool_omap()?;
            run.omap_put(pairs, bytes)
        })
    }

    /// No error where there is no such key.
    pub fn omap_remove(&mut self, key: impl Into<Name>) -> Result<(), StepError> {
        let keys = vec![key.into()];
        self.write_step(|run| {
            run.check_has_omap()?;
            run.omap_remove_keys(keys)
        })
    }

    /// Removes the keys from `first` up to, not including, `last`.
    pub fn omap_remove_range(
        &mut self,
        first: impl Into<Name>,
        last: impl Into<Name>,
    ) -> Result<(), StepError> {
        let (first, last) = (first.into(), last.into());
        self.write_step(|run| {
            run.check_has_omap()?;
            run.omap_remove_between(first, last)
        })
    }

    /// Removes pairs and header.
    pub fn omap_clear(&mut self) -> Result<(), StepError> {
        self.write_step(Runner::omap_clear)
    }

    pub fn omap_set_header(&mut self, header: impl Into<Rope>) -> Result<(), StepError> {
        let header = header.into();
        self.write_step(|run| run.omap_set_header(&header))
    }
}

/// The request, and the answer to it.
impl ClassContext<'_, '_> {
    /// The caller's instance and its first address.
    pub fn origin(&self) -> (EntityName, EntityAddr) {
        let caller = self.run.ctx.caller;
        (caller.name, caller.addrs.0.first().copied().unwrap_or_default())
    }

    pub fn client_features(&self) -> u64 {
        self.run.ctx.caller.features
    }

    /// The OSD's time, the same in each run of the request.
    pub fn now(&self) -> UTime {
        self.run.ctx.now
    }

    /// The request's own time, by its client's clock.
    pub fn mtime(&self) -> UTime {
        self.run.ctx.mtime
    }

    /// Numbers that are others in each request, and the same in each run of it; not for secrets.
    pub fn random(&mut self) -> &mut SplitMix64 {
        &mut self.run.random
    }

    /// A text that is different for each step that changes objects of the PG (cls_cxx_subop_version).
    pub fn subop_version(&self) -> String {
        format!("{}.{}", self.run.ctx.last_user_version, self.run.steps)
    }

    /// The map's require_osd_release.
    pub fn require_osd_release(&self) -> Release {
        self.run.ctx.require_osd_release
    }

    /// The map's require_min_compat_client.
    pub fn require_min_compat_client(&self) -> Release {
        self.run.ctx.require_min_compat_client
    }

    /// What the client gets, also where the method then fails.
    pub fn set_output(&mut self, output: impl Into<Rope>) {
        self.output = output.into();
    }

    /// Makes `value`, as this client's features want it encoded, the output of a method that succeeds with 0.
    pub fn reply<T: Encode + ?Sized>(&mut self, value: &T) -> Result<i32, StepError> {
        let mut e = Encoder::new(self.client_features());
        e.put(value);
        self.set_output(e.into_bytes());
        Ok(0)
    }
}

/// Decodes a method's input; what follows it is not looked at. EINVAL where it can't be read.
pub fn decode_input<T: Decode>(input: &Rope) -> Result<T, StepError> {
    decode(input).ok_or(Errno::EINVAL.into())
}

/// Decodes what a class stored. EIO where it can't be read.
pub fn decode_stored<T: Decode>(value: &Rope) -> Result<T, StepError> {
    decode(value).ok_or(Errno::EIO.into())
}

fn decode<T: Decode>(bytes: &Rope) -> Option<T> {
    encoding::Decoder::new(&bytes.to_piece()).get().ok()
}
