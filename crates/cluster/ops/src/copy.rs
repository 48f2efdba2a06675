//! COPY_FROM and COPY_FROM2, and COPY_GET, by which an OSD reads what it copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use buffer::Rope;
use encoding::{Decoder, Encoder};
use messages::osd_op::{CopyCursor, CopyData, OpConst, OsdFlags};
use messages::{Op, OpArgs, OpCode};
use types::{Errno, Name, ObjectLocator, SnapId, UTime};

use crate::attrs::stored_name;
use crate::run::{Runner, StepError, StepResult, unasked};
use crate::{Fetched, Mutation, Need, NeedOf, ObjectFlags};

/// What to copy. Another object than the request's, so it is read by the clients' protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CopySource {
    pub name: Name,
    pub locator: ObjectLocator,
    pub snapid: SnapId,
    /// The user version that it must have; 0 for any.
    pub version: u64,
    /// Flags of the requests that read it ([`OsdFlags`]).
    pub flags: u32,
    /// Advice for reading it ([`messages::osd_op::OpFlags`]).
    pub advice: u32,
}

/// An object as it was read to be copied, whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopiedObject {
    pub mtime: UTime,
    pub user_version: u64,
    pub data: Rope,
    /// crc32c of the data from -1, where the source has it.
    pub data_digest: Option<u32>,
    /// crc32c of the omap, where the source has it.
    pub omap_digest: Option<u32>,
    /// Clients' attributes by their names for them.
    pub attrs: BTreeMap<Name, Rope>,
    pub omap_header: Rope,
    /// Ascending.
    pub omap: Vec<(Name, Rope)>,
    pub truncate_seq: u64,
    pub truncate_size: u64,
}

impl CopiedObject {
    /// Bytes of everything that it holds.
    pub fn bytes(&self) -> u64 {
        self.data.len() as u64 + self.metadata_bytes()
    }

    /// Bytes of its attributes and omap.
    pub fn metadata_bytes(&self) -> u64 {
        let pair = |(key, value): (&Name, &Rope)| key.len() + value.len();
        let attrs: usize = self.attrs.iter().map(pair).sum();
        let omap: usize = self.omap.iter().map(|(key, value)| pair((key, value))).sum();
        (attrs + omap + self.omap_header.len()) as u64
    }

    fn has_omap(&self) -> bool {
        !self.omap.is_empty() || !self.omap_header.is_empty()
    }
}

/// The arguments of COPY_FROM and COPY_FROM2.
pub(crate) struct CopyFromArgs {
    pub snapid: SnapId,
    pub src_version: u64,
    /// COPY_FROM_*.
    pub flags: u8,
    pub src_fadvise_flags: u32,
}

impl CopyFromArgs {
    fn has(&self, flag: u32) -> bool {
        u32::from(self.flags) & flag != 0
    }

    /// The source, and the truncation that the copy is to have in place of the source's.
    fn parse(&self, op: &Op) -> Result<(CopySource, Option<(u64, u64)>), StepError> {
        let is_second = op.code == OpCode::COPY_FROM2;
        if is_second && u32::from(self.flags) & !OpConst::COPY_FROM_FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        let indata = op.indata.to_piece();
        let mut d = Decoder::new(&indata);
        let (name, locator) = (Runner::parse(&mut d)?, Runner::parse(&mut d)?);
        let truncation = match is_second && self.has(OpConst::COPY_FROM_TRUNCATE_SEQ) {
            true => Some((u64::from(Runner::parse::<u32>(&mut d)?), Runner::parse(&mut d)?)),
            false => None,
        };
        let request_flags = [
            (OpConst::COPY_FROM_FLUSH, OsdFlags::FLUSH),
            (OpConst::COPY_FROM_IGNORE_CACHE, OsdFlags::IGNORE_CACHE),
            (OpConst::COPY_FROM_IGNORE_OVERLAY, OsdFlags::IGNORE_OVERLAY),
            (OpConst::COPY_FROM_MAP_SNAP_CLONE, OsdFlags::MAP_SNAP_CLONE),
            (OpConst::COPY_FROM_RWORDERED, OsdFlags::RWORDERED),
        ];
        let flags = request_flags
            .into_iter()
            .filter(|(flag, _)| self.has(*flag))
            .fold(0, |sum, (_, flag)| sum | flag);
        let (snapid, version, advice) = (self.snapid, self.src_version, self.src_fadvise_flags);
        Ok((CopySource { name, locator, snapid, version, flags, advice }, truncation))
    }
}

impl Runner<'_> {
    /// A part of the object from a cursor on: attributes, then about `max` bytes of data and omap.
    pub fn copy_get(&mut self, op: &Op) -> StepResult {
        self.check_visible()?;
        let indata = op.indata.to_piece();
        let mut d = Decoder::new(&indata);
        let (mut cursor, max): (CopyCursor, u64) = (Self::parse(&mut d)?, Self::parse(&mut d)?);
        let info = self.state.info.clone();
        if cursor.data_offset > info.size {
            return Err(Errno::EINVAL.into());
        }
        // Everything is asked for before one of the reads makes the run pending.
        let attrs = match cursor.attr_complete {
            true => Ok(BTreeMap::new()),
            false => self.client_attrs(),
        };
        let wanted = if cursor.data_complete { 0 } else { max.min(info.size - cursor.data_offset) };
        let data = match wanted {
            0 => Ok(Rope::new()),
            _ => self.fetch_data(cursor.data_offset, wanted),
        };
        let left = max - wanted;
        cursor.data_complete |= cursor.data_offset + wanted == info.size;
        let no_omap = !info.is_omap() || !self.ctx.pool_has_omap;
        let reads_omap = !no_omap && left > 0 && cursor.data_complete && !cursor.omap_complete;
        let omap = if reads_omap { self.copy_omap(&cursor, left) } else { Ok(OmapPart::default()) };
        let (attrs, data, omap) = (attrs?, data?, omap?);
        (cursor.attr_complete, cursor.data_offset) = (true, cursor.data_offset + data.len() as u64);
        cursor.omap_complete |= no_omap || (reads_omap && !omap.more);
        if let Some(last) = omap.last {
            cursor.omap_offset = last;
        }
        let snapset = &self.state.snapset;
        let (snaps, snap_seq) = match info.oid.is_head() {
            true => (Vec::new(), snapset.seq),
            false => (snapset.clone_snaps.get(&info.oid.snap).cloned().unwrap_or_default(), 0),
        };
        let part = CopyData {
            cursor,
            size: info.size,
            mtime: info.mtime,
            data_digest: info.known_data_digest(),
            omap_digest: info.has(ObjectFlags::OMAP_DIGEST).then_some(info.omap_digest),
            attrs,
            data,
            omap_header: omap.header,
            omap_data: omap.pairs,
            snaps,
            snap_seq,
            truncate_seq: info.truncate_seq,
            truncate_size: info.truncate_size,
        };
        self.delta.read(wanted);
        self.data = part.to_rope();
        Ok(Some(0))
    }

    /// Omap pairs after the cursor's, about `left` bytes; with the first ones the header.
    fn copy_omap(&mut self, cursor: &CopyCursor, left: u64) -> Result<OmapPart, StepError> {
        let header = match cursor.omap_offset.is_empty() {
            true => self.fetch(Need::OmapHeader),
            false => Ok(Fetched::OmapHeader(Rope::new())),
        };
        let (after, max) = (cursor.omap_offset.clone(), self.ctx.limits.omap_entries_max);
        let page = self.fetch(Need::OmapRange { after, prefix: Name::new(), max, values: true });
        let (header, (pairs, mut more)) = match (header?, page?) {
            (Fetched::OmapHeader(header), Fetched::Omap { pairs, more }) => (header, (pairs, more)),
            (header, _) => return Err(unasked(&header)),
        };
        let (mut e, mut count, mut last) = (Encoder::new(0), 0u32, None);
        e.put(&count);
        for (key, value) in pairs {
            if e.len() as u64 >= left {
                more = true;
                break;
            }
            e.put(&key).blob(&value.to_piece());
            count += 1;
            last = Some(key);
        }
        e.patch_u32(0, count);
        let pairs = if count == 0 { Rope::new() } else { e.into_bytes().into() };
        Ok(OmapPart { header, pairs, more, last })
    }

    /// The object becomes what the source is: data, attributes, omap, times, user version. Watches stay.
    pub fn copy_from(&mut self, args: &CopyFromArgs, op: &Op) -> StepResult {
        let (source, truncation) = args.parse(op)?;
        let own = &self.state.info.oid;
        let same = source.locator.pool == own.pool
            && (&source.name, &source.locator.key, &source.locator.nspace)
                == (&own.name, &own.key, &own.nspace);
        if same && source.snapid == own.snap {
            return Err(Errno::EINVAL.into());
        }
        let copied = match self.fetch_of(NeedOf::Own, Need::Copy(Box::new(source))) {
            Ok(Fetched::Copied(copied)) => copied,
            Ok(other) => return Err(unasked(&other)),
            Err(StepError::Fail(code)) => return Err(StepError::NotCopied(code)),
            Err(other) => return Err(other),
        };
        if copied.has_omap() {
            self.check_pool_omap()?;
        }
        let (before, size) = (self.state.info.size, copied.data.len() as u64);
        if self.state.exists {
            self.mutations.push(Mutation::Remove);
        }
        self.mutations.push(Mutation::Create);
        self.note_created();
        self.mark_data_dirty(0, before.max(size));
        self.clean.clean_omap = false;
        self.resize(size);
        if size > 0 {
            let (data, flags) = (copied.data.clone(), op.flags);
            self.mutations.push(Mutation::Write { offset: 0, data, flags });
        }
        let attrs = copied.attrs.iter();
        self.mutations.extend(attrs.map(|(k, v)| Mutation::SetAttr(stored_name(k), v.clone())));
        if !copied.omap_header.is_empty() {
            self.mutations.push(Mutation::OmapHeader(copied.omap_header.clone()));
        }
        if !copied.omap.is_empty() {
            self.mutations.push(Mutation::OmapSet(copied.omap.clone()));
        }
        self.take_copied_info(&copied, truncation);
        self.delta.wrote(size);
        Ok(Some(0))
    }

    fn take_copied_info(&mut self, copied: &Arc<CopiedObject>, truncation: Option<(u64, u64)>) {
        let info = &mut self.state.info;
        match copied.has_omap() {
            true => info.flags |= ObjectFlags::OMAP,
            false => info.flags &= !ObjectFlags::OMAP,
        }
        match copied.data_digest {
            Some(crc) => info.set_data_digest(crc),
            None => info.clear_data_digest(),
        }
        info.clear_omap_digest();
        if let Some(crc) = copied.omap_digest {
            info.flags |= ObjectFlags::OMAP_DIGEST;
            info.omap_digest = crc;
        }
        (info.truncate_seq, info.truncate_size) =
            truncation.unwrap_or((copied.truncate_seq, copied.truncate_size));
        info.user_version = copied.user_version;
        info.mtime = copied.mtime;
        self.copied_version = Some(copied.user_version);
    }
}

/// What a part has of the omap.
#[derive(Default)]
struct OmapPart {
    header: Rope,
    /// A map, encoded.
    pairs: Rope,
    /// Whether there are pairs after these.
    more: bool,
    last: Option<Name>,
}

/// The input of COPY_GET.
pub fn copy_get_op(cursor: &CopyCursor, max: u64) -> Op {
    let mut e = Encoder::new(0);
    e.put(cursor).put(&max);
    Op::new(OpCode::COPY_GET, OpArgs::CopyGet { max }).with_indata(e.into_bytes())
}
