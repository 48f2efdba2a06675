//! One run through a request's operations: the state that they share.

use buffer::Rope;
use types::{Errno, IntervalSet, Name, SplitMix64};

use crate::{
    CleanRegions, Fetched, Mutation, Need, NeedOf, ObjectFlags, ObjectState, ObjectView, OpContext, OpEffect,
    Record, ReplyExtents, StatsDelta,
};

/// Why an operation, or a step of a class's method, gave no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepError {
    /// It failed: a negative errno, or CMPEXT's position.
    Fail(i32),
    /// It needs something that is not resident.
    Pending,
    /// The request reads more than [`OpLimits::read_bytes_max`](crate::OpLimits): none of it goes on, FAILOK or not.
    TooMuchToRead,
    /// A copy's source could not be read, with this result: the request fails, FAILOK or not, and the copy's own result
    /// is EINPROGRESS. Ceph answers the request where it learns of that (`CopyFromCallback`), outside of its operations.
    NotCopied(i32),
}

impl StepError {
    pub fn is(self, errno: Errno) -> bool {
        self == Self::from(errno)
    }
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno.code())
    }
}

/// An operation's result: `None` says nothing, so the request's result stays what the operation before made it.
pub(crate) type StepResult = Result<Option<i32>, StepError>;

/// The view has answered another question than it was asked: a defect of the view's owner, which would show an object
/// as it is not.
pub(crate) fn unasked(answer: &Fetched) -> StepError {
    debug_assert!(false, "an answer of another kind than was asked for: {answer:?}");
    Errno::EIO.into()
}

/// The data range of an operation (the `extent` arguments).
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent {
    pub offset: u64,
    pub length: u64,
    pub truncate_size: u64,
    pub truncate_seq: u32,
}

impl Extent {
    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// The object as the operations so far have made it, and what they want done.
pub(crate) struct Runner<'a> {
    pub view: &'a mut dyn ObjectView,
    pub ctx: &'a OpContext<'a>,
    /// Whether the object was there before the request: only then does the store have anything of it.
    pub stored: bool,
    /// Whether clients saw the object before the request.
    pub was_visible: bool,
    /// Whether a client watched the object before the request.
    pub was_watched: bool,
    pub state: ObjectState,
    pub mutations: Vec<Mutation>,
    pub effects: Vec<OpEffect>,
    pub clean: CleanRegions,
    /// The byte ranges changed, where clones share data with the head.
    pub modified: Option<IntervalSet>,
    pub delta: StatsDelta,
    pub user_modify: bool,
    /// Counts where the request changes nothing.
    pub record: Record,
    /// The user version that a copy gave the object, whose time it then has too, not the request's.
    pub copied_version: Option<u64>,
    /// Bytes that the operations so far read.
    pub read_bytes: u64,
    /// Why the newest operation that was not answered was not: [`StepError::Pending`] or [`StepError::TooMuchToRead`].
    pub interrupted: Option<StepError>,
    /// Operations that ended well so far, those inside of classes' methods included.
    pub steps: u32,
    pub random: SplitMix64,
    pub extents: ReplyExtents,
    /// How many operations came before the current one.
    pub place: usize,
    /// The current operation's flags.
    pub op_flags: u32,
    /// What the current operation returns.
    pub data: Rope,
}

impl<'a> Runner<'a> {
    /// Before the first of so many operations.
    pub fn new(
        view: &'a mut dyn ObjectView,
        ctx: &'a OpContext<'a>,
        object: &ObjectState,
        ops: usize,
    ) -> Self {
        let shares = !object.snapset.clones.is_empty() || !ctx.snapc.snaps.is_empty();
        Self {
            view,
            ctx,
            stored: object.exists,
            was_visible: object.is_visible(),
            was_watched: !object.info.watchers.is_empty(),
            state: object.clone(),
            mutations: Vec::with_capacity(ops + 1),
            effects: Vec::new(),
            clean: CleanRegions::default(),
            modified: shares.then(IntervalSet::new),
            delta: StatsDelta::default(),
            user_modify: false,
            record: Record::Versioned,
            copied_version: None,
            read_bytes: 0,
            interrupted: None,
            steps: 0,
            random: SplitMix64::new(ctx.seed),
            extents: ReplyExtents::default(),
            place: 0,
            op_flags: 0,
            data: Rope::new(),
        }
    }
}

impl Runner<'_> {
    /// Something of the stored object; ENOENT where there was none.
    pub fn fetch(&mut self, need: Need) -> Result<Fetched, StepError> {
        if !self.stored {
            return Err(Errno::ENOENT.into());
        }
        if let Need::Data { len, .. } = need {
            // How much data comes is known before it is read: a request that wants too much takes no memory.
            self.count_read(len)?;
        }
        self.fetch_of(NeedOf::Own, need)
    }

    /// Something of the request's object or of a clone, which must be there.
    pub fn fetch_of(&mut self, of: NeedOf, need: Need) -> Result<Fetched, StepError> {
        match self.view.fetch(of, need) {
            None => Err(self.interrupt(StepError::Pending)),
            Some(Fetched::Failed(errno)) => Err(errno.into()),
            Some(fetched) => {
                self.count_read(fetched.unannounced_bytes())?;
                Ok(fetched)
            }
        }
    }

    /// Counts what an operation reads. The same bytes count each time, since the reply repeats them.
    fn count_read(&mut self, bytes: u64) -> Result<(), StepError> {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        match self.read_bytes <= self.ctx.limits.read_bytes_max {
            true => Ok(()),
            false => Err(self.interrupt(StepError::TooMuchToRead)),
        }
    }

    fn interrupt(&mut self, error: StepError) -> StepError {
        self.interrupted = Some(error);
        error
    }

    /// Up to `length` stored bytes.
    pub fn fetch_data(&mut self, offset: u64, length: u64) -> Result<Rope, StepError> {
        match self.fetch(Need::Data { offset, len: length, flags: self.op_flags })? {
            Fetched::Data(data) => Ok(data),
            other => Err(unasked(&other)),
        }
    }

    /// A stored attribute by the store's name.
    pub fn fetch_attr(&mut self, name: Name) -> Result<Option<Rope>, StepError> {
        match self.fetch(Need::Attr(name))? {
            Fetched::Attr(value) => Ok(value),
            other => Err(unasked(&other)),
        }
    }

    /// The reply says that the current operation was about so many bytes.
    pub fn reply_length(&mut self, bytes: u64) {
        self.extents.lengths.push((self.place, bytes));
    }

    /// The object must be there from here on.
    pub fn create_if_absent(&mut self) {
        if !self.state.exists {
            self.mutations.push(Mutation::Create);
        }
        self.note_created();
    }

    /// Whatever the object was, clients see one from here on.
    pub fn note_created(&mut self) {
        if !self.state.exists {
            self.state.exists = true;
            self.delta.num_objects += 1;
            self.state.info.clear_data_digest();
            self.state.info.clear_omap_digest();
            self.clean.new_object |= !self.stored;
        } else if self.state.info.is_whiteout() {
            self.state.info.flags &= !ObjectFlags::WHITEOUT;
            self.delta.num_whiteouts -= 1;
        }
    }

    /// `len` bytes from `offset` on are not what they were.
    pub fn mark_data_dirty(&mut self, offset: u64, len: u64) {
        self.clean.mark_data_dirty(offset, len);
        if let Some(modified) = &mut self.modified {
            modified.insert(offset, len);
        }
    }

    /// The object's size changes to `size`, in the counters too.
    pub fn resize(&mut self, size: u64) {
        self.delta.num_bytes += size as i64 - self.state.info.size as i64;
        self.state.info.size = size;
    }

    /// EFBIG for what reaches past osd_max_object_size, or starts there.
    pub fn check_extent(&self, offset: u64, length: u64) -> Result<(), StepError> {
        let max = self.ctx.limits.object_size_max;
        match offset < max && length <= max - offset {
            true => Ok(()),
            false => Err(Errno::EFBIG.into()),
        }
    }

    /// EOPNOTSUPP where the pool can't hold an omap.
    pub fn check_pool_omap(&self) -> Result<(), StepError> {
        if self.ctx.pool_has_omap { Ok(()) } else { Err(Errno::EOPNOTSUPP.into()) }
    }

    /// ENOENT where clients see no object.
    pub fn check_visible(&self) -> Result<(), StepError> {
        if self.state.is_visible() { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }
}
