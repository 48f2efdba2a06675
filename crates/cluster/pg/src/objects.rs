//! Object contexts: what the PG holds of the objects that requests are at work on, and of some that they were.
//!
//! Requests of an object run in the order in which they came. Readers share it; a writer is alone while it executes,
//! and is done with it when its transaction is queued: the next writer builds on that, but a reader waits until it is
//! durable. Invariant: while `writing`, `readers` is 0 but for readers of a copy (see `copy`); a context that anything refers to is never evicted.

use std::collections::VecDeque;
use std::hint::black_box;

use hashbrown::HashTable;
use ops::{ObjectState, OpClass};
use types::{Errno, HObject, Slab};

use crate::copy::CopyWait;
use crate::request::Request;
use crate::trim::Trim;

/// Contexts that one eviction looks at.
const EVICTION_STEPS_MAX: usize = 64;

/// An object context's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ObjectSlot(u32);

impl ObjectSlot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a context is found. It has the name's hash: neither a search nor a table that grows looks at other contexts.
#[derive(Debug)]
struct Place {
    hash: u32,
    slot: ObjectSlot,
}

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
    /// In [`Objects::once`].
    is_new: bool,
}

impl Object {
    /// A request comes to wait for its turn.
    pub fn enqueue(&mut self, request: Request) {
        put(&mut self.queue, request);
    }

    /// The request whose turn it is.
    pub fn dequeue(&mut self) -> Option<Request> {
        take(&mut self.queue)
    }

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

/// Appends to a queue. Most requests wait alone.
fn put<T>(queue: &mut VecDeque<T>, next: T) {
    if queue.is_empty() {
        queue.reserve_exact(1);
    }
    queue.push_back(next);
}

/// Takes the first of a queue. An empty one keeps no memory: most contexts have had their last request, and the next one of
/// another object takes that memory while the processor has it in its caches.
fn take<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let next = queue.pop_front();
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
    next
}

/// All contexts of a PG.
///
/// Those that were used once since they were made leave in the order in which they came, before there are many: objects
/// that are met once take turns with memory that the processor has in its caches, and drive none out that is used again.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// By the names' hashes.
    places: HashTable<Place>,
    slots: Slab<Object>,
    /// Those not seen to be used twice, the oldest first. Invariant: exactly the contexts with `is_new`.
    once: VecDeque<ObjectSlot>,
    /// The position of the eviction hand.
    hand: usize,
}

/// The bits that a table looks at are spread over all: names of a PG have some bits of their hashes in common.
fn spread(hash: u32) -> u64 {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15_f39c_c060;
    product as u64 ^ (product >> 64) as u64
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
            recent: false,
            is_new: true,
        };
        // No memory has 2^32 contexts.
        let slot = ObjectSlot(self.slots.insert(object) as u32);
        let place = Place { hash: oid.hash, slot };
        self.places.insert_unique(spread(oid.hash), place, |of| spread(of.hash));
        self.once.push_back(slot);
        slot
    }

    /// Brings closer to the processor the context of an object with this hash. Whether there is one.
    pub fn touch(&self, hash: u32) -> bool {
        let found = self.places.find(spread(hash), |place| place.hash == hash);
        let Some(object) = found.and_then(|place| self.get(place.slot)) else { return false };
        // A field of each line of memory that most requests look at.
        black_box((object.oid.name.as_bytes().first().copied(), object.readers, object.recent));
        if let Loaded::Yes(ObjectState { info, .. }) = &object.loaded {
            black_box((info.size, info.user_version, info.watchers.len()));
        }
        true
    }

    fn find(&self, oid: &HObject) -> Option<ObjectSlot> {
        let is_it = |place: &Place| {
            place.hash == oid.hash && self.get(place.slot).is_some_and(|object| object.oid == *oid)
        };
        self.places.find(spread(oid.hash), is_it).map(|place| place.slot)
    }

    /// A context.
    pub fn get(&self, slot: ObjectSlot) -> Option<&Object> {
        self.slots.get(slot.index())
    }

    /// A context, to change.
    pub fn get_mut(&mut self, slot: ObjectSlot) -> Option<&mut Object> {
        self.slots.get_mut(slot.index())
    }

    /// All contexts with their places.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectSlot, &Object)> {
        self.slots.iter().map(|(at, object)| (ObjectSlot(at as u32), object))
    }

    /// All contexts.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Object> {
        self.slots.iter_mut()
    }

    /// Contexts held.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Evicts idle contexts until at most `max` of those that were used once are held, or none of them is idle.
    pub fn evict_once(&mut self, max: usize) {
        // A request adds one context at the most, so a bounded part keeps up, and many contexts in use cost no more.
        self.evict_once_within(max, EVICTION_STEPS_MAX);
    }

    fn evict_once_within(&mut self, max: usize, steps_max: usize) {
        let mut steps = self.once.len().min(steps_max);
        while self.once.len() > max && steps > 0 {
            steps -= 1;
            self.leave_once();
        }
    }

    /// Evicts idle contexts, those not used lately first, until at most `max` are held or none is idle.
    pub fn evict(&mut self, max: usize) {
        self.evict_within(max, EVICTION_STEPS_MAX);
    }

    /// The same, however many there are to look at.
    pub fn evict_all(&mut self, max: usize) {
        // What is found to have been used again joins the others, of which the next round takes the mark and then the context.
        for _ in 0..3 {
            self.evict_within(max, usize::MAX);
        }
    }

    fn evict_within(&mut self, max: usize, steps_max: usize) {
        if self.len() <= max {
            return;
        }
        // Two rounds of the hand clear every mark once; what then remains is in use.
        let mut steps = (2 * self.slots.places()).min(steps_max);
        while self.len() > max && self.len() - self.once.len() > max / 2 && steps > 0 {
            steps -= 1;
            self.move_hand();
        }
        self.evict_once_within(max.saturating_sub(self.len() - self.once.len()), steps_max);
    }

    /// The oldest of those that were used once leaves, or is found to be in use or to have been used again.
    fn leave_once(&mut self) {
        let Some(slot) = self.once.pop_front() else { return };
        // Exactly the contexts with `is_new` are there.
        let Some(object) = self.get_mut(slot) else { return };
        if object.recent {
            object.is_new = false;
        } else if object.is_idle() {
            self.remove(slot);
        } else {
            self.once.push_back(slot);
        }
    }

    /// The hand looks at the next context.
    fn move_hand(&mut self) {
        self.hand = if self.hand + 1 < self.slots.places() { self.hand + 1 } else { 0 };
        let hand = ObjectSlot(self.hand as u32);
        // A free slot.
        let Some(object) = self.get_mut(hand) else { return };
        if !object.is_new && object.is_idle() && !std::mem::take(&mut object.recent) {
            self.remove(hand);
        }
    }

    /// Forgets what is idle, and everything that waits (used when an interval ends).
    pub fn reset(&mut self) {
        for slot in (0..self.slots.places() as u32).map(ObjectSlot) {
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
        let slots = &self.slots;
        self.once.retain(|slot| slots.get(slot.index()).is_some());
    }

    /// The first of the table's invariants that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let new = self.iter().filter(|(_, object)| object.is_new).count();
        let in_once = |slot: &ObjectSlot| self.get(*slot).is_some_and(|object| object.is_new);
        match self.once.len() == new && self.once.iter().all(in_once) && self.places.len() == self.len() {
            true => Ok(()),
            false => Err("object contexts that were used once are miscounted"),
        }
    }

    /// Of a context that is in [`Objects::once`] the caller has taken it out, or does.
    fn remove(&mut self, slot: ObjectSlot) {
        if let Some(object) = self.slots.remove(slot.index()) {
            if let Ok(place) = self.places.find_entry(spread(object.oid.hash), |of| of.slot == slot) {
                place.remove();
            }
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
    fn what_is_touched_is_not_used() {
        let mut objects = Objects::default();
        (0..8).for_each(|n| {
            objects.slot(&oid(n));
        });
        assert_eq!(
            (0..20).filter(|hash| objects.touch(*hash)).collect::<Vec<_>>(),
            (0..8).collect::<Vec<_>>()
        );
        assert_eq!(objects.len(), 8, "it makes no context");
        objects.evict_once(0);
        assert_eq!(objects.len(), 0, "it keeps none");
    }

    #[test]
    fn objects_that_are_met_once_drive_none_out_that_is_used_again() {
        let mut objects = Objects::default();
        let use_of = |objects: &mut Objects, n| {
            objects.slot(&oid(n));
            objects.evict_once(4);
            objects.evict(20);
            objects.check().unwrap();
        };
        for n in 0..10 {
            use_of(&mut objects, n);
            use_of(&mut objects, n);
        }
        (100..300).for_each(|n| use_of(&mut objects, n));
        assert!((0..10).all(|n| objects.find(&oid(n)).is_some()));
        assert_eq!(objects.len(), 14);
        // Those that are used again make room among themselves.
        for n in 300..340 {
            use_of(&mut objects, n);
            use_of(&mut objects, n);
        }
        assert!(objects.len() <= 20, "{}", objects.len());
        assert!(objects.find(&oid(339)).is_some());
    }

    #[test]
    fn a_queue_keeps_its_order_and_no_memory_when_it_is_empty() {
        let mut queue = VecDeque::new();
        (0..3).for_each(|n| put(&mut queue, n));
        assert_eq!((take(&mut queue), take(&mut queue), queue.capacity() > 0), (Some(0), Some(1), true));
        put(&mut queue, 3);
        assert_eq!((take(&mut queue), take(&mut queue), queue.capacity()), (Some(2), Some(3), 0));
        assert_eq!(take(&mut queue), None);
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
