//! What commands show of an option.

use options::{OptionStatus, ceph_default, is_log_level, lookup, status};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OptionFacts {
    /// The default, as text; Ceph's for an option that Loligo does not read, empty where it is not known.
    pub default: &'static str,
    /// `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// Whether a change takes effect without a restart.
    pub runtime: bool,
    /// `str`, `int`, `float`, `bool`, `size` or `secs`.
    pub kind: &'static str,
    /// What it does, in one line.
    pub summary: String,
    /// The least and the greatest value, where there is such a limit.
    pub range: Option<(f64, f64)>,
}

/// The facts about an option (normalized name); `None`: Ceph has no such option.
pub(crate) fn facts(name: &str) -> Option<OptionFacts> {
    let facts = |default, kind, runtime, summary: String| OptionFacts {
        default,
        level: "advanced",
        runtime,
        kind,
        summary,
        range: None,
    };
    if let Some(spec) = lookup(name) {
        let known = facts(spec.default, spec.kind.name(), spec.runtime, spec.about.into());
        return Some(OptionFacts { range: spec.range, ..known });
    }
    let summary = match status(name) {
        OptionStatus::Unknown => return None,
        OptionStatus::OtherProgram(program) => format!("For {program}, which reads it itself."),
        _ if is_log_level(name) => {
            return Some(facts("", "str", true, LOG_LEVEL.into()));
        }
        _ => options::instead(name).unwrap_or(NOTHING_TO_TUNE).into(),
    };
    let (kind, default) = ceph_default(name).unwrap_or(("str", ""));
    Some(facts(default, kind, true, summary))
}

const NOTHING_TO_TUNE: &str = "Ceph's; there is nothing here for it to tune.";

/// Why a known option's value changes nothing in this process or in a client of it, if so. `who` is its section.
pub(crate) fn why_without_effect(name: &str, who: &str) -> Option<&'static str> {
    let kind = who.split('.').next().unwrap_or(who);
    if lookup(name).is_some_and(|spec| spec.at_start_only) && kind != "client" {
        return Some(AT_START_ONLY);
    }
    if is_log_level(name) {
        // OSDs take it from their section and from `global`, clients from theirs.
        return matches!(kind, "mon" | "mgr" | "mds").then_some(LOG_LEVEL);
    }
    match status(name) {
        OptionStatus::NothingToTune => Some(NOTHING_TO_TUNE),
        // Another program reads it; an unknown one, which was forced, may be a client's.
        OptionStatus::Effective
        | OptionStatus::Own
        | OptionStatus::OtherProgram(_)
        | OptionStatus::Unknown => None,
    }
}

const AT_START_ONLY: &str = "Daemons have it from the `loligo up --set` of their start alone. Ceph's clients take it from the sections client and global.";

/// What is true of every `debug_*` option.
pub(crate) const LOG_LEVEL: &str = "Level of this process's one log (N or N/M, 0 to 99). OSDs take it at once, for the whole process; of the sections \
     mon, mgr and mds nothing is taken: give it to an OSD, or to `loligo up --set`.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_say_what_takes_effect_while_running_and_who_reads_the_rest() {
        assert!(facts("debug_nonsense").is_none());
        assert_eq!(facts("osd_memory_target").map(|f| (f.kind, f.default)), Some(("size", "4294967296")));
        assert_eq!(facts("debug_osd").map(|f| f.runtime), Some(true));
        assert_eq!(why_without_effect("debug_osd", "mon.a"), Some(LOG_LEVEL));
        for who in ["osd", "osd.3", "global", "client"] {
            assert_eq!(why_without_effect("debug_osd", who), None, "{who}");
        }
        for who in ["global", "osd.3", "mon"] {
            assert_eq!(why_without_effect("ms_max_backoff", who), Some(AT_START_ONLY), "{who}");
        }
        assert_eq!(why_without_effect("ms_max_backoff", "client.a"), None, "its own affair");
        assert_eq!(facts("mon_allow_pool_delete").map(|f| f.runtime), Some(true));
        assert!(facts("rbd_cache").is_some_and(|f| f.summary.contains("rbd")));
    }
}
