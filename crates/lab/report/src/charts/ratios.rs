//! Every trial of all systems under a load, as a share of the same block's default: what a parameter does everywhere.
//!
//! A row a variant, in it a line a system. Colours are the systems'; shapes say the judgement: triangles up and down, else
//! circles.

use super::axis;
use super::bars::Dot;
use super::scale::Scale;
use super::scatter::shape;
use super::svg::{Anchor, SERIES, Style, Svg};
use super::words::{fit, width};
use crate::input::Colour;
use crate::quantity::Unit;

/// A chart of shares.
#[derive(Clone, PartialEq, Debug)]
pub struct Ratios {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    pub systems: Vec<String>,
    /// Variants.
    pub rows: Vec<Row>,
}

/// A variant.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub name: String,
    /// For each system the judgement, and the trials' shares in per cent.
    pub systems: Vec<(Colour, Vec<Dot>)>,
}

const WIDTH: f64 = 860.0;
const SIZE: f64 = 11.0;
/// The height of a system's line.
const LINE: f64 = 9.0;

/// Draws it.
pub fn chart(data: &Ratios) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut y = svg.heading(&data.title, &data.below);
    y += 6.0 + svg.legend(y + 8.0, 10.0, &data.systems);
    let left = 24.0 + data.rows.iter().map(|r| width(&r.name, SIZE)).fold(60.0, f64::max).min(300.0);
    let scale = range(data, left, WIDTH - 24.0);
    let height = (data.systems.len() as f64 * LINE + 6.0).max(20.0);
    let (top, bottom) = (y, y + data.rows.len() as f64 * height);
    let unit = Unit { divisor: 1.0, name: "100 is the default of the same block" };
    let axis = axis::below(&mut svg, &scale, unit, "per cent of the default's rate", (top, bottom));
    svg.line((scale.at(100.0), top), (scale.at(100.0), bottom), "#0072b2", "mean");
    for Row { name, systems } in &data.rows {
        svg.line((10.0, y), (WIDTH - 10.0, y), axis::GRID, "grid");
        let place = (left - 12.0, y + height / 2.0 + 4.0);
        svg.text_hover(place, &fit(name, SIZE, left - 22.0), Style::plain(Anchor::End), name);
        for (series, (colour, dots)) in systems.iter().enumerate() {
            let middle = y + 3.0 + (series as f64 + 0.5) * (height - 6.0) / systems.len().max(1) as f64;
            let paint = SERIES[series % SERIES.len()];
            svg.raw(&format!("<g class=\"s{series}\">"));
            for dot in dots {
                shape(&mut svg, *colour, dot, (scale.at(dot.value), middle), (paint, "coloured"));
            }
            svg.raw("</g>");
        }
        y += height;
    }
    svg.finish(bottom + axis)
}

fn range(data: &Ratios, from: f64, to: f64) -> Scale {
    let dots = data.rows.iter().flat_map(|r| r.systems.iter().flat_map(|s| &s.1));
    let values = || dots.clone().map(|d| d.value).filter(|v| v.is_finite() && *v >= 0.0);
    let (low, high) = (values().fold(100.0, f64::min), values().fold(100.0, f64::max));
    if low > high / 4.0 { Scale::between(low, high, from, to, 8) } else { Scale::linear(high, from, to, 8) }
}
