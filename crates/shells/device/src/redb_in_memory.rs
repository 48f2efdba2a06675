//! redb on a file that can't be written: what it writes stays in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// What is kept in memory together, bytes: redb's page.
const PAGE: usize = 4096;

/// A file as redb's storage that is never written. redb writes also where nothing is changed: a file that was not closed in order
/// is repaired, and one that is closed says so.
#[derive(Debug)]
pub struct RedbInMemory {
    file: File,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Bytes before this one are the file's, where no page has them.
    of_file: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl RedbInMemory {
    /// # Errors
    /// The file can't be opened to be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, written: Mutex::new(Written { len, of_file: len, pages: BTreeMap::new() }) })
    }

    /// A panic elsewhere doesn't make the pages wrong.
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Fills `out` with bytes of the page `number` from `from` on.
    fn read(&self, file: &File, number: u64, from: usize, out: &mut [u8]) -> io::Result<()> {
        if let Some(page) = self.pages.get(&number) {
            out.copy_from_slice(&page[from..from + out.len()]);
            return Ok(());
        }
        let at = number * PAGE as u64 + from as u64;
        let known = self.of_file.saturating_sub(at).min(out.len() as u64) as usize;
        let (known, behind) = out.split_at_mut(known);
        behind.fill(0);
        file.read_exact_at(known, at)
    }
}

/// The parts of a range that lie in a page each: the page, where in it, and where in the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let from = (at % PAGE as u64) as usize;
        let here = (PAGE - from).min(len - done);
        let part = (at / PAGE as u64, from, done..done + here);
        done += here;
        (here > 0).then_some(part)
    })
}

impl StorageBackend for RedbInMemory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.len) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        parts(offset, out.len())
            .try_for_each(|(page, from, range)| written.read(&self.file, page, from, &mut out[range]))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        // What is cut off reads as zeros when it is there again.
        let rest = (len % PAGE as u64) as usize;
        let _ = written.pages.split_off(&len.div_ceil(PAGE as u64));
        if let Some(page) = written.pages.get_mut(&(len / PAGE as u64)).filter(|_| rest > 0) {
            page[rest..].fill(0);
        }
        written.of_file = written.of_file.min(len);
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        for (number, from, range) in parts(offset, data.len()) {
            if !written.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE]);
                written.read(&self.file, number, 0, &mut page[..])?;
                written.pages.insert(number, page);
            }
            if let Some(page) = written.pages.get_mut(&number) {
                page[from..from + range.len()].copy_from_slice(&data[range]);
            }
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::{Builder, ReadableDatabase, TableDefinition};

    use super::*;

    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("t");

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut want: Vec<u8> = (0..3 * PAGE + 700).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &want).unwrap();
        let before = want.clone();
        let backend = RedbInMemory::open(&path).unwrap();
        let check = |want: &[u8]| {
            assert_eq!(backend.len().unwrap(), want.len() as u64);
            let mut found = vec![0; want.len()];
            backend.read(0, &mut found).unwrap();
            assert!(found == want);
            assert!(backend.read(1, &mut found).is_err(), "behind the end is nothing");
        };
        check(&want);
        for (at, len) in
            [(100, 10), (PAGE - 5, 10), (PAGE, PAGE), (2 * PAGE + 1, PAGE), (3 * PAGE + 600, 5000)]
        {
            want.resize(want.len().max(at + len), 0);
            want[at..at + len].fill(255);
            backend.write(at as u64, &vec![255; len]).unwrap();
            check(&want);
        }
        for len in [3 * PAGE + 10, 20 * PAGE, PAGE + 1, 2 * PAGE, 4 * PAGE, 0, PAGE] {
            want.resize(len, 0);
            backend.set_len(len as u64).unwrap();
            check(&want);
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_database_that_was_not_closed_is_read_as_its_last_commit_was() {
        let dir = tempfile::tempdir().unwrap();
        let (path, killed) = (dir.path().join("db"), dir.path().join("killed"));
        let db = Builder::new().create(&path).unwrap();
        for key in 0..50 {
            let txn = db.begin_write().unwrap();
            txn.open_table(TABLE).unwrap().insert(key, &vec![key as u8; 3000][..]).unwrap();
            txn.commit().unwrap();
        }
        std::fs::copy(&path, &killed).unwrap();
        drop(db);
        for path in [path, killed] {
            let before = std::fs::read(&path).unwrap();
            for _ in 0..2 {
                let db = Builder::new().create_with_backend(RedbInMemory::open(&path).unwrap()).unwrap();
                let table = db.begin_read().unwrap().open_table(TABLE).unwrap();
                assert!((0..50).all(|key| table.get(key).unwrap().unwrap().value() == vec![key as u8; 3000]));
            }
            assert!(std::fs::read(&path).unwrap() == before, "the file is as it was");
        }
    }
}
