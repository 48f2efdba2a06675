//! What a scrub finds in a chunk: each object against its own metadata, clones against their heads. Pure: what a copy
//! has goes in, findings come out. Where there are more copies, they are compared here too.
//!
//! The sentences are Ceph's, since scripts look for them in the cluster log. An object that is damaged in several ways
//! counts once, as a deep error if one of them was found in its data.

use buffer::Piece;
use encoding::{Decode, Encode};
use ops::{ObjectInfo, SnapSet, StatsDelta};
use store::ObjectHead;
use types::{HObject, OsdId, PgId, SnapId, SpgId};

use super::Inconsistent;
use super::scan::{Contents, Scanned};
use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};
use crate::count::count;
use crate::{ClusterLogLevel, ScrubConfig};

/// What is wrong with one copy of an object: bits of Ceph's err_t, as `rados list-inconsistent-obj` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ObjectErrors(pub u64);

impl ObjectErrors {
    pub const STAT: u64 = 1 << 2;
    pub const READ: u64 = 1 << 3;
    pub const DATA_DIGEST: u64 = 1 << 9;
    pub const INFO_MISSING: u64 = 1 << 14;
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    pub const SNAPSET_MISSING: u64 = 1 << 16;
    pub const SNAPSET_CORRUPTED: u64 = 1 << 17;
    pub const SIZE: u64 = 1 << 18;
    const DEEP: u64 = Self::READ | Self::DATA_DIGEST;

    /// Whether the object info could be read and was taken for the object's.
    pub fn info_is_known(self) -> bool {
        self.0 & (Self::STAT | Self::READ | Self::INFO_MISSING | Self::INFO_CORRUPTED) == 0
    }

    fn is_deep(self) -> bool {
        self.0 & Self::DEEP != 0
    }
}

/// What is wrong with the clones of a head: bits of Ceph's inconsistent_snapset_t.
pub(crate) struct SnapErrors;

impl SnapErrors {
    pub const CLONE_MISSING: u64 = 1 << 2;
    pub const SNAPSET: u64 = 1 << 3;
    pub const HEADLESS: u64 = 1 << 5;
    pub const SIZE: u64 = 1 << 6;
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// Who scrubs, and how it is called in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub pg: SpgId,
    pub osd: OsdId,
    /// `scrub`, `deep-scrub` or `repair`.
    pub mode: &'a str,
    pub config: &'a ScrubConfig,
}

/// What was found, and what was counted on the way.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Findings {
    pub objects: i64,
    pub shallow_errors: i64,
    pub deep_errors: i64,
    pub lines: Vec<(ClusterLogLevel, String)>,
    /// What the objects count for in the PG's statistics.
    pub counted: StatsDelta,
    /// Objects that can't be counted, because their metadata can't be read.
    pub uncounted: i64,
    pub omap_keys: i64,
    pub omap_bytes: i64,
    pub large_omaps: i64,
    pub inconsistent: Vec<Inconsistent>,
}

impl Findings {
    fn say(&mut self, text: String) {
        self.lines.push((ClusterLogLevel::Error, text));
    }

    /// Adds the counts of another chunk. Its lines and objects are the caller's to take.
    pub fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.shallow_errors += other.shallow_errors;
        self.deep_errors += other.deep_errors;
        self.counted += other.counted;
        self.uncounted += other.uncounted;
        self.omap_keys += other.omap_keys;
        self.omap_bytes += other.omap_bytes;
        self.large_omaps += other.large_omaps;
    }
}

/// Looks at the objects of a chunk, which are in order: the clones of an object before its head, all of them.
pub(crate) fn check(of: Subject<'_>, objects: &[Scanned]) -> Findings {
    let mut found = Findings { objects: objects.len() as i64, ..Findings::default() };
    for object in objects {
        check_object(of, object, &mut found);
        if let Some(contents) = &object.contents {
            count_omap(of, &object.oid, contents, &mut found);
        }
        match object.head.as_ref().ok().and_then(|head| count(&object.oid, &head.attrs)) {
            Some(counted) => found.counted += counted,
            None => found.uncounted += 1,
        }
    }
    check_clones(of, objects, &mut found);
    found
}

/// An object against its own metadata.
fn check_object(of: Subject<'_>, object: &Scanned, found: &mut Findings) {
    let (pg, osd, oid) = (of.pg, of.osd.0, &object.oid);
    let (mut errors, mut reasons, mut version) = (ObjectErrors::default(), Vec::new(), 0);
    let mut note = |bit: u64, reason: String| {
        errors.0 |= bit;
        reasons.push(reason);
    };
    let contents = object.contents.as_ref();
    if let Some(error) = contents.and_then(|contents| contents.read_error.as_ref()) {
        note(ObjectErrors::READ, format!("candidate had a read error ({error})"));
    }
    let mut usable = true;
    match &object.head {
        Err(error) => {
            usable = false;
            note(ObjectErrors::STAT, format!("candidate had a stat error ({error})"));
        }
        Ok(head) => {
            if let Some((bit, reason)) = snapset_error(oid, head) {
                usable = false;
                note(bit, reason.into());
            }
            match object_info(oid, head) {
                Err((bit, reason)) => {
                    usable = false;
                    note(bit, reason.into());
                }
                Ok(info) => {
                    version = info.user_version;
                    if info.size != head.stat.size {
                        let (is, says) = (head.stat.size, info.size);
                        note(ObjectErrors::SIZE, format!("candidate size {is} info size {says} mismatch"));
                    }
                    let read = contents.filter(|contents| contents.read_error.is_none());
                    let digest = read.map(|contents| contents.digest).zip(info.known_data_digest());
                    if let Some((is, says)) = digest.filter(|(is, says)| is != says) {
                        let what =
                            format!("data_digest 0x{is:x} != data_digest 0x{says:x} from auth oi {oid}");
                        note(ObjectErrors::DATA_DIGEST, what);
                    }
                }
            }
        }
    }
    usable &= errors.0 & ObjectErrors::READ == 0;
    if errors.0 == 0 {
        return;
    }
    match errors.is_deep() {
        true => found.deep_errors += 1,
        false => found.shallow_errors += 1,
    }
    found.say(format!("{pg} shard {osd} soid {oid} : {}", reasons.join(", ")));
    if !usable {
        found.say(format!("{pg} soid {oid} : failed to pick suitable object info"));
    }
    let size = object.head.as_ref().ok().map(|head| head.stat.size);
    let digest = contents.filter(|contents| contents.read_error.is_none()).map(|contents| contents.digest);
    let attrs = object.head.as_ref().ok().map(|head| head.attrs.clone()).unwrap_or_default();
    let (oid, errors) = (oid.clone(), errors.0);
    found.inconsistent.push(Inconsistent::Object { oid, version, errors, size, digest, attrs });
}

/// Why a head's SnapSet can't be used.
fn snapset_error(oid: &HObject, head: &ObjectHead) -> Option<(u64, &'static str)> {
    let bytes = match head.attrs.get(SNAPSET_ATTR.as_bytes()) {
        _ if !oid.is_head() => return None,
        None => return Some((ObjectErrors::SNAPSET_MISSING, "candidate had a missing snapset key")),
        Some(bytes) => bytes,
    };
    let corrupt = (ObjectErrors::SNAPSET_CORRUPTED, "candidate had a corrupt snapset");
    SnapSet::from_bytes(bytes).is_err().then_some(corrupt)
}

fn object_info(oid: &HObject, head: &ObjectHead) -> Result<ObjectInfo, (u64, &'static str)> {
    let missing = (ObjectErrors::INFO_MISSING, "candidate had a missing info key");
    let bytes = head.attrs.get(INFO_ATTR.as_bytes()).ok_or(missing)?;
    let corrupt = (ObjectErrors::INFO_CORRUPTED, "candidate had a corrupt info");
    let info = ObjectInfo::from_bytes(bytes).map_err(|_| corrupt)?;
    match info.oid == *oid {
        true => Ok(info),
        false => Err((ObjectErrors::INFO_CORRUPTED, "candidate info oid mismatch")),
    }
}

fn count_omap(of: Subject<'_>, oid: &HObject, contents: &Contents, found: &mut Findings) {
    let Contents { omap_keys: keys, omap_bytes: bytes, .. } = *contents;
    found.omap_keys += keys as i64;
    found.omap_bytes += bytes as i64;
    if keys > of.config.large_omap_keys || bytes > of.config.large_omap_bytes {
        found.large_omaps += 1;
        let raw = PgId { seed: oid.hash, ..of.pg.pg };
        let text = format!(
            "Large omap object found. Object: {oid} PG: {raw} ({}) Key count: {keys} Size (bytes): {bytes}",
            of.pg.pg
        );
        found.lines.push((ClusterLogLevel::Warn, text));
    }
}

/// The clones of a head that are still to come, the newest first.
struct Expected<'a> {
    head: &'a HObject,
    /// `None` if it can't be read: nothing is known of its clones.
    snapset: Option<SnapSet>,
    clones: Vec<SnapId>,
    errors: u64,
    missing: Vec<SnapId>,
    /// Clones that the head does not name.
    extra: Vec<SnapId>,
}

/// Clones against their heads, as Ceph's scrub_snapshot_metadata: from the last object to the first, so that a head
/// comes before its clones.
fn check_clones(of: Subject<'_>, objects: &[Scanned], found: &mut Findings) {
    let mut expected: Option<Expected<'_>> = None;
    for object in objects.iter().rev() {
        let oid = &object.oid;
        if oid.is_head() {
            end_of_clones(of, expected.take(), found);
            expected = Some(expect(object));
            continue;
        }
        let of_head = expected.as_mut().filter(|e| *e.head == HObject { snap: SnapId::HEAD, ..oid.clone() });
        match of_head {
            None => {
                unexpected(of, oid, "is an unexpected clone", found);
                let (head, errors) = (oid.clone(), SnapErrors::HEADLESS);
                let (missing, extra, snapset) = (vec![], vec![], Piece::empty());
                found.inconsistent.push(Inconsistent::Snaps { head, errors, missing, extra, snapset });
            }
            Some(e) => check_clone(of, object, e, found),
        }
    }
    end_of_clones(of, expected, found);
}

fn unexpected(of: Subject<'_>, oid: &HObject, what: &str, found: &mut Findings) {
    found.shallow_errors += 1;
    found.say(format!("{} {} {oid} : {what}", of.mode, of.pg));
}

fn expect(head: &Scanned) -> Expected<'_> {
    let attrs = head.head.as_ref().ok().and_then(|head| head.attrs.get(SNAPSET_ATTR.as_bytes()));
    let snapset = attrs.and_then(|bytes| SnapSet::from_bytes(bytes).ok());
    let clones = snapset.iter().flat_map(|snapset| snapset.clones.iter().rev().copied()).collect();
    Expected { head: &head.oid, snapset, clones, errors: 0, missing: Vec::new(), extra: Vec::new() }
}

fn check_clone(of: Subject<'_>, clone: &Scanned, e: &mut Expected<'_>, found: &mut Findings) {
    let oid = &clone.oid;
    let Some(snapset) = e.snapset.clone() else {
        return unexpected(of, oid, "clone ignored due to missing snapset", found);
    };
    missing_to(of, e, Some(oid.snap), found);
    if e.clones.first() != Some(&oid.snap) {
        e.errors |= SnapErrors::EXTRA_CLONES;
        e.extra.push(oid.snap);
        return unexpected(of, oid, "is an unexpected clone", found);
    }
    e.clones.remove(0);
    let what = match (snapset.clone_size.get(&oid.snap), snapset.clone_overlap.get(&oid.snap)) {
        (None, _) => "is missing in clone_size".to_owned(),
        (Some(_), None) => "is missing in clone_overlap".to_owned(),
        (Some(size), Some(overlap)) if overlap.size() > *size => {
            "bad interval_set in clone_overlap".to_owned()
        }
        (Some(says), Some(_)) => {
            let info = clone.head.as_ref().ok().and_then(|head| object_info(oid, head).ok());
            match info.filter(|info| info.size != *says) {
                Some(info) => format!("size {} != clone_size {says}", info.size),
                None => return,
            }
        }
    };
    e.errors |= SnapErrors::SIZE;
    unexpected(of, oid, &what, found);
}

/// Clones that should have come before the one of `snap`, or before the end.
fn missing_to(of: Subject<'_>, e: &mut Expected<'_>, snap: Option<SnapId>, found: &mut Findings) {
    while let Some(next) = e.clones.first().copied().filter(|next| snap.is_none_or(|snap| *next > snap)) {
        e.clones.remove(0);
        e.missing.push(next);
        e.errors |= SnapErrors::CLONE_MISSING;
        let clone = HObject { snap: next, ..e.head.clone() };
        unexpected(of, e.head, &format!("expected clone {clone} {} missing", e.missing.len()), found);
    }
}

fn end_of_clones(of: Subject<'_>, expected: Option<Expected<'_>>, found: &mut Findings) {
    // Before the first head.
    let Some(mut e) = expected else { return };
    missing_to(of, &mut e, None, found);
    if e.snapset.as_ref().is_some_and(|snapset| !snapset.clones.is_empty() && snapset.seq == 0) {
        e.errors |= SnapErrors::SNAPSET;
        unexpected(of, e.head, "snaps.seq not set", found);
    }
    if !e.missing.is_empty() {
        let text = format!("{} {} {} : {} missing clone(s)", of.mode, of.pg, e.head, e.missing.len());
        found.lines.push((ClusterLogLevel::Info, text));
    }
    if e.errors != 0 {
        let Expected { head, errors, missing, extra, snapset, .. } = e;
        let (head, snapset) = (head.clone(), snapset.map(|snapset| snapset.to_bytes(0).into()));
        let snapset = snapset.unwrap_or_else(Piece::empty);
        found.inconsistent.push(Inconsistent::Snaps { head, errors, missing, extra, snapset });
    }
}
