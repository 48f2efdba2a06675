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
    let room = (scale.to - scale.from).abs();
    let mut ticks = scale.ticks(8);
    let mut labels = labels(&ticks);
    // Fewer ticks where their texts would touch.
    for about in [6, 4, 3, 2] {
        let taken: f64 = labels.iter().map(|l| width(l, 11.0) + 14.0).sum();
        if taken <= room {
            break;
        }
        ticks = scale.ticks(about);
        labels = self::labels(&ticks);
    }
    for (tick, label) in ticks.iter().zip(&labels) {
        let x = scale.at(*tick);
        svg.line((x, top), (x, bottom), GRID, "grid");
        svg.text((x, bottom + 14.0), label, Style::faint(Anchor::Middle));
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

/// What ticks read, with as many digits as tell them apart.
pub fn labels(ticks: &[f64]) -> Vec<String> {
    let digits = digits(ticks);
    let small = |t: f64| if t > 0.0 && t < 1.0 { ((-t.log10()).ceil()).clamp(0.0, 9.0) as usize } else { 0 };
    ticks.iter().map(|t| fixed(*t, digits.max(if digits == 0 { small(*t) } else { 0 }))).collect()
}
