//! Attributes: a short list, ordered by name.

use buffer::Piece;
use types::Name;

/// An object's attributes or a part of them, ascending by name, each name once. An object has two to ten, so a sorted
/// list is smaller and quicker than a tree.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Attrs(Vec<(Name, Piece)>);

impl Attrs {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn get(&self, name: &[u8]) -> Option<&Piece> {
        let at = self.place(name).ok()?;
        Some(&self.0[at].1)
    }

    /// Sets an attribute; returns the value that it replaces.
    pub fn insert(&mut self, name: Name, value: Piece) -> Option<Piece> {
        match self.place(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Piece> {
        let at = self.place(name).ok()?;
        Some(self.0.remove(at).1)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, ascending by name.
    pub fn iter(&self) -> std::slice::Iter<'_, (Name, Piece)> {
        self.0.iter()
    }

    /// Bytes of names and values.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(n, _)| n.as_bytes().cmp(name))
    }
}

impl Extend<(Name, Piece)> for Attrs {
    fn extend<I: IntoIterator<Item = (Name, Piece)>>(&mut self, attrs: I) {
        attrs.into_iter().for_each(|(name, value)| drop(self.insert(name, value)));
    }
}

impl FromIterator<(Name, Piece)> for Attrs {
    /// Of a name that comes twice the last value counts.
    fn from_iter<I: IntoIterator<Item = (Name, Piece)>>(attrs: I) -> Self {
        let attrs = attrs.into_iter();
        // A list that is kept for long has no more room than it needs.
        let mut all = Self(Vec::with_capacity(attrs.size_hint().0));
        all.extend(attrs);
        all
    }
}

impl<const N: usize> From<[(Name, Piece); N]> for Attrs {
    fn from(attrs: [(Name, Piece); N]) -> Self {
        attrs.into_iter().collect()
    }
}

impl IntoIterator for Attrs {
    type Item = (Name, Piece);
    type IntoIter = std::vec::IntoIter<(Name, Piece)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Attrs {
    type Item = &'a (Name, Piece);
    type IntoIter = std::slice::Iter<'a, (Name, Piece)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
