//! Space arithmetic, before anything is made: how large each store is, and whether all of them fit. Pure.

use std::path::Path;

use study::{CephStore, LoligoStore, Place, System, Target};
use text::format_bytes;

use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Left free for the monitor, the manager and logs.
const RESERVE: u64 = GIB;

/// A store in a directory without a given size, and the smallest that is worth a start.
const STORE: u64 = 10 * GIB;
const STORE_MIN: u64 = 2 * GIB;

/// What a modelled disk is counted with: its file is sparse, and a trial fills a small part of it.
const FILLED: u64 = 4 * GIB;

/// A store in memory without a given size.
const MEMORY: u64 = 2 * GIB;

/// FileStore's journal and BlueStore's database device, where they are files without a given size.
const JOURNAL: u64 = GIB;
const DATABASE: u64 = 2 * GIB;

/// How large things are made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sizes {
    /// Bytes of an OSD's store, where it is a file or memory.
    pub(crate) store: u64,
    /// Bytes of its journal (FileStore) or database (BlueStore), where that is a file.
    pub(crate) journal: u64,
    /// Bytes that all files below the work directory may take.
    pub(crate) files: u64,
    /// Bytes that stores in memory may take.
    pub(crate) memory: u64,
    /// Sentences on sizes that the lab chose.
    pub(crate) notes: Vec<String>,
}

/// What the machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Free {
    /// Bytes free on the work directory's file system.
    pub(crate) disk: u64,
    /// Bytes of memory that are available.
    pub(crate) memory: u64,
}

/// Size of a place's file or device; none where only the file system below bounds it.
fn size_of(place: &Place) -> Option<u64> {
    match place {
        Place::Image { size } | Place::Loop { size, .. } | Place::Modelled { size, .. } => Some(*size),
        Place::Directory | Place::Devices { .. } => None,
    }
}

/// Bytes that a place of a size takes below the work directory.
fn taken(place: &Place, size: u64) -> u64 {
    match place {
        Place::Devices { .. } => 0,
        Place::Modelled { .. } => size.min(FILLED),
        _ => size,
    }
}

/// Whether a place has a size, but what is put on it is a file.
fn is_mounted(place: &Place) -> bool {
    matches!(
        place,
        Place::Loop { fs: Some(_), .. }
            | Place::Devices { fs: Some(_), .. }
            | Place::Modelled { fs: Some(_), .. }
    )
}

/// Chooses sizes, and checks that all of it fits. `journal_mb` is the study's `osd_journal_size`.
///
/// # Errors
/// [`Error::Space`]; [`Error::Impossible`] for places that are too small for what shall be on them.
pub(crate) fn plan(system: &System, journal_mb: Option<u64>, free: Free, work: &Path) -> Result<Sizes> {
    let osds = u64::from(system.osds.max(1));
    let mut sizes = Sizes::default();
    if is_memory(&system.target) {
        sizes.store = size_of(&system.place).unwrap_or(MEMORY);
        sizes.memory = sizes.store.saturating_mul(osds);
        sizes.notes.push(format!(
            "each OSD keeps {} in memory; where it lives means nothing",
            format_bytes(sizes.store)
        ));
        return fits(sizes, system, free, work);
    }
    let filestore = matches!(&system.target, Target::Ceph { store: CephStore::FileStore, .. });
    let bluestore = matches!(&system.target, Target::Ceph { store: CephStore::BlueStore, .. });

    let journal_place = system.journal.as_ref();
    if filestore {
        let room = size_of(journal_place.unwrap_or(&system.place));
        sizes.journal = journal_size(journal_mb, room, journal_place.is_some_and(|p| !is_mounted(p)))?;
    } else if bluestore && journal_place.is_some() {
        sizes.journal = size_of(journal_place.unwrap_or(&system.place)).map_or(DATABASE, |s| s / 10 * 9);
    }
    let journals = journal_place.map_or(0, |place| taken(place, size_of(place).unwrap_or(sizes.journal)));
    sizes.store = match (&system.place, size_of(&system.place)) {
        (_, Some(size)) if is_mounted(&system.place) => size / 10 * 9,
        (_, Some(size)) => size,
        (Place::Devices { .. }, None) => 0,
        (_, None) => directory(osds, journals, free, &mut sizes.notes),
    };
    let data = taken(&system.place, size_of(&system.place).unwrap_or(sizes.store));
    sizes.notes.extend(sparse(system));
    sizes.files = data.saturating_add(journals).saturating_mul(osds).saturating_add(RESERVE);
    fits(sizes, system, free, work)
}

/// A sentence where less is counted than disks have.
fn sparse(system: &System) -> Option<String> {
    let places = [Some(&system.place), system.journal.as_ref()];
    let is_larger = |place: &&Place| size_of(place).is_some_and(|size| taken(place, size) < size);
    places.into_iter().flatten().find(|p| matches!(p, Place::Modelled { .. }) && is_larger(p)).map(|_| {
        format!(
            "modelled disks are sparse files: each is counted with {} at most; a trial that writes more than this \
             disk has fails",
            format_bytes(FILLED)
        )
    })
}

/// A store in a directory: 10 GiB, or what is there in whole GiB.
fn directory(osds: u64, journals: u64, free: Free, notes: &mut Vec<String>) -> u64 {
    let share = (free.disk.saturating_sub(RESERVE) / osds).saturating_sub(journals);
    let size = STORE.min(share / GIB * GIB).max(STORE_MIN);
    if size < STORE {
        notes.push(format!(
            "each OSD's store is {} instead of {}: the disk has no more",
            format_bytes(size),
            format_bytes(STORE)
        ));
    }
    size
}

/// FileStore's journal: as the study says, else 1 GiB or a quarter of a smaller place; all of a raw one of its own.
fn journal_size(journal_mb: Option<u64>, room: Option<u64>, raw: bool) -> Result<u64> {
    let size = match (journal_mb, room) {
        (_, Some(room)) if raw => room,
        (Some(mb), _) => mb.saturating_mul(MIB),
        (None, room) => JOURNAL.min(room.unwrap_or(u64::MAX) / 4),
    } / MIB
        * MIB;
    let needed = size.saturating_add(512 * MIB);
    match room {
        Some(room) if !raw && needed > room => Err(Error::Impossible {
            what: format!(
                "a journal of {} does not fit on a place of {} beside anything else; \
                 make the place larger or osd_journal_size smaller",
                format_bytes(size),
                format_bytes(room)
            ),
        }),
        _ => Ok(size),
    }
}

fn is_memory(target: &Target) -> bool {
    matches!(
        target,
        Target::Loligo { store: LoligoStore::Mem } | Target::Ceph { store: CephStore::MemStore, .. }
    )
}

fn fits(sizes: Sizes, system: &System, free: Free, work: &Path) -> Result<Sizes> {
    let what = format!("{} OSDs of {}", system.osds, system.name);
    let refuse = |needed: u64, free: u64, path: &Path| {
        let (what, needed, free) = (what.clone(), format_bytes(needed), format_bytes(free));
        Err(Error::Space { what, needed, path: path.to_owned(), free })
    };
    if sizes.files > free.disk {
        return refuse(sizes.files, free.disk, work);
    }
    if sizes.memory > free.memory {
        return refuse(sizes.memory, free.memory, Path::new("memory"));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::{FileSystem, FsKind};

    const FREE: Free = Free { disk: 100 * GIB, memory: 16 * GIB };

    fn system(store: CephStore, place: Place, journal: Option<Place>) -> System {
        System {
            name: "s".into(),
            target: Target::Ceph { release: "16.2".into(), store },
            osds: 3,
            pool_size: 1,
            cores: None,
            listen: std::net::Ipv4Addr::LOCALHOST,
            place,
            journal,
            settings: Vec::new(),
            line: 1,
        }
    }

    fn loop_xfs(size: u64) -> Place {
        let fs = FileSystem { kind: FsKind::Xfs, mkfs: String::new(), mount: String::new() };
        Place::Loop { size, fs: Some(fs) }
    }

    fn planned(system: &System, free: Free) -> Result<Sizes> {
        plan(system, None, free, Path::new("/w"))
    }

    #[test]
    fn files_of_all_osds_and_journals_count() {
        let s = system(CephStore::FileStore, loop_xfs(4 * GIB), Some(Place::Image { size: GIB }));
        let sizes = planned(&s, FREE).unwrap();
        assert_eq!(sizes.files, 3 * (4 + 1) * GIB + RESERVE);
        assert_eq!(sizes.journal, GIB);
        let error = planned(&s, Free { disk: 15 * GIB, ..FREE }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 OSDs of s need 16 GiB, /w has 15 GiB free; make the sizes smaller or use another directory"
        );
    }

    #[test]
    fn a_store_in_a_directory_takes_what_the_disk_has() {
        let s = system(CephStore::BlueStore, Place::Directory, None);
        assert_eq!(planned(&s, FREE).unwrap().store, 10 * GIB);
        let small = planned(&s, Free { disk: 20 * GIB, ..FREE }).unwrap();
        assert_eq!((small.store, small.notes.len()), (6 * GIB, 1));
        assert!(planned(&s, Free { disk: 5 * GIB, ..FREE }).is_err(), "3 of at least 2 GiB");
    }

    #[test]
    fn a_journal_leaves_room_for_data() {
        let s = system(CephStore::FileStore, loop_xfs(2 * GIB), None);
        assert_eq!(planned(&s, FREE).unwrap().journal, 512 * MIB);
        assert!(plan(&s, Some(5120), FREE, Path::new("/w")).is_err());
        let large = system(CephStore::FileStore, loop_xfs(8 * GIB), None);
        assert_eq!(planned(&large, FREE).unwrap().journal, GIB);
        assert_eq!(plan(&large, Some(2048), FREE, Path::new("/w")).unwrap().journal, 2 * GIB);
    }

    #[test]
    fn stores_in_memory_count_memory() {
        let s = system(CephStore::MemStore, Place::Directory, None);
        let sizes = planned(&s, FREE).unwrap();
        assert_eq!((sizes.memory, sizes.files), (6 * GIB, 0));
        assert!(planned(&s, Free { memory: 5 * GIB, ..FREE }).is_err());
        let sized = system(CephStore::MemStore, Place::Image { size: GIB }, None);
        assert_eq!(planned(&sized, FREE).unwrap().store, GIB);
    }

    #[test]
    fn modelled_disks_are_counted_by_what_a_trial_fills_and_that_is_said() {
        let model = study::DeviceModel { name: "disk-7200".into(), parameters: Vec::new() };
        let disk = |size| Place::Modelled { model: model.clone(), size, fs: None };
        let s = system(CephStore::BlueStore, disk(640 * GIB), Some(disk(GIB)));
        let sizes = planned(&s, FREE).unwrap();
        assert_eq!(sizes.files, 3 * (4 + 1) * GIB + RESERVE);
        assert_eq!(sizes.store, 640 * GIB, "the store has all of it");
        assert!(sizes.notes.iter().any(|n| n.contains("sparse") && n.contains("4 GiB")), "{:?}", sizes.notes);
        let small = system(CephStore::BlueStore, disk(2 * GIB), None);
        assert!(planned(&small, FREE).unwrap().notes.is_empty());
    }

    #[test]
    fn raw_devices_take_no_space_below_the_work_directory() {
        let paths = vec!["/dev/a".into(), "/dev/b".into(), "/dev/c".into()];
        let s = system(CephStore::BlueStore, Place::Devices { paths, fs: None }, None);
        assert_eq!(planned(&s, FREE).unwrap().files, RESERVE);
    }

    #[test]
    fn sizes_beyond_all_measure_do_not_overflow() {
        let s = system(CephStore::BlueStore, Place::Image { size: u64::MAX }, None);
        assert!(planned(&s, FREE).is_err());
    }
}
