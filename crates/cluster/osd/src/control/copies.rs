//! Copies of objects: what PGs' COPY_FROM reads of other objects (Ceph's start_copy and process_copy_chunk).
//!
//! The OSD is a client then. It asks the source's primary, which may be itself, for one part of the object after the
//! other (COPY_GET); from the second part on the source must have the version of the first. The whole object is
//! kept in memory until it is complete, and the PG writes it by one transaction. So what copies hold has a bound
//! ([`BYTES_MAX`]): beyond it only the oldest copy goes on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use auth::SessionInfo;
use buffer::{Rope, crc32c};
use encoding::Decoder;
use messages::osd_op::{CopyCursor, CopyData, OpFlags};
use messages::{Message, Op, OpArgs, OpCode};
use objecter::{
    Objecter, ObjecterConfig, ObjecterEffect, ObjecterEvent, OsdSession, Outcome, Request, RequestId, Target,
};
use ops::{CopiedObject, CopySource, copy_get_op};
use options::opt;
use pg::CopyResult;
use store::{StoreShard, Token};
use types::{EntityAddrVec, Errno, Name, SnapContext, UTime};

use super::Control;
use crate::parts::{Out, ToShard};
use crate::shard::PgSlot;
use crate::{LogLevel, OsdEffect};

/// Bytes that unfinished copies hold before only the oldest one goes on.
const BYTES_MAX: u64 = 128 << 20;

/// Which PG waits for a copy, and its number for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopyId {
    pub shard: StoreShard,
    pub slot: PgSlot,
    pub token: Token,
}

/// The copies under way.
#[derive(Default)]
pub(crate) struct Copies {
    /// The client, from the first copy on.
    client: Option<Objecter>,
    /// Where its sessions go.
    links: BTreeMap<OsdSession, EntityAddrVec>,
    /// In the order in which they came.
    all: BTreeMap<u64, Copy>,
    made: u64,
    /// Whose requests are under way.
    requests: BTreeMap<RequestId, u64>,
}

struct Copy {
    id: CopyId,
    source: CopySource,
    part: Part,
    request: Option<RequestId>,
}

/// What was read of a source so far.
struct Part {
    cursor: CopyCursor,
    object: CopiedObject,
    data_crc: u32,
    omap_crc: u32,
}

impl Copies {
    /// When the client wants a tick.
    pub(crate) fn deadline(&self) -> Option<UTime> {
        self.client.as_ref()?.deadline()
    }

    fn session_at(&self, addrs: &EntityAddrVec) -> Option<OsdSession> {
        let same = |at: &EntityAddrVec| at.v2().is_some() && at.v2() == addrs.v2();
        self.links.iter().find(|(_, at)| same(at)).map(|(session, _)| *session)
    }

    /// The next copy whose next part may be asked for.
    fn next(&self, chunk: u64) -> Option<u64> {
        let held: u64 = self.all.values().map(|copy| copy.part.object.bytes()).sum();
        let room = held + (self.requests.len() as u64 + 1) * chunk <= BYTES_MAX;
        let idle = |(at, copy): (&u64, &Copy)| copy.request.is_none().then_some(*at);
        match room {
            true => self.all.iter().find_map(idle),
            false => self.all.iter().next().and_then(idle),
        }
    }
}

impl Part {
    fn new() -> Self {
        let object = CopiedObject {
            mtime: UTime::default(),
            user_version: 0,
            data: Rope::new(),
            data_digest: None,
            omap_digest: None,
            attrs: BTreeMap::new(),
            omap_header: Rope::new(),
            omap: Vec::new(),
            truncate_seq: 0,
            truncate_size: 0,
        };
        Self { cursor: CopyCursor::default(), object, data_crc: u32::MAX, omap_crc: u32::MAX }
    }

    /// Takes the answer to a COPY_GET. Whether the object is complete.
    ///
    /// # Errors
    /// The source's own; EIO for an answer that is none, or whose checksums are not the source's; EFBIG for more data than
    /// an object may have.
    fn take(&mut self, answer: &Rope, user_version: u64, bytes_max: u64) -> Result<bool, Errno> {
        let part = CopyData::from_piece(&answer.to_piece()).map_err(|_| Errno::EIO)?;
        let first = self.cursor == CopyCursor::default();
        let goes_on = part.cursor.data_offset == self.cursor.data_offset + part.data.len() as u64;
        let is_idle = part.cursor == self.cursor && !part.cursor.is_complete();
        if !goes_on || is_idle {
            return Err(Errno::EIO);
        }
        let object = &mut self.object;
        if part.size > bytes_max || object.bytes() + answer.len() as u64 > 2 * bytes_max {
            return Err(Errno::EFBIG);
        }
        if first {
            object.user_version = user_version;
        }
        object.mtime = part.mtime;
        (object.truncate_seq, object.truncate_size) = (part.truncate_seq, part.truncate_size);
        (object.data_digest, object.omap_digest) = (part.data_digest, part.omap_digest);
        object.attrs.extend(part.attrs);
        if part.data_digest.is_some() {
            self.data_crc = part.data.crc32c(self.data_crc);
        }
        object.data.append(part.data);
        self.omap_crc = part.omap_header.crc32c(self.omap_crc);
        if !part.omap_header.is_empty() {
            object.omap_header = part.omap_header;
        }
        if !part.omap_data.is_empty() {
            self.take_omap(&part.omap_data)?;
        }
        self.cursor = part.cursor;
        if !self.cursor.is_complete() {
            return Ok(false);
        }
        let object = &self.object;
        let data = object.data_digest.is_none_or(|crc| crc == self.data_crc);
        let omap = object.omap_digest.is_none_or(|crc| crc == self.omap_crc);
        let whole = object.data.len() as u64 == part.size;
        if data && omap && whole { Ok(true) } else { Err(Errno::EIO) }
    }

    /// Takes a map of keys and values. The digest is of the pairs, without their count.
    fn take_omap(&mut self, encoded: &Rope) -> Result<(), Errno> {
        let bytes = encoded.to_piece();
        let mut d = Decoder::new(&bytes);
        let count = d.count(8, "omap pairs").map_err(|_| Errno::EIO)?;
        self.omap_crc = crc32c(self.omap_crc, d.rest());
        for _ in 0..count {
            let key: Name = d.get().map_err(|_| Errno::EIO)?;
            let len = d.blob("omap value").map_err(|_| Errno::EIO)?.len();
            let value = bytes.slice(d.position() - len..d.position());
            self.object.omap.push((key, value.into()));
        }
        Ok(())
    }
}

impl Copy {
    fn request(&self, chunk: u64) -> Request {
        let advice = self.source.advice & !OpFlags::FAILOK;
        let mut ops = vec![copy_get_op(&self.part.cursor, chunk).with_flags(advice)];
        let version = self.part.object.user_version.max(self.source.version);
        if version > 0 {
            ops.insert(0, Op::new(OpCode::ASSERT_VER, OpArgs::AssertVer { unused: 0, ver: version }));
        }
        Request {
            target: Target::Object { name: self.source.name.clone(), locator: self.source.locator.clone() },
            ops,
            flags: self.source.flags,
            snapid: self.source.snapid,
            snapc: SnapContext::default(),
            mtime: None,
        }
    }
}

impl Control {
    /// A PG wants to copy an object.
    pub(super) fn start_copy(&mut self, now: UTime, id: CopyId, source: CopySource, out: &mut Out) {
        // No request reaches a PG before there is a map.
        let Some(map) = self.history.current().cloned() else { return end(id, Err(Errno::EAGAIN), out) };
        if self.copies.client.is_none() {
            let config = ObjecterConfig::new(self.config.monitors.clone(), self.config.profile);
            let mut client = Objecter::new(config);
            client.take_map(now, map, &mut Vec::new());
            self.copies.client = Some(client);
        }
        self.copies.made += 1;
        self.copies.all.insert(self.copies.made, Copy { id, source, part: Part::new(), request: None });
        self.pump_copies(now, out);
    }

    /// A PG wants a copy no more.
    pub(super) fn cancel_copy(&mut self, now: UTime, id: CopyId, out: &mut Out) {
        let found = self.copies.all.iter().find(|(_, copy)| copy.id == id).map(|(at, _)| *at);
        // Its answer is on the way to the PG, which takes it for that of an ended copy.
        let Some(copy) = found.and_then(|at| self.copies.all.remove(&at)) else { return };
        if let (Some(request), Some(client)) = (copy.request, &mut self.copies.client) {
            self.copies.requests.remove(&request);
            client.cancel(request);
        }
        self.pump_copies(now, out);
    }

    /// Asks for parts as long as there is room for them.
    fn pump_copies(&mut self, now: UTime, out: &mut Out) {
        let chunk = self.options.get(opt::OSD_COPYFROM_MAX_CHUNK);
        while let Some(at) = self.copies.next(chunk) {
            let Some(copy) = self.copies.all.get_mut(&at) else { return out.broken("a copy is gone") };
            let request = copy.request(chunk);
            let map = self.history.current();
            if map.is_none_or(|map| !map.pools.contains_key(&copy.source.locator.pool)) {
                self.end_copy(at, Err(Errno::ENOENT), out);
                continue;
            }
            let Some(client) = &mut self.copies.client else { return out.broken("a copy has no client") };
            let mut effects = Vec::new();
            match client.submit(now, request, &mut effects) {
                Ok(request) => {
                    copy.request = Some(request);
                    self.copies.requests.insert(request, at);
                }
                // There are fewer copies than a client may have requests.
                Err(_) => return out.broken("the client of copies takes no request"),
            }
            self.perform_copies(now, effects, out);
        }
    }

    fn end_copy(&mut self, at: u64, result: CopyResult, out: &mut Out) {
        match self.copies.all.remove(&at) {
            Some(copy) => end(copy.id, result, out),
            None => out.broken("a copy ends that does not exist"),
        }
    }

    /// A part has come, or an error.
    fn on_copy_part(&mut self, request: RequestId, outcome: Outcome, out: &mut Out) {
        // Of a copy that was cancelled in the meantime.
        let Some(at) = self.copies.requests.remove(&request) else { return };
        let bytes_max = self.options.get(opt::OSD_MAX_OBJECT_SIZE);
        let Some(copy) = self.copies.all.get_mut(&at) else { return out.broken("a part of no copy") };
        copy.request = None;
        let result = match outcome {
            Outcome::Replied { result, .. } if result < 0 => Err(Errno(-result)),
            Outcome::Replied { ops, user_version, .. } => match ops.last() {
                Some(op) => copy.part.take(&op.outdata, user_version, bytes_max),
                None => Err(Errno::EIO),
            },
            Outcome::Ended { errno, .. } => Err(errno),
        };
        match result {
            Ok(false) => {}
            Ok(true) => {
                let whole = std::mem::replace(&mut copy.part, Part::new()).object;
                self.end_copy(at, Ok(Arc::new(whole)), out);
            }
            Err(errno) => self.end_copy(at, Err(errno), out),
        }
    }

    fn perform_copies(&mut self, now: UTime, effects: Vec<ObjecterEffect>, out: &mut Out) {
        let mut effects = VecDeque::from(effects);
        let mut ended = false;
        while let Some(effect) = effects.pop_front() {
            match effect {
                ObjecterEffect::Connect(session, _, addrs) => {
                    self.copies.links.insert(session, addrs);
                    // The messenger connects when it has something to send.
                    let Some(client) = &mut self.copies.client else { continue };
                    let mut more = Vec::new();
                    client.handle(now, ObjecterEvent::Connected(session), &mut more);
                    effects.extend(more);
                }
                ObjecterEffect::Send(session, message) => {
                    if let Some(to) = self.copies.links.get(&session).cloned() {
                        out.push(OsdEffect::SendPeer { to, message });
                    }
                }
                ObjecterEffect::Disconnect(session) => {
                    if let Some(to) = self.copies.links.remove(&session) {
                        out.push(OsdEffect::ClosePeer { to });
                    }
                }
                ObjecterEffect::Done(request, outcome) => {
                    self.on_copy_part(request, outcome, out);
                    ended = true;
                }
                ObjecterEffect::Warning(text) => self.log(LogLevel::Debug, format!("copies: {text}"), out),
                // The client has no session to a monitor, no watches and no commands.
                ObjecterEffect::Mon(_)
                | ObjecterEffect::Watch(..)
                | ObjecterEffect::NotifyDone(..)
                | ObjecterEffect::CommandDone(..)
                | ObjecterEffect::PoolOpDone(..)
                | ObjecterEffect::MapReached(_) => {}
            }
        }
        if ended {
            self.pump_copies(now, out);
        }
    }

    fn with_client(
        &mut self,
        now: UTime,
        out: &mut Out,
        act: impl FnOnce(&mut Objecter, &mut Vec<ObjecterEffect>),
    ) {
        // Nothing was copied yet.
        let Some(client) = &mut self.copies.client else { return };
        let mut effects = Vec::new();
        act(client, &mut effects);
        self.perform_copies(now, effects, out);
    }

    /// The map that the OSD goes by is a new one.
    pub(super) fn copies_take_map(&mut self, now: UTime, out: &mut Out) {
        // Before the first map there is nothing to take.
        let Some(map) = self.history.current().cloned() else { return };
        self.with_client(now, out, |client, effects| client.take_map(now, map, effects));
    }

    pub(super) fn copies_tick(&mut self, now: UTime, out: &mut Out) {
        self.with_client(now, out, |client, effects| client.handle(now, ObjecterEvent::Tick, effects));
    }

    /// An OSD answers a request of this one.
    pub(super) fn on_copy_message(
        &mut self,
        now: UTime,
        peer: &SessionInfo,
        message: Message,
        out: &mut Out,
    ) {
        // An answer on a session that the map has ended: it was asked for again elsewhere.
        let Some(session) = self.copies.session_at(&peer.peer_addrs) else { return };
        let event = ObjecterEvent::Message(session, message);
        self.with_client(now, out, |client, effects| client.handle(now, event, effects));
    }

    /// A session with another OSD has ended, with what it did not deliver.
    pub(super) fn on_peer_lost(&mut self, now: UTime, addrs: &EntityAddrVec, out: &mut Out) {
        // A session of another kind.
        let Some(session) = self.copies.session_at(addrs) else { return };
        self.copies.links.remove(&session);
        let event = ObjecterEvent::Reset(session, "the session has ended".into());
        self.with_client(now, out, |client, effects| client.handle(now, event, effects));
    }
}

fn end(CopyId { shard, slot, token }: CopyId, result: CopyResult, out: &mut Out) {
    out.send_shard(shard, ToShard::Copied { slot, token, result });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(cursor: CopyCursor, data: &[u8], size: u64) -> CopyData {
        CopyData {
            cursor,
            size,
            mtime: UTime::default(),
            data_digest: None,
            omap_digest: None,
            attrs: BTreeMap::new(),
            data: Rope::copy_from(data),
            omap_header: Rope::new(),
            omap_data: Rope::new(),
            snaps: Vec::new(),
            snap_seq: 0,
            truncate_seq: 0,
            truncate_size: 0,
        }
    }

    fn cursor(data_offset: u64, complete: bool) -> CopyCursor {
        CopyCursor {
            attr_complete: true,
            data_offset,
            data_complete: complete,
            omap_complete: complete,
            ..CopyCursor::default()
        }
    }

    #[test]
    fn parts_are_put_together() {
        let mut copy = Part::new();
        assert_eq!(copy.take(&part(cursor(3, false), b"abc", 5).to_rope(), 7, 100), Ok(false));
        assert_eq!(copy.take(&part(cursor(5, true), b"de", 5).to_rope(), 9, 100), Ok(true));
        assert_eq!((copy.object.data.to_vec(), copy.object.user_version), (b"abcde".to_vec(), 7));
    }

    #[test]
    fn what_does_not_add_up_is_an_error() {
        let take = |part: CopyData| Part::new().take(&part.to_rope(), 1, 100);
        assert_eq!(
            take(part(cursor(2, false), b"abc", 5)),
            Err(Errno::EIO),
            "the cursor is not at the data's end"
        );
        assert_eq!(take(part(cursor(3, true), b"abc", 5)), Err(Errno::EIO), "bytes are missing");
        assert_eq!(take(part(CopyCursor::default(), b"", 5)), Err(Errno::EIO), "it would go on for ever");
        assert_eq!(take(part(cursor(3, false), b"abc", 500)), Err(Errno::EFBIG));
        assert_eq!(Part::new().take(&Rope::copy_from(b"junk"), 1, 100), Err(Errno::EIO));
        let digest = |crc| CopyData { data_digest: Some(crc), ..part(cursor(3, true), b"abc", 3) };
        assert_eq!(take(digest(crc32c(u32::MAX, b"abc"))), Ok(true));
        assert_eq!(take(digest(1)), Err(Errno::EIO), "the data is not what its source says");
    }
}
