//! Attributes: those of an object together in its onode as long as they are few bytes, the largest apart from it, each
//! with a key of its own. So a change of one writes few bytes, however much the others have.

use buffer::Piece;
use store::{AttrChoice, Attrs};
use types::{GHObject, Name};

use crate::object::{Context, Found};
use crate::records::Onode;
use crate::tables::{Attempt, Table, damaged};
use store::keys;

/// Bytes of names and values that the attributes in an onode have at most.
const INLINE_BYTES_MAX: usize = 4096;

/// The attribute with the most bytes, if all together have more than an onode may hold.
fn too_much(attrs: &Attrs) -> Option<Name> {
    let bytes = |(name, value): &(Name, Piece)| name.len() + value.len();
    if attrs.iter().map(bytes).sum::<usize>() <= INLINE_BYTES_MAX {
        return None;
    }
    attrs.iter().max_by_key(|pair| bytes(pair)).map(|(name, _)| name.clone())
}

impl Context<'_, '_> {
    /// Sets attributes in the onode, and moves the largest out of it until the rest fits. An onode of format 2 may have
    /// had more than fits.
    pub fn set_attrs(&mut self, found: &mut Found, attrs: &Attrs) -> Attempt<()> {
        for (name, value) in attrs {
            self.remove_attr(found, name)?;
            found.onode.attrs.insert(name.clone(), value.clone());
        }
        while let Some(name) = too_much(&found.onode.attrs) {
            if let Some(value) = found.onode.attrs.remove(&name) {
                self.tables.set(Table::Attrs, &keys::numbered_key(found.onode.nid, &name), &value)?;
                found.onode.attrs_apart += 1;
            }
        }
        Ok(())
    }

    pub fn remove_attr(&mut self, found: &mut Found, name: &Name) -> Attempt<()> {
        if found.onode.attrs.remove(name).is_some() || found.onode.attrs_apart == 0 {
            return Ok(());
        }
        let key = keys::numbered_key(found.onode.nid, name);
        if self.tables.contains(Table::Attrs, &key)? {
            self.tables.remove(Table::Attrs, &key)?;
            found.onode.attrs_apart -= 1;
        }
        Ok(())
    }

    pub fn clear_attrs(&mut self, onode: &mut Onode) -> Attempt<()> {
        onode.attrs.clear();
        onode.attrs_apart = 0;
        self.remove_numbered(Table::Attrs, onode.nid)
    }

    /// One attribute's value.
    pub fn attr(&self, onode: &Onode, name: &Name) -> Attempt<Option<Piece>> {
        match onode.attrs.get(name) {
            Some(value) => Ok(Some(value.clone())),
            None if onode.attrs_apart == 0 => Ok(None),
            None => Ok(self.tables.get(Table::Attrs, &keys::numbered_key(onode.nid, name))?.map(Piece::from)),
        }
    }

    /// The chosen ones of an object's attributes.
    pub fn attrs(&self, onode: &Onode, choice: &AttrChoice, object: &GHObject) -> Attempt<Attrs> {
        match choice {
            _ if onode.attrs_apart == 0 => return Ok(choice.choose(&onode.attrs)),
            AttrChoice::None => return Ok(Attrs::new()),
            AttrChoice::These(names) => {
                let mut attrs = Attrs::new();
                for name in names {
                    attrs.extend(self.attr(onode, name)?.map(|value| (name.clone(), value)));
                }
                return Ok(attrs);
            }
            AttrChoice::All => {}
        }
        let mut attrs = onode.attrs.clone();
        let prefix = keys::numbered_key(onode.nid, &[]);
        self.tables.scan(Table::Attrs, &prefix, keys::after_prefix(&prefix).as_deref(), |key, value| {
            attrs.insert(Name::from(&key[prefix.len()..]), Piece::copy_from(value));
            Ok(true)
        })?;
        if attrs.len() != onode.attrs.len() + onode.attrs_apart as usize {
            return Err(damaged(format!("attributes of object {object} are gone")));
        }
        Ok(attrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_attributes_leave_an_onode_until_the_rest_fits() {
        let of = |name: &str, len: usize| (Name::from(name), Piece::from(vec![1; len]));
        let mut attrs: Attrs = [of("_", 300), of("a", 1 << 20), of("b", 3000), of("c", 2000)].into();
        let mut left = Vec::new();
        while let Some(name) = too_much(&attrs) {
            attrs.remove(&name);
            left.push(name);
        }
        assert_eq!(left, [Name::from("a"), Name::from("b")]);
        assert_eq!(attrs, [of("_", 300), of("c", 2000)].into());
    }
}
