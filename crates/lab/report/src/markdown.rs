//! Systems side by side as a Markdown table, for a README: rates, the servers' CPU for an operation, and the last
//! system of the study against each of the others.

use crate::compare::{Comparison, systems};
use crate::from_labstats::share;
use crate::gather::{Spread, Trials, spread, value};
use crate::input::{DEFAULT, Input, JudgedVariant};
use crate::quantity::{Quantity, number};

/// The table, with a sentence below it; the default's trials alone. Empty if nothing was measured.
pub fn side_by_side(input: &Input) -> String {
    let trials = Trials::of(&input.records);
    let names = &input.outline.systems;
    let by = |quantity| -> Vec<Comparison> {
        let (tables, _) = systems(&input.outline, &trials, quantity, &input.criteria);
        tables.into_iter().filter(|c| names.last() == Some(&c.b)).collect()
    };
    let (rates, costs) = (by(Quantity::Ops), by(Quantity::CpuPerOp));
    let mut header = vec!["load".to_owned()];
    header.extend(names.iter().cloned());
    for c in &rates {
        header.extend([format!("{} against {}: rate", c.b, c.a), format!("{} against {}: CPU", c.b, c.a)]);
    }
    let mut rows = Vec::new();
    for (workload, phase) in input.outline.loads() {
        let load = format!("{workload}, {phase}");
        let cells: Vec<String> = names.iter().map(|s| cell(&trials, (s, workload, phase))).collect();
        if cells.iter().all(String::is_empty) {
            continue;
        }
        let effects: Vec<String> = rates
            .iter()
            .flat_map(|c| {
                let cost = costs.iter().find(|other| other.a == c.a);
                [Some(c), cost].map(|table| table.map(|t| effect_of(t, &load)).unwrap_or_default())
            })
            .collect();
        rows.push([vec![load], cells, effects].concat());
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("{}\n{}", table(&header, &rows), below(input, &trials))
}

/// `2,447/s, 458 µs`.
fn cell(trials: &Trials, of: (&str, &str, &str)) -> String {
    let mean =
        |quantity| -> Option<Spread> { spread(trials.planned(of, DEFAULT).map(|(_, m)| value(m, quantity))) };
    let Some(rate) = mean(Quantity::Ops) else { return String::new() };
    let cpu = mean(Quantity::CpuPerOp).map(|s| format!(", {}", Quantity::CpuPerOp.show(s.mean)));
    format!("{}/s{}", number(rate.mean), cpu.unwrap_or_default())
}

fn effect_of(table: &Comparison, load: &str) -> String {
    table.rows.iter().find(|row| row.what == load).map(|row| effect(&row.judged)).unwrap_or_default()
}

fn effect(judged: &JudgedVariant) -> String {
    if !judged.colour.compared() {
        return judged.label();
    }
    format!("{} ({})", judged.label(), judged.interval())
}

fn below(input: &Input, trials: &Trials) -> String {
    let counts = input.outline.loads().flat_map(|(workload, phase)| {
        let count = move |s: &String| trials.planned((s, workload, phase), DEFAULT).count();
        input.outline.systems.iter().map(count)
    });
    let counts: Vec<usize> = counts.filter(|n| *n > 0).collect();
    let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
    let trials = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    format!(
        "Geometric means of {trials} trials, each on a fresh cluster: operations a second and the servers' CPU for an \
         operation. Differences of rates and of CPU, each with intervals of {}% over all of its kind together; ▲ better, \
         ▼ worse, = shown equal, ? undecided.\n",
        share(input.criteria.confidence)
    )
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| -> String {
        let cells: Vec<String> = cells.iter().map(|c| escape(c)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: String = std::iter::once("---")
        .chain(header.iter().skip(1).map(|_| "---:"))
        .map(|r| format!("|{r}"))
        .collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}|\n{rows}", line(header))
}

/// A cell's text, so that names of studies neither end it nor become markup.
fn escape(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    let is_word = |at: Option<usize>| at.and_then(|at| all.get(at)).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::with_capacity(text.len());
    for (at, &c) in all.iter().enumerate() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            // Within a word it emphasises nothing, and `rand_write` stays as it can be searched for.
            '_' if is_word(at.checked_sub(1)) && is_word(Some(at + 1)) => out.push(c),
            '|' | '`' | '*' | '_' | '[' | ']' | '~' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_become_no_markup() {
        let cases = [
            ("rand_write, 4K", "rand_write, 4K"),
            ("a|b", "a\\|b"),
            ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
            ("&lt; & `code`", "&amp;lt; &amp; \\`code\\`"),
            ("*bold* _slanted_ ~~gone~~", "\\*bold\\* \\_slanted\\_ \\~\\~gone\\~\\~"),
            ("[x](javascript:y) \\", "\\[x\\](javascript:y) \\\\"),
            ("a\nb", "a b"),
            ("▼ −3.0% (−5.0% to −1.0%)", "▼ −3.0% (−5.0% to −1.0%)"),
        ];
        for (text, escaped) in cases {
            assert_eq!(escape(text), escaped);
        }
    }
}
