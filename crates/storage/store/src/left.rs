//! What a removal leaves of a collection.

use std::fmt;

use crate::StoreError;

/// What a removal could not remove, and the first reason. Without objects and gaps it is what the collection has beside them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Objects that are listed, and whose records can't all be read.
    pub objects: u64,
    /// Parts of the list that can't be read, with any number of objects, or none.
    pub gaps: u64,
    pub why: StoreError,
}

impl Left {
    /// Adds to what is left, if there is something.
    pub fn add(left: &mut Option<Self>, (objects, gaps): (u64, u64), why: &StoreError) {
        let left = left.get_or_insert_with(|| Self { objects: 0, gaps: 0, why: why.clone() });
        left.objects += objects;
        left.gaps += gaps;
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, gaps, why } = self;
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        if *objects == 0 && *gaps == 0 {
            write!(f, "its own records can't be removed")?;
        }
        if *objects > 0 {
            write!(f, "{objects} object{} can't be removed", plural(*objects))?;
        }
        if *objects > 0 && *gaps > 0 {
            write!(f, ", and ")?;
        }
        if *gaps > 0 {
            write!(f, "{gaps} gap{} in its list can't be read", plural(*gaps))?;
        }
        write!(f, ": {why}")
    }
}
