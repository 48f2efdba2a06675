//! Latency over throughput: depths of a closed loop as a line, fixed rates of an open loop as single marks.

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, SERIES, Style, Svg, px};
use super::words::{escape, fit};
use crate::quantity::Quantity;

/// A chart of ladders.
#[derive(Clone, PartialEq, Debug)]
pub struct Ladder {
    /// What is shown.
    pub title: String,
    /// What else must be known: which marks are of a closed and which of an open loop.
    pub below: String,
    /// `p99`.
    pub percentile: String,
    /// Latency to hold in microseconds, where it is of this percentile.
    pub target_us: Option<f64>,
    /// A system each.
    pub lines: Vec<Line>,
}

/// A system's ladder.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    /// The system.
    pub name: String,
    /// Depths, ascending.
    pub closed: Vec<Point>,
    /// Fixed rates, each run of each trial.
    pub open: Vec<Point>,
}

/// A load that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Operations a second, achieved.
    pub ops: f64,
    /// Microseconds.
    pub latency_us: f64,
    /// Whether a fixed rate held.
    pub held: bool,
    /// All that is known of it.
    pub hover: String,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 80.0;

/// Draws it.
pub fn chart(data: &Ladder) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut top = svg.heading(&data.title, &data.below);
    let names: Vec<String> = data.lines.iter().map(|l| l.name.clone()).collect();
    top += 24.0 + svg.legend(top + 8.0, 10.0, &names);
    let bottom = top + HEIGHT;
    let points = || data.lines.iter().flat_map(|l| l.closed.iter().chain(&l.open));
    let latencies = || points().map(|p| p.latency_us).chain(data.target_us).filter(|v| *v > 0.0);
    let (low, high) = (latencies().fold(f64::INFINITY, f64::min), latencies().fold(0.0, f64::max));
    let unit = Quantity::Latency.unit(high.min(low * 100.0));
    let scale = Scale::logarithmic(low / unit.divisor, high / unit.divisor, bottom, top);
    let fastest = points().map(|p| p.ops).fold(0.0, f64::max);
    let ops = Quantity::Ops.unit(fastest);
    let across = Scale::linear(fastest / ops.divisor, LEFT, WIDTH - 30.0, 8);
    let ticks = scale.ticks(10);
    for (tick, label) in ticks.iter().zip(axis::labels(&ticks)) {
        svg.line((LEFT, scale.at(*tick)), (WIDTH - 30.0, scale.at(*tick)), axis::GRID, "grid");
        svg.text((LEFT - 6.0, scale.at(*tick) + 4.0), &fit(&label, 11.0, 66.0), Style::faint(Anchor::End));
    }
    let below = axis::below(&mut svg, &across, ops, "operations a second, achieved", (top, bottom));
    if let Some(target) = data.target_us {
        let y = scale.at(target / unit.divisor);
        svg.line((LEFT, y), (WIDTH - 30.0, y), "#b03a00", "target dashed");
        let words = format!("target: {} {}", data.percentile, Quantity::Latency.show(target));
        svg.text((WIDTH - 34.0, y - 5.0), &words, Style { class: "red", ..Style::plain(Anchor::End).over() });
    }
    for (series, line) in data.lines.iter().enumerate() {
        let colour = SERIES[series % SERIES.len()];
        let at = |p: &Point| (across.at(p.ops / ops.divisor), scale.at(p.latency_us / unit.divisor));
        svg.raw(&format!("<g class=\"s{series}\">"));
        for pair in line.closed.windows(2) {
            svg.line(at(&pair[0]), at(&pair[1]), colour, "curve");
        }
        for point in &line.closed {
            svg.circle(at(point), 4.0, &format!("fill=\"{colour}\""), "point", &point.hover);
        }
        for point in &line.open {
            open_mark(&mut svg, at(point), colour, point);
        }
        svg.raw("</g>");
    }
    let text = format!("{} latency ({}), logarithmic", data.percentile, unit.name);
    svg.text((LEFT, top - 8.0), &text, Style::bold(Anchor::Start));
    svg.finish(bottom + below)
}

/// A diamond where the rate held, a cross where it did not.
fn open_mark(svg: &mut Svg, (x, y): (f64, f64), colour: &str, point: &Point) {
    let d = if point.held {
        format!("M{} {}l5 5l-5 5l-5 -5Z", px(x), px(y - 5.0))
    } else {
        format!("M{} {}l8 8m0 -8l-8 8", px(x - 4.0), px(y - 4.0))
    };
    let class = if point.held { "open" } else { "open missed" };
    svg.raw(&format!(
        "<path class=\"{class}\" d=\"{d}\" fill=\"{}\" stroke=\"{colour}\" stroke-width=\"1.6\"><title>{}</title></path>",
        if point.held { "#ffffff" } else { "none" },
        escape(&point.hover)
    ));
}
