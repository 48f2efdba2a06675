//! A configuration over runs: a dot a run with its interval, a line where it changed.

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, Style, Svg};
use super::words::fit;
use crate::quantity::Quantity;

/// A chart of runs.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    /// In order of time.
    pub runs: Vec<Run>,
    /// The run that a change begins with, what it reads, and whether it is for the better.
    pub changes: Vec<(usize, String, bool)>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Short.
    pub name: String,
    /// Operations a second.
    pub ops: f64,
    /// Of the run alone.
    pub interval: Option<(f64, f64)>,
    /// All that is known of it.
    pub hover: String,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 30.0;
/// Room of a change's words above the runs.
const WORDS: f64 = 22.0;

/// Draws it.
pub fn chart(data: &History) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let top = svg.heading(&data.title, &data.below) + 24.0 + WORDS;
    let bottom = top + HEIGHT;
    let fastest = data.runs.iter().map(|r| r.ops).filter(|v| v.is_finite()).fold(0.0, f64::max);
    // An interval of few trials can be wider than all that happened: it ends at the edge.
    let upper = data.runs.iter().map(|r| r.interval.map_or(r.ops, |i| i.1));
    let largest = upper.filter(|v| v.is_finite()).fold(fastest, f64::max).min(fastest * 1.6);
    let unit = Quantity::Ops.unit(largest);
    let scale = Scale::linear(largest / unit.divisor, bottom, top, 6);
    let ticks = scale.ticks(6);
    for (tick, label) in ticks.iter().zip(axis::labels(&ticks)) {
        svg.line((LEFT, scale.at(*tick)), (RIGHT, scale.at(*tick)), axis::GRID, "grid");
        svg.text((LEFT - 6.0, scale.at(*tick) + 4.0), &fit(&label, 11.0, 66.0), Style::faint(Anchor::End));
    }
    let step = (RIGHT - LEFT) / data.runs.len().max(1) as f64;
    let place = |run: usize| LEFT + (run as f64 + 0.5) * step;
    for (run, words, better) in &data.changes {
        let x = place(*run) - step / 2.0;
        let (stroke, class) = if *better { ("#00875f", "green") } else { ("#d55e00", "red") };
        svg.line((x, top - 6.0), (x, bottom), stroke, "change dashed");
        // Never beyond the right edge.
        let (x, anchor) = if x > WIDTH / 2.0 { (x - 4.0, Anchor::End) } else { (x + 4.0, Anchor::Start) };
        svg.text((x, top - 9.0), words, Style { class, ..Style::plain(anchor).over() });
    }
    let at = |run: usize, ops: f64| (place(run), scale.at(ops / unit.divisor));
    for (i, pair) in data.runs.windows(2).enumerate() {
        svg.line(at(i, pair[0].ops), at(i + 1, pair[1].ops), "#9ab8cc", "curve");
    }
    // As many names as fit beside each other.
    let every = (56.0 / step).ceil().max(1.0) as usize;
    for (i, run) in data.runs.iter().enumerate() {
        if let Some((low, high)) = run.interval {
            svg.line(at(i, low), at(i, high), "#6b6b6b", "interval");
        }
        svg.circle(at(i, run.ops), 4.0, "fill=\"#0072b2\"", "point", &run.hover);
        if i % every == 0 {
            let name = fit(&run.name, 10.0, step * every as f64 - 6.0);
            let style = Style { size: 10.0, ..Style::faint(Anchor::Middle) };
            svg.text_hover((place(i), bottom + 15.0), &name, style, &run.hover);
        }
    }
    let text = format!("{} ({})", Quantity::Ops.words(), unit.name);
    svg.text((LEFT, top - WORDS - 6.0), &text, Style::bold(Anchor::Start));
    svg.text(
        ((LEFT + RIGHT) / 2.0, bottom + 33.0),
        "runs, in order of their start",
        Style::faint(Anchor::Middle),
    );
    svg.finish(bottom + 42.0)
}
