//! What an OSD had before it gets another store: kept within its directory, so that a link to another disk stays one.
//!
//! Until the cluster's description names the new store, the former one counts, and its directory's name has its id:
//! `replacing-ID.part` while its files are on their way, `replacing-ID` while the new store is made beside it. Once the description
//! names the new one it is called `replaced-1` (2, 3, ...), for its owner to remove. So whatever ends the process, the next start
//! knows which of both counts ([`settle`]).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::HostError;

/// What was replaced.
const REPLACED: &str = "replaced-";
/// What is to be, with its id,
const REPLACING: &str = "replacing-";
/// and while some of it lies in its place.
const PART: &str = ".part";

/// Moves what an OSD's directory holds, the store `id`, into a directory within it. `None`: there is nothing to move.
pub(crate) fn move_aside(store: &Path, id: &str) -> Result<Option<PathBuf>, HostError> {
    fs::create_dir_all(store).map_err(HostError::io(store))?;
    let present = in_place(store)?;
    match present.is_empty() {
        true => Ok(None),
        false => move_all(&present, store, id).map(Some),
    }
}

/// Moves all of these into a directory within theirs, or none.
fn move_all(names: &[impl AsRef<OsStr>], store: &Path, id: &str) -> Result<PathBuf, HostError> {
    let (part, aside) = (part_in(store, id), aside_in(store, id));
    fs::create_dir(&part).map_err(HostError::io(&part))?;
    let moved = names.iter().try_for_each(|name| move_entry(name.as_ref(), store, &part));
    let moved = moved.and_then(|()| rename(&part, &aside)).and_then(|()| sync_dir(store));
    if let Err(error) = moved {
        // What fails to go back is still there, in a directory whose name says what it is.
        let _ = rename(&aside, &part);
        names.iter().for_each(|name| drop(move_entry(name.as_ref(), &part, store)));
        let _ = fs::remove_dir(&part);
        return Err(error);
    }
    Ok(aside)
}

/// Puts back what was moved aside, if there was anything, in place of what has come into the directory since.
pub(crate) fn move_back(store: &Path, aside: Option<&Path>) -> Result<(), HostError> {
    for name in in_place(store)? {
        let at = store.join(name);
        let is_dir = at.symlink_metadata().is_ok_and(|found| found.is_dir());
        let removed = if is_dir { fs::remove_dir_all(&at) } else { fs::remove_file(&at) };
        removed.map_err(HostError::io(at))?;
    }
    match aside {
        Some(aside) => {
            // From here on nothing in the directory is of the new store.
            let part = aside.with_extension(&PART[1..]);
            rename(aside, &part)?;
            sync_dir(store)?;
            bring_back(store, &part)
        }
        None => sync_dir(store),
    }
}

/// Brings to their places those files that are not there.
fn bring_back(store: &Path, part: &Path) -> Result<(), HostError> {
    names_in(part)?.iter().try_for_each(|name| move_entry(name, part, store))?;
    sync_dir(store)?;
    fs::remove_dir(part).map_err(HostError::io(part))?;
    sync_dir(store)
}

/// Names what was moved aside as replaced: the new store counts.
pub(crate) fn keep(store: &Path, aside: &Path) -> Result<PathBuf, HostError> {
    let there = names_in(store)?;
    let free = (1..).map(|n| format!("{REPLACED}{n}")).find(|name| there.iter().all(|o| o != name.as_str()));
    let kept = store.join(free.unwrap_or_default());
    rename(aside, &kept)?;
    sync_dir(store)?;
    Ok(kept)
}

/// Takes it for what is to be replaced again: the store `id`, which the description is about to name.
pub(crate) fn unkeep(store: &Path, kept: &Path, id: &str) -> Result<PathBuf, HostError> {
    let aside = aside_in(store, id);
    if kept != aside {
        rename(kept, &aside)?;
        sync_dir(store)?;
    }
    Ok(aside)
}

/// What became of a replacement that did not get to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// The former store is in its place again.
    TakenBack,
    /// The new store counts.
    Done,
}

/// Brings a replacement to its end that was interrupted, or takes it back, where there was one: `id` is the store that the cluster's
/// description names.
pub(crate) fn settle(store: &Path, id: &str) -> Result<Option<Settled>, HostError> {
    let names = match fs::read_dir(store) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        _ => names_in(store)?,
    };
    let mut settled = None;
    for name in names.iter().filter_map(|name| name.to_str()) {
        let Some(of) = name.strip_prefix(REPLACING) else { continue };
        let at = store.join(name);
        settled = Some(if of.ends_with(PART) {
            bring_back(store, &at)?;
            Settled::TakenBack
        } else if of == id {
            move_back(store, Some(&at))?;
            Settled::TakenBack
        } else {
            keep(store, &at)?;
            Settled::Done
        });
    }
    Ok(settled)
}

fn aside_in(store: &Path, id: &str) -> PathBuf {
    store.join(format!("{REPLACING}{id}"))
}

fn part_in(store: &Path, id: &str) -> PathBuf {
    store.join(format!("{REPLACING}{id}{PART}"))
}

/// What in an OSD's directory was not moved aside.
fn in_place(store: &Path) -> Result<Vec<OsString>, HostError> {
    let is_aside = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with(REPLACED) || name.starts_with(REPLACING)
    };
    Ok(names_in(store)?.into_iter().filter(|name| !is_aside(name)).collect())
}

fn names_in(dir: &Path) -> Result<Vec<OsString>, HostError> {
    fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .map_err(HostError::io(dir))
}

fn move_entry(name: &OsStr, from: &Path, to: &Path) -> Result<(), HostError> {
    rename(&from.join(name), &to.join(name))
}

fn rename(from: &Path, to: &Path) -> Result<(), HostError> {
    fs::rename(from, to).map_err(HostError::io(from))
}

fn sync_dir(dir: &Path) -> Result<(), HostError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(HostError::io(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a directory holds: names, and what files say.
    fn held(dir: &Path) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for name in names_in(dir).unwrap() {
            let (at, name) = (dir.join(&name), name.into_string().unwrap());
            match at.is_dir() {
                true => all.extend(held(&at).into_iter().map(|(of, said)| (format!("{name}/{of}"), said))),
                false => all.push((name, fs::read_to_string(at).unwrap())),
            }
        }
        all.sort();
        all
    }

    fn write_all(dir: &Path, names: &[&str], said: &str) {
        for name in names {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), said).unwrap();
        }
    }

    #[test]
    fn a_store_is_moved_aside_within_its_directory_as_often_as_need_be() {
        let tmp = tempfile::tempdir().unwrap();
        let (disk, link) = (tmp.path().join("disk"), tmp.path().join("osd.0"));
        fs::create_dir(&disk).unwrap();
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        assert_eq!(move_aside(&link, "a").unwrap(), None);
        for n in 1..3 {
            fs::write(link.join("block"), format!("{n}")).unwrap();
            let aside = move_aside(&link, "a").unwrap().unwrap();
            assert!(!disk.join("block").exists());
            let kept = keep(&link, &aside).unwrap();
            assert_eq!(kept, link.join(format!("replaced-{n}")));
            for of in [&kept, &aside] {
                assert_eq!(unkeep(&link, of, "a").unwrap(), aside);
            }
            keep(&link, &aside).unwrap();
        }
        assert_eq!(fs::read_to_string(disk.join("replaced-1/block")).unwrap(), "1");
        assert_eq!(move_aside(&tmp.path().join("osd.1"), "a").unwrap(), None);
    }

    #[test]
    fn a_store_that_was_moved_aside_comes_back_in_place_of_what_was_made_since() {
        let tmp = tempfile::tempdir().unwrap();
        let store = tmp.path().join("osd.0");
        write_all(&store, &["replaced-1/block"], "older");
        write_all(&store, &["block", "lock", "more/one"], "former");
        let before = held(&store);
        let aside = move_aside(&store, "a").unwrap();
        write_all(&store, &["block", "block.wal", "more/two"], "new");
        move_back(&store, aside.as_deref()).unwrap();
        assert_eq!(held(&store), before);
        // Where nothing was there before, nothing is afterwards.
        let empty = tmp.path().join("osd.1");
        assert_eq!(move_aside(&empty, "a").unwrap(), None);
        fs::write(empty.join("block"), "new").unwrap();
        move_back(&empty, None).unwrap();
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    }

    #[test]
    fn a_store_that_is_moved_in_part_goes_back() {
        let tmp = tempfile::tempdir().unwrap();
        let store = tmp.path().join("osd.0");
        write_all(&store, &["block"], "former");
        let names = [OsStr::new("block"), OsStr::new("gone")];
        let error = move_all(&names, &store, "a").unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
        assert_eq!(held(&store), [("block".to_owned(), "former".to_owned())]);
        assert_eq!(names_in(&store).unwrap(), ["block"]);
    }

    #[test]
    fn a_replacement_that_was_killed_is_taken_back_or_brought_to_its_end() {
        let files = ["block", "block.wal", "lock"];
        let former = |dir: &Path| write_all(dir, &files, "former");
        // Whichever files were moved when the process ended, on their way there or back; and that again.
        for moved in 0..=files.len() {
            let tmp = tempfile::tempdir().unwrap();
            let store = tmp.path();
            write_all(store, &["replaced-1/block"], "older");
            former(store);
            let before = held(store);
            let part = part_in(store, "a");
            fs::create_dir(&part).unwrap();
            files[..moved].iter().for_each(|name| move_entry(OsStr::new(name), store, &part).unwrap());
            assert_eq!(settle(store, "a").unwrap(), Some(Settled::TakenBack));
            assert_eq!((held(store), settle(store, "a").unwrap()), (before, None));
        }
        // While the new one was made, and where the description names it.
        for made in 0..=files.len() {
            for (id, what) in [("a", Settled::TakenBack), ("b", Settled::Done)] {
                let tmp = tempfile::tempdir().unwrap();
                let store = tmp.path();
                former(store);
                let before = held(store);
                move_aside(store, "a").unwrap();
                write_all(store, &files[..made], "new");
                assert_eq!(settle(store, id).unwrap(), Some(what));
                let at = if what == Settled::Done { store.join("replaced-1") } else { store.to_owned() };
                assert_eq!((held(&at), settle(store, id).unwrap()), (before, None));
            }
        }
        assert_eq!(settle(Path::new("/nothing/here"), "a").unwrap(), None);
    }
}
