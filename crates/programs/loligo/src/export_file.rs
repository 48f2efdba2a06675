//! The file of an export: under a name of its own until it is whole, so that one whose writer was killed is taken for none.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

/// What its name ends with until then.
const UNFINISHED: &str = ".unfinished";

pub struct ExportFile {
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
}

impl ExportFile {
    /// Begins a file that is to have this path. What an earlier one left that was killed is written over.
    ///
    /// # Errors
    /// `AlreadyExists`: the path is taken. `ResourceBusy`: another process writes it. Else the system's.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let mut unfinished = OsString::from(path);
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        let file = File::options().write(true).create(true).truncate(false).open(&unfinished)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
            Errno::WOULDBLOCK => ErrorKind::ResourceBusy.into(),
            errno => io::Error::from(errno),
        })?;
        let begun = Self { file, unfinished, path: path.to_owned() };
        // Another one may have finished it before the lock was given.
        if !begun.is_at_its_place()? {
            return Err(ErrorKind::ResourceBusy.into());
        }
        if path.symlink_metadata().is_ok() {
            begun.give_up();
            return Err(ErrorKind::AlreadyExists.into());
        }
        begun.file.set_len(0)?;
        Ok(begun)
    }

    fn is_at_its_place(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        let there = fs::metadata(&self.unfinished);
        Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes it durable, under its path.
    ///
    /// # Errors
    /// `AlreadyExists`: the path was taken meanwhile. Else the system's. It is gone then.
    pub fn finish(self) -> io::Result<()> {
        let finished = self.file.sync_all().and_then(|()| self.rename()).and_then(|()| self.sync_dir());
        if finished.is_err() {
            self.give_up();
        }
        finished
    }

    fn rename(&self) -> io::Result<()> {
        match renameat_with(CWD, &self.unfinished, CWD, &self.path, RenameFlags::NOREPLACE) {
            // The file system can't tell whether the path is taken.
            Err(Errno::INVAL | Errno::NOSYS) if self.path.symlink_metadata().is_err() => {
                fs::rename(&self.unfinished, &self.path)
            }
            Err(Errno::INVAL | Errno::NOSYS) => Err(ErrorKind::AlreadyExists.into()),
            renamed => Ok(renamed?),
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Removes what was written.
    pub fn give_up(self) {
        // Nothing more can be done where that fails.
        let _ = fs::remove_file(&self.unfinished);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn kind(begun: io::Result<ExportFile>) -> Option<ErrorKind> {
        begun.err().map(|error| error.kind())
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_what_was_left_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("pg"), dir.path().join("pg.unfinished"));
        fs::write(&left, "what an export left that was killed").unwrap();
        let begun = ExportFile::begin(&path).unwrap();
        assert_eq!(kind(ExportFile::begin(&path)), Some(ErrorKind::ResourceBusy));
        begun.file().write_all(b"whole").unwrap();
        assert!(!path.exists());
        begun.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), left.exists()), (b"whole".to_vec(), false));
        assert_eq!(kind(ExportFile::begin(&path)), Some(ErrorKind::AlreadyExists));
        assert!(!left.exists());
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pg");
        let begun = ExportFile::begin(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        assert_eq!(begun.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"another's");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        ExportFile::begin(&dir.path().join("other")).unwrap().give_up();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
