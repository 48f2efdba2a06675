//! A study file as a whole.

use crate::fields::{Fields, text};
use crate::model::{Engine, Setting, Source, Study, System, Target, WorkloadKind};
use crate::node::Value;
use crate::problem::{At, Conflict, Problem, ProblemKind, Problems};
use crate::trial_names::TrialNames;
use crate::{cross, design, node, settings, systems, variants, workloads};

const KEYS: [&str; 13] = [
    "name",
    "title",
    "about",
    "source",
    "changes",
    "listen",
    "systems",
    "workloads",
    "default",
    "parametric",
    "cross",
    "design",
    "as_published",
];
/// More trials than can be run; keeps a typing error from filling the memory.
const MAX_VARIANTS: u64 = 10_000;
/// The same for all trials of a study.
pub const MAX_TRIALS: u64 = 1_000_000;

/// Reads and checks a study file's text; `path_name` is what problems call it.
///
/// # Errors
/// Every problem of the file at once, in order of lines. A text that is not YAML gives that one alone.
pub fn parse(text: &str, path_name: &str) -> Result<Study, Vec<Problem>> {
    whole(read(text, path_name))
}

/// The same of a file's bytes, which must be UTF-8: what was replaced silently would reach names and a ceph.conf.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(bytes: &[u8], path_name: &str) -> Result<Study, Vec<Problem>> {
    whole(read_bytes(bytes, path_name))
}

fn whole((study, problems): (Option<Study>, Vec<Problem>)) -> Result<Study, Vec<Problem>> {
    study.filter(|_| problems.is_empty()).ok_or(problems)
}

/// What could be read of a study, and every problem of the file: with a problem the study is good for finding more of
/// them alone, for what is wrong is left out of it.
pub fn read_bytes(bytes: &[u8], path_name: &str) -> (Option<Study>, Vec<Problem>) {
    let wrong = match std::str::from_utf8(bytes) {
        Ok(text) => return read(text, path_name),
        Err(error) => error.valid_up_to(),
    };
    let before = String::from_utf8_lossy(bytes.get(..wrong).unwrap_or_default());
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let last = before.rsplit('\n').next().unwrap_or_default();
    let at = At { line: count(before.matches('\n').count() + 1), column: count(last.chars().count() + 1) };
    let mut p = Problems::new(path_name);
    p.add(at, ProblemKind::NotUtf8 { byte: bytes.get(wrong).copied().unwrap_or_default() });
    (None, p.in_order())
}

fn read(text: &str, path_name: &str) -> (Option<Study>, Vec<Problem>) {
    let mut p = Problems::new(path_name);
    let study = node::read(text, &mut p).and_then(|root| study(&root, &mut p));
    (study, p.in_order())
}

fn study(root: &node::Node, p: &mut Problems) -> Option<Study> {
    let fields = Fields::of(root, "the study", &KEYS, p)?;
    fields.need(&["name", "title", "systems", "workloads"], p);
    let parameters = fields.get("parametric").map(|n| variants::read(n, p)).unwrap_or_default();
    let crossed = fields.get("cross").map(|n| cross::read(n, &parameters, MAX_VARIANTS, p));
    let line = fields.entry("parametric").map_or(0, |e| e.at.line);
    let mut study = Study {
        name: name(&fields, p),
        title: fields.plain_line("title", p).unwrap_or_default().to_owned(),
        about: fields.plain_text("about", p).unwrap_or_default().trim_end().to_owned(),
        source: source(&fields, p),
        changes: fields.plain_texts("changes", p).unwrap_or_default(),
        systems: systems::read(&fields, p),
        workloads: workloads::read(&fields, p),
        default: fields.get("default").map(|n| settings::read(n, "default", p)).unwrap_or_default(),
        variants: variants::all(&parameters, crossed.unwrap_or_default(), line, p),
        design: fields.get("design").and_then(|n| design::read(n, p)).unwrap_or_default(),
        as_published: fields.texts("as_published", p).unwrap_or_default(),
        trial_names: TrialNames::default(),
    };
    study.trial_names = TrialNames::new(
        study.systems.iter().map(|s| s.name.as_str()),
        study.workloads.iter().map(|w| w.name.as_str()),
        study.variants.iter().map(|v| v.name.as_str()),
    );
    together(&study, fields.at, p);
    published(&study, &fields, p);
    Some(study)
}

/// The study's name, which is a directory's.
fn name(fields: &Fields<'_>, p: &mut Problems) -> String {
    let name = fields.line("name", p).unwrap_or_default();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(node) = fields.get("name") {
        if !name.chars().all(good) || name.is_empty() || name.starts_with('-') || name.len() > 100 {
            let want = "a name (lower-case letters, digits and dashes, at most 100)".to_owned();
            p.add(node.at, ProblemKind::Value { place: "name".into(), text: name.to_owned(), want });
        }
    }
    name.to_owned()
}

fn source(fields: &Fields<'_>, p: &mut Problems) -> Option<Source> {
    let inner = Fields::of(fields.get("source")?, "source", &["title", "author", "date"], p)?;
    inner.need(&["title", "author", "date"], p);
    let own = |key: &str, p: &mut Problems| inner.plain_line(key, p).unwrap_or_default().to_owned();
    let source = Source { title: own("title", p), author: own("author", p), date: own("date", p) };
    if let Some(node) = inner.get("date") {
        if text(node, "date", p).is_some_and(|d| !is_date(d)) {
            let want = "a date (YYYY-MM-DD, YYYY-MM or YYYY)".to_owned();
            p.add(node.at, ProblemKind::Value { place: "date".into(), text: source.date.clone(), want });
        }
    }
    Some(source)
}

/// YYYY, YYYY-MM or YYYY-MM-DD, of the calendar.
fn is_date(text: &str) -> bool {
    let lengths = [4, 2, 2];
    let parts: Vec<&str> = text.split('-').collect();
    let digits =
        |(part, length): (&&str, &usize)| part.len() == *length && part.bytes().all(|b| b.is_ascii_digit());
    if parts.len() > lengths.len() || !parts.iter().zip(&lengths).all(digits) {
        return false;
    }
    let number = |at: usize| parts.get(at).map_or(1, |part| part.parse::<u32>().unwrap_or(0));
    let (year, month, day) = (number(0), number(1), number(2));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    year > 0 && (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// What is wrong between the sections.
fn together(study: &Study, root: At, p: &mut Problems) {
    for system in study.systems.iter().filter(|s| matches!(s.target, Target::Nfs { .. })) {
        for load in study.workloads.iter().filter(|w| !matches!(w.kind, WorkloadKind::Command(_))) {
            let (system_name, workload) = (system.name.clone(), load.name.clone());
            let kind = Conflict::NfsWithLoad { system: system_name, workload };
            p.add(At { line: system.line, column: 1 }, kind);
        }
    }
    let on_loopback = |s: &System| {
        matches!(s.target, Target::Loligo { .. } | Target::Ceph { .. }) && s.listen.is_loopback()
    };
    for load in study.workloads.iter().filter(|w| w.clients().is_some_and(|c| !c.hosts.is_empty())) {
        if study.systems.iter().any(on_loopback) {
            let kind = Conflict::HostsOnLoopback { workload: load.name.clone() };
            p.add(At { line: load.line, column: 1 }, kind);
        }
    }
    writes(study, p);
    let trials = trials_at_most(study);
    if study.variants.len() as u64 > MAX_VARIANTS {
        let count = study.variants.len() as u64;
        p.add(root, ProblemKind::TooMany { what: "variants", count, limit: MAX_VARIANTS });
    } else if trials > MAX_TRIALS {
        p.add(root, ProblemKind::TooMany { what: "trials", count: trials, limit: MAX_TRIALS });
    }
}

/// As many trials as a study has if nothing is left out.
#[must_use]
pub fn trials_at_most(study: &Study) -> u64 {
    let in_a_block =
        (study.variants.len() as u64).saturating_sub(1) + u64::from(study.design.defaults_per_block);
    let cells = study.systems.len() as u64 * study.workloads.len() as u64;
    [in_a_block, cells, u64::from(study.design.blocks)].into_iter().fold(1, u64::saturating_mul)
}

/// Ceph's default `osd_max_write_size`, bytes; Loligo's is the same. A larger write is refused with EMSGSIZE.
const WRITE_MAX: u64 = 90 << 20;

/// What is larger than an OSD takes in one write. A study that sets the limit knows it.
fn writes(study: &Study, p: &mut Problems) {
    // A cluster that runs already has its own.
    let is_running = study.systems.iter().all(|s| matches!(s.target, Target::Running { .. }));
    if is_running || settings_of_all(study).any(|s| options::normalize(&s.name) == "osd_max_write_size") {
        return;
    }
    for load in &study.workloads {
        let bytes = match &load.kind {
            WorkloadKind::RadosBench(bench) => bench.object_size,
            WorkloadKind::LoligoBench(bench) => bench.block_size,
            // Images are made of objects of 4 MiB: librbd takes larger requests apart.
            WorkloadKind::Fio(fio) if fio.engine == Engine::Rados => fio.block_size,
            _ => continue,
        };
        if bytes > WRITE_MAX {
            let kind = Conflict::WriteTooLarge { workload: load.name.clone(), bytes, most: WRITE_MAX };
            p.add(At { line: load.line, column: 1 }, kind);
        }
    }
}

/// Every option that a study sets anywhere.
fn settings_of_all(study: &Study) -> impl Iterator<Item = &Setting> {
    let of_systems = study.systems.iter().flat_map(|s| &s.settings);
    let of_variants = study.variants.iter().flat_map(|v| &v.settings);
    study.default.iter().chain(of_systems).chain(of_variants)
}

/// What may be unknown must be there.
fn published(study: &Study, fields: &Fields<'_>, p: &mut Problems) {
    let set: std::collections::BTreeSet<String> =
        settings_of_all(study).map(|s| options::normalize(&s.name)).collect();
    let Some(Value::List(items)) = fields.get("as_published").map(|n| &n.value) else { return };
    for node in items {
        let Value::Text { text, .. } = &node.value else { continue };
        if !set.contains(&options::normalize(text)) {
            p.add(node.at, Conflict::PublishedNotSet { option: text.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_dates() {
        for good in ["2013-02-04", "2009-12-31", "2017", "2017-06", "2012-02-29", "2000-02-29"] {
            assert!(is_date(good), "{good}");
        }
        for bad in [
            "",
            "17",
            "2013-02-31",
            "2013-02-29",
            "1900-02-29",
            "2013-04-31",
            "+013",
            "0000",
            "2013-13",
            "2013-13-01",
            "2013-00-01",
            "04.02.2013",
            "2013-02-04-1",
            "213-02-04",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
    }
}
