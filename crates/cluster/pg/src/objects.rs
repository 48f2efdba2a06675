//! Object contexts: what the PG holds of the objects that requests are at work on, and of some that they were.
//!
//! Requests of an object run in the order in which they came. Readers share it; a writer is alone while it executes,
//! and is done with it when its transaction is queued: the next writer builds on that, but a reader waits until it is
//! durable. Invariant: while `writing`, `readers` is 0 but for readers of a copy (see `copy`); a context that anything refers to is never evicted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use ops::{ObjectState, OpClass};
use smallvec::SmallVec;
use types::{Errno, HObject};

use crate::copy::CopyWait;
use crate::request::Request;
use crate::trim::Trim;

/// Contexts that one eviction looks at.
const EVICTION_STEPS_MAX: usize = 64;

/// An object context's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ObjectSlot(usize);

/// What is known of the object.
// Nearly every context is `Yes`: a box would only cost.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Loaded {
    /// Not read yet.
    No,
    /// Being read.
    Reading,
    /// Known, as all queued transactions leave it.
    Yes(ObjectState),
    /// Its metadata can't be read.
    Bad(Errno),
}

/// An object's requests and state.
#[derive(Debug)]
pub(crate) struct Object {
    pub oid: HObject,
    pub loaded: Loaded,
    /// Requests that wait for their turn.
    pub queue: VecDeque<Request>,
    /// Readers that wait for the store.
    pub readers: u32,
    /// Whether a writer waits for the store.
    pub writing: bool,
    pub copy: CopyWait,
    /// Transactions of it that are not durable yet.
    pub uncommitted: u32,
    /// Clones that wait to be trimmed.
    pub trims: Vec<Trim>,
    /// Used since the eviction hand last came by.
    recent: bool,
}

impl Object {
    fn is_idle(&self) -> bool {
        let reading = matches!(self.loaded, Loaded::Reading);
        let waiting = !self.queue.is_empty() || !self.trims.is_empty();
        !waiting && self.readers == 0 && !self.writing && self.uncommitted == 0 && !reading
    }

    /// Whether a clone waits for its object's turn to be trimmed.
    pub fn has_trim(&self) -> bool {
        self.trims.iter().any(|trim| trim.info.is_some())
    }

    /// Whether the requests that have the object let one of this class run now. A read, however ordered, waits for what is
    /// not durable. The flag SKIPRWLOCKS changes nothing: its client could see what a loss of power takes back, or slip
    /// between a writer's guard and its change.
    pub fn admits(&self, class: OpClass) -> bool {
        let alone = !self.writing && (self.readers == 0 || !class.write_ordered);
        alone && (class.writes || self.uncommitted == 0)
    }
}

/// All contexts of a PG.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// By the names' hashes, so that a search compares numbers. Names with the same hash are rare.
    by_hash: BTreeMap<u32, SmallVec<[ObjectSlot; 1]>>,
    slots: Vec<Option<Object>>,
    len: usize,
    free: Vec<ObjectSlot>,
    /// The position of the eviction hand.
    hand: usize,
}

impl Objects {
    /// The object's context, made if need be.
    pub fn slot(&mut self, oid: &HObject) -> ObjectSlot {
        if let Some(slot) = self.find(oid) {
            if let Some(object) = self.get_mut(slot) {
                object.recent = true;
            }
            return slot;
        }
        let object = Object {
            oid: oid.clone(),
            loaded: Loaded::No,
            queue: VecDeque::new(),
            readers: 0,
            writing: false,
            copy: CopyWait::No,
            uncommitted: 0,
            trims: Vec::new(),
            recent: true,
        };
        let slot = self.free.pop().unwrap_or(ObjectSlot(self.slots.len()));
        match self.slots.get_mut(slot.0) {
            Some(place) => *place = Some(object),
            None => self.slots.push(Some(object)),
        }
        self.by_hash.entry(oid.hash).or_default().push(slot);
        self.len += 1;
        slot
    }

    fn find(&self, oid: &HObject) -> Option<ObjectSlot> {
        let slots = self.by_hash.get(&oid.hash)?;
        slots.iter().copied().find(|slot| self.get(*slot).is_some_and(|object| object.oid == *oid))
    }

    /// A context.
    pub fn get(&self, slot: ObjectSlot) -> Option<&Object> {
        self.slots.get(slot.0)?.as_ref()
    }

    /// A context, to change.
    pub fn get_mut(&mut self, slot: ObjectSlot) -> Option<&mut Object> {
        self.slots.get_mut(slot.0)?.as_mut()
    }

    /// All contexts with their places.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectSlot, &Object)> {
        self.slots.iter().enumerate().filter_map(|(at, object)| Some((ObjectSlot(at), object.as_ref()?)))
    }

    /// All contexts.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Object> {
        self.slots.iter_mut().flatten()
    }

    /// Contexts held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Evicts idle contexts, those not used lately first, until at most `max` are held or none is idle.
    pub fn evict(&mut self, max: usize) {
        // Two rounds of the hand clear every mark once; what then remains is in use. A request adds one context at the
        // most, so a bounded part of that keeps up, and many contexts in use cost no more.
        let mut steps = (2 * self.slots.len()).min(EVICTION_STEPS_MAX);
        while self.len > max && steps > 0 {
            steps -= 1;
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            let hand = ObjectSlot(self.hand);
            // A free slot.
            let Some(object) = self.get_mut(hand) else { continue };
            if object.is_idle() && !std::mem::take(&mut object.recent) {
                self.remove(hand);
            }
        }
    }

    /// Forgets what is idle, and everything that waits (used when an interval ends).
    pub fn reset(&mut self) {
        for slot in (0..self.slots.len()).map(ObjectSlot) {
            // A free slot.
            let Some(object) = self.get_mut(slot) else { continue };
            object.queue.clear();
            object.trims.clear();
            object.readers = 0;
            object.writing = false;
            object.copy = CopyWait::No;
            if matches!(object.loaded, Loaded::Reading) {
                object.loaded = Loaded::No;
            }
            if object.is_idle() {
                self.remove(slot);
            }
        }
    }

    fn remove(&mut self, slot: ObjectSlot) {
        if let Some(object) = self.slots.get_mut(slot.0).and_then(Option::take) {
            if let Entry::Occupied(mut same_hash) = self.by_hash.entry(object.oid.hash) {
                same_hash.get_mut().retain(|of| *of != slot);
                if same_hash.get().is_empty() {
                    same_hash.remove();
                }
            }
            self.len -= 1;
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Name, PoolId};

    fn oid(n: u32) -> HObject {
        HObject::head(PoolId(1), Name::new(), Name::new(), n.to_string().into(), n)
    }

    #[test]
    fn idle_contexts_are_evicted_and_those_in_use_stay() {
        let mut objects = Objects::default();
        for n in 0..10 {
            let slot = objects.slot(&oid(n));
            objects.get_mut(slot).unwrap().uncommitted = u32::from(n < 4);
        }
        objects.evict(3);
        assert_eq!(objects.len(), 4);
        assert!(objects.iter_mut().all(|o| o.uncommitted == 1));
        let again = objects.slot(&oid(7));
        assert_eq!(objects.get_mut(again).unwrap().oid, oid(7));
    }

    #[test]
    fn what_was_used_lately_outlives_what_was_not() {
        let mut objects = Objects::default();
        (0..8).for_each(|n| {
            objects.slot(&oid(n));
        });
        objects.evict(7);
        objects.slot(&oid(100));
        let kept: Vec<_> = (0..8).filter(|&n| objects.find(&oid(n)).is_some()).collect();
        objects.slot(&oid(kept[3]));
        objects.evict(2);
        assert!(objects.find(&oid(kept[3])).is_some() && objects.find(&oid(100)).is_some());
    }

    #[test]
    fn names_with_the_same_hash_have_contexts_of_their_own() {
        let named = |name: &str| HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 7);
        let mut objects = Objects::default();
        let [a, b] = ["a", "b"].map(|name| objects.slot(&named(name)));
        assert_ne!(a, b);
        assert_eq!((objects.slot(&named("a")), objects.slot(&named("b")), objects.len()), (a, b, 2));
        objects.get_mut(b).unwrap().uncommitted = 1;
        objects.evict(0);
        objects.evict(0);
        assert_eq!((objects.find(&named("a")), objects.find(&named("b")), objects.len()), (None, Some(b), 1));
    }
}
