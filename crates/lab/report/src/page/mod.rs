//! The page: one HTML file that needs no other and no network. Charts lie in templates, so that only the chosen one is
//! laid out.

mod about;
mod choosers;
mod inside;
mod ladders;
mod short_phases;
mod tables;
mod trials;

use crate::charts::words::escape;
use crate::figures::{Figure, Kind};
use crate::input::Input;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page. `figures` are those of the same input.
pub fn html(input: &Input, figures: &[Figure]) -> String {
    let sections = [
        ("about", "What was measured", about::section(input)),
        ("statistics", "How to read the colours", about::statistics(input)),
        ("percentages", "Variants against the default", percentages(input, figures)),
        ("scatter", "Every trial against the default", scatter(figures)),
        ("bars", "Systems side by side", choosers::section(figures, Kind::Bars)),
        ("a-b", "A against B", tables::pairs(input)),
        ("latency", "Latency and cost of the default", latency(input, figures)),
        ("ladder", "Latency over throughput", ladder(input, figures)),
        ("over-time", "Trials over time", over_time(input, figures)),
        ("profiles", "Where time goes", inside::profiles(input, figures)),
        ("trials", "Failed and unsteady trials", trials::section(input) + &short_phases::section(input)),
    ];
    let shown: Vec<_> = sections.into_iter().filter(|s| !s.2.is_empty()).collect();
    let links: String =
        shown.iter().map(|(id, title, _)| format!("<a href=\"#{id}\">{title}</a>\n")).collect();
    let body: String = shown
        .iter()
        .map(|(id, title, body)| format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n"))
        .collect();
    let title = escape(&input.run.title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n{}</header>\n<nav>\n{links}</nav>\n\
         <main>\n{body}</main>\n{}<div id=\"hover\" hidden=\"hidden\"></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        about::head(input),
        about::foot(input),
    )
}

fn percentages(input: &Input, figures: &[Figure]) -> String {
    let overview = choosers::section(figures, Kind::Percentages);
    if overview.is_empty() {
        return String::new();
    }
    format!("{overview}{}{}", tables::summary(input), tables::variants(input))
}

fn scatter(figures: &[Figure]) -> String {
    let (all, one) = (choosers::section(figures, Kind::Ratios), choosers::section(figures, Kind::Scatter));
    if all.is_empty() && one.is_empty() {
        return String::new();
    }
    format!("<h3>All systems</h3>\n{all}<h3>One system</h3>\n{one}")
}

fn latency(input: &Input, figures: &[Figure]) -> String {
    let charts = choosers::section(figures, Kind::Percentiles);
    format!("{charts}{}{}", tables::costs(input), inside::counter_tables(input))
}

fn ladder(input: &Input, figures: &[Figure]) -> String {
    format!("{}{}", choosers::section(figures, Kind::Ladder), ladders::tables(input))
}

fn over_time(input: &Input, figures: &[Figure]) -> String {
    let charts = choosers::section(figures, Kind::OverTime);
    if charts.is_empty() {
        return charts;
    }
    let (shown, all) = (figures.iter().filter(|f| f.kind == Kind::OverTime).count(), input.records.len());
    let left_out = if shown < all {
        format!(
            "<p>{shown} of {all} trials are shown: failed and unsteady ones first, then the default and coloured variants. \
             The samples of all are in <code>series/</code>.</p>\n"
        )
    } else {
        String::new()
    };
    format!("<p>Seconds of one trial are no samples: nothing is judged by them.</p>\n{left_out}{charts}")
}

/// Paragraphs, separated by empty lines in the text.
fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    parts.map(|p| format!("<p>{}</p>\n", escape(p))).collect()
}

/// A list; empty if there is nothing.
fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|i| format!("<li>{}</li>\n", escape(i))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A table with a header row; fields are markup.
fn table(class: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = header.iter().map(|h| format!("<th>{}</th>", escape(h))).collect();
    let body: String = rows
        .iter()
        .map(|r| format!("<tr>{}</tr>\n", r.iter().map(|f| format!("<td>{f}</td>")).collect::<String>()))
        .collect();
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
}
