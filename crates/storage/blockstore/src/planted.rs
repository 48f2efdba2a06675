//! Defects that can be switched on, to show that the simulator finds them. Only the feature `planted` makes that possible:
//! without it [`Planted::is`] and [`Planted::leaves_out`] are never true, and cost nothing.

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

/// What makes something durable: a flush, or a durable write. A test leaves out each in turn, to show that each is needed
/// and would be missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// Of the superblocks, and of the log beside the data, before the label is written.
    MadeData,
    /// Of a log apart and its label, before the label of the data is written.
    MadeLog,
    /// Of the label.
    MadeLabel,
    /// Of what an earlier process left to the data's device, before anything of it is shown.
    OpenedData,
    /// The same of a log apart.
    OpenedLog,
    /// Of the superblock of an opening.
    Seal,
    /// Of the copy of it: where the superblock can't be read, everything that follows was built on what the copy says.
    SealCopy,
    /// Of a record with nothing beside it.
    Record,
    /// Of data beside the log, and of their record where the log is on the same device.
    RecordData,
    /// Of a record with data beside it that were there before, where a durable write covers them.
    RecordAfterData,
    /// Of data that are written at once with their record, both by durable writes.
    DataAtOnce,
    /// Of that record.
    RecordAtOnce,
    /// Of the record in a log apart that has data beside it.
    RecordLog,
    /// Of pages and of deferred blocks in their places.
    CheckpointPages,
    /// Of the superblock that publishes them.
    CheckpointSuperblock,
    /// Of the copy of it: what the superblock before refers to is written over when both are durable.
    CheckpointCopy,
}

impl Barrier {
    pub const ALL: [Self; 16] = [
        Self::MadeData,
        Self::MadeLog,
        Self::MadeLabel,
        Self::OpenedData,
        Self::OpenedLog,
        Self::Seal,
        Self::SealCopy,
        Self::Record,
        Self::RecordData,
        Self::RecordAfterData,
        Self::DataAtOnce,
        Self::RecordAtOnce,
        Self::RecordLog,
        Self::CheckpointPages,
        Self::CheckpointSuperblock,
        Self::CheckpointCopy,
    ];
}

/// The defect that is switched on, if any.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Planted {
    #[cfg(feature = "planted")]
    pub bug: Option<Bug>,
    #[cfg(feature = "planted")]
    pub left_out: Option<Barrier>,
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

    #[inline]
    pub fn leaves_out(self, barrier: Barrier) -> bool {
        #[cfg(feature = "planted")]
        if self.left_out == Some(barrier) {
            return true;
        }
        let of_record = matches!(
            barrier,
            Barrier::Record
                | Barrier::RecordData
                | Barrier::RecordAfterData
                | Barrier::DataAtOnce
                | Barrier::RecordAtOnce
                | Barrier::RecordLog
        );
        self.is(Bug::RecordsAreNotFlushed) && of_record
    }
}
