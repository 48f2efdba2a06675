//! An object's extents by their first byte.

use std::collections::BTreeMap;

use buffer::Piece;
use smallvec::SmallVec;

/// So many extents are kept in a list.
const LISTED_MAX: usize = 16;

/// Extents in the order of their first bytes. Most objects are written in one piece: its extent lies in the object itself,
/// where a tree would take memory for eleven.
#[derive(Clone)]
pub(super) enum Extents {
    List(SmallVec<[(u64, Piece); 1]>),
    Tree(BTreeMap<u64, Piece>),
}

impl Default for Extents {
    fn default() -> Self {
        Self::List(SmallVec::new())
    }
}

impl Extents {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Tree(tree) => tree.len(),
        }
    }

    pub fn get(&self, at: u64) -> Option<&Piece> {
        match self {
            Self::List(list) => Some(&list[place(list, at).ok()?].1),
            Self::Tree(tree) => tree.get(&at),
        }
    }

    /// Sets an extent where none begins.
    pub fn insert(&mut self, at: u64, piece: Piece) {
        match self {
            Self::List(list) if list.len() < LISTED_MAX => match place(list, at) {
                Ok(index) => list[index].1 = piece,
                Err(index) => list.insert(index, (at, piece)),
            },
            Self::List(list) => {
                let mut tree: BTreeMap<u64, Piece> = std::mem::take(list).into_iter().collect();
                tree.insert(at, piece);
                *self = Self::Tree(tree);
            }
            Self::Tree(tree) => drop(tree.insert(at, piece)),
        }
    }

    pub fn remove(&mut self, at: u64) -> Option<Piece> {
        match self {
            Self::List(list) => {
                let index = place(list, at).ok()?;
                Some(list.remove(index).1)
            }
            Self::Tree(tree) => tree.remove(&at),
        }
    }

    /// The first byte of the last extent that begins at `offset` or before.
    pub fn last_begin(&self, offset: u64) -> Option<u64> {
        match self {
            Self::List(list) => {
                let after = list.partition_point(|(begin, _)| *begin <= offset);
                Some(list[after.checked_sub(1)?].0)
            }
            Self::Tree(tree) => tree.range(..=offset).next_back().map(|(begin, _)| *begin),
        }
    }

    /// The extents that begin in `first..end`, which must not be backwards.
    pub fn range(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let (list, tree) = match self {
            Self::List(list) => {
                let from = list.partition_point(|(begin, _)| *begin < first);
                let to = list.partition_point(|(begin, _)| *begin < end);
                (&list[from..to], None)
            }
            Self::Tree(tree) => (&[][..], Some(tree.range(first..end))),
        };
        let listed = list.iter().map(|(begin, piece)| (*begin, piece));
        listed.chain(tree.into_iter().flatten().map(|(begin, piece)| (*begin, piece)))
    }

    /// Takes out the extents that begin at `first` or after.
    pub fn split_off(&mut self, first: u64) -> Self {
        match self {
            Self::List(list) => {
                let from = list.partition_point(|(begin, _)| *begin < first);
                Self::List(list.drain(from..).collect())
            }
            Self::Tree(tree) => Self::Tree(tree.split_off(&first)),
        }
    }

    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.range(0, u64::MAX).map(|(_, piece)| piece)
    }
}

fn place(list: &[(u64, Piece)], at: u64) -> Result<usize, usize> {
    list.binary_search_by_key(&at, |(begin, _)| *begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    fn begins<'a>(extents: impl Iterator<Item = (u64, &'a Piece)>) -> Vec<(u64, usize)> {
        extents.map(|(begin, piece)| (begin, piece.len())).collect()
    }

    /// Few extents and many, so that both forms and the way from one to the other are held against a map.
    #[test]
    fn extents_are_an_ordered_map() {
        for keys in [4, 60] {
            let mut random = SplitMix64::new(keys);
            let (mut extents, mut model) = (Extents::default(), BTreeMap::new());
            for round in 0..5000 {
                let (at, end) = (random.below(keys), random.below(keys));
                let piece = Piece::from(vec![0; 1 + round % 7]);
                match random.below(8) {
                    0..4 => {
                        extents.insert(at, piece.clone());
                        model.insert(at, piece);
                    }
                    4..6 => assert_eq!(extents.remove(at), model.remove(&at)),
                    6 if round % 50 == 0 => {
                        let (cut, expected) = (extents.split_off(at), model.split_off(&at));
                        assert_eq!(
                            begins(cut.range(0, u64::MAX)),
                            begins(expected.iter().map(|(k, v)| (*k, v)))
                        );
                    }
                    _ => {
                        assert_eq!(extents.get(at), model.get(&at));
                        let last = model.range(..=at).next_back().map(|(k, _)| *k);
                        assert_eq!(extents.last_begin(at), last);
                        let (first, end) = (at.min(end), at.max(end));
                        let expected = begins(model.range(first..end).map(|(k, v)| (*k, v)));
                        assert_eq!(begins(extents.range(first, end)), expected);
                    }
                }
                assert_eq!(extents.len(), model.len());
            }
            assert_eq!(matches!(extents, Extents::Tree(_)), keys > LISTED_MAX as u64);
            assert!(extents.pieces().eq(model.values()));
        }
    }
}
