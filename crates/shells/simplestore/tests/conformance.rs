//! SimpleStore is held against the suite, as it is and with a volatile cache whose blocks leak.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::path::PathBuf;
use std::sync::Arc;

use device::DeviceOptions;
use simplestore::{Label, Options, mkfs, open};
use store::ObjectStore;
use store::conformance::Factory;
use tempfile::TempDir;
use types::{Fsid, OsdId};

struct Simple {
    options: Options,
    dirs: Vec<TempDir>,
}

impl Simple {
    fn new(device: DeviceOptions) -> Self {
        Self { options: Options { device, ..Options::default() }, dirs: Vec::new() }
    }

    fn dir(&self) -> PathBuf {
        self.dirs.last().unwrap().path().join("osd")
    }
}

impl Factory for Simple {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        self.dirs.push(tempfile::tempdir().unwrap());
        let (cluster, osd_uuid) = (Fsid([1; 16]), Fsid([2; 16]));
        let label = Label { cluster, osd: OsdId(3), osd_uuid, size_bytes: 256 << 20 };
        mkfs(&self.dir(), &label, &self.options).unwrap();
        Box::new(open(&self.dir(), &self.options, Arc::new(|| ())).unwrap())
    }

    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Option<Box<dyn ObjectStore>> {
        drop(store);
        Some(Box::new(open(&self.dir(), &self.options, Arc::new(|| ())).unwrap()))
    }
}

mod plain {
    use super::*;
    store::conformance_tests!(Simple::new(DeviceOptions::default()));
}

mod volatile {
    use super::*;
    store::conformance_tests!(Simple::new(DeviceOptions { volatile_cache: true, leak_seed: Some(5) }));
}

mod modelled {
    use super::*;
    use simplestore::ModelledOn;

    /// Quick, so that the suite is.
    fn fast() -> Simple {
        let parameters = "read_us=1,write_us=1,flush_us=1,read_iops=1000000,write_iops=1000000";
        let on = ModelledOn { name: "ssd-write-back".into(), parameters: parameters.into() };
        Simple { options: Options { model: Some(on), ..Options::default() }, dirs: Vec::new() }
    }

    store::conformance_tests!(fast());
}
