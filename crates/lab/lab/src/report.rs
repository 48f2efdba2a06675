//! `lab report`, `lab compare`, `lab history`, `lab export`: what results say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use labstats::judge::Asked;
use report::input::{Input, Outline};
use results::{Directory, Record, RunInfo, Status};
use study::{NotRun, Rule, Study};

use crate::args::{CompareArgs, ExportArgs, HistoryArgs, ReportArgs};
use crate::dry_run::left_out;
use crate::error::LabError;
use crate::judging;
use crate::output;
use crate::prepare::What;

/// A results directory as it is read.
struct Found {
    directory: Directory,
    info: RunInfo,
    records: Vec<Record>,
    /// Those that are no samples.
    profiled: Vec<Record>,
    study: Study,
}

fn read(path: &Path) -> Result<Found, LabError> {
    let directory = Directory::open(path)?;
    let (info, found) = (directory.info()?, directory.records()?);
    if let Some(words) = found.torn {
        eprintln!("{words}");
    }
    let text = directory.study()?;
    let name = path.join("study.yaml").display().to_string();
    let study = study::parse(&String::from_utf8_lossy(&text), &name)
        .map_err(|problems| LabError::Study { path: path.join("study.yaml"), count: problems.len() })?;
    let (profiled, records) = found.records.into_iter().partition(|r| r.profiled);
    Ok(Found { directory, info, records, profiled, study })
}

impl Found {
    /// The study as the report has it, with what was left out.
    fn outline(&self) -> Result<Outline, LabError> {
        let place = |names: Vec<&String>, name: &String| names.into_iter().position(|n| n == name);
        let (mut not_run, mut not_yet) = (NotRun::default(), BTreeMap::new());
        for left in left_out(&self.directory.plan()?) {
            let Some(system) = place(self.study.systems.iter().map(|s| &s.name).collect(), &left.system)
            else {
                continue;
            };
            match &left.what {
                What::Variant(name) => {
                    let found = place(self.study.variants.iter().map(|v| &v.name).collect(), name);
                    not_run.variants.extend(found.map(|variant| (system, variant)));
                }
                What::Workload(name) => {
                    let found = place(self.study.workloads.iter().map(|w| &w.name).collect(), name);
                    not_run.workloads.extend(found.map(|workload| (system, workload)));
                    not_yet.extend(found.map(|workload| ((system, workload), left.why)));
                }
            }
        }
        let mut outline = report::from_study::outline(&self.study, &not_run, &not_yet);
        // A run may have been of some systems and workloads only.
        let ran: BTreeSet<&str> = self.records.iter().map(|r| r.parameters.system.as_str()).collect();
        let loads: BTreeSet<&str> = self.records.iter().map(|r| r.parameters.workload.as_str()).collect();
        let is_left_out = |s: &String| outline.not_yet.keys().any(|(system, _)| system == s);
        let systems = outline.systems.iter().filter(|s| ran.contains(s.as_str()) || is_left_out(s));
        outline.systems = systems.cloned().collect();
        outline.workloads.retain(|w| loads.is_empty() || loads.contains(w.name.as_str()));
        Ok(outline)
    }
}

/// Makes the report; tells how many trials failed, and of how many.
pub(crate) fn report(args: &ReportArgs) -> Result<(usize, usize), LabError> {
    let mut found = read(&args.results)?;
    if args.one_sigma {
        found.study.design.rule = Rule::OneSigma;
    }
    let into = args.out.clone().unwrap_or_else(|| args.results.clone());
    with_input(found, |input| {
        let colours = std::io::stdout().is_terminal();
        if input.outline.variants.len() > 1 {
            output::line(report::text::percentages(input, colours));
        }
        output::write(report::text::systems(input, colours));
        let written = report::write(&into, input, true).map_err(|e| LabError::Nothing(e.to_string()))?;
        output::line(format_args!("{} ({} charts beside it)", written.page.display(), written.charts));
        let failed = input.records.iter().filter(|r| r.outcome.status == Status::Failed).count();
        Ok((failed, input.records.len()))
    })
}

/// Judges results and hands what a report is made from to `then`.
fn with_input<T>(found: Found, then: impl FnOnce(&Input) -> Result<T, LabError>) -> Result<T, LabError> {
    if found.records.is_empty() {
        return Err(LabError::Nothing(format!("{} holds no trial yet", found.directory.path().display())));
    }
    let outline = found.outline()?;
    let variants: Vec<String> = outline.variants.iter().map(|v| v.name.clone()).collect();
    let samples = judging::samples(&found.records, &variants);
    let cells: Vec<_> = judging::judge(&samples, &found.study.design)
        .into_iter()
        .map(|(name, judged)| ((name.system, name.workload, name.phase), judged))
        .collect();
    let judged = report::from_labstats::judged(&outline, &found.records, &found.study.design, &cells);
    let series = |id: &str| found.directory.series(id).ok()?.collect_series().ok();
    let asked = judging::asked(&found.study.design);
    let profile = |id: &str, phase: &str| found.directory.profile(id, phase).ok();
    let input = Input {
        run: found.info,
        outline,
        records: found.records,
        judged,
        asked,
        series: &series,
        profiled: found.profiled,
        profile: &profile,
    };
    then(&input)
}

/// Holds one run's results against another's.
pub(crate) fn compare(args: &CompareArgs) -> Result<(), LabError> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let asked = Asked { effect: args.effect, ..judging::asked(&a.study.design) };
    let (a_name, b_name) = (args.a.display().to_string(), args.b.display().to_string());
    let of = report::compare::runs((&a_name, &a.info, &a.records), (&b_name, &b.info, &b.records), &asked);
    output::line(report::text::comparison(&of, std::io::stdout().is_terminal()));
    Ok(())
}

/// Finds where results changed over runs.
pub(crate) fn history(args: &HistoryArgs) -> Result<(), LabError> {
    let found: Vec<Found> = args.results.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let names: Vec<String> = args.results.iter().map(|path| path.display().to_string()).collect();
    let runs: Vec<report::history::Run> = found
        .iter()
        .zip(&names)
        .map(|(f, name)| report::history::Run { name: name.clone(), info: &f.info, records: &f.records })
        .collect();
    let history = report::history::history(&runs, &labstats::change_points::Options::default());
    output::line(report::text::history(&history, std::io::stdout().is_terminal()));
    if let Some(out) = &args.out {
        let charts = report::write_history(out, &history).map_err(|e| LabError::Nothing(e.to_string()))?;
        output::line(format_args!("{charts} charts in {}", out.display()));
    }
    Ok(())
}

/// Writes the records as CSV, or what its columns mean, or the systems side by side.
pub(crate) fn export(args: &ExportArgs) -> Result<(), LabError> {
    let mut text = Vec::new();
    if args.columns {
        text.extend_from_slice(results::markdown().as_bytes());
    } else if args.markdown {
        with_input(read(&args.results)?, |input| {
            text.extend_from_slice(report::markdown::side_by_side(input).as_bytes());
            Ok(())
        })?;
    } else {
        results::export_csv(&Directory::open(&args.results)?.records()?.records, &mut text)?;
    }
    match &args.out {
        None => output::write(String::from_utf8_lossy(&text)),
        Some(path) => write_whole(path, &text, &args.results)?,
    }
    Ok(())
}

/// Writes a file at once, when all of it is there: whatever fails before leaves what was there. What a run keeps is not
/// written over.
fn write_whole(path: &Path, text: &[u8], results: &Path) -> Result<(), LabError> {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    let is_kept = whole(path).zip(whole(results)).is_some_and(|(file, dir)| {
        file.strip_prefix(dir).is_ok_and(|name| !name.extension().is_some_and(|e| e == "csv" || e == "md"))
    });
    if is_kept {
        return Err(LabError::Nothing(format!(
            "{} belongs to the results: it is not written over",
            path.display()
        )));
    }
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        // A pipe or /dev/stdout.
        return std::fs::write(path, text).map_err(LabError::file(path));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.map_err(LabError::file(path))
}
