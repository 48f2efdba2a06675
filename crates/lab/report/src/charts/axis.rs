//! An axis along the bottom, with grid lines and the unit.

use super::scale::{Scale, digits};
use super::svg::{Anchor, Style, Svg};
use super::words::width;
use crate::quantity::{Unit, fixed};

/// Colour of grid lines on white paper.
pub const GRID: &str = "#dcdcdc";

/// Draws grid lines from `top` to `bottom`, ticks below them and the axis' name below those. The scale is in `unit`.
/// Gives the height below `bottom` that it takes.
pub fn below(svg: &mut Svg, scale: &Scale, unit: Unit, name: &str, (top, bottom): (f64, f64)) -> f64 {
    let ticks = grid(svg, scale, (top, bottom));
    let labels = labels(&ticks);
    for (tick, label) in ticks.iter().zip(&labels) {
        svg.text((scale.at(*tick), bottom + 14.0), label, Style::faint(Anchor::Middle));
    }
    let mut name = format!("{name} ({})", unit.name);
    if scale.log {
        name += ", logarithmic";
    } else if scale.low != 0.0 {
        name += &format!(" – the axis begins at {}, not at 0", labels.first().map_or("", String::as_str));
    }
    let shown = super::words::fit(&name, 11.0, svg.width() - 20.0);
    let half = width(&shown, 11.0) / 2.0;
    let middle =
        ((scale.from + scale.to) / 2.0).clamp(10.0 + half, (svg.width() - 10.0 - half).max(10.0 + half));
    svg.text((middle, bottom + 31.0), &shown, Style::faint(Anchor::Middle));
    40.0
}

/// Vertical grid lines alone, where [`below`] would draw them; gives their values.
pub fn grid(svg: &mut Svg, scale: &Scale, (top, bottom): (f64, f64)) -> Vec<f64> {
    let room = (scale.to - scale.from).abs();
    // Fewer ticks where their texts would touch.
    let fits = |ticks: &Vec<f64>| labels(ticks).iter().map(|l| width(l, 11.0) + 14.0).sum::<f64>() <= room;
    let ticks = [8, 6, 4, 3].into_iter().map(|about| scale.ticks(about)).find(fits);
    let ticks = ticks.unwrap_or_else(|| scale.ticks(2));
    for tick in &ticks {
        svg.line((scale.at(*tick), top), (scale.at(*tick), bottom), GRID, "grid");
    }
    ticks
}

/// What ticks read, with as many digits as tell them apart.
pub fn labels(ticks: &[f64]) -> Vec<String> {
    let digits = digits(ticks);
    let small = |t: f64| if t > 0.0 && t < 1.0 { ((-t.log10()).ceil()).clamp(0.0, 9.0) as usize } else { 0 };
    ticks.iter().map(|t| fixed(*t, digits.max(if digits == 0 { small(*t) } else { 0 }))).collect()
}
