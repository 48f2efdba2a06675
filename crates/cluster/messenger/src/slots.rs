//! Things found by a number in constant time; a number is never used twice.

use std::fmt;

/// A socket's number within its process, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub(crate) u64);

/// Bits of the slot's index in a number; above them a counter, above that the core. At a thousand sockets a second the
/// counter lasts four years.
const INDEX_BITS: u32 = 18;
const CORE_SHIFT: u32 = 55;

/// Cores that a process may have.
pub(crate) const CORES_MAX: u32 = 1 << (u64::BITS - CORE_SHIFT);

impl SocketId {
    /// The slot: below the number of sockets that a core had at once, used again by later sockets.
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
    counter: u64,
    slots: Vec<Option<(SocketId, T)>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new(core: u16) -> Self {
        Self { core, counter: 0, slots: Vec::new(), free: Vec::new() }
    }

    /// The next number, for the slot `index`. Numbers of one core rise.
    fn number(&mut self, index: usize) -> SocketId {
        self.counter += 1;
        SocketId(u64::from(self.core) << CORE_SHIFT | self.counter << INDEX_BITS | index as u64)
    }

    /// Puts a value into a free slot. `None`: 2^18 are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<SocketId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() >> INDEX_BITS != 0 => return None,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        let id = self.number(index);
        self.slots[index] = Some((id, value));
        Some(id)
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&T> {
        self.slots.get(id.index())?.as_ref().filter(|(has, _)| *has == id).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        self.slots.get_mut(id.index())?.as_mut().filter(|(has, _)| *has == id).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        self.free.push(id.index());
        self.slots.get_mut(id.index())?.take().map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        self.slots.iter().flatten().map(|(id, value)| (*id, value))
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
        assert_eq!((c.index(), c > b), (a.index(), true));
        assert_eq!((slots.get(a), slots.get(c)), (None, Some(&"c")));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get_mut(c), Some(&mut "c"));
        assert_eq!(slots.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ["c", "b"]);
        assert_ne!(Slots::new(4).insert("a").map(|id| id.0 >> CORE_SHIFT), Some(a.0 >> CORE_SHIFT));
    }
}
