//! The monitor's view of the option table, which lives elsewhere.

/// What the monitor asks of the table of options.
pub trait OptionTable: Send + Sync {
    /// A value given to this process (command line, configuration file); it wins over the stored configuration.
    fn local(&self, name: &str) -> Option<String>;

    /// What is known of an option, or `None` where there is no such option.
    fn find(&self, name: &str) -> Option<OptionFacts>;

    /// The known name nearest to an unknown one.
    fn nearest(&self, name: &str) -> Option<String>;

    /// The value as it is to be stored, or a sentence that says what is wrong with it.
    fn check(&self, name: &str, value: &str) -> Result<String, String>;
}

/// What is known of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFacts {
    /// The default, as text.
    pub default: String,
    /// `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// Whether a change takes effect without a restart.
    pub runtime: bool,
    /// `str`, `int`, `uint`, `float`, `bool`, `size`, `secs`, ...
    pub kind: &'static str,
    /// One line on what it does.
    pub summary: String,
}

/// The options that the monitor itself reads, with Ceph's names and defaults. (`osd_pool_default_size` and
/// `mon_warn_on_pool_no_redundancy` differ from Ceph's until replication is there.)
pub const USED: &[(&str, &str)] = &[
    ("mon_osd_down_out_interval", "600"),
    ("mon_osd_min_in_ratio", "0.75"),
    ("mon_osd_report_timeout", "900"),
    ("mon_min_osdmap_epochs", "500"),
    ("mon_osd_full_ratio", "0.95"),
    ("mon_osd_backfillfull_ratio", "0.9"),
    ("mon_osd_nearfull_ratio", "0.85"),
    ("mon_max_pg_per_osd", "250"),
    ("mon_max_pool_pg_num", "65536"),
    ("mon_allow_pool_delete", "false"),
    ("mon_warn_on_pool_no_redundancy", "false"),
    ("mon_warn_on_pool_no_app", "true"),
    ("mon_data_avail_warn", "30"),
    ("mon_data_avail_crit", "5"),
    ("mon_osd_min_down_reporters", "2"),
    ("osd_heartbeat_grace", "20"),
    ("mon_warn_on_pool_pg_num_not_power_of_two", "true"),
    ("mon_pg_stuck_threshold", "60"),
    ("mon_config_key_max_entry_size", "65536"),
    ("osd_map_message_max", "40"),
    ("osd_map_message_max_bytes", "10485760"),
    ("osd_pool_default_size", "1"),
    ("osd_pool_default_min_size", "0"),
    ("osd_pool_default_pg_num", "32"),
    ("osd_pool_default_pgp_num", "0"),
    ("osd_pool_default_crush_rule", "-1"),
    ("osd_pool_default_pg_autoscale_mode", "off"),
    ("osd_pool_default_flag_hashpspool", "true"),
    ("osd_crush_chooseleaf_type", "0"),
];

/// The default of an option that the monitor itself reads.
pub fn used_default(name: &str) -> Option<&'static str> {
    USED.iter().find(|(known, _)| *known == name).map(|(_, default)| *default)
}

/// A table of [`USED`] alone, for tests and tools: nothing is set locally, unless told.
#[derive(Clone, Debug, Default)]
pub struct UsedOptions {
    /// Values that win over the stored configuration.
    pub local: std::collections::BTreeMap<String, String>,
}

impl OptionTable for UsedOptions {
    fn local(&self, name: &str) -> Option<String> {
        self.local.get(name).cloned()
    }

    fn find(&self, name: &str) -> Option<OptionFacts> {
        let default = used_default(name)?;
        Some(OptionFacts {
            default: default.to_string(),
            level: "advanced",
            runtime: true,
            kind: "str",
            summary: String::new(),
        })
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let common = |known: &str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        USED.iter().map(|(known, _)| *known).max_by_key(|known| common(known)).map(str::to_string)
    }

    fn check(&self, name: &str, value: &str) -> Result<String, String> {
        match self.find(name).map(|facts| facts.default) {
            Some(default) if default.parse::<f64>().is_ok() && value.parse::<f64>().is_err() => {
                Err(format!("'{value}' is not a number"))
            }
            _ => Ok(value.to_string()),
        }
    }
}
