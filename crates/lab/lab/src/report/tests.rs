#![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

use results::{Outcome, Parameters, Status};

use super::*;

const STUDY: &str = "\
name: n
title: t
systems: [{name: s, loligo: {store: mem}}]
workloads: [{name: w, command: {run: 'true', timeout: 10}}]
";

fn record(system: &str) -> Record {
    let parameters = Parameters {
        system: system.into(),
        workload: "w".into(),
        variant: "default".into(),
        ..Parameters::default()
    };
    Record {
        format: results::FORMAT,
        id: format!("t-{system}"),
        order: 0,
        block: 0,
        confirms: false,
        profiled: false,
        started: String::new(),
        took_s: 1.0,
        parameters,
        build: Default::default(),
        outcome: Outcome { status: Status::Ok, error: String::new(), logs: String::new() },
        measurements: Vec::new(),
    }
}

/// A fresh directory with results; removed when dropped.
struct Results(PathBuf);

impl Results {
    fn new(name: &str, study: &[u8], plan: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("loligo-lab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let info = RunInfo {
            format: results::FORMAT,
            study: "n".into(),
            title: "t".into(),
            study_hash: String::new(),
            started: String::new(),
            seed: 1,
            machine: Default::default(),
            notes: Vec::new(),
        };
        Directory::create(&path, &info, study, plan).unwrap();
        Self(path)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn trials_of_nothing_in_the_study_are_told() {
    let study = study::parse(STUDY, "f").unwrap();
    assert_eq!(strangers(&study, &[record("s")]), None);
    let words = strangers(&study, &[record("s"), record("other")]).unwrap();
    assert!(
        words.starts_with("1 trial matches nothing in this study") && words.contains("other, w, default"),
        "{words}"
    );
    let words = strangers(&study, &[record("other"), record("third")]).unwrap();
    assert!(words.starts_with("2 trials match"), "{words}");
}

#[test]
fn a_plan_that_can_not_be_read_is_told_with_its_file() {
    for garbage in ["{", "{\"left_out\": 5}", "{}", ""] {
        let results = Results::new("plan", STUDY.as_bytes(), garbage.as_bytes());
        let said = read(&results.0).unwrap().outline().unwrap_err().to_string();
        assert!(said.contains("plan.json") && said.contains("changed or damaged"), "{said}");
    }
    let results = Results::new("good-plan", STUDY.as_bytes(), b"{\"left_out\": [], \"trials\": []}");
    assert!(read(&results.0).unwrap().outline().is_ok());
}

#[test]
fn the_kept_study_is_told_as_such() {
    let results = Results::new("study", b"title: t\n", b"{\"left_out\": []}");
    let said = read(&results.0).err().unwrap().to_string();
    assert!(said.contains("problems in") && !said.contains("nothing was started"), "{said}");
}

#[test]
fn results_without_a_trial_are_not_compared() {
    let results = Results::new("empty", STUDY.as_bytes(), b"{\"left_out\": []}");
    let args = CompareArgs { a: results.0.clone(), b: results.0.clone(), effect: 0.05 };
    assert!(compare(&args).unwrap_err().to_string().contains("holds no trial yet"));
}

#[test]
fn a_directory_named_twice_is_one_run() {
    let results = Results::new("twice", STUDY.as_bytes(), b"{}");
    let (a, again) = (results.0.clone(), results.0.join("series").join(".."));
    assert_eq!(each_once(&[a.clone(), again, a.clone()]), [&a]);
    let missing = PathBuf::from("/nonexistent/loligo");
    assert_eq!(each_once(&[missing.clone(), a.clone()]), [&missing, &a]);
}

#[test]
fn colours_are_left_out_where_the_user_wants_none() {
    let wants = |no_color: &str, term: &str| wants_colours(no_color.as_ref(), term.as_ref());
    assert!(wants("", "xterm") && wants("", ""));
    assert!(!wants("1", "xterm") && !wants("0", "xterm") && !wants("", "dumb"));
}
