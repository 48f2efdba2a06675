//! What went on inside: flame graphs and seek plots of profiled trials, Ceph's counters.

use super::{choosers, list, table};
use crate::charts::words::escape;
use crate::figures::{Figure, Kind};
use crate::gather::Trials;
use crate::gather::counters::counters;
use crate::gather::profiles::{failures, profiled};
use crate::input::Input;

/// Charts of profiled trials; empty where none was profiled.
pub fn profiles(input: &Input, figures: &[Figure]) -> String {
    if input.profiled.is_empty() {
        return String::new();
    }
    let mut notes: Vec<String> = profiled(input).iter().flat_map(|p| p.notes()).collect();
    notes.extend(failures(input));
    let mut out = String::from(
        "<p>These trials were profiled, which makes them slower: they are no samples and stand in no other part of this \
         report.</p>\n",
    );
    let flames = choosers::section(figures, Kind::Flame);
    if !flames.is_empty() {
        out += &format!(
            "<h3>Flame graphs</h3>\n<p>A box is as wide as the share of samples that had this function on the stack; what it \
             called stands above it. A click widens a box, one on the lowest shows all again.</p>\n\
             <p class=\"choices\"><label>find <input id=\"find\" type=\"search\" size=\"30\"/></label> \
             <span id=\"found\" class=\"faint\"></span></p>\n{flames}"
        );
    }
    let seeks = choosers::section(figures, Kind::Seeks);
    if !seeks.is_empty() {
        out += &format!("<h3>Seek plots</h3>\n{seeks}");
    }
    out + &list(&notes)
}

/// A table for each load; empty where no system has counters.
pub fn counter_tables(input: &Input) -> String {
    let all = counters(&input.outline, &Trials::of(&input.records));
    if all.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<details><summary>Ceph's counters</summary>\n<p>Of the OSDs with the default: what changed in the phase, latencies \
         as its mean, averaged over the trials. All counters are in <code>counters/</code>.</p>\n",
    );
    for c in all {
        let mut header = vec!["counter"];
        header.extend(c.systems.iter().map(String::as_str));
        let row = |(name, values): &(String, Vec<String>)| {
            let mut row = vec![format!("<code>{}</code>", escape(name))];
            row.extend(values.iter().map(|v| escape(v)));
            row
        };
        let rows: Vec<Vec<String>> = c.rows.iter().map(row).collect();
        out += &format!(
            "<h3>{}</h3>\n{}",
            escape(&format!("{}, {}", c.load.0, c.load.1)),
            table("numbers pair", &header, &rows)
        );
    }
    out + "</details>\n"
}
