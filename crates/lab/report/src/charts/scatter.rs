//! Every trial of every variant of a cell against the default, as the 2013 article drew it.
//!
//! A row a variant. The default's trials make the band. The dots' shape says the judgement as its colour does: triangles
//! up and down, else circles.

use super::axis;
use super::bars::Dot;
use super::scale::Scale;
use super::svg::{Anchor, Style, Svg, px};
use super::words::{escape, fit, width};
use crate::input::Colour;
use crate::quantity::{Quantity, Unit};

/// A chart of dots.
#[derive(Clone, PartialEq, Debug)]
pub struct Scatter {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    /// What the values are.
    pub quantity: Quantity,
    /// The default's trials.
    pub default: Vec<Dot>,
    /// The default's geometric mean.
    pub default_mean: Option<f64>,
    /// A row each.
    pub rows: Vec<Row>,
}

/// A variant.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The variant.
    pub name: String,
    /// What it belongs to: a line is drawn where this changes.
    pub parameter: String,
    pub trials: Vec<Dot>,
    /// The judgement.
    pub colour: Colour,
    /// `▲ +12.3%`.
    pub label: String,
    /// All that is known.
    pub details: String,
    /// The interval of the ratio, where there is one.
    pub ratio: Option<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const ROW: f64 = 20.0;
const SIZE: f64 = 11.0;

/// Draws it.
pub fn chart(data: &Scatter) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut y = svg.heading(&data.title, &data.below);
    let left = 24.0 + data.rows.iter().map(|r| width(&r.name, SIZE)).fold(60.0, f64::max).min(300.0);
    let label = 16.0 + data.rows.iter().map(|r| width(&r.label, SIZE)).fold(60.0, f64::max);
    let (scale, unit) = range(data, left, WIDTH - label - 10.0);
    let (top, bottom) = (y, y + (data.rows.len() + 1) as f64 * ROW + 6.0);
    band(&mut svg, data, &scale, unit, (top, bottom));
    let axis = axis::below(&mut svg, &scale, unit, data.quantity.words(), (top, bottom));
    y += 3.0;
    let name = |svg: &mut Svg, name: &str, y: f64, style: Style| {
        svg.text_hover((left - 12.0, y + 14.0), &fit(name, SIZE, left - 22.0), style, name);
    };
    name(&mut svg, "default", y, Style { size: 10.0, ..Style::bold(Anchor::End) });
    for dot in &data.default {
        mark(&mut svg, Colour::White, dot, scale.at(dot.value / unit.divisor), y + ROW / 2.0);
    }
    for (i, row) in data.rows.iter().enumerate() {
        y += ROW;
        if begins_group(&data.rows, i) {
            svg.line((10.0, y), (WIDTH - 10.0, y), axis::GRID, "grid");
        }
        name(&mut svg, &row.name, y, Style::plain(Anchor::End));
        interval(&mut svg, data, row, &scale, unit, y + ROW / 2.0);
        for dot in &row.trials {
            mark(&mut svg, row.colour, dot, scale.at(dot.value / unit.divisor), y + ROW / 2.0);
        }
        svg.text_hover((WIDTH - label, y + 14.0), &row.label, style(row.colour), &row.details);
    }
    svg.finish(bottom + axis)
}

/// Whether a line goes above the row: the default stands above the first, and parameters with several values are framed.
fn begins_group(rows: &[Row], i: usize) -> bool {
    let parameter = |i: usize| rows.get(i).map(|r| r.parameter.as_str());
    let Some(before) = i.checked_sub(1) else { return true };
    let in_group = |i: usize| parameter(i + 1) == parameter(i) || (i > 0 && parameter(i - 1) == parameter(i));
    parameter(before) != parameter(i) && (in_group(before) || in_group(i))
}

fn style(colour: Colour) -> Style {
    match colour {
        Colour::Green | Colour::Red => Style { class: colour.class(), ..Style::bold(Anchor::Start) },
        Colour::White => Style::plain(Anchor::Start),
        _ => Style::faint(Anchor::Start),
    }
}

/// From 0, unless all values lie in the upper half: then small effects need the room, and the axis says so.
fn range(data: &Scatter, from: f64, to: f64) -> (Scale, Unit) {
    let dots = data.default.iter().chain(data.rows.iter().flat_map(|r| &r.trials));
    let values: Vec<f64> = dots.map(|d| d.value).filter(|v| v.is_finite() && *v > 0.0).collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let unit = data.quantity.unit(largest);
    let scale = if smallest > largest / 2.0 && smallest.is_finite() {
        Scale::between(smallest / unit.divisor, largest / unit.divisor, from, to, 8)
    } else {
        Scale::linear(largest / unit.divisor, from, to, 8)
    };
    (scale, unit)
}

fn band(svg: &mut Svg, data: &Scatter, scale: &Scale, unit: Unit, (top, bottom): (f64, f64)) {
    let values = || data.default.iter().map(|d| d.value).filter(|v| v.is_finite());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if low <= high {
        let (from, to) = (scale.at(low / unit.divisor), scale.at(high / unit.divisor));
        let hover =
            format!("the default's trials: {} to {}", data.quantity.show(low), data.quantity.show(high));
        svg.rect((from, top), (to - from, bottom - top), "#e8eef5", "band", &hover);
    }
    if let Some(mean) = data.default_mean {
        let x = scale.at(mean / unit.divisor);
        svg.line((x, top), (x, bottom), "#0072b2", "mean");
    }
}

/// The adjusted interval of the ratio, drawn from the default's mean.
fn interval(svg: &mut Svg, data: &Scatter, row: &Row, scale: &Scale, unit: Unit, y: f64) {
    if let (Some((low, high)), Some(mean)) = (row.ratio, data.default_mean) {
        let at = |ratio: f64| scale.at(mean * ratio / unit.divisor);
        svg.line((at(low), y), (at(high), y), "#9a9a9a", "interval");
    }
}

fn mark(svg: &mut Svg, colour: Colour, dot: &Dot, x: f64, y: f64) {
    let look = match colour {
        Colour::Green => ("#00875f", "green"),
        Colour::Red => ("#d55e00", "red"),
        Colour::White => ("#1b1b1b", "plain"),
        _ => ("#8a8a8a", "other"),
    };
    shape(svg, colour, dot, (x, y), look);
}

/// A trial in a paint and with a class: a triangle up or down where it is judged better or worse, else a circle; hollow
/// where unsteady. What is no number is not drawn.
pub fn shape(svg: &mut Svg, colour: Colour, dot: &Dot, (x, y): (f64, f64), (paint, class): (&str, &str)) {
    if !dot.value.is_finite() {
        return;
    }
    let paint = if dot.unsteady {
        format!("fill=\"#ffffff\" stroke=\"{paint}\" stroke-width=\"1.4\"")
    } else {
        format!("fill=\"{paint}\" stroke=\"#ffffff\" stroke-width=\"0.7\"")
    };
    let class = format!("dot {class}{}", if dot.unsteady { " unsteady" } else { "" });
    let up = match colour {
        Colour::Green => 1.0,
        Colour::Red => -1.0,
        _ => return svg.circle((x, y), 3.6, &paint, &class, &dot.hover),
    };
    let (tip, base) = (y - 5.0 * up, y + 4.0 * up);
    let d = format!("M{} {}L{} {}L{} {}Z", px(x), px(tip), px(x - 4.8), px(base), px(x + 4.8), px(base));
    svg.raw(&format!(
        "<path class=\"{class}\" d=\"{d}\" {paint}><title>{}</title></path>",
        escape(&dot.hover)
    ));
}
