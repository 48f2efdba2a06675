//! The values in force.

use std::collections::BTreeMap;

use crate::{
    Kind, OptionStatus, ValueError, debug, is_log_level, lookup, nearest, normalize, parse, parse_bool,
    status,
};

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SetError {
    /// Nobody knows the name.
    #[error("unknown option '{name}'; {}", hint(*.nearest))]
    Unknown {
        /// The name given.
        name: String,
        /// The nearest known one.
        nearest: Option<&'static str>,
    },
    /// The value does not fit.
    #[error("{name}: {error}")]
    Value {
        /// The option.
        name: String,
        /// What is wrong.
        error: ValueError,
    },
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean '{name}'?"),
        None => "no name is near it; `loligo options` lists those that do something here".into(),
    }
}

/// Checks a value for an option (normalized name); answers the one spelling in which it is kept: `true`, not `ON`;
/// `65536`, not `64K`. What nobody here reads is only trimmed.
pub fn canonical(name: &str, value: &str) -> Result<String, ValueError> {
    match lookup(name) {
        Some(spec) => parse::canonical(spec.kind, spec.range, value),
        None if is_log_level(name) => debug::canonical(value),
        None => Ok(value.trim().to_owned()),
    }
}

/// The values in force: the table's defaults with what was set over them.
#[derive(Debug, Clone, Default)]
pub struct Values {
    set: BTreeMap<String, String>,
}

impl Values {
    /// Only defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option by any spelling of its name; answers how it stands here.
    pub fn set(&mut self, name: &str, value: &str) -> Result<OptionStatus, SetError> {
        let name = normalize(name);
        let status = status(&name);
        if status == OptionStatus::Unknown {
            return Err(SetError::Unknown { nearest: nearest(&name), name });
        }
        match canonical(&name, value) {
            Ok(value) => drop(self.set.insert(name, value)),
            Err(error) => return Err(SetError::Value { name, error }),
        }
        Ok(status)
    }

    /// Back to the default.
    pub fn unset(&mut self, name: &str) {
        self.set.remove(&normalize(name));
    }

    /// What was set, by name.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// The value's text: what was set, else the default.
    ///
    /// # Panics
    /// If the table has no such option: a mistake in this program.
    pub fn text(&self, name: &str) -> &str {
        match self.set.get(name) {
            Some(value) => value,
            None => lookup(name).unwrap_or_else(|| panic!("no option '{name}' in the table")).default,
        }
    }

    /// A boolean's value.
    pub fn bool(&self, name: &str) -> bool {
        debug_assert_eq!(lookup(name).map(|s| s.kind), Some(Kind::Bool), "{name}");
        parse_bool(self.text(name)).unwrap_or_default()
    }

    /// A size's value in bytes.
    pub fn size(&self, name: &str) -> u64 {
        debug_assert_eq!(lookup(name).map(|s| s.kind), Some(Kind::Size), "{name}");
        text::parse_size(self.text(name)).unwrap_or_default()
    }

    /// A number's value (seconds for times).
    pub fn number(&self, name: &str) -> f64 {
        let spec = lookup(name).unwrap_or_else(|| panic!("no option '{name}' in the table"));
        // Checked when it was set, so the text is always a number here.
        parse::check(spec.kind, None, self.text(name)).ok().flatten().unwrap_or_default()
    }

    /// A whole, non-negative number's value.
    pub fn count(&self, name: &str) -> u64 {
        self.number(name).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_when_set_and_read_with_their_type() {
        let mut v = Values::new();
        assert_eq!(v.count("mon_max_pg_per_osd"), 250);
        assert_eq!(v.set("mon max pg per osd", "1000"), Ok(OptionStatus::Effective));
        assert_eq!(v.count("mon_max_pg_per_osd"), 1000);
        let error = v.set("mon_max_pg_per_ods", "1").unwrap_err().to_string();
        assert_eq!(error, "unknown option 'mon_max_pg_per_ods'; did you mean 'mon_max_pg_per_osd'?");
        let error = v.set("zzzzzzzz", "1").unwrap_err().to_string();
        assert!(
            error.starts_with("unknown option 'zzzzzzzz'; no name is near it; `loligo options`"),
            "{error}"
        );
        assert!(v.set("mon_data_avail_warn", "200").is_err());
        assert!(!v.bool("mon_allow_pool_delete"));
        v.unset("mon-max-pg-per-osd");
        assert_eq!(v.count("mon_max_pg_per_osd"), 250);
    }

    #[test]
    fn a_value_is_kept_in_the_spelling_that_everyone_reads() {
        let mut v = Values::new();
        for (name, value) in [
            ("mon_osd_report_timeout", "900.0"),
            ("mon_config_key_max_entry_size", "128K"),
            ("osd_pool_default_pg_num", "1K"),
            ("MON_ALLOW_POOL_DELETE", "True"),
            ("debug_osd", "20"),
        ] {
            assert!(v.set(name, value).is_ok(), "{name}");
        }
        let kept: Vec<(&str, &str)> = v.changed().collect();
        assert_eq!(
            kept,
            [
                ("debug_osd", "20/20"),
                ("mon_allow_pool_delete", "true"),
                ("mon_config_key_max_entry_size", "131072"),
                ("mon_osd_report_timeout", "900"),
                ("osd_pool_default_pg_num", "1000"),
            ]
        );
        assert_eq!((v.number("mon_osd_report_timeout"), v.bool("mon_allow_pool_delete")), (900.0, true));
    }

    #[test]
    fn a_time_that_would_mark_every_osd_down_at_once_is_refused() {
        for value in ["0", "0.5", "-1"] {
            assert!(Values::new().set("mon_osd_report_timeout", value).is_err(), "{value}");
        }
    }
}
