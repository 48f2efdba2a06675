//! The monitor's view of the option table.

use options::{OptionStatus, Values, is_log_level, lookup, status};

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

    /// Every name that is known, in no order.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
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

/// The table itself, with the values that this process was given. Names are normalized.
#[derive(Clone, Debug, Default)]
pub struct Table(pub Values);

impl OptionTable for Table {
    fn local(&self, name: &str) -> Option<String> {
        self.0.changed().find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
    }

    fn find(&self, name: &str) -> Option<OptionFacts> {
        let facts = |default: &str, kind, runtime, summary: String| OptionFacts {
            default: default.into(),
            level: "advanced",
            runtime,
            kind,
            summary,
        };
        if let Some(spec) = lookup(name) {
            return Some(facts(spec.default, spec.kind.name(), spec.runtime, spec.about.into()));
        }
        let summary = match status(name) {
            OptionStatus::Unknown => return None,
            OptionStatus::OtherProgram(program) => format!("For {program}, which reads it itself."),
            _ if is_log_level(name) => {
                return Some(facts("", "str", false, LOG_LEVEL.into()));
            }
            _ => "Ceph's; there is nothing here for it to tune.".into(),
        };
        Some(facts("", "str", true, summary))
    }

    fn nearest(&self, name: &str) -> Option<String> {
        options::nearest(name).map(str::to_owned)
    }

    fn check(&self, name: &str, value: &str) -> Result<String, String> {
        options::canonical(name, value).map_err(|error| error.to_string())
    }

    fn names(&self) -> Vec<String> {
        options::names().map(str::to_owned).collect()
    }
}

/// What is true of every `debug_*` option.
pub const LOG_LEVEL: &str =
    "Level of this process's one log (N or N/M, 0 to 99); read only at the start, from `loligo up --set`.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_names_values_and_what_takes_effect_while_running() {
        let table = Table::default();
        assert_eq!(table.check("mon_allow_pool_delete", "ON"), Ok("true".into()));
        assert_eq!(table.check("debug_osd", "20"), Ok("20/20".into()));
        assert_eq!(table.check("debug_osd", "200").map_err(|e| e.contains("0 to 99")), Err(true));
        assert!(table.find("debug_nonsense").is_none());
        assert_eq!(table.find("debug_osd").map(|f| f.runtime), Some(false));
        assert_eq!(table.find("mon_allow_pool_delete").map(|f| f.runtime), Some(true));
        assert!(table.find("rbd_cache").is_some_and(|f| f.summary.contains("rbd")));
    }

    #[test]
    fn what_this_process_was_given_is_kept_in_one_spelling() {
        let mut values = Values::new();
        values.set("mon osd report-timeout", "900.0").unwrap();
        assert_eq!(Table(values).local("mon_osd_report_timeout").as_deref(), Some("900"));
    }
}
