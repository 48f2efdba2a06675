//! A way along the objects of a collection that goes on behind what can't be read.

use store::{CollectionId, ObjectGap, ObjectPage, ObjectStore, ReadOutcome, ReadRequest, StoreError};
use types::GHObject;

use crate::blocking::{Blocking, LISTED, unexpected};

/// See the module's documentation.
pub struct Walk {
    collection: CollectionId,
    /// Where it goes on; `None` at the end.
    start: Option<GHObject>,
    gaps: Vec<ObjectGap>,
}

impl Walk {
    pub fn new(collection: CollectionId) -> Self {
        Self { collection, start: Some(GHObject::min()), gaps: Vec::new() }
    }

    /// Some objects more; `None` at the end. Those that were yielded may be removed meanwhile.
    ///
    /// # Errors
    /// The store's: there the walk ends.
    pub fn next<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
    ) -> Result<Option<Vec<GHObject>>, StoreError> {
        let Some(start) = self.start.take() else { return Ok(None) };
        let (collection, end) = (self.collection, GHObject::max());
        let list = ReadRequest::ListReadable { collection, start, end: end.clone(), objects_max: LISTED };
        let ObjectPage { objects, next, gaps } = match store.read(list)? {
            ReadOutcome::Objects(page) => page,
            other => return Err(unexpected(&other)),
        };
        self.start = (next != end).then_some(next);
        ObjectGap::add(&mut self.gaps, gaps);
        Ok(Some(objects.into_iter().map(|(object, _)| object).collect()))
    }

    /// What it has passed by so far.
    pub fn gaps(&self) -> &[ObjectGap] {
        &self.gaps
    }
}
