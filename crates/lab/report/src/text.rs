//! Tables for a terminal. Control characters from files never reach it; colours only where asked for.

use crate::compare::{self, Comparison};
use crate::gather::Trials;
use crate::gather::percentages::Fields;
use crate::history::History;
use crate::input::{Colour, Input, JudgedVariant, percent};
use crate::quantity::{Quantity, number};

/// A field: what it reads, and its colour.
type Field = (String, Option<Colour>);

/// The percentages: a table a load, variants by systems. `colours`: whether the output is a terminal that has them.
pub fn percentages(input: &Input, colours: bool) -> String {
    let fields = Fields::of(input);
    let mut out = format!("{}\n", plain(&input.judged.rule_label));
    for load in input.outline.loads() {
        let mut rows: Vec<Vec<Field>> =
            vec![header(std::iter::once("").chain(input.outline.systems.iter().map(String::as_str)))];
        for variant in input.outline.variants.iter().skip(1) {
            let cells: Vec<_> =
                input.outline.systems.iter().map(|s| fields.get(s, load, &variant.name)).collect();
            if cells.iter().any(Option::is_some) {
                let judged = cells.into_iter().map(|v| v.map_or((String::new(), None), field));
                rows.push(std::iter::once((plain(&variant.name), None)).chain(judged).collect());
            }
        }
        if rows.len() > 1 {
            out += &format!("\n{}, {}\n{}", plain(load.0), plain(load.1), table(&rows, colours));
        }
    }
    out + "\n▲ better  ▼ worse  = shown equal  ? undecided\n"
}

/// Every two systems of a run that can be compared, with the default. Empty where there are none.
pub fn systems(input: &Input, colours: bool) -> String {
    let (tables, _) =
        compare::systems(&input.outline, &Trials::of(&input.records), Quantity::Ops, &input.criteria);
    let compared = tables.iter().filter(|c| c.rows.iter().any(|row| row.judged.colour.compared()));
    compared.map(|c| format!("{}\n", comparison(c, colours))).collect()
}

/// A against B.
pub fn comparison(c: &Comparison, colours: bool) -> String {
    let mut rows = vec![header(["", "A (ops/s)", "B (ops/s)", "B against A", "interval"].into_iter())];
    for row in &c.rows {
        let mean = |s: Option<crate::gather::Spread>| (s.map_or("–".to_string(), |s| number(s.mean)), None);
        let j = &row.judged;
        let interval = (plain(&j.interval()), None);
        let mark = if row.other_setup { "≠ " } else { "" };
        rows.push(vec![
            (format!("{mark}{}", plain(&row.what)), None),
            mean(row.a),
            mean(row.b),
            field(j),
            interval,
        ]);
    }
    let notes: String = c.notes.iter().map(|n| format!("{}\n", plain(n))).collect();
    // Before the table: the reader sees the other differences before a colour.
    let mut config_diff = String::new();
    if !c.config_diff.is_empty() {
        config_diff = "NOT THE SAME SETUP in A and B (rows with ≠):\n".to_owned();
        c.config_diff.iter().for_each(|line| config_diff += &format!("  {}\n", plain(line)));
        config_diff.push('\n');
    }
    format!("A: {}\nB: {}\n\n{config_diff}{}\n{notes}", plain(&c.a), plain(&c.b), table(&rows, colours))
}

/// Runs over time with their change points.
pub fn history(all: &[History], colours: bool) -> String {
    let mut out = String::new();
    for h in all {
        let mut rows = vec![header(["run", "started", "server", "ops/s", "change"].into_iter())];
        for (i, p) in h.runs.iter().enumerate() {
            let change = h.changes.iter().find(|c| c.at == i).map_or((String::new(), None), |c| {
                let colour = if c.ratio > 1.0 { Colour::Green } else { Colour::Red };
                let ends = (percent(c.interval.0), percent(c.interval.1));
                (format!("{} {} ({} to {})", colour.sign(), percent(c.ratio), ends.0, ends.1), Some(colour))
            });
            let text = |t: &str| (plain(t), None);
            rows.push(vec![
                text(&p.name),
                text(&p.started),
                text(&p.server),
                (number(p.mean.mean), None),
                change,
            ]);
        }
        out += &format!("{}\n{}", plain(&h.what), table(&rows, colours));
        out += &match (h.why.is_empty(), h.changes.is_empty()) {
            (false, _) => format!("{}\n", plain(&h.why)),
            (true, true) => "no change found\n".to_string(),
            (true, false) => String::new(),
        };
        if !h.unseen.is_empty() {
            out += &format!("{}\n", plain(&h.unseen));
        }
        out += "\n";
    }
    if out.is_empty() { "no configuration was measured in two runs or more\n".into() } else { out }
}

fn header<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Field> {
    names.map(|n| (plain(n), None)).collect()
}

fn field(v: &JudgedVariant) -> Field {
    (v.label(), Some(v.colour))
}

/// Without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The first column to the left, the others to the right.
fn table(rows: &[Vec<Field>], colours: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |c: usize| rows.iter().filter_map(|r| Some(r.get(c)?.0.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, ((text, colour), width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - text.chars().count());
            let text = painted(text, *colour, colours);
            line += &if i == 0 { format!("{text}{pad}") } else { format!("  {pad}{text}") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn painted(text: &str, colour: Option<Colour>, colours: bool) -> String {
    let code = match colour {
        Some(Colour::Green) => "1;32",
        Some(Colour::Red) => "1;31",
        Some(Colour::White) | None => return text.to_string(),
        Some(_) => "2",
    };
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}
