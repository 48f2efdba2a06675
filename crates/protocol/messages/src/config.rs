//! MConfig: the options that the monitors hold for the receiver.

use std::collections::BTreeMap;

use crate::codec::payload;

/// Ceph's MConfig: all options that apply to the receiver, in place of those sent before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// Value by option name.
    pub config: BTreeMap<String, String>,
}

payload!(Config = CONFIG, version 1, compat 1, [config]);
