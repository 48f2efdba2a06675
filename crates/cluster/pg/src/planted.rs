//! Defects that can be switched on, to show that the simulator finds them. Only the feature `planted` makes that possible:
//! without it [`Planted::is`] is never true, and costs nothing.

/// A defect. Each is one that this program had, or that a like one could have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A write is answered when it is handed to the store.
    ReplyBeforeDurable,
    /// A resend is answered although its original is not durable.
    ResendAnsweredEarly,
    /// A resend is not recognised once its original is durable.
    ResendRunsTwice,
    /// After a refusal the requests behind it run in the opposite order.
    RefusalTurnsOrder,
    /// A read sees what is not durable.
    ReadSeesUncommitted,
    /// A fenced client's requests that have passed the gate still run.
    FencedWriteRuns,
    /// Of waiting writes a pool that becomes full drops those that need space only.
    FullDropsSome,
    /// A refused change is undone and answered as if it were done.
    RefusedIsAcknowledged,
    /// A refused change is answered, but not remembered: its resend is run.
    RefusalIsForgotten,
    /// A clone is trimmed with its first removed snapshot, though others need it.
    TrimTakesAll,
    /// A resent write keeps nothing for its snapshots.
    ResendForgetsSnaps,
    /// What an object's metadata say of watches is not read when they are loaded.
    LoadForgetsWatches,
    /// A session's end drops the answers of others too: their requests are never answered.
    ResetDropsAnswers,
    /// A PG that has failed lets requests wait instead of holding their sessions back.
    FailedPgKeepsRequests,
    /// A backoff is never ended.
    BackoffLasts,
    /// While a copy waits for its source, other requests on its object run.
    CopyLetsPass,
    /// What a client sent before it knew of a split runs in the PG that was split.
    RequestsOutliveSplits,
    /// A change's version has the epoch of the map in force, though the last one's is of a later map.
    VersionsFollowTheMap,
}

impl Bug {
    pub const ALL: [Self; 18] = [
        Self::ReplyBeforeDurable,
        Self::ResendAnsweredEarly,
        Self::ResendRunsTwice,
        Self::RefusalTurnsOrder,
        Self::ReadSeesUncommitted,
        Self::FencedWriteRuns,
        Self::FullDropsSome,
        Self::RefusedIsAcknowledged,
        Self::RefusalIsForgotten,
        Self::TrimTakesAll,
        Self::ResendForgetsSnaps,
        Self::LoadForgetsWatches,
        Self::ResetDropsAnswers,
        Self::FailedPgKeepsRequests,
        Self::BackoffLasts,
        Self::CopyLetsPass,
        Self::RequestsOutliveSplits,
        Self::VersionsFollowTheMap,
    ];
}

/// The defect that is switched on, if any.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Planted {
    #[cfg(feature = "planted")]
    bug: Option<Bug>,
}

impl Planted {
    #[cfg(feature = "planted")]
    pub fn new(bug: Option<Bug>) -> Self {
        Self { bug }
    }

    #[inline]
    pub(crate) fn is(self, bug: Bug) -> bool {
        #[cfg(feature = "planted")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted"))]
        return {
            let _ = bug;
            false
        };
    }
}
