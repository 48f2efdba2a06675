//! The options: one table of names, types, defaults and ranges, from which help, documents and validation come, and
//! the reader of ceph.conf.
//!
//! Names are Ceph's. Each option is effective here, our own, another program's, Ceph's without anything to tune
//! here, or unknown ([`OptionStatus`]). This crate never opens a file: texts come in, values go out.

mod ceph;
mod conf;
mod debug;
mod inject;
mod instead;
mod parse;
mod table;
mod typed;
mod values;

pub use ceph::{ceph_choices, ceph_default};
pub use conf::{ConfError, ConfFile};
pub use debug::{highest_log_level, is_log_level, parse_log_level};
pub use inject::injected;
pub use instead::instead;
pub use parse::{Kind, Value, ValueError, parse_bool, parse_int};
pub use table::{
    AtStartOnly, OptionSpec, OptionStatus, all, check_settable, check_storable, lookup, names, nearest, opt,
    status,
};
pub use typed::{Opt, OptionType};
pub use values::{SetError, Values, canonical};

/// An option's name as the table has it: lower case, underscores where a ceph.conf may have spaces or dashes.
pub fn normalize(name: &str) -> String {
    let words: Vec<&str> = name.split([' ', '\t', '-', '_']).filter(|w| !w.is_empty()).collect();
    words.join("_").to_ascii_lowercase()
}
