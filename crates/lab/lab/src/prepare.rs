//! Before the start: the study is checked whole, what can't run is found, the trials are planned, and all of it is said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use labstats::power::{self, simulated, simulated::Sensitivity};
use optmap::Verdict;
use serde::{Deserialize, Serialize};
use study::{NotRun, Plan, Profiled, Rule, Setting, Study, System, Target, Trial, Variant};
use testbed::{Site, Wanted};

use crate::args::{ProfileArg, RunArgs};
use crate::error::LabError;
use crate::judging;
use crate::preflight;

/// A study that can be run.
pub(crate) struct Prepared {
    /// The file's bytes.
    pub text: Vec<u8>,
    /// What it says, cut down to what the command line asks for.
    pub study: Study,
    /// What is not run, and why.
    pub cells: Reasons,
    /// The trials.
    pub plan: Plan,
    /// Those that are profiled, after all others.
    pub profiles: Vec<Trial>,
    /// Sentences for the user and the report.
    pub notes: Vec<String>,
    /// Limits raised on every system.
    raised: Vec<Setting>,
}

/// Why variants and workloads are not run, by system and what it is.
pub(crate) type Reasons = BTreeMap<(String, What), String>;

/// What is not run on a system: a variant and a workload may have the same name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// The variant of this name: nothing of it is effective there.
    Variant(String),
    /// The workload of this name.
    Workload(String),
}

impl What {
    /// The variant's or workload's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Variant(name) | Self::Workload(name) => name,
        }
    }
}

/// Seconds of a trial that are not its load's, until one was measured.
pub(crate) fn overhead_seconds(system: &System) -> f64 {
    match &system.target {
        Target::Loligo { .. } => 2.0,
        Target::Ceph { .. } => 30.0,
        Target::Running { .. } => 3.0,
        Target::Nfs { .. } => 10.0,
    }
}

/// A study file: its bytes, and what it says.
pub(crate) struct StudyFile {
    text: Vec<u8>,
    study: Study,
}

impl StudyFile {
    /// Reads it; prints every problem.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read(path).map_err(LabError::file(path))?;
        let (study, problems) = study::read_bytes(&text, &path.display().to_string());
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        // Errors in options are reported with the others, so that the file is mended once.
        let of_options = study.as_ref().map_or(0, |study| print_problems(path, &optmap::check(study)));
        match (study, problems.len() + of_options) {
            (Some(study), 0) => Ok(Self { text, study }),
            (_, count) => Err(LabError::Study { path: path.to_owned(), count }),
        }
    }

    /// The default directory of results: the file may have any name.
    pub fn out(&self) -> PathBuf {
        Path::new("results").join(&self.study.name)
    }
}

/// Prints what is wrong with a study's options; answers how many errors there are.
fn print_problems(path: &Path, resolution: &optmap::Resolution) -> usize {
    for problem in &resolution.problems {
        eprintln!("{}: {problem}", path.display());
    }
    resolution.problems.len()
}

/// Checks a study against this machine and the command line; prints every problem.
pub(crate) fn prepare(file: StudyFile, args: &RunArgs, site: &Site) -> Result<Prepared, LabError> {
    let StudyFile { text, mut study } = file;
    // Of the whole study: what is chosen of it changes no trial.
    let raised = study::raised_limits(&study);
    keep_only(&mut study, args)?;
    let mut not_run = NotRun::of(&study);
    let mut cells = BTreeMap::new();
    let mut notes = Vec::new();
    note_options(&study, &mut not_run, &mut cells, &mut notes);
    for setting in &raised {
        notes.push(format!("{} is raised to {} on every system", setting.name, setting.value));
    }
    notes.extend(preflight::of_librbd(&study));
    notes.extend(replaced(&study, site, &raised, &not_run));
    let mut in_the_way = find_not_yet(&study, site, &raised, &mut not_run, &mut cells);
    let unasked = study.workloads.iter().filter(|_| !args.dry_run);
    in_the_way.extend(unasked.flat_map(|load| preflight::of_hosts(&load.kind, args.ssh_config.as_deref())));
    if args.dry_run {
        // A plan can be read on a machine that can't run it.
        not_run.workloads.clear();
        notes.extend(in_the_way.into_iter().map(|words| format!("not possible here: {words}")));
    } else if !in_the_way.is_empty() {
        in_the_way.iter().for_each(|words| eprintln!("loligo lab: {words}"));
        return Err(LabError::InTheWay { count: in_the_way.len() });
    }
    notes.extend(crate::profiling::notes(&study));
    let plan = Plan::new(&study, &not_run, study.design.seed);
    if plan.trials.is_empty() {
        let why: BTreeSet<&str> = cells.values().map(String::as_str).collect();
        let why: Vec<&str> = why.into_iter().collect();
        return Err(LabError::Nothing(format!("nothing of this study can run here: {}", why.join("; "))));
    }
    let profiles = plan.profiles(&study);
    Ok(Prepared { text, study, cells, plan, profiles, notes, raised })
}

impl Prepared {
    /// The settings of a trial, as they reach ceph.conf.
    pub fn settings(&self, system: &System, variant: &Variant) -> Vec<Setting> {
        settings(&self.study, &self.raised, system, variant)
    }

    /// What is known before the start, a line each.
    pub fn summary(&self) -> Vec<String> {
        let study = &self.study;
        let mut lines = vec![study.title.clone()];
        lines.extend(study.changes.iter().map(|change| format!("  differs: {change}")));
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        let mut said: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((system, what), why) in &self.cells {
            said.entry(why).or_default().push(format!("{} on {system}", what.name()));
        }
        lines.extend(said.into_iter().map(|(why, cells)| format!("  {why}: {}", cells.join(", "))));
        let seconds = study::plan_seconds(study, &self.plan.trials, &overhead_seconds)
            + study::plan_seconds(study, &self.profiles, &overhead_seconds);
        lines.push(format!(
            "{} trials in {} blocks, about {}{}; seed {}",
            self.plan.trials.len(),
            study.design.blocks,
            duration(seconds),
            if may_confirm(study, &self.plan) { " (more where cells are run again to confirm)" } else { "" },
            self.plan.seed
        ));
        if !self.profiles.is_empty() {
            lines.push(format!("{} more are profiled and are no samples", self.profiles.len()));
        }
        lines.push(detectable(study, &self.plan));
        lines
    }
}

/// Whether what is coloured is run again: only a variant is.
fn may_confirm(study: &Study, plan: &Plan) -> bool {
    let has_variants = plan.trials.iter().any(|t| t.cell.variant > 0);
    study.design.confirm && matches!(study.design.rule, Rule::Adjusted(_)) && has_variants
}

/// The smallest effect that the plan can show.
fn detectable(study: &Study, plan: &Plan) -> String {
    let design = &study.design;
    let (powered, of) = power_plan(study, plan);
    if powered.variants == 0 || powered.cells == 0 {
        return "nothing to compare: raw numbers only, no significance test".to_owned();
    }
    if design.rule == Rule::OneSigma {
        let (variant, each) = (design.blocks as usize, design.defaults_per_block as usize);
        let rate = labstats::one_sigma::false_colours(variant.saturating_mul(each), variant);
        return format!(
            "judged by the 2013 article's rule: without any effect, {:.1}% of comparisons get a colour",
            100.0 * rate
        );
    }
    let (found, how) = match simulated::detectable(&powered, 0.8) {
        Sensitivity::Simulated(found) => (found, "80% power"),
        Sensitivity::Computed(found) => (found, "at most 80% power"),
        Sensitivity::Nothing => return format!("too few trials to detect {of}: add blocks"),
    };
    if found.more > TENFOLD {
        return format!("too few trials to detect {of} below tenfold: add blocks");
    }
    format!(
        "{how} to detect {of} of +{:.0}% or -{:.0}%, assuming a {:.0}% coefficient of variation",
        100.0 * found.more,
        100.0 * found.less,
        100.0 * design.assumed_spread
    )
}

/// The comparisons as the plan has them, and what they are of: variants, or systems where there is one variant.
fn power_plan(study: &Study, plan: &Plan) -> (power::Plan, &'static str) {
    let design = &study.design;
    let variants: BTreeSet<usize> = plan.trials.iter().map(|t| t.cell.variant).collect();
    let systems: BTreeSet<usize> = plan.trials.iter().map(|t| t.cell.system).collect();
    let phases: usize = study.workloads.iter().map(|w| w.sampled_phases().len()).sum();
    let between_systems = variants.len() < 2;
    // Systems have as many trials of their defaults as each other: as many pairs as there are trials of one.
    let (blocks, defaults_per_block, variants, cells) = match between_systems {
        false => (design.blocks, design.defaults_per_block, variants.len() - 1, systems.len() * phases),
        true => {
            let pairs = systems.len() * systems.len().saturating_sub(1) / 2;
            (design.blocks.saturating_mul(design.defaults_per_block), 1, 1, pairs * phases)
        }
    };
    let plan = power::Plan {
        blocks,
        defaults_per_block,
        variants,
        cells,
        spread: design.assumed_spread,
        confidence: design.confidence,
        effect: design.effect,
        correction: judging::criteria(design).correction,
    };
    (plan, if between_systems { "a difference between two systems" } else { "an effect" })
}

fn settings(study: &Study, raised: &[Setting], system: &System, variant: &Variant) -> Vec<Setting> {
    let own = study::settings_of(study, system, variant);
    study::merged(raised.iter().chain(&own))
}

/// Leaves what the command line asks for.
fn keep_only(study: &mut Study, args: &RunArgs) -> Result<(), LabError> {
    let systems: Vec<String> = study.systems.iter().map(|s| s.name.clone()).collect();
    let workloads: Vec<String> = study.workloads.iter().map(|w| w.name.clone()).collect();
    known("system", &args.systems, &systems)?;
    known("workload", &args.workloads, &workloads)?;
    if !args.systems.is_empty() {
        study.systems.retain(|s| args.systems.contains(&s.name));
    }
    if !args.workloads.is_empty() {
        study.workloads.retain(|w| args.workloads.contains(&w.name));
    }
    match args.profile {
        Some(ProfileArg::Default) => study.design.profile = Profiled::Default,
        Some(ProfileArg::All) => study.design.profile = Profiled::All,
        None => {}
    }
    if let Some(blocks) = args.blocks {
        study.design.blocks = blocks;
        let trials = study::trials_at_most(study);
        if trials > study::MAX_TRIALS {
            let most = study::MAX_TRIALS;
            return Err(LabError::Nothing(format!(
                "--blocks {blocks} makes {trials} trials; {most} are the most"
            )));
        }
    }
    Ok(())
}

fn known(what: &'static str, wanted: &[String], all: &[String]) -> Result<(), LabError> {
    match wanted.iter().find(|name| !all.contains(name)) {
        Some(name) => Err(LabError::NoSuch { what, name: name.clone(), known: all.join(", ") }),
        None => Ok(()),
    }
}

/// Asks what each option is on each system. Variants with nothing effective are left out; options without effect are
/// noted.
fn note_options(study: &Study, not_run: &mut NotRun, cells: &mut Reasons, notes: &mut Vec<String>) {
    let resolution = optmap::check(study);
    for (s, (system, options)) in study.systems.iter().zip(&resolution.systems).enumerate() {
        let of_all = options.default.iter().chain(options.variants.iter().flatten());
        let mut said: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for option in of_all.filter(|o| o.verdict != Verdict::Effective) {
            said.entry(option.verdict.to_string()).or_default().insert(&option.setting.name);
        }
        for (why, names) in said {
            let names: Vec<&str> = names.into_iter().collect();
            notes.push(format!("{}: {}: {why}", system.name, names.join(", ")));
        }
        for (v, variant) in study.variants.iter().enumerate() {
            if resolution.not_run.variants.contains(&(s, v)) {
                let what = What::Variant(variant.name.clone());
                cells.insert((system.name.clone(), what), "nothing to tune".to_owned());
            }
        }
    }
    not_run.variants.extend(&resolution.not_run.variants);
}

/// Every variant that is run on a system, with its settings there.
fn configured<'a>(
    study: &'a Study,
    raised: &'a [Setting],
    not_run: &'a NotRun,
) -> impl Iterator<Item = (&'a System, Vec<Setting>)> {
    study.systems.iter().enumerate().flat_map(move |(s, system)| {
        let variants = study.variants.iter().enumerate();
        let run = variants.filter(move |(v, _)| !not_run.variants.contains(&(s, *v)));
        run.map(move |(_, variant)| (system, settings(study, raised, system, variant)))
    })
}

/// What of the study the lab replaces in a ceph.conf, a sentence each.
fn replaced(study: &Study, site: &Site, raised: &[Setting], not_run: &NotRun) -> BTreeSet<String> {
    let of = |(system, settings): (&System, Vec<Setting>)| {
        let notes = testbed::replaced(site, &Wanted { system, settings: &settings, file_system: false });
        notes.into_iter().map(|note| format!("{}: {note}", system.name)).collect::<Vec<_>>()
    };
    configured(study, raised, not_run).flat_map(of).collect()
}

/// Finds what can't run yet (left out), and gives what is in the way.
fn find_not_yet(
    study: &Study,
    site: &Site,
    raised: &[Setting],
    not_run: &mut NotRun,
    cells: &mut Reasons,
) -> BTreeSet<String> {
    // The default's too: below they are not looked at where no workload can run yet.
    let of_settings = configured(study, raised, not_run)
        .flat_map(|(system, settings)| testbed::check_settings(system, &settings));
    let mut in_the_way: BTreeSet<String> = of_settings.map(|error| error.to_string()).collect();
    for (s, system) in study.systems.iter().enumerate() {
        for (w, workload) in study.workloads.iter().enumerate() {
            let settings = settings(study, raised, system, &study.variants[0]);
            let wanted = Wanted { system, settings: &settings, file_system: workload.needs_file_system() };
            let mut errors = testbed::check(site, &wanted);
            let not_yet = errors
                .iter()
                .position(|e| matches!(e, testbed::Error::NotYet { .. } | testbed::Error::NotHere { .. }));
            if let Some(at) = not_yet {
                let why = errors.swap_remove(at).to_string();
                not_run.workloads.insert((s, w));
                cells.insert((system.name.clone(), What::Workload(workload.name.clone())), why);
                continue;
            }
            in_the_way.extend(errors.iter().map(ToString::to_string));
            in_the_way.extend(preflight::missing(&workload.kind));
        }
    }
    in_the_way
}

/// An effect of this much more is ten times the default: a plan that shows only larger ones shows nothing.
const TENFOLD: f64 = 9.0;

/// Seconds in words.
pub(crate) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use super::*;

    /// A study of these systems, and its plan.
    fn planned(systems: &[&str], rest: &str) -> (Study, Plan) {
        let systems: String =
            systems.iter().map(|name| format!("- {{name: {name}, loligo: {{store: mem}}}}\n")).collect();
        let load = "{object_size: 4K, in_flight: 1, seconds: 1, phases: [write]}";
        let text = format!(
            "name: n\ntitle: t\nsystems:\n{systems}workloads:\n- {{name: w, rados_bench: {load}}}\n{rest}"
        );
        let study = study::parse(&text, "f").unwrap();
        let plan = Plan::new(&study, &NotRun::of(&study), 1);
        (study, plan)
    }

    #[test]
    fn one_system_without_variants_is_compared_with_nothing() {
        for rest in ["", "design: {rule: one_sigma}\n"] {
            let (study, plan) = planned(&["a"], rest);
            assert_eq!(
                detectable(&study, &plan),
                "nothing to compare: raw numbers only, no significance test"
            );
        }
        let (study, plan) = planned(&["a", "b"], "");
        let words = detectable(&study, &plan);
        assert!(words.contains("a difference between two systems of +"), "{words}");
    }

    #[test]
    fn only_what_can_be_run_again_to_confirm_is_announced() {
        let of = |rest: &str| {
            let (study, plan) = planned(&["a", "b"], rest);
            may_confirm(&study, &plan)
        };
        let variants = "parametric: {osd_client_message_cap: [1, 2]}\n";
        assert!(of(variants));
        assert!(!of(&format!("{variants}design: {{confirm: no}}\n")));
        assert!(!of(&format!("{variants}design: {{rule: one_sigma}}\n")));
        assert!(!of(""), "systems are not run again");
    }

    #[test]
    fn results_go_where_the_studys_name_says() {
        let path = std::env::temp_dir().join(format!("loligo-lab-other-name-{}.yaml", std::process::id()));
        let text = "name: its-name\ntitle: t\nsystems: [{name: s, loligo: {store: mem}}]\n\
                    workloads: [{name: w, command: {run: 'true', timeout: 1}}]\n";
        std::fs::write(&path, text).unwrap();
        let file = StudyFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.unwrap().out(), Path::new("results/its-name"));
    }

    #[test]
    fn what_is_wrong_with_options_is_told_with_the_rest() {
        let path = std::env::temp_dir().join(format!("loligo-lab-all-wrong-{}.yaml", std::process::id()));
        let text = "name: n\ntitle: t\nsystems: [{name: s, loligo: {store: mem}}]\ndefault: {osd_nonesuch: 1}\n\
                    workloads: [{name: w, command: {run: '', timeout: 1}}]\ndesign: {blocks: 0}\n";
        std::fs::write(&path, text).unwrap();
        let read = StudyFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read, Err(LabError::Study { count: 3, .. })));
    }

    #[test]
    fn durations_read_well() {
        let said = [5.0, 61.0, 7200.0 + 300.0].map(duration);
        assert_eq!(said, ["5 s", "1 min", "2 h 5 min"]);
    }
}
