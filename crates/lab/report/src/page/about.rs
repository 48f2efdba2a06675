//! What was measured, on what machine, what differs from the publication, and the statistics' words.

use std::collections::{BTreeMap, BTreeSet};

use results::{Record, Status};

use super::{list, paragraphs, table};
use crate::charts::words::escape;
use crate::gather::{load_words, loop_words};
use crate::input::{Colour, Input};

/// Below the title: which run this is, and its outcome in a line.
pub fn head(input: &Input) -> String {
    let run = &input.run;
    format!(
        "<p class=\"faint\">Study <b>{}</b>, begun {}, seed {}, study file {}</p>\n<p>{}</p>\n",
        escape(&run.study),
        escape(&run.started),
        run.seed,
        escape(&run.study_hash),
        escape(&outcome(input))
    )
}

fn outcome(input: &Input) -> String {
    let count =
        |c: Colour| input.judged.cells.iter().flat_map(|c| &c.variants).filter(|v| v.colour == c).count();
    let compared: usize = [Colour::Green, Colour::Red, Colour::White, Colour::Grey].map(count).iter().sum();
    let failed = input.records.iter().filter(|r| r.outcome.status == Status::Failed).count();
    let mut text = format!("Trials: {}, of which {failed} failed.", input.records.len());
    if compared > 0 {
        text += &format!(
            " Comparisons with the default: {compared}; better {}, worse {}, shown equal {}, undecided {}.",
            count(Colour::Green),
            count(Colour::Red),
            count(Colour::White),
            count(Colour::Grey)
        );
    }
    text
}

/// About the study, the systems, loads and the machine.
pub fn section(input: &Input) -> String {
    let o = &input.outline;
    let mut out = paragraphs(&o.about);
    if let Some(s) = &o.source {
        let known = [s.author.as_str(), s.date.as_str()].into_iter().filter(|t| !t.is_empty());
        let known: Vec<&str> = known.collect();
        let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        out += &format!("<p>After <cite>{}</cite>{}.</p>\n", escape(&s.title), escape(&known));
    }
    if !o.changes.is_empty() {
        out += &format!("<h3>What differs from the publication</h3>\n{}", list(&o.changes));
    }
    if !input.run.notes.is_empty() {
        out += &format!("<h3>Said before the start</h3>\n{}", list(&input.run.notes));
    }
    let not_yet: Vec<String> = o.not_yet.iter().map(|((s, w), why)| format!("{w} on {s}: {why}")).collect();
    if !not_yet.is_empty() {
        out += &format!("<h3>Not run</h3>\n{}", list(&not_yet));
    }
    out + &systems(input) + &loads(input) + &machine(input)
}

fn systems(input: &Input) -> String {
    let rows: Vec<Vec<String>> = input
        .outline
        .systems
        .iter()
        .map(|system| {
            let records: Vec<&Record> =
                input.records.iter().filter(|r| r.parameters.system == *system).collect();
            let Some(p) = records.first().map(|r| &r.parameters) else {
                return vec![escape(system), "no trial".into()];
            };
            let journal = if p.journal.is_empty() { "with the data".to_string() } else { p.journal.clone() };
            let servers: BTreeSet<&str> = records.iter().map(|r| r.build.server.as_str()).collect();
            let servers: Vec<&str> = servers.into_iter().filter(|s| !s.is_empty()).collect();
            let what = format!("{} {}", p.program, p.release);
            let devices = if p.modelled { "<b>modelled</b>" } else { "real" };
            vec![
                escape(system),
                escape(what.trim()),
                escape(&servers.join("; ")),
                escape(&p.store),
                escape(&p.place),
                escape(&journal),
                p.osds.to_string(),
                p.pool_size.to_string(),
                devices.to_string(),
            ]
        })
        .collect();
    let header =
        ["system", "program", "version", "store", "data on", "journal or log", "OSDs", "copies", "devices"];
    format!("<h3>Systems</h3>\n{}", table("plain", &header, &rows))
}

fn loads(input: &Input) -> String {
    let mut first: BTreeMap<&str, &Record> = BTreeMap::new();
    for r in &input.records {
        first.entry(r.parameters.workload.as_str()).or_insert(r);
    }
    let rows: Vec<Vec<String>> = input
        .outline
        .workloads
        .iter()
        .map(|w| {
            let words =
                first.get(w.name.as_str()).map_or("no trial".into(), |r| load_words(r, loop_words(r)));
            let pgs = first.get(w.name.as_str()).map_or(String::new(), |r| r.parameters.pg_num.to_string());
            vec![escape(&w.name), escape(&words), escape(&w.phases.join(", ")), pgs]
        })
        .collect();
    format!("<h3>Loads</h3>\n{}", table("plain", &["workload", "what", "phases", "PGs of a pool"], &rows))
}

fn machine(input: &Input) -> String {
    let m = &input.run.machine;
    let memory = if m.memory == 0 { String::new() } else { text::format_bytes(m.memory) };
    let labs: BTreeSet<&str> = input.records.iter().map(|r| r.build.lab.as_str()).collect();
    let clients: BTreeSet<&str> = input.records.iter().map(|r| r.build.client.as_str()).collect();
    let join = |s: BTreeSet<&str>| s.into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("; ");
    let facts = [
        ("host", m.host.clone()),
        ("processor", m.cpu.clone()),
        ("cores", m.cores.to_string()),
        ("memory", memory),
        ("disk", m.disk.clone()),
        ("file system", m.file_system.clone()),
        ("distribution", m.system.clone()),
        ("kernel", m.kernel.clone()),
        ("lab", join(labs)),
        ("load programs", join(clients)),
    ];
    let rows: Vec<Vec<String>> = facts
        .into_iter()
        .filter(|f| !f.1.is_empty())
        .map(|(name, value)| vec![name.to_string(), escape(&value)])
        .collect();
    format!("<h3>Machine</h3>\n{}", table("plain facts", &[], &rows))
}

/// The rule and what it means.
pub fn statistics(input: &Input) -> String {
    let j = &input.judged;
    if j.rule_label.is_empty() && j.notes.is_empty() {
        return String::new();
    }
    format!("<p><b>{}</b></p>\n{}", escape(&j.rule_label), list(&j.notes))
}

/// The last line.
pub fn foot(input: &Input) -> String {
    format!(
        "<footer>Made by loligo lab from the results of {}. Columns: docs/results.md.</footer>\n",
        escape(&input.run.started)
    )
}
