//! What was measured each second of a trial: panels above one another with one axis of time.

use std::fmt::Write;

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, SERIES, Style, Svg, px};
use super::words::{fit, width};
use crate::quantity::{Quantity, Unit};

/// A chart over time.
#[derive(Clone, PartialEq, Debug)]
pub struct OverTime {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    /// Seconds.
    pub end: f64,
    /// Phases: name, from, to in seconds.
    pub phases: Vec<(String, f64, f64)>,
    pub panels: Vec<Panel>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What the values are.
    pub quantity: Quantity,
    /// Names, and points (seconds, value); a gap where a value is not finite.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 860.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 30.0;
/// Points of a line at most: more than the panel has pixels for would not be seen.
const POINTS: usize = 360;

/// Draws it.
pub fn chart(data: &OverTime) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut y = svg.heading(&data.title, &data.below) + 4.0;
    let end = if data.end.is_finite() { data.end.max(1.0) } else { 1.0 };
    let time = Scale { low: 0.0, high: end, from: 74.0, to: WIDTH - 16.0, log: false };
    let count = data.panels.len();
    for (i, panel) in data.panels.iter().enumerate() {
        let top = y + GAP + i as f64 * (PANEL + GAP);
        let before = data.panels[..i].iter().map(|p| p.lines.len()).sum();
        draw(&mut svg, data, (panel, before), &time, top);
        if i + 1 == count {
            let bottom = top + PANEL;
            let name = "time since the trial began";
            y = bottom + axis::below(&mut svg, &time, Quantity::Seconds.unit(1.0), name, (bottom, bottom));
        }
    }
    svg.finish(y)
}

/// `before`: lines of the panels above, so that every line of the chart has a number of its own.
fn draw(svg: &mut Svg, data: &OverTime, (panel, before): (&Panel, usize), time: &Scale, top: f64) {
    let bottom = top + PANEL;
    let values = panel.lines.iter().flat_map(|l| l.1.iter().map(|p| p.1)).filter(|v| v.is_finite());
    let largest = values.fold(0.0, f64::max);
    let unit = panel.quantity.unit(largest);
    let scale = Scale::linear(largest / unit.divisor, bottom, top, 4);
    for (i, (name, from, to)) in data.phases.iter().enumerate() {
        let (from, to) = (time.at(*from), time.at(*to));
        let shade = ["#f3f6fa", "#f8f4ec"][i % 2];
        svg.rect((from, top), (to - from, PANEL), shade, if i % 2 == 0 { "phase" } else { "phase odd" }, "");
        if width(name, 10.0) + 8.0 < to - from {
            svg.text((from + 4.0, top + 12.0), name, Style { size: 10.0, ..Style::faint(Anchor::Start) });
        }
    }
    axis::grid(svg, time, (top, bottom));
    let ticks = scale.ticks(4);
    for (tick, label) in ticks.iter().zip(axis::labels(&ticks)) {
        svg.line((time.from, scale.at(*tick)), (time.to, scale.at(*tick)), axis::GRID, "grid");
        svg.text(
            (time.from - 6.0, scale.at(*tick) + 4.0),
            &fit(&label, 11.0, 62.0),
            Style::faint(Anchor::End),
        );
    }
    // Read by the page for what is pointed at.
    svg.raw(&format!(
        "<g class=\"panel\" data-t=\"{} {} {}\" data-v=\"{} {} {}\" data-unit=\"{}\">",
        px(time.from),
        px(time.to),
        time.high,
        px(bottom),
        px(top),
        scale.high,
        unit.name
    ));
    svg.rect((time.from, top), (time.to - time.from, PANEL), "none", "catch", "");
    for (i, (name, points)) in panel.lines.iter().enumerate() {
        let colour = SERIES[i % SERIES.len()];
        svg.raw(&line(&thinned(points), (time, &scale, unit), colour, before + i, name));
    }
    svg.raw("</g>");
    let title = format!("{} ({})", panel.quantity.words(), unit.name);
    svg.text((time.from, top - 7.0), &title, Style::bold(Anchor::Start));
    let left = time.from + width(&title, 11.0 * 1.12) + 20.0;
    if panel.lines.len() > 1 {
        let mut x = left;
        for (i, (name, _)) in panel.lines.iter().enumerate() {
            // What is left, shared among those that are left.
            let share = (WIDTH - 16.0 - x) / (panel.lines.len() - i) as f64;
            let others: f64 = panel.lines[i + 1..].iter().map(|l| 34.0 + width(&l.0, 11.0)).sum();
            let room = share.max(WIDTH - 16.0 - x - others);
            x += svg.legend_entry((x, top - 7.0), name, (i, before + i), room);
        }
    }
}

/// One path; it is broken where values are missing.
fn line(
    points: &[(f64, f64)],
    (time, scale, unit): (&Scale, &Scale, Unit),
    colour: &str,
    series: usize,
    name: &str,
) -> String {
    let mut d = String::new();
    let mut open = false;
    for (t, v) in points {
        if v.is_finite() && t.is_finite() {
            let _ = write!(
                d,
                "{}{} {}",
                if open { 'L' } else { 'M' },
                px(time.at(*t)),
                px(scale.at(v / unit.divisor))
            );
        }
        open = v.is_finite() && t.is_finite();
    }
    format!(
        "<path class=\"line s{series}\" data-name=\"{}\" d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"/>",
        super::words::escape(name)
    )
}

/// Keeps the smallest and the largest of each piece, so that no dip or peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let piece = points.len().div_ceil(POINTS / 2);
    let mut kept = Vec::new();
    for chunk in points.chunks(piece) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (chunk.iter().min_by(by), chunk.iter().max_by(by));
        let mut ends: Vec<(f64, f64)> = [low, high].into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_extreme() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 100.0)).collect();
        points[1234].1 = 0.0;
        points[7777].1 = 500.0;
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS + 2);
        assert!(kept.contains(&(1234.0, 0.0)) && kept.contains(&(7777.0, 500.0)));
        assert!(kept.windows(2).all(|w| w[0].0 <= w[1].0));
    }

    #[test]
    fn a_line_is_broken_where_nothing_was_measured() {
        let scale = Scale::linear(10.0, 0.0, 100.0, 4);
        let unit = Unit { divisor: 1.0, name: "" };
        let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0)];
        let path = line(&points, (&scale, &scale, unit), "#000", 0, "x");
        assert_eq!(path.matches('M').count(), 2, "{path}");
    }
}
