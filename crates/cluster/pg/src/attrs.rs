//! The attributes that hold an object's metadata.

use buffer::Piece;
use encoding::{Decode, Encode};
use ops::{ObjectInfo, ObjectState, SnapSet};
use store::{Attrs, ObjectHead};
use types::Name;

/// An object's attribute that holds its [`ObjectInfo`].
pub(crate) const INFO_ATTR: &str = "_";
/// A head's attribute that holds its [`SnapSet`].
pub(crate) const SNAPSET_ATTR: &str = "ss";

/// What the attributes of most objects have in common, made once: clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct CommonAttrs {
    info: Name,
    snapset: Name,
    /// The [`SnapSet`] of a head that never saw a snapshot.
    no_snaps: Piece,
}

impl Default for CommonAttrs {
    fn default() -> Self {
        let no_snaps = SnapSet::default().to_shared(0).into();
        Self { info: INFO_ATTR.into(), snapset: SNAPSET_ATTR.into(), no_snaps }
    }
}

impl CommonAttrs {
    /// The attributes of a head.
    pub(crate) fn of_head(&self, state: &ObjectState) -> Attrs {
        let snapset = match state.snapset == SnapSet::default() {
            true => self.no_snaps.clone(),
            false => state.snapset.to_shared(0).into(),
        };
        let info = state.info.to_shared(u64::MAX).into();
        [(self.info.clone(), info), (self.snapset.clone(), snapset)].into()
    }

    pub(crate) fn names(&self) -> [Name; 2] {
        [self.info.clone(), self.snapset.clone()]
    }

    /// The state of a head by its attributes, or what is wrong with them.
    pub(crate) fn state_of(&self, head: &ObjectHead) -> Result<ObjectState, String> {
        let get = |name: &'static str| {
            head.attrs.get(name.as_bytes()).ok_or_else(|| format!("no attribute {name}"))
        };
        let info = ObjectInfo::from_bytes(get(INFO_ATTR)?).map_err(|e| e.to_string())?;
        let snapset = get(SNAPSET_ATTR)?;
        let snapset = match *snapset == self.no_snaps {
            true => SnapSet::default(),
            false => SnapSet::from_bytes(snapset).map_err(|e| e.to_string())?,
        };
        Ok(ObjectState { exists: true, info, snapset })
    }
}
