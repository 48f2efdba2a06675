//! Trials that failed or were unsteady, with the place of their logs.

use results::{Record, Status};

use super::table;
use crate::charts::words::escape;
use crate::input::Input;

/// Both lists; empty where there is nothing to say.
pub fn section(input: &Input) -> String {
    let of = |keep: fn(&Record) -> bool| input.records.iter().filter(move |r| keep(r));
    let failed: Vec<Vec<String>> = of(|r| r.outcome.status != Status::Ok)
        .map(|r| {
            let word = if r.outcome.status == Status::Failed { "failed" } else { "interrupted" };
            let mut row = named(r);
            row.extend([word.to_string(), escape(&r.outcome.error), logs(r)]);
            row
        })
        .collect();
    let unsteady: Vec<Vec<String>> = input
        .records
        .iter()
        .flat_map(|r| r.measurements.iter().map(move |m| (r, m)))
        .filter(|(_, m)| m.steady == Some(false))
        .map(|(r, m)| {
            let mut row = named(r);
            row.extend([escape(&m.words()), escape(&m.unsteady), logs(r)]);
            row
        })
        .collect();
    if failed.is_empty() && unsteady.is_empty() {
        return "<p>None: every trial ended well, and none is known to have been unsteady.</p>\n".into();
    }
    let mut out = String::new();
    if !failed.is_empty() {
        let header = ["trial", "system", "workload", "variant", "outcome", "error", "logs"];
        out += &format!("<h3>Failed</h3>\n{}", table("plain", &header, &failed));
    }
    if !unsteady.is_empty() {
        let header = ["trial", "system", "workload", "variant", "phase", "why", "logs"];
        out += &format!(
            "<h3>Unsteady</h3>\n<p>They count like others; their dots are hollow.</p>\n{}",
            table("plain", &header, &unsteady)
        );
    }
    out
}

fn named(r: &Record) -> Vec<String> {
    let p = &r.parameters;
    [&r.id, &p.system, &p.workload, &p.variant].map(|t| escape(t)).to_vec()
}

fn logs(r: &Record) -> String {
    if r.outcome.logs.is_empty() {
        "not kept".into()
    } else {
        format!("<code>{}</code>", escape(&r.outcome.logs))
    }
}
