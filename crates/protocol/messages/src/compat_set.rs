//! Features of what is kept: of an OSD's store, of file systems.

use std::collections::BTreeMap;

use crate::codec::fields;

/// Ceph's CompatSet: features of what is kept, by what a reader that does not know them may do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompatSet {
    /// Everything.
    pub compat: FeatureSet,
    /// Only read.
    pub ro_compat: FeatureSet,
    /// Nothing.
    pub incompat: FeatureSet,
}
fields!(CompatSet [compat, ro_compat, incompat]);

/// Ceph's CompatSet::FeatureSet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureSet {
    /// The features as bits.
    pub mask: u64,
    /// Their names by bit number.
    pub names: BTreeMap<u64, String>,
}
fields!(FeatureSet [mask, names]);

impl FromIterator<(u64, &'static str)> for FeatureSet {
    fn from_iter<I: IntoIterator<Item = (u64, &'static str)>>(features: I) -> Self {
        let names: BTreeMap<u64, String> = features.into_iter().map(|(bit, name)| (bit, name.to_owned())).collect();
        Self { mask: names.keys().fold(0, |mask, bit| mask | 1u64.checked_shl(*bit as u32).unwrap_or(0)), names }
    }
}
