//! A table of values by number: constant time, and no number is used twice.

use std::collections::VecDeque;
use std::fmt;

use auth::SessionId;

/// A socket's number within its process, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub(crate) u64);

/// Bits of the slot's index in a number; the bits above count the slot's uses. After [`USES_MAX`] uses a slot stays empty.
const INDEX_BITS: u32 = 18;
const USES_MAX: u64 = 1 << 29;

/// The bit that tells numbers of peers' sessions, which outlive sockets, from those of sockets.
const PEER: u64 = 1 << 47;

/// Whether a session is one with a peer.
pub(crate) fn is_peer(session: SessionId) -> bool {
    session.0 & PEER != 0
}

/// The `n`th session with a peer of a core.
pub(crate) fn peer_session(core: u16, n: u64) -> SessionId {
    SessionId::on_core(core, PEER | n)
}

impl SocketId {
    /// The slot's index, less than the greatest number of sockets that the core had at once. Later sockets reuse it.
    pub fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket {}", self.0)
    }
}

/// Values in slots.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    core: u16,
    slots: Vec<Slot<T>>,
    free: VecDeque<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    /// How many values the slot has had, the present one included.
    uses: u64,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new(core: u16) -> Self {
        Self { core, slots: Vec::new(), free: VecDeque::new() }
    }

    fn number(&self, index: usize, uses: u64) -> SocketId {
        SocketId(SessionId::on_core(self.core, uses << INDEX_BITS | index as u64).0)
    }

    /// Puts a value into a free slot. `None`: 2^18 are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<SocketId> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() >> INDEX_BITS != 0 => return None,
            None => {
                self.slots.push(Slot { uses: 0, value: None });
                self.slots.len() - 1
            }
        };
        let slot = self.slots.get_mut(index)?;
        slot.uses += 1;
        slot.value = Some(value);
        let uses = slot.uses;
        Some(self.number(index, uses))
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&T> {
        let slot = self.slots.get(id.index())?;
        slot.value.as_ref().filter(|_| self.number(id.index(), slot.uses) == id)
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        self.get(id)?;
        self.slots.get_mut(id.index())?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        let slot = self.slots.get_mut(id.index())?;
        if slot.uses + 1 < USES_MAX {
            self.free.push_back(id.index());
        }
        slot.value.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((self.number(index, slot.uses), slot.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_is_not_found_by_its_old_number() {
        let mut slots = Slots::new(3);
        let a = slots.insert("a").unwrap();
        let b = slots.insert("b").unwrap();
        assert_eq!(slots.remove(a), Some("a"));
        let c = slots.insert("c").unwrap();
        assert_eq!((c.index(), c == a, c == b), (a.index(), false, false));
        assert_eq!((slots.get(a), slots.get(c)), (None, Some(&"c")));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get_mut(c), Some(&mut "c"));
        assert_eq!(slots.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ["c", "b"]);
    }

    #[test]
    fn a_number_carries_its_core_and_whose_it_is() {
        let mut slots = Slots::new(65_535);
        let (socket, peer) = (SessionId(slots.insert(()).unwrap().0), peer_session(3, 7));
        assert_eq!((socket.core(), is_peer(socket)), (65_535, false));
        assert_eq!((peer.core(), is_peer(peer)), (3, true));
    }

    #[test]
    fn a_slot_whose_numbers_are_used_up_is_used_no_more() {
        let mut slots = Slots::new(1);
        slots.insert(()).unwrap();
        slots.slots[0].uses = USES_MAX - 1;
        let last = slots.number(0, USES_MAX - 1);
        assert!(!is_peer(SessionId(last.0)) && slots.remove(last).is_some());
        assert_eq!(slots.insert(()).unwrap().index(), 1);
    }
}
