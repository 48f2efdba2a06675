//! Tables: percentages by variant, A against B, latency and cost.

use std::fmt::Write;

use super::table;
use crate::charts::words::escape;
use crate::compare::{Comparison, systems};
use crate::gather::cost::{self, COST, Cost, LATENCY};
use crate::gather::percentages::{Fields, of_variant};
use crate::gather::{Spread, Trials};
use crate::input::{Colour, Input, JudgedVariant};
use crate::quantity::{Quantity, number};

/// The coloured ones in words, strongest first.
pub fn summary(input: &Input) -> String {
    let mut coloured: Vec<(&crate::input::Cell, &JudgedVariant)> = input
        .judged
        .cells
        .iter()
        .flat_map(|c| c.variants.iter().map(move |v| (c, v)))
        .filter(|(_, v)| matches!(v.colour, Colour::Green | Colour::Red))
        .collect();
    if coloured.is_empty() {
        return "<p>No comparison is coloured.</p>\n".into();
    }
    coloured.sort_by(|a, b| b.1.ratio.ln().abs().total_cmp(&a.1.ratio.ln().abs()));
    let rows: Vec<Vec<String>> = coloured
        .iter()
        .map(|(c, v)| {
            let interval = v.interval();
            let load = format!("{}, {}", c.workload, c.phase);
            vec![badge(v), escape(&v.name), escape(&c.system), escape(&load), interval, escape(&v.why)]
        })
        .collect();
    let header = ["effect", "variant", "system", "load", "interval", ""];
    format!(
        "<details><summary>Coloured comparisons ({})</summary>\n{}</details>\n",
        rows.len(),
        table("plain", &header, &rows)
    )
}

/// A small table for each variant.
pub fn variants(input: &Input) -> String {
    let fields = Fields::of(input);
    let mut out = String::from(
        "<details><summary>Each variant over loads and systems</summary>\n<div class=\"grid\">\n",
    );
    for variant in input.outline.variants.iter().skip(1) {
        let Some(t) = of_variant(input, &fields, &variant.name) else { continue };
        let head: String = t.columns.iter().map(|c| format!("<th>{}</th>", escape(c))).collect();
        let _ = write!(
            out,
            "<table class=\"percent\"><caption>{}</caption><thead><tr><th></th>{head}</tr></thead><tbody>",
            escape(&variant.name)
        );
        for (name, row) in &t.rows {
            let _ = write!(out, "<tr><th>{}</th>", escape(name));
            for field in row {
                match field {
                    Some(v) => {
                        let _ = write!(
                            out,
                            "<td class=\"{}\" title=\"{}\">{}</td>",
                            v.colour.class(),
                            escape(&v.details()),
                            v.label()
                        );
                    }
                    None => out.push_str("<td></td>"),
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
    }
    out + "</div></details>\n"
}

fn badge(v: &JudgedVariant) -> String {
    format!(
        "<span class=\"badge {}\" title=\"{}\">{}</span>",
        v.colour.class(),
        escape(&v.details()),
        v.label()
    )
}

/// Systems of one run with their default, every pair that can be compared, to choose from.
pub fn pairs(input: &Input) -> String {
    let trials = Trials::of(&input.records);
    let by = |quantity| systems(&input.outline, &trials, quantity, &input.criteria);
    let (rates, refused) = by(Quantity::Ops);
    let (costs, _) = by(Quantity::CpuPerOp);
    let mut templates = String::new();
    for (quantity, tables) in [(Quantity::Ops, rates), (Quantity::CpuPerOp, costs)] {
        for c in &tables {
            let (a, b, by) = (escape(&c.a), escape(&c.b), escape(quantity.words()));
            let keys = format!("data-a=\"{a}\" data-b=\"{b}\" data-by=\"{by}\"");
            let _ = writeln!(templates, "<template {keys}>{}</template>", pair(c, quantity));
        }
    }
    let refused: Vec<String> = refused.iter().map(|(a, b)| format!("{a} and {b}")).collect();
    if templates.is_empty() {
        return String::new();
    }
    let refused = if refused.is_empty() {
        String::new()
    } else {
        format!(
            "<p class=\"faint small\">Not compared, since one has modelled devices or no load is shared: {}.</p>\n",
            escape(&refused.join("; "))
        )
    };
    format!(
        "<p>Two systems with the default, in the same blocks. Intervals are adjusted for the rows of \
         all tables of rates together, or of CPU, apart from the variants above.</p>\n<div class=\"chooser\" data-keys=\"a b by\">\n<div class=\"choices\"></div>\n\
         <div class=\"stage\"></div>\n{templates}</div>\n{refused}"
    )
}

fn pair(c: &Comparison, quantity: Quantity) -> String {
    let shown = |mean: f64| match quantity {
        Quantity::Ops => number(mean),
        other => other.show(mean),
    };
    let mean = |s: Option<Spread>| s.map_or("–".to_string(), |s| shown(s.mean));
    let rows: Vec<Vec<String>> = c
        .rows
        .iter()
        .map(|r| {
            let j = &r.judged;
            let interval = escape(&j.interval());
            let trials = r.a.map_or(0, |s| s.trials) + r.b.map_or(0, |s| s.trials);
            vec![escape(&r.what), mean(r.a), mean(r.b), badge(j), interval, trials.to_string()]
        })
        .collect();
    let unit = if quantity == Quantity::Ops { "ops/s" } else { "CPU an operation" };
    let (a, b) = (format!("A: {} ({unit})", c.a), format!("B: {} ({unit})", c.b));
    table("numbers pair", &["load", &a, &b, "B against A", "interval", "trials"], &rows)
}

/// Latency and cost as tables.
pub fn costs(input: &Input) -> String {
    let all = cost::costs(&input.outline, &Trials::of(&input.records));
    if all.is_empty() {
        return String::new();
    }
    let load = |c: &Cost| escape(&format!("{}, {}", c.load.0, c.load.1));
    let latency: Vec<Vec<String>> = all
        .iter()
        .filter(|c| !c.open_loop.is_empty())
        .map(|c| {
            let mut row = vec![escape(&c.system), load(c), c.open_loop.to_string()];
            row.extend(c.latency.iter().cloned());
            row
        })
        .collect();
    let cost: Vec<Vec<String>> = all
        .iter()
        .map(|c| {
            let mut row = vec![escape(&c.system), load(c)];
            row.extend(c.cost.iter().cloned());
            row
        })
        .collect();
    let mut out = String::new();
    if !latency.is_empty() {
        let header: Vec<&str> = ["system", "load", "loop"].into_iter().chain(LATENCY).collect();
        out += &format!(
            "<details><summary>Latency</summary>\n<p>Percentiles are of histograms added up over the trials; – where the \
             load gives none.</p>\n{}</details>\n",
            table("numbers", &header, &latency)
        );
    }
    let header: Vec<&str> = ["system", "load"].into_iter().chain(COST).collect();
    out + &format!("<details><summary>Cost</summary>\n{}</details>\n", table("numbers", &header, &cost))
}
