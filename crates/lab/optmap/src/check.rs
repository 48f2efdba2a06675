//! A whole study's options, resolved before anything starts.

use std::collections::BTreeMap;
use std::fmt;

use study::{NotRun, Setting, Study, System, Target, settings_of};

use crate::parts::Loads;
use crate::repeats;
use crate::resolve::resolve_among;
use crate::table::Release;
use crate::values::{self, BadValue};
use crate::verdict::{Resolved, Verdict, Why, nothing_effective};

/// What a study's options are, system by system.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolution {
    /// In the order of [`Study::systems`].
    pub systems: Vec<SystemOptions>,
    /// What must be changed before the study can run, in order of lines.
    pub problems: Vec<Problem>,
    /// (system, variant), by their places in the study's lists: variants that are not run, because nothing of them is
    /// effective there or the lab configures nothing there. Never a default.
    pub not_run: NotRun,
}

/// A system's options.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemOptions {
    /// The study's default and the system's own settings.
    pub default: Vec<Resolved>,
    /// What each variant sets on top, in the order of [`Study::variants`].
    pub variants: Vec<Vec<Resolved>>,
}

/// An option that a study can't be run with. It is always the study's mistake.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The option's line in the study file, from 1.
    pub line: u32,
    /// As written.
    pub option: String,
    /// Names of the systems that have the problem.
    pub systems: Vec<String>,
    pub kind: ProblemKind,
}

/// What is wrong with an option.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ProblemKind {
    /// Nobody knows the name.
    #[error("unknown option{}; if it was published so, list it under as_published", meant(*.nearest))]
    Unknown {
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// Set for one system, which doesn't know it.
    #[error("set for a system that doesn't know it: {0}")]
    OfOtherSystems(Why),
    /// Two variants that set the same.
    #[error("variant '{again}' sets the same as '{first}': leave one of them out")]
    Repeated {
        /// The earlier variant.
        first: String,
        /// The other.
        again: String,
    },
    /// A value that the system would refuse, or ignore without a word.
    #[error("{0}")]
    Value(#[from] BadValue),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, option, systems, kind } = self;
        write!(f, "line {line}: {option}: {kind} ({})", systems.join(", "))
    }
}

/// Resolves every option of every variant on every system.
pub fn check(study: &Study) -> Resolution {
    let loads = Loads::of(study);
    let mut problems = Problems { study, found: BTreeMap::new() };
    let mut not_run = NotRun::of(study);
    let mut systems = Vec::new();
    for (at, system) in study.systems.iter().enumerate() {
        let resolved = system_options(study, system, loads);
        for (variant, settings) in resolved.variants.iter().enumerate().skip(1) {
            if nothing_effective(settings) {
                not_run.variants.insert((at, variant));
            }
        }
        for setting in resolved.default.iter().chain(resolved.variants.iter().flatten()) {
            problems.look_at(system, setting);
        }
        systems.push(resolved);
    }
    problems.repeats();
    Resolution { systems, problems: problems.found.into_values().collect(), not_run }
}

fn system_options(study: &Study, system: &System, loads: Loads) -> SystemOptions {
    let default = study::merged(study.default.iter().chain(&system.settings));
    let variants = study
        .variants
        .iter()
        .map(|variant| resolve_among(system, loads, &variant.settings, &settings_of(study, system, variant)));
    SystemOptions { default: resolve_among(system, loads, &default, &default), variants: variants.collect() }
}

/// Problems in order of lines, each once with all its systems.
struct Problems<'a> {
    study: &'a Study,
    found: BTreeMap<(u32, String, String), Problem>,
}

impl Problems<'_> {
    fn look_at(&mut self, system: &System, resolved: &Resolved) {
        let setting = &resolved.setting;
        match &resolved.verdict {
            Verdict::Unknown { .. } if self.published(setting) => {}
            Verdict::Unknown { nearest } => {
                self.add(system, setting, ProblemKind::Unknown { nearest: *nearest })
            }
            Verdict::AcceptedWithoutEffect { why: why @ Why::OnlyIn { .. } }
                if system.settings.contains(setting) =>
            {
                self.add(system, setting, ProblemKind::OfOtherSystems(why.clone()));
            }
            _ => {
                if let Err(bad) = check_value(system, setting) {
                    self.add(system, setting, bad.into());
                }
            }
        }
    }

    fn repeats(&mut self) {
        for repeat in repeats::find(self.study) {
            let (first, again) = (repeat.first.name.clone(), repeat.again.name.clone());
            let (line, option) = (repeat.setting.line, repeat.setting.name.clone());
            let key = (line, option.clone(), format!("repeated {again}"));
            let kind = ProblemKind::Repeated { first, again };
            self.found.insert(key, Problem { line, option, systems: repeat.systems, kind });
        }
    }

    fn published(&self, setting: &Setting) -> bool {
        let name = options::normalize(&setting.name);
        self.study.as_published.iter().any(|published| options::normalize(published) == name)
    }

    fn add(&mut self, system: &System, setting: &Setting, kind: ProblemKind) {
        // Of one misspelled name each system may have another nearest; the first one's is enough.
        let sort = match &kind {
            ProblemKind::Unknown { .. } => String::new(),
            other => format!("{other} {}", setting.value),
        };
        let key = (setting.line, setting.name.clone(), sort);
        let problem = self.found.entry(key).or_insert_with(|| {
            let option = setting.name.clone();
            Problem { line: setting.line, option, systems: Vec::new(), kind }
        });
        if !problem.systems.contains(&system.name) {
            problem.systems.push(system.name.clone());
        }
    }
}

/// Whether the readers of an option on a system take its value; an option without a reader is not checked.
fn check_value(system: &System, setting: &Setting) -> Result<(), BadValue> {
    let name = options::normalize(&setting.name);
    let is_own = options::lookup(&name).is_some() || options::is_log_level(&name);
    if is_own && matches!(system.target, Target::Loligo { .. }) {
        options::canonical(&name, &setting.value)?;
    }
    match Release::on(&system.target).and_then(|release| release.table().get(&name)) {
        Some(entry) => values::check(entry, &setting.value),
        None => Ok(()),
    }
}
