//! Latency by percentile, from merged histograms: the further to the right, the rarer.

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, SERIES, Style, Svg};
use super::words::fit;
use crate::quantity::Quantity;

/// A chart of percentiles.
#[derive(Clone, PartialEq, Debug)]
pub struct Percentiles {
    /// What is shown.
    pub title: String,
    /// What else must be known: a latency chart always says closed or open loop.
    pub below: String,
    /// A line each: its name and (percentile, microseconds).
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// What is asked of histograms.
pub const PERCENTILES: [f64; 8] = [10.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 280.0;

/// Draws it.
pub fn chart(data: &Percentiles) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut top = svg.heading(&data.title, &data.below);
    let names: Vec<String> = data.lines.iter().map(|l| l.0.clone()).collect();
    top += 24.0 + svg.legend(top + 8.0, 10.0, &names);
    let bottom = top + HEIGHT;
    let values = || data.lines.iter().flat_map(|l| l.1.iter().map(|p| p.1));
    let largest = values().fold(0.0, f64::max);
    let unit = Quantity::Latency.unit(largest.min(values().fold(f64::INFINITY, f64::min) * 100.0));
    let scale = Scale::logarithmic(
        values().fold(f64::INFINITY, f64::min) / unit.divisor,
        largest / unit.divisor,
        bottom,
        top,
    );
    // Equal distances for ten times rarer.
    let place = |percentile: f64| 80.0 + (-(1.0 - percentile / 100.0).log10()) / 4.0 * (WIDTH - 120.0);
    let ticks = scale.ticks(10);
    for (tick, label) in ticks.iter().zip(axis::labels(&ticks)) {
        svg.line((80.0, scale.at(*tick)), (WIDTH - 40.0, scale.at(*tick)), axis::GRID, "grid");
        svg.text((74.0, scale.at(*tick) + 4.0), &fit(&label, 11.0, 66.0), Style::faint(Anchor::End));
    }
    for p in [50.0, 90.0, 99.0, 99.9, 99.99] {
        svg.line((place(p), top), (place(p), bottom), axis::GRID, "grid");
        svg.text((place(p), bottom + 14.0), &format!("p{p}"), Style::faint(Anchor::Middle));
    }
    for (series, (name, points)) in data.lines.iter().enumerate() {
        let colour = SERIES[series % SERIES.len()];
        svg.raw(&format!("<g class=\"s{series}\">"));
        let at: Vec<(f64, f64)> =
            points.iter().map(|(p, v)| (place(*p), scale.at(v / unit.divisor))).collect();
        for pair in at.windows(2) {
            // Once the colours begin again, lines have dashes.
            svg.line(pair[0], pair[1], colour, if series < SERIES.len() { "curve" } else { "curve dashed" });
        }
        for ((p, v), at) in points.iter().zip(&at) {
            let hover = format!("{name}: p{p} {}", Quantity::Latency.show(*v));
            svg.circle(*at, 3.5, &format!("fill=\"{colour}\""), "point", &hover);
        }
        svg.raw("</g>");
    }
    let text = format!("latency ({}), logarithmic", unit.name);
    svg.text((80.0, top - 8.0), &text, Style::bold(Anchor::Start));
    let text = "share of operations that took no longer";
    svg.text((WIDTH / 2.0, bottom + 31.0), text, Style::faint(Anchor::Middle));
    svg.finish(bottom + 40.0)
}
