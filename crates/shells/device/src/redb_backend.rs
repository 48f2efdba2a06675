//! redb on a [`Device`].

use std::io;

use redb::StorageBackend;

use crate::{Device, FileLock};

/// A device as redb's storage: redb's syncs are the device's flushes, so the volatile cache lies under redb too. Takes no lock; it
/// keeps one that its maker has taken.
///
/// `redb::Builder::new().create_with_backend(RedbBackend::new(device))` makes a database in an empty file and opens one
/// in any other.
pub struct RedbBackend {
    device: Device,
    /// Let go of when the database is closed.
    _lock: Option<FileLock>,
}

impl RedbBackend {
    /// Over `device`, whose whole contents are the database.
    pub fn new(device: Device) -> Self {
        Self { device, _lock: None }
    }

    /// The same, which keeps a lock as long as the database is open.
    #[must_use]
    pub fn locked_by(self, lock: FileLock) -> Self {
        Self { _lock: Some(lock), ..self }
    }
}

impl std::fmt::Debug for RedbBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedbBackend")
    }
}

impl StorageBackend for RedbBackend {
    fn len(&self) -> io::Result<u64> {
        self.device.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.device.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.device.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.device.write_at(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use redb::{Builder, Database, ReadableDatabase, TableDefinition};

    use super::*;
    use crate::{DeviceOptions, DeviceRole};

    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("t");

    fn open(path: &Path, leak_seed: Option<u64>) -> Database {
        let options = DeviceOptions { volatile_cache: true, leak_seed, power: None };
        let device = Device::open(path, true, DeviceRole::MonState, options).unwrap();
        Builder::new().create_with_backend(RedbBackend::new(device)).unwrap()
    }

    fn put(db: &Database, key: u64, len: usize) {
        let txn = db.begin_write().unwrap();
        txn.open_table(TABLE).unwrap().insert(key, &vec![key as u8; len][..]).unwrap();
        txn.commit().unwrap();
    }

    /// The file as a kill would leave it: copied while writes are held back.
    fn after_a_kill(path: &Path) -> tempfile::NamedTempFile {
        let copy = tempfile::NamedTempFile::new().unwrap();
        std::fs::copy(path, copy.path()).unwrap();
        copy
    }

    #[test]
    #[cfg_attr(feature = "skip-flush-mon-state", should_panic)]
    fn what_redb_committed_is_there_after_a_kill_and_what_it_did_not_is_not() {
        for seed in [None, Some(1), Some(2), Some(3)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let db = open(&path, seed);
            (0..20).for_each(|key| put(&db, key, 3000 * key as usize));
            let open_txn = db.begin_write().unwrap();
            open_txn.open_table(TABLE).unwrap().insert(99, &[1; 100_000][..]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let copy = after_a_kill(&path);
            let db = open(copy.path(), None);
            let table = db.begin_read().unwrap().open_table(TABLE).unwrap();
            for key in 0..20 {
                let value = table.get(key).unwrap().expect("committed").value().to_vec();
                assert_eq!(value, vec![key as u8; 3000 * key as usize], "seed {seed:?}");
            }
            assert!(table.get(99).unwrap().is_none());
        }
    }
}
