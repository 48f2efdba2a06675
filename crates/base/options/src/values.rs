//! The values in force.

use std::collections::BTreeMap;

use crate::parse::Value;
use crate::{
    Opt, OptionSpec, OptionStatus, OptionType, ValueError, all, ceph, debug, instead, is_log_level, lookup,
    nearest, normalize, status, table,
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
/// `65536`, not `64K`. A value that Loligo does not read is held against what Ceph takes, and trimmed.
pub fn canonical(name: &str, value: &str) -> Result<String, ValueError> {
    match lookup(name) {
        Some(spec) => Ok(spec.read(value)?.text()),
        None if is_log_level(name) => debug::canonical(value),
        None => match instead(name).filter(|_| !value.trim().is_empty()) {
            Some(instead) => Err(ValueError::Refused(instead)),
            None => ceph::check(name, value.trim()).map(|()| value.trim().to_owned()),
        },
    }
}

/// The values in force: the table's defaults with what was set over them. Each is read once, when it is set.
#[derive(Debug, Clone)]
pub struct Values {
    /// What was set, by name, also of options that are not in the table.
    set: BTreeMap<String, String>,
    /// Defaults that are this machine's in place of the table's.
    defaults: BTreeMap<String, String>,
    /// The value of each row of the table.
    rows: Vec<Value>,
}

impl Default for Values {
    fn default() -> Self {
        let rows = all().iter().map(default_value).collect();
        Self { set: BTreeMap::new(), defaults: BTreeMap::new(), rows }
    }
}

/// # Panics
/// If the table's default is not a value of the option; a test reads them all.
fn default_value(spec: &OptionSpec) -> Value {
    match spec.read(spec.default) {
        Ok(value) => value,
        Err(error) => panic!("the default of {}: {error}", spec.name),
    }
}

impl Values {
    /// Only defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option by any spelling of its name; answers what the option means here.
    pub fn set(&mut self, name: &str, value: &str) -> Result<OptionStatus, SetError> {
        let name = normalize(name);
        let status = status(&name);
        if status == OptionStatus::Unknown {
            return Err(SetError::Unknown { nearest: nearest(&name), name });
        }
        let error = |error| SetError::Value { name: name.clone(), error };
        if let Some(row) = table::row(&name) {
            let spec = &all()[row];
            self.rows[row] = spec.read(value).map_err(error)?;
            self.set.insert(name, self.rows[row].text());
        } else {
            let value = canonical(&name, value).map_err(error)?;
            self.set.insert(name, value);
        }
        Ok(status)
    }

    /// Gives an option another default than the table's; what was set goes over it.
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<(), SetError> {
        let mut with = self.only_defaults();
        with.set(name, value)?;
        with.defaults.append(&mut with.set);
        for (name, value) in &self.set {
            with.set(name, value)?;
        }
        *self = with;
        Ok(())
    }

    /// The defaults alone.
    pub fn only_defaults(&self) -> Self {
        let mut only = Self { defaults: self.defaults.clone(), ..Self::default() };
        for (name, value) in &self.defaults {
            if let (Some(row), Some(spec)) = (table::row(name), lookup(name)) {
                // It was read once.
                only.rows[row] = spec.read(value).unwrap_or(default_value(spec));
            }
        }
        only
    }

    /// What was set, by name.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// An option's value.
    pub fn get<T: OptionType + ?Sized>(&self, option: Opt<T>) -> T::Value<'_> {
        match T::of(&self.rows[option.row()]) {
            Some(value) => value,
            None => unreachable!("'{}' has a value of another kind than the table gives it", option.name()),
        }
    }

    /// An option's value if it was set.
    pub fn given<T: OptionType + ?Sized>(&self, option: Opt<T>) -> Option<T::Value<'_>> {
        self.set.contains_key(option.name()).then(|| self.get(option))
    }

    /// The text of an option's value, by its normalized name: what was set, else the default. `None` for an
    /// option that was not set and is not in the table.
    pub fn text(&self, name: &str) -> Option<&str> {
        let given = self.set.get(name).or_else(|| self.defaults.get(name));
        given.map(String::as_str).or_else(|| Some(lookup(name)?.default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_of_the_machine_gives_way_to_what_is_set() {
        let mut v = Values::new();
        v.set("osd_max_object_size", "5M").unwrap();
        v.set_default("osd_memory_target", "1G").unwrap();
        assert_eq!((v.get(opt::OSD_MEMORY_TARGET), v.get(opt::OSD_MAX_OBJECT_SIZE)), (1 << 30, 5 << 20));
        assert_eq!(
            (v.text("osd_memory_target"), v.given(opt::OSD_MEMORY_TARGET)),
            (Some("1073741824"), None)
        );
        v.set("osd_memory_target", "2G").unwrap();
        assert_eq!(v.given(opt::OSD_MEMORY_TARGET), Some(2 << 30));
        let only = v.only_defaults();
        assert_eq!((only.get(opt::OSD_MEMORY_TARGET), only.changed().count()), (1 << 30, 0));
        assert!(v.set_default("osd_memory_target", "1").is_err());
    }
    use crate::opt;

    #[test]
    fn every_constant_reads_the_option_that_it_is_called_as() {
        let mut v = Values::new();
        v.set("bdev_model", " ssd ").unwrap();
        v.set("osd_client_message_size_cap", "1G").unwrap();
        v.set("osd_pool_default_crush_rule", "-1").unwrap();
        assert_eq!(v.get(opt::BDEV_MODEL), "ssd");
        assert_eq!(v.get(opt::OSD_CLIENT_MESSAGE_SIZE_CAP), 1 << 30);
        assert_eq!(v.get(opt::OSD_POOL_DEFAULT_CRUSH_RULE), -1);
        assert_eq!(v.get(opt::OSD_FAILSAFE_FULL_RATIO), 0.97);
        assert_eq!(opt::OSD_FAILSAFE_FULL_RATIO.name(), "osd_failsafe_full_ratio");
    }

    #[test]
    fn values_are_checked_when_set_and_read_with_their_type() {
        let mut v = Values::new();
        assert_eq!(v.get(opt::MON_MAX_PG_PER_OSD), 250);
        assert_eq!(v.set("mon max pg per osd", "1000"), Ok(OptionStatus::Effective));
        assert_eq!(v.get(opt::MON_MAX_PG_PER_OSD), 1000);
        let error = v.set("mon_max_pg_per_ods", "1").unwrap_err().to_string();
        assert_eq!(error, "unknown option 'mon_max_pg_per_ods'; did you mean 'mon_max_pg_per_osd'?");
        let error = v.set("zzzzzzzz", "1").unwrap_err().to_string();
        assert!(
            error.starts_with("unknown option 'zzzzzzzz'; no name is near it; `loligo options`"),
            "{error}"
        );
        assert!(v.set("mon_data_avail_warn", "200").is_err());
        assert!(v.get(opt::MON_ALLOW_POOL_DELETE));
        assert!(v.set("mon_max_pg_per_osd", "none").is_err());
        assert_eq!(v.get(opt::MON_MAX_PG_PER_OSD), 1000, "what is refused changes nothing");
        let error = v.set("bluestore_compression_algorithm", "snappy").unwrap_err().to_string();
        assert_eq!(error, "bluestore_compression_algorithm: 'snappy' is not one of lz4, zstd");
        assert!(v.set("bluestore_compression_mode", "force").is_ok());
        assert_eq!(v.text("mon_max_pg_per_osd"), Some("1000"));
        assert_eq!((v.text("mon_data_avail_warn"), v.text("rbd_cache")), (Some("30"), None));
    }

    #[test]
    fn a_value_is_kept_in_the_spelling_that_everyone_reads() {
        let mut v = Values::new();
        for (name, value) in [
            ("mon_osd_report_timeout", "900.0"),
            ("mon_config_key_max_entry_size", "128K"),
            ("osd_pool_default_pg_num", "1K"),
            ("MON_ALLOW_POOL_DELETE", "False"),
            ("debug_osd", "20"),
        ] {
            assert!(v.set(name, value).is_ok(), "{name}");
        }
        let kept: Vec<(&str, &str)> = v.changed().collect();
        assert_eq!(
            kept,
            [
                ("debug_osd", "20/20"),
                ("mon_allow_pool_delete", "false"),
                ("mon_config_key_max_entry_size", "131072"),
                ("mon_osd_report_timeout", "900"),
                ("osd_pool_default_pg_num", "1000"),
            ]
        );
        assert_eq!((v.get(opt::MON_OSD_REPORT_TIMEOUT), v.get(opt::MON_ALLOW_POOL_DELETE)), (900.0, false));
    }

    #[test]
    fn a_time_that_would_mark_every_osd_down_at_once_is_refused() {
        for value in ["0", "0.5", "-1"] {
            assert!(Values::new().set("mon_osd_report_timeout", value).is_err(), "{value}");
        }
    }
}
