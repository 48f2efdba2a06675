//! Defects that can be switched on, to show that the simulator finds them. Only the feature `planted` makes that possible:
//! without it [`Planted::is`] is never true, and costs nothing.

/// A defect that a store like this could have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A record of the log counts as durable when it is written: nothing is flushed.
    RecordsAreNotFlushed,
    /// Blocks are used again before the log says that the record which gave them up is durable.
    BlocksComeBackEarly,
    /// Data that is read is not compared with its checksums.
    ReadsAreUnchecked,
}

impl Bug {
    pub const ALL: [Self; 3] =
        [Self::RecordsAreNotFlushed, Self::BlocksComeBackEarly, Self::ReadsAreUnchecked];
}

/// The defect that is switched on, if any.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Planted {
    #[cfg(feature = "planted")]
    pub bug: Option<Bug>,
}

impl Planted {
    #[inline]
    pub fn is(self, bug: Bug) -> bool {
        #[cfg(feature = "planted")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted"))]
        return {
            let _ = bug;
            false
        };
    }
}
