//! Runs the cases under callgrind and holds the counts against a file of expected ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::HotpathError;
use crate::cases::Case;

/// How far a count may be from the expected one, in percent, either way: a gain is to be written down too.
const TOLERANCE_PERCENT: u64 = 5;

/// How many more instructions an operation may take where an OSD is on two cores, in percent.
const TWO_CORES_PERCENT: u64 = 15;

/// Instructions per operation, by the case's name.
type Counts = BTreeMap<String, u64>;

pub(crate) fn print() -> Result<(), HotpathError> {
    let counts = count()?;
    for case in &Case::ALL {
        println!("{:<24}{:>12} instructions an operation", case.name, counts[case.name]);
    }
    Ok(())
}

pub(crate) fn renew(file: &str) -> Result<(), HotpathError> {
    let json = serde_json::to_string_pretty(&count()?).map_err(|e| in_file(file, &e))?;
    std::fs::write(file, json + "\n").map_err(|e| in_file(file, &e))
}

pub(crate) fn check(file: &str) -> Result<(), HotpathError> {
    let text = std::fs::read_to_string(file).map_err(|e| in_file(file, &e))?;
    let expected: Counts = serde_json::from_str(&text).map_err(|e| in_file(file, &e))?;
    let counted = count()?;
    let mut problems = compare(&expected, &counted);
    problems.extend(Case::ALL.iter().filter_map(|case| too_much_for_two_cores(case, &counted)));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(HotpathError::Changed(format!(
            "instructions per operation changed:\n  {}\nif that is meant, write the new numbers down: hotpath renew {file}",
            problems.join("\n  ")
        ))),
    }
}

fn in_file(file: &str, error: &impl ToString) -> HotpathError {
    HotpathError::File { file: file.into(), reason: error.to_string() }
}

/// A line for each case that is not as expected.
fn compare(expected: &Counts, counted: &Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, &now) in counted {
        let Some(&before) = expected.get(name).filter(|&&before| before > 0) else {
            problems.push(format!("{name}: {now}, and no number to hold it against"));
            continue;
        };
        if now.abs_diff(before) * 100 > before * TOLERANCE_PERCENT {
            let percent = (now as f64 / before as f64 - 1.0) * 100.0;
            problems.push(format!("{name}: {now}, expected {before} ({percent:+.1}%)"));
        }
    }
    let gone = expected.keys().filter(|name| !counted.contains_key(*name));
    problems.extend(gone.map(|name| format!("{name}: no such case any more")));
    problems
}

/// What two cores have to say to each other may cost little.
fn too_much_for_two_cores(case: &Case, counted: &Counts) -> Option<String> {
    let (two, one) = (counted.get(case.name)?, counted.get(case.on_one_core?)?);
    (two * 100 > one * (100 + TWO_CORES_PERCENT)).then(|| {
        let (name, percent) = (case.name, (*two as f64 / *one as f64 - 1.0) * 100.0);
        format!("{name}: {two}, on one core {one} ({percent:+.1}%; {TWO_CORES_PERCENT}% are allowed)")
    })
}

/// Counts all cases, two at a time.
fn count() -> Result<Counts, HotpathError> {
    let program = std::env::current_exe().map_err(|e| HotpathError::Valgrind(e.to_string()))?;
    let counted = std::thread::scope(|scope| {
        let (small, large) = Case::ALL.split_at(Case::ALL.len() / 2);
        let halves = [small, large].map(|cases| {
            let program = &program;
            scope.spawn(move || cases.iter().map(|case| count_case(program, case)).collect::<Vec<_>>())
        });
        halves.map(|half| half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let mut counts = Counts::new();
    for (case, count) in Case::ALL.iter().zip(counted.into_iter().flatten()) {
        counts.insert(case.name.into(), count?);
    }
    Ok(counts)
}

fn count_case(program: &Path, case: &Case) -> Result<u64, HotpathError> {
    let failed = |what: String| HotpathError::Valgrind(format!("valgrind for {}: {what}", case.name));
    let file = Output::new(case.name);
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        // Entering the first begins the count, entering the second within it suspends it.
        .args(["--toggle-collect=*hotpath_counted*", "--toggle-collect=*hotpath_socket*"])
        .arg(format!("--callgrind-out-file={}", file.0.display()))
        .arg(program)
        .args(["run", case.name])
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !out.status.success() {
        return Err(failed(String::from_utf8_lossy(&out.stderr).into_owned()));
    }
    let text = std::fs::read_to_string(&file.0).map_err(|e| failed(e.to_string()))?;
    match total(&text) {
        Some(total) if total > 0 => Ok(total / case.operations as u64),
        _ => Err(failed("nothing was counted: is the binary stripped of its symbols?".into())),
    }
}

/// What a callgrind file says was counted in all.
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("summary:"))?.trim().parse().ok()
}

/// Callgrind's file, removed in the end.
struct Output(PathBuf);

impl Output {
    fn new(case: &str) -> Self {
        Self(std::env::temp_dir().join(format!("hotpath.{}.{case}", std::process::id())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It is not there if valgrind failed.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|&(name, n)| (name.into(), n)).collect()
    }

    #[test]
    fn a_count_within_five_percent_passes_and_one_beyond_does_not() {
        let expected = counts(&[("a", 10_000), ("b", 10_000)]);
        assert_eq!(compare(&expected, &counts(&[("a", 10_500), ("b", 9_500)])), [""; 0]);
        let problems = compare(&expected, &counts(&[("a", 10_501), ("b", 9_400)]));
        assert_eq!(problems, ["a: 10501, expected 10000 (+5.0%)", "b: 9400, expected 10000 (-6.0%)"]);
    }

    #[test]
    fn two_cores_may_cost_fifteen_percent_more() {
        let case = Case::by_name("read-4k-two-cores").unwrap();
        let problem = |two| too_much_for_two_cores(case, &counts(&[("read-4k", 1000), (case.name, two)]));
        assert_eq!(problem(1150), None);
        assert_eq!(
            problem(1151).as_deref(),
            Some("read-4k-two-cores: 1151, on one core 1000 (+15.1%; 15% are allowed)")
        );
    }

    #[test]
    fn a_case_without_a_number_and_a_number_without_a_case_are_both_named() {
        let problems = compare(&counts(&[("old", 1)]), &counts(&[("new", 2)]));
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn callgrinds_sum_is_read() {
        assert_eq!(total("events: Ir\nfn=(1)\n16 4\n\nsummary: 123\n"), Some(123));
        assert_eq!(total("events: Ir\n"), None);
    }
}
