//! Filters of listings (PGLS_FILTER, PGNLS_FILTER): `plain`, and those of object classes (`class.filter`).

use std::fmt;

use encoding::{DecodeError, Decoder};
use types::{Errno, HObject, Name};

use crate::ClassTable;

/// Decides which objects a listing shows, by their names and one attribute (Ceph's PGLSFilter).
pub trait ListFilter {
    /// The attribute that it looks at, by the store's name.
    fn attribute(&self) -> Option<&Name>;

    /// `value` is that attribute's, if the object has it.
    fn passes(&self, object: &HObject, value: Option<&[u8]>) -> bool;
}

/// A filter of a class.
pub struct ClassFilter {
    pub class: &'static str,
    pub name: &'static str,
    /// Reads its arguments.
    pub make: fn(&mut Decoder<'_>) -> Result<Box<dyn ListFilter>, DecodeError>,
}

impl PartialEq for ClassFilter {
    fn eq(&self, other: &Self) -> bool {
        (self.class, self.name) == (other.class, other.name)
    }
}
impl Eq for ClassFilter {}

impl fmt::Debug for ClassFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter {}.{}", self.class, self.name)
    }
}

/// Shows the objects whose attribute has a value.
pub struct AttributeIs {
    /// By the store's name.
    attribute: Name,
    value: Name,
}

impl AttributeIs {
    /// Reads the attribute, by the store's name, and the value.
    ///
    /// # Errors
    /// Arguments that end too early.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Box<dyn ListFilter>, DecodeError> {
        Ok(Box::new(Self { attribute: d.get()?, value: d.get()? }))
    }
}

impl ListFilter for AttributeIs {
    fn attribute(&self) -> Option<&Name> {
        Some(&self.attribute)
    }

    fn passes(&self, _: &HObject, value: Option<&[u8]>) -> bool {
        value == Some(self.value.as_bytes())
    }
}

impl ClassTable {
    /// The filters that classes have, beside their methods.
    #[must_use]
    pub fn with_filters(mut self, filters: &'static [ClassFilter]) -> Self {
        self.filters = filters;
        self
    }

    /// Makes a filter of its type and its arguments.
    ///
    /// # Errors
    /// EINVAL for a type or arguments that are none; EPERM for a class that may not be loaded.
    pub fn filter(&self, kind: &Name, d: &mut Decoder<'_>) -> Result<Box<dyn ListFilter>, Errno> {
        let make = if kind.as_bytes() == b"plain" {
            AttributeIs::decode
        } else {
            let dot = kind.iter().position(|b| *b == b'.').ok_or(Errno::EINVAL)?;
            let (class, name) = (&kind[..dot], &kind[dot + 1..]);
            if !self.may_load(class) {
                return Err(Errno::EPERM);
            }
            let is_it = |f: &&ClassFilter| f.class.as_bytes() == class && f.name.as_bytes() == name;
            self.filters.iter().find(is_it).ok_or(Errno::EINVAL)?.make
        };
        make(d).map_err(|_| Errno::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use encoding::Encoder;

    use super::*;

    static FILTERS: &[ClassFilter] = &[ClassFilter { class: "c", name: "f", make: AttributeIs::decode }];

    #[test]
    fn a_filter_is_plain_or_a_class_has_it() {
        let table = ClassTable::new(&[], "c", "").with_filters(FILTERS);
        let mut e = Encoder::new(0);
        e.put("_a").put("v");
        let args = e.into_bytes();
        let find = |kind: &str| table.filter(&kind.into(), &mut Decoder::new(&args)).map(drop);
        assert_eq!((find("plain"), find("c.f")), (Ok(()), Ok(())));
        assert_eq!(find("d.f"), Err(Errno::EPERM), "not in the load list");
        for none in ["c.g", "c.", ".f", "f", ""] {
            let errno = find(none).unwrap_err();
            assert!(errno == Errno::EINVAL || (none == ".f" && errno == Errno::EPERM), "{none}: {errno}");
        }
        assert_eq!(table.filter(&"plain".into(), &mut Decoder::new(&args[..5])).err(), Some(Errno::EINVAL));
        let filter = table.filter(&"plain".into(), &mut Decoder::new(&args)).unwrap();
        let object = HObject::min();
        assert_eq!(filter.attribute(), Some(&"_a".into()));
        assert!(filter.passes(&object, Some(b"v")));
        assert!(!filter.passes(&object, Some(b"vv")) && !filter.passes(&object, None));
    }
}
