//! Entries at places that they keep.

/// Entries in a piece.
const PIECE: usize = 64;

/// Entries by their places, numbers from 0 on. An entry does not move when others come: one array of all would be copied when
/// it grows, megabytes at a time in the middle of a turn. The place of one that was removed is a later one's.
///
/// Invariants: every piece but the last has [`PIECE`] places; `free` has each place without an entry once.
#[derive(Debug)]
pub struct Slab<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Entries held.
    pub fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Places, those without an entry included.
    pub fn places(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    fn place_mut(&mut self, at: usize) -> Option<&mut Option<T>> {
        self.pieces.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }

    /// The entry at a place.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.pieces.get(at / PIECE)?.get(at % PIECE)?.as_ref()
    }

    /// The same, to change.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.place_mut(at)?.as_mut()
    }

    /// Adds an entry. Returns its place.
    pub fn insert(&mut self, entry: T) -> usize {
        if let Some(at) = self.free.pop() {
            let place = self.place_mut(at);
            debug_assert!(place.as_ref().is_some_and(|place| place.is_none()), "place {at} is not free");
            if let Some(place) = place {
                *place = Some(entry);
            }
            return at;
        }
        let at = self.places();
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(Some(entry)),
            last => {
                // Many have few entries: the first piece grows.
                let mut piece = Vec::with_capacity(if last.is_some() { PIECE } else { 1 });
                piece.push(Some(entry));
                self.pieces.push(piece);
            }
        }
        at
    }

    /// Takes the entry of a place out.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let entry = self.place_mut(at)?.take()?;
        self.free.push(at);
        Some(entry)
    }

    /// All entries with their places, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let all = self.pieces.iter().flatten().enumerate();
        all.filter_map(|(at, entry)| Some((at, entry.as_ref()?)))
    }

    /// All entries, in the order of their places.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_where_it_is_until_it_is_removed() {
        let mut slab = Slab::default();
        let first: Vec<usize> = (0..2 * PIECE).map(|n| slab.insert(n)).collect();
        assert_eq!(first, (0..2 * PIECE).collect::<Vec<_>>());
        // The first piece is full and grows no more.
        let where_it_is = |slab: &Slab<usize>, at| std::ptr::from_ref(slab.get(at).unwrap());
        let before: Vec<_> = first.iter().map(|at| where_it_is(&slab, *at)).collect();
        (2 * PIECE..100 * PIECE).for_each(|n| assert_eq!(slab.insert(n), n));
        let after: Vec<_> = first.iter().map(|at| where_it_is(&slab, *at)).collect();
        assert_eq!(before, after);
        assert!((0..100 * PIECE).all(|n| slab.get(n) == Some(&n)));
    }

    #[test]
    fn a_removed_entry_leaves_its_place_to_the_next() {
        let mut slab = Slab::default();
        (0..70).for_each(|n| assert_eq!(slab.insert(n), n));
        assert_eq!((slab.remove(40), slab.remove(40), slab.remove(70)), (Some(40), None, None));
        assert_eq!((slab.len(), slab.places(), slab.get(40)), (69, 70, None));
        assert_eq!((slab.insert(140), slab.insert(170)), (40, 70));
        slab.iter_mut().for_each(|entry| *entry += 1);
        let all: Vec<_> = slab.iter().map(|(at, entry)| (at, *entry)).collect();
        let expected = |at| (at, if at == 40 || at == 70 { at + 101 } else { at + 1 });
        assert_eq!(all, (0..71).map(expected).collect::<Vec<_>>());
        assert!((0..71).all(|at| slab.remove(at).is_some()));
        assert!(slab.is_empty());
    }
}
