//! `loligo options`: the option table for people.

use std::process::ExitCode;

use options::OptionStatus;

use lab::output;

use crate::fail;

#[derive(clap::Args)]
pub struct Args {
    /// Explain this option only.
    name: Option<String>,
}

pub fn run(args: &Args) -> ExitCode {
    match &args.name {
        None => {
            for spec in options::all() {
                let own = if spec.status == OptionStatus::Own { " (loligo's own)" } else { "" };
                output::line(format_args!(
                    "{} = {}  [{}]{own}\n    {}",
                    spec.name,
                    spec.default,
                    spec.kind.name(),
                    spec.about
                ));
            }
            ExitCode::SUCCESS
        }
        Some(name) => explain(&options::normalize(name)),
    }
}

fn explain(name: &str) -> ExitCode {
    let text = match (options::status(name), options::lookup(name)) {
        (_, Some(spec)) => {
            let range = spec.range.map(|(min, max)| format!(", {min} to {max}")).unwrap_or_default();
            let choices = match spec.choices {
                [] => String::new(),
                choices => format!(", one of {}", choices.join(", ")),
            };
            let when = match (spec.runtime, spec.at_start_only) {
                (true, _) => "at once",
                (false, true) => "only by `loligo up --set`",
                (false, false) => "at the next start",
            };
            format!(
                "{} ({}{range}{choices}; default {}; takes effect {when}): {}",
                name,
                spec.kind.name(),
                spec.default,
                spec.about
            )
        }
        (OptionStatus::OtherProgram(program), _) => format!("{name} is for {program}, which reads it itself"),
        (OptionStatus::NothingToTune, _) => match options::instead(name) {
            Some(instead) => format!("{name} is Ceph's, and refused: {instead}"),
            None => format!("{name} is Ceph's; there is nothing here for it to tune"),
        },
        (OptionStatus::Effective, _) => {
            format!(
                "{name} (N or N/M, 0 to 99): log verbosity, 0 (errors) to 20 (everything). One log serves all \
                 subsystems: the highest debug_* wins. Set it at the start with --set, and while the cluster runs \
                 with `ceph config set osd` or `ceph tell osd.N config set`"
            )
        }
        _ => {
            return fail(&format!("unknown option '{name}'; {}", hint(name)));
        }
    };
    output::line(text);
    ExitCode::SUCCESS
}

/// Most names that a hint has.
const HINTS_MAX: usize = 8;

/// What may have been meant: of the options that do something here those that begin with the word, or else contain it;
/// or else the known name that differs from it by a slip.
fn hint(name: &str) -> String {
    let own = || options::all().iter().map(|spec| spec.name);
    let begin: Vec<_> = own().filter(|known| known.starts_with(name)).collect();
    let have: Vec<_> =
        if begin.is_empty() { own().filter(|known| known.contains(name)).collect() } else { begin };
    match (&have[..], options::nearest(name)) {
        ([], Some(near)) => format!("did you mean '{near}'?"),
        ([], None) => "no name is near it; `loligo options` lists those that do something here".into(),
        ([one], _) => format!("did you mean '{one}'?"),
        (several, _) => {
            let more = several.len().saturating_sub(HINTS_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("did you mean one of {}{more}?", several[..several.len().min(HINTS_MAX)].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_part_of_a_name_is_told_what_it_is_a_part_of() {
        assert_eq!(hint("bdev_model_par"), "did you mean 'bdev_model_parameters'?");
        let words = hint("mon_max_p");
        assert_eq!(words, "did you mean one of mon_max_pg_per_osd, mon_max_pool_pg_num?");
        assert!(hint("stuck_thresh").contains("mon_pg_stuck_threshold"), "in the middle of a name");
        let words = hint("osd_");
        assert!(words.ends_with(" more?") && words.matches(", ").count() == 7, "{words}");
    }

    #[test]
    fn a_slip_is_told_the_nearest_name_and_nonsense_where_to_look() {
        assert_eq!(hint("mon_pg_stuck_treshold"), "did you mean 'mon_pg_stuck_threshold'?");
        assert!(hint("entirely_of_my_own").starts_with("no name is near it"));
    }
}
