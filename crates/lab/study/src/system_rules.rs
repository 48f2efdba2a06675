//! What can't be together in a system.

use crate::fields::Fields;
use crate::model::{CephStore, FsKind, LoligoStore, Place, System, Target};
use crate::problem::{At, Conflict, Problems};

/// Notes what can't be together in a system; `fields` are what it was read from.
pub(crate) fn check(system: &System, fields: &Fields<'_>, p: &mut Problems) {
    let at = |key: &str| fields.entry(key).map_or(fields.at, |e| e.at);
    match &system.target {
        Target::Running { .. } => {
            without(fields, &["osds", "cores", "place", "journal", "settings"], p, |key| {
                Conflict::RunningWith { key }
            });
            return;
        }
        Target::Nfs { .. } => {
            let keys = ["osds", "pool_size", "cores", "journal", "settings"];
            without(fields, &keys, p, |key| Conflict::NfsWith { key });
            if system.place.has_file_system() == Some(false) {
                p.add(at("place"), Conflict::NfsWithoutFileSystem);
            }
        }
        Target::Loligo { store: LoligoStore::Mem } => memory(fields, p),
        Target::Loligo { store: LoligoStore::Simple | LoligoStore::Block } => {}
        Target::Ceph { release, store } => ceph(system, release, *store, fields, p),
    }
    if system.pool_size > system.osds {
        let kind = Conflict::CopiesAboveOsds { copies: system.pool_size, osds: system.osds };
        p.add(at(if fields.get("pool_size").is_some() { "pool_size" } else { "osds" }), kind);
    }
    room(system, at("place"), p);
    devices(system, at("place"), at("journal"), p);
}

/// The least that a store can be made in, with what it needs before the first object. A file system's own need is not
/// known here.
fn room(system: &System, at: At, p: &mut Problems) {
    let (store, least) = match &system.target {
        Target::Loligo { store: LoligoStore::Simple | LoligoStore::Block } => ("Loligo's store", 64 << 20),
        Target::Ceph { store: CephStore::BlueStore, .. } => ("BlueStore", 1 << 30),
        _ => return,
    };
    let size = match &system.place {
        Place::Image { size } => *size,
        Place::Loop { size, fs: None } | Place::Modelled { size, fs: None, .. } => *size,
        _ => return,
    };
    if size < least {
        p.add(at, Conflict::PlaceTooSmall { store, place: system.place.name(), size, least });
    }
}

/// Notes each of `keys` that is there.
fn without(
    fields: &Fields<'_>,
    keys: &[&'static str],
    p: &mut Problems,
    kind: impl Fn(&'static str) -> Conflict,
) {
    for key in keys {
        if let Some(entry) = fields.entry(key) {
            p.add(entry.at, kind(key));
        }
    }
}

fn memory(fields: &Fields<'_>, p: &mut Problems) {
    without(fields, &["place", "journal"], p, |key| Conflict::MemoryWith { key });
}

fn ceph(system: &System, release: &str, store: CephStore, fields: &Fields<'_>, p: &mut Problems) {
    let at = |key: &str| fields.entry(key).map_or(fields.at, |e| e.at);
    match store {
        CephStore::MemStore => memory(fields, p),
        CephStore::BlueStore => {
            if system.place.has_file_system() == Some(true) {
                p.add(at("place"), Conflict::BlueStoreWithFileSystem);
            }
        }
        CephStore::FileStore => {
            if release != "16.2" {
                p.add(at("ceph"), Conflict::FileStoreGone { release: release.to_owned() });
            }
            if system.place.has_file_system() == Some(false) {
                p.add(at("place"), Conflict::FileStoreWithoutFileSystem { place: system.place.name() });
            }
            if system.place.file_system().is_some_and(|fs| fs.kind == FsKind::Ext2) {
                p.add(at("place"), Conflict::FileStoreOnExt2);
            }
        }
    }
}

/// Devices are one for each OSD, each once; a journal has no file system.
fn devices(system: &System, place: At, journal: At, p: &mut Problems) {
    let mut seen: Vec<&std::path::Path> = Vec::new();
    for (stands, at) in [(Some(&system.place), place), (system.journal.as_ref(), journal)] {
        let Some(Place::Devices { paths, .. }) = stands else { continue };
        // An NFS server has one device.
        let wanted = if matches!(system.target, Target::Nfs { .. }) { 1 } else { system.osds };
        if u32::try_from(paths.len()) != Ok(wanted) {
            p.add(at, Conflict::DevicesNotOsds { devices: paths.len(), osds: wanted });
        }
        for path in paths {
            if seen.contains(&path.as_path()) {
                p.add(at, Conflict::DeviceTwice { path: path.display().to_string() });
            }
            seen.push(path);
        }
    }
    if system.journal.as_ref().and_then(Place::has_file_system) == Some(true) {
        p.add(journal, Conflict::JournalWithFileSystem);
    }
}
