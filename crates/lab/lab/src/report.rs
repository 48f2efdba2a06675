//! `lab report`, `lab compare`, `lab history`, `lab export`: what results say.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use labstats::judge::Criteria;
use report::input::{Input, Outline};
use results::{Directory, Record, RunInfo, Status};
use study::{NotRun, Rule, Study};

use crate::args::{CompareArgs, ExportArgs, HistoryArgs, ReportArgs};
use crate::dry_run::left_out;
use crate::error::LabError;
use crate::judging;
use crate::output;
use crate::prepare::What;

/// Whether standard output takes colours: a terminal, unless the user's environment says no.
fn colours() -> bool {
    let set = |name: &str| std::env::var_os(name).unwrap_or_default();
    std::io::stdout().is_terminal() && wants_colours(&set("NO_COLOR"), &set("TERM"))
}

/// By the values of `NO_COLOR` (<https://no-color.org>: set and not empty) and `TERM`.
fn wants_colours(no_color: &OsStr, term: &OsStr) -> bool {
    no_color.is_empty() && term != "dumb"
}

/// A results directory as it is read.
struct LoadedResults {
    directory: Directory,
    info: RunInfo,
    records: Vec<Record>,
    /// Those that are no samples.
    profiled: Vec<Record>,
    study: Study,
}

fn read(path: &Path) -> Result<LoadedResults, LabError> {
    let directory = Directory::open(path)?;
    let (info, found) = (directory.info()?, directory.records()?);
    if let Some(words) = found.torn {
        eprintln!("{words}");
    }
    let kept = path.join("study.yaml");
    let study = study::parse_bytes(&directory.study()?, &kept.display().to_string()).map_err(|problems| {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        LabError::KeptStudy { path: kept, count: problems.len() }
    })?;
    let (profiled, records) = found.records.into_iter().partition(|r| r.profiled);
    Ok(LoadedResults { directory, info, records, profiled, study })
}

impl LoadedResults {
    /// The study as the report has it, with what was left out.
    fn outline(&self) -> Result<Outline, LabError> {
        let place = |names: Vec<&String>, name: &String| names.into_iter().position(|n| n == name);
        let (mut not_run, mut not_yet) = (NotRun::default(), BTreeMap::new());
        for left in left_out(&self.directory)? {
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

/// Makes the report; answers how many trials failed, and of how many.
pub(crate) fn report(args: &ReportArgs) -> Result<(usize, usize), LabError> {
    let mut found = read(&args.results)?;
    if args.one_sigma {
        found.study.design.rule = Rule::OneSigma;
    }
    let into = args.out.clone().unwrap_or_else(|| args.results.clone());
    with_input(found, |input| {
        let colours = colours();
        if input.outline.variants.len() > 1 {
            output::line(report::text::percentages(input, colours));
        }
        output::write(report::text::systems(input, colours));
        let written = report::write(&into, input, true).map_err(|e| LabError::Nothing(e.to_string()))?;
        let charts = charts(written.charts, &written.pictures);
        output::line(format_args!("{} ({charts} beside it)", written.page.display()));
        let failed = input.records.iter().filter(|r| r.outcome.status == Status::Failed).count();
        Ok((failed, input.records.len()))
    })
}

/// How many charts there are, and as what. What kept them from becoming PNG is no error: SVG is what a page needs.
fn charts(number: usize, pictures: &report::Pictures) -> String {
    use report::Pictures;
    let s = if number == 1 { "" } else { "s" };
    match pictures {
        Pictures::No => format!("{number} chart{s} as SVG"),
        Pictures::Drawn => format!("{number} chart{s} as SVG and PNG"),
        Pictures::NoProgram => {
            format!("{number} chart{s} as SVG; for PNG install one of {}", report::PROGRAMS.join(", "))
        }
        Pictures::Failed(why) => {
            eprintln!("{why}; the charts are there as SVG");
            format!("{number} chart{s} as SVG")
        }
    }
}

/// Refuses results without a measurement.
fn with_trials(found: &LoadedResults) -> Result<(), LabError> {
    match found.records.is_empty() {
        true => Err(LabError::Nothing(format!("{} holds no trial yet", found.directory.path().display()))),
        false => Ok(()),
    }
}

/// Judges results and hands what a report is made from to `then`.
fn with_input<T>(
    found: LoadedResults,
    then: impl FnOnce(&Input) -> Result<T, LabError>,
) -> Result<T, LabError> {
    with_trials(&found)?;
    let outline = found.outline()?;
    let variants: Vec<String> = outline.variants.iter().map(|v| v.name.clone()).collect();
    let samples = judging::samples(&found.records, &variants);
    let cells: Vec<_> = judging::judge(&samples, &found.study.design)
        .into_iter()
        .map(|(name, judged)| ((name.system, name.workload, name.phase), judged))
        .collect();
    let mut judged = report::from_labstats::judged(&outline, &found.records, &found.study.design, &cells);
    if let Some(words) = strangers(&found.study, &found.records) {
        eprintln!("{words}");
        judged.notes.push(words);
    }
    let series = |id: &str| found.directory.series(id).ok()?.collect_series().ok();
    let criteria = judging::criteria(&found.study.design);
    let profile = |id: &str, phase: &str| found.directory.profile(id, phase).ok();
    let input = Input {
        run: found.info,
        outline,
        records: found.records,
        judged,
        criteria,
        series: &series,
        profiled: found.profiled,
        profile: &profile,
    };
    then(&input)
}

/// A warning about trials that match nothing in the study: they are in no table, which a reader would not notice.
fn strangers(study: &Study, records: &[Record]) -> Option<String> {
    let is_known = |r: &&Record| {
        let p = &r.parameters;
        study.systems.iter().any(|s| s.name == p.system)
            && study.workloads.iter().any(|w| w.name == p.workload)
            && study.variants.iter().any(|v| v.name == p.variant)
    };
    let strange: Vec<&Record> = records.iter().filter(|r| !is_known(r)).collect();
    let first = &strange.first()?.parameters;
    let count = strange.len();
    let (trials, are) = if count == 1 { ("trial matches", "is") } else { ("trials match", "are") };
    Some(format!(
        "{count} {trials} nothing in this study and {are} left out of the tables (first: {}, {}, {})",
        first.system, first.workload, first.variant
    ))
}

/// Holds one run's results against another's.
pub(crate) fn compare(args: &CompareArgs) -> Result<(), LabError> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    with_trials(&a)?;
    with_trials(&b)?;
    let criteria = Criteria { effect: args.effect, ..judging::criteria(&a.study.design) };
    let (a_name, b_name) = (args.a.display().to_string(), args.b.display().to_string());
    let config_diff = report::config_diff::ConfigDiff::of(&a.study, &b.study);
    let (of_a, of_b) = ((&*a_name, &a.info, &*a.records), (&*b_name, &b.info, &*b.records));
    let of = report::compare::runs(of_a, of_b, &config_diff, &criteria);
    output::line(report::text::comparison(&of, colours()));
    Ok(())
}

/// Finds where results changed over runs.
pub(crate) fn history(args: &HistoryArgs) -> Result<(), LabError> {
    let paths = each_once(&args.results);
    let found: Vec<LoadedResults> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let runs: Vec<report::history::Run> = found
        .iter()
        .zip(&names)
        .map(|(f, name)| report::history::Run { name: name.clone(), info: &f.info, records: &f.records })
        .collect();
    let history = report::history::history(&runs, &labstats::change_points::Options::default());
    output::line(report::text::history(&history, colours()));
    if let Some(out) = &args.out {
        let (number, pictures) =
            report::write_history(out, &history).map_err(|e| LabError::Nothing(e.to_string()))?;
        output::line(format_args!("{} in {}", charts(number, &pictures), out.display()));
    }
    Ok(())
}

/// Without directories that are named again: a run counted twice would look like a run that repeated its numbers.
fn each_once(paths: &[PathBuf]) -> Vec<&PathBuf> {
    let mut seen = BTreeSet::new();
    let is_new = |path: &&PathBuf| {
        let new = seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()));
        if !new {
            eprintln!("{} is named twice: it counts once", path.display());
        }
        new
    };
    paths.iter().filter(is_new).collect()
}

/// Writes the records as CSV, or what its columns mean, or the systems side by side.
pub(crate) fn export(args: &ExportArgs) -> Result<(), LabError> {
    let mut text = Vec::new();
    if args.columns {
        text.extend_from_slice(results::markdown().as_bytes());
    } else if let Some(from) = args.results.as_ref().filter(|_| args.markdown) {
        with_input(read(from)?, |input| {
            text.extend_from_slice(report::markdown::side_by_side(input).as_bytes());
            Ok(())
        })?;
    } else if let Some(from) = &args.results {
        let found = Directory::open(from)?.records()?;
        if let Some(words) = found.torn {
            eprintln!("{words}");
        }
        results::export_csv(&found.records, &mut text)?;
    }
    match &args.out {
        None => output::write(String::from_utf8_lossy(&text)),
        Some(path) => write_whole(path, &text, args.results.as_deref())?,
    }
    Ok(())
}

/// Writes a file at once, when all of it is there: whatever fails before leaves what was there. What a run keeps is not
/// written over.
fn write_whole(path: &Path, text: &[u8], results: Option<&Path>) -> Result<(), LabError> {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    let is_kept = whole(path).zip(results.and_then(whole)).is_some_and(|(file, dir)| {
        file.strip_prefix(dir).is_ok_and(|name| !name.extension().is_some_and(|e| e == "csv" || e == "md"))
    });
    if is_kept {
        return Err(LabError::Nothing(format!(
            "refusing to overwrite {}: it is part of the results",
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

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
