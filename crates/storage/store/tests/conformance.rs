//! MemStore is held against the suite.

use store::conformance::Factory;
use store::{MemStore, ObjectStore};

struct Mem;

impl Factory for Mem {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        Box::new(MemStore::new(1 << 30))
    }

    fn reopen(&mut self, _: Box<dyn ObjectStore>) -> Option<Box<dyn ObjectStore>> {
        None
    }
}

store::conformance_tests!(Mem);
