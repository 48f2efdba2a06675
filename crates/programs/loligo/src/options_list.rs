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
            let when = if spec.runtime { "at once" } else { "at the next start" };
            format!(
                "{} ({}{range}; default {}; takes effect {when}): {}",
                name,
                spec.kind.name(),
                spec.default,
                spec.about
            )
        }
        (OptionStatus::OtherProgram(program), _) => format!("{name} is for {program}, which reads it itself"),
        (OptionStatus::NothingToTune, _) => format!("{name} is Ceph's; there is nothing here for it to tune"),
        (OptionStatus::Effective, _) => {
            format!(
                "{name} (N or N/M, 0 to 99): log verbosity, 0 (errors) to 20 (everything). One log serves all \
                 subsystems: the highest debug_* wins. Set it at the start with --set, and while the cluster runs \
                 with `ceph config set osd` or `ceph tell osd.N config set`"
            )
        }
        _ => {
            let hint = match options::nearest(name) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "no name is near it; `loligo options` lists those that do something here".into(),
            };
            return fail(&format!("unknown option '{name}'; {hint}"));
        }
    };
    output::line(text);
    ExitCode::SUCCESS
}
