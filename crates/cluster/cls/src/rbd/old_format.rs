//! The header of an image of format 1 (`NAME.rbd`), which is the object's data: a structure of fixed length, an id and a
//! size for each snapshot, and their names, each with a NUL at its end. The newest snapshot comes first.

use buffer::Rope;
use encoding::{DecodeError, Decoder, Encoder};
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::snapshot;

/// Bytes before the snapshots.
const FIXED_LEN: usize = 112;
/// Where the fixed part has the image's size; its counts follow.
const SIZE_AT: usize = 80;
const SNAP_LEN: u64 = 16;

struct Header {
    /// As stored up to the image's size.
    start: Vec<u8>,
    image_size: u64,
    snap_seq: u64,
    reserved: u32,
    snaps: Vec<OldSnap>,
}

struct OldSnap {
    id: u64,
    image_size: u64,
    name: Name,
}

/// The counts of the fixed part.
struct Counts {
    snap_count: u32,
    names_len: u64,
}

impl Header {
    fn decode_fixed(d: &mut Decoder<'_>) -> Result<(Self, Counts), DecodeError> {
        let start = d.take(SIZE_AT, "rbd_obj_header_ondisk")?.to_vec();
        let (image_size, snap_seq, snap_count) = (d.get()?, d.get()?, d.get()?);
        let header = Self { start, image_size, snap_seq, reserved: d.get()?, snaps: Vec::new() };
        Ok((header, Counts { snap_count, names_len: d.get()? }))
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (mut header, counts) = Self::decode_fixed(d)?;
        let mut snaps = Vec::new();
        for _ in 0..counts.snap_count {
            snaps.push((d.get()?, d.get()?));
        }
        let names_len = usize::try_from(counts.names_len).unwrap_or(usize::MAX);
        let mut names = d.take(names_len, "names of snapshots")?.split_inclusive(|b| *b == 0);
        for (id, image_size) in snaps {
            let name = names.next().and_then(|name| name.strip_suffix(&[0]));
            let missing = DecodeError::Truncated { what: "name of a snapshot", needed: 1, left: 0 };
            header.snaps.push(OldSnap { id, image_size, name: name.ok_or(missing)?.into() });
        }
        match names.next() {
            None => Ok(header),
            Some(name) => Err(DecodeError::LeftOver(name.len())),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let names_len: u64 = self.snaps.iter().map(|snap| snap.name.len() as u64 + 1).sum();
        let mut e = Encoder::new(0);
        e.raw(&self.start).put(&self.image_size).put(&self.snap_seq).put(&(self.snaps.len() as u32));
        e.put(&self.reserved).put(&names_len);
        for snap in &self.snaps {
            e.put(&snap.id).put(&snap.image_size);
        }
        for snap in &self.snaps {
            e.raw(&snap.name).put(&0_u8);
        }
        e.into_bytes()
    }

    fn has(&self, name: &Name) -> bool {
        self.snaps.iter().any(|snap| snap.name == *name)
    }
}

/// The fixed part; `None` where the object is too short for one, as a header of format 2 is.
fn fixed(ctx: &mut ClassContext<'_, '_>) -> Result<Option<Counts>, StepError> {
    let start = ctx.read(0, FIXED_LEN as u64)?;
    if start.len() < FIXED_LEN {
        return Ok(None);
    }
    let start = start.to_piece();
    Ok(Header::decode_fixed(&mut Decoder::new(&start)).ok().map(|(_, counts)| counts))
}

/// How many snapshots an image of format 1 has; `None` of one of format 2.
pub(super) fn snap_count(ctx: &mut ClassContext<'_, '_>) -> Result<Option<u32>, StepError> {
    Ok(fixed(ctx)?.map(|counts| counts.snap_count))
}

/// Fails with EINVAL where the object has no such header, EIO where it has not what it says.
fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<Header, StepError> {
    let Counts { snap_count, names_len } = fixed(ctx)?.ok_or(Errno::EINVAL)?;
    let snaps_len = u64::from(snap_count) * SNAP_LEN;
    let len = names_len.checked_add(FIXED_LEN as u64 + snaps_len).ok_or(Errno::EIO)?;
    let all = ctx.read(0, len)?.to_piece();
    Header::decode(&mut Decoder::new(&all)).map_err(|_| Errno::EIO.into())
}

/// A name ends at its first NUL.
fn c_string(name: &Name) -> Name {
    name.split(|b| *b == 0).next().unwrap_or_default().into()
}

pub(super) fn snap_list(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let header = stored(ctx)?;
    let snaps: Vec<(u64, (u64, Name))> =
        header.snaps.into_iter().map(|snap| (snap.id, (snap.image_size, snap.name))).collect();
    ctx.reply(&(header.snap_seq, snaps))
}

/// Fails with ESTALE where there is a newer one, EDQUOT where there are as many as there may be, EEXIST.
pub(super) fn snap_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut header = stored(ctx)?;
    let (name, id): (Name, u64) = decode_input(input)?;
    let name = c_string(&name);
    if header.snap_seq > id {
        return Err(Errno::ESTALE.into());
    }
    if header.snaps.len() as u64 >= snapshot::stored_limit(ctx)? {
        return Err(Errno::EDQUOT.into());
    }
    if header.has(&name) {
        return Err(Errno::EEXIST.into());
    }
    header.snap_seq = id;
    header.snaps.insert(0, OldSnap { id, image_size: header.image_size, name });
    ctx.write_full(header.encode())?;
    Ok(0)
}

pub(super) fn snap_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut header = stored(ctx)?;
    let name = c_string(&decode_input(input)?);
    let at = header.snaps.iter().position(|snap| snap.name == name).ok_or(Errno::ENOENT)?;
    header.snaps.remove(at);
    ctx.write_full(header.encode())?;
    Ok(0)
}

pub(super) fn snap_rename(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut header = stored(ctx)?;
    let (id, name): (u64, Name) = decode_input(input)?;
    let name = c_string(&name);
    if header.has(&name) {
        return Err(Errno::EEXIST.into());
    }
    let snap = header.snaps.iter_mut().find(|snap| snap.id == id).ok_or(Errno::ENOENT)?;
    snap.name = name;
    ctx.write_full(header.encode())?;
    Ok(0)
}
