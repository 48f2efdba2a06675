//! Bars of configurations, from 0, with each trial as a dot and the interval as a line.

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, SERIES, Style, Svg};
use super::words::{fit, width};
use crate::quantity::{Quantity, Unit, number};

/// A chart of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Bars {
    /// What is shown.
    pub title: String,
    /// What else must be known: closed or open loop, modelled devices, what the interval is.
    pub below: String,
    /// What the values are.
    pub quantity: Quantity,
    /// Groups, each with a bar for each of some series.
    pub groups: Vec<Group>,
    /// Names of the series, when there is more than one.
    pub series: Vec<String>,
}

/// A group of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    pub name: String,
    pub bars: Vec<Bar>,
}

/// A configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Place in [`Bars::series`].
    pub series: usize,
    /// Its length; `None`: there is nothing, and `note` says why.
    pub value: Option<f64>,
    /// The interval of the value.
    pub interval: Option<(f64, f64)>,
    pub trials: Vec<Dot>,
    /// Shown where there is no value.
    pub note: String,
}

/// A trial.
#[derive(Clone, PartialEq, Debug)]
pub struct Dot {
    /// What was measured.
    pub value: f64,
    /// Whether it was unsteady: the dot is hollow.
    pub unsteady: bool,
    /// Said when pointed at.
    pub hover: String,
}

const WIDTH: f64 = 860.0;
const ROW: f64 = 22.0;
const SIZE: f64 = 11.0;

/// Draws it.
pub fn chart(data: &Bars) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let mut y = svg.heading(&data.title, &data.below);
    let several = data.series.len() > 1;
    if several {
        y += 8.0 + svg.legend(y + 8.0, 10.0, &data.series);
    }
    let labels = data.groups.iter().flat_map(|g| g.bars.iter().map(|b| label(data, g, b)));
    let left = 20.0 + labels.map(|l| width(l, SIZE)).fold(60.0, f64::max).min(300.0);
    let largest = data.groups.iter().flat_map(|g| &g.bars).flat_map(reach).fold(0.0, f64::max);
    let unit = data.quantity.unit(largest);
    let scale = Scale::linear(largest / unit.divisor, left, WIDTH - 95.0, 8);
    let height = |g: &Group| g.bars.len() as f64 * ROW + if several { 20.0 } else { 0.0 };
    let (top, bottom) = (y, y + data.groups.iter().map(height).sum::<f64>() + 6.0);
    let axis = axis::below(&mut svg, &scale, unit, data.quantity.words(), (top, bottom));
    svg.line((left, top), (left, bottom), "#1b1b1b", "axis");
    y += 3.0;
    for group in &data.groups {
        if several {
            let name = fit(&group.name, SIZE * 1.12, WIDTH - 30.0);
            svg.text_hover((10.0, y + 15.0), &name, Style::bold(Anchor::Start).over(), &group.name);
            y += 20.0;
        }
        for bar in &group.bars {
            row(&mut svg, data, (group, bar), (&scale, unit), y);
            y += ROW;
        }
    }
    svg.finish(bottom + axis)
}

fn label<'a>(data: &'a Bars, group: &'a Group, bar: &Bar) -> &'a str {
    if data.series.len() > 1 { data.series.get(bar.series).map_or("", String::as_str) } else { &group.name }
}

fn reach(bar: &Bar) -> impl Iterator<Item = f64> {
    let ends = [bar.value, bar.interval.map(|i| i.1)];
    ends.into_iter().flatten().chain(bar.trials.iter().map(|t| t.value)).filter(|v| v.is_finite())
}

fn row(svg: &mut Svg, data: &Bars, (group, bar): (&Group, &Bar), (scale, unit): (&Scale, Unit), y: f64) {
    let at = |v: f64| scale.at(v / unit.divisor);
    let name = label(data, group, bar);
    let middle = y + ROW / 2.0;
    let base = middle + 4.0;
    svg.raw(&format!("<g class=\"s{}\">", bar.series));
    svg.text_hover(
        (scale.from - 8.0, base),
        &fit(name, SIZE, scale.from - 20.0),
        Style::plain(Anchor::End),
        name,
    );
    if let Some(value) = bar.value.filter(|v| v.is_finite()) {
        let colour = SERIES[bar.series % SERIES.len()];
        let hover = hover(data, group, name, bar, value);
        svg.rect((scale.from, y + 4.0), (at(value) - scale.from, ROW - 8.0), colour, "bar", &hover);
        if let Some((low, high)) = bar.interval.filter(|i| i.1.is_finite()) {
            svg.line((at(low), middle), (at(high), middle), "#1b1b1b", "axis");
            for end in [low, high] {
                svg.line((at(end), middle - 4.0), (at(end), middle + 4.0), "#1b1b1b", "axis");
            }
        }
        for dot in bar.trials.iter().filter(|d| d.value.is_finite()) {
            let paint = if dot.unsteady { HOLLOW } else { FULL };
            let class = if dot.unsteady { "dot unsteady" } else { "dot" };
            svg.circle((at(dot.value), middle), 3.0, paint, class, &dot.hover);
        }
        let end = reach(bar).fold(value, f64::max);
        svg.text((at(end) + 8.0, base), &number(value / unit.divisor), Style::plain(Anchor::Start).over());
    } else {
        let note = fit(&bar.note, SIZE, WIDTH - scale.from - 20.0);
        svg.text_hover((scale.from + 8.0, base), &note, Style::faint(Anchor::Start).over(), &bar.note);
    }
    svg.raw("</g>");
}

const HOLLOW: &str = "fill=\"#ffffff\" stroke=\"#1b1b1b\" stroke-width=\"1.2\" stroke-dasharray=\"2 1.2\"";
const FULL: &str = "fill=\"#1b1b1b\" stroke=\"#ffffff\" stroke-width=\"1\"";

fn hover(data: &Bars, group: &Group, name: &str, bar: &Bar, value: f64) -> String {
    let q = data.quantity;
    let who = if data.series.len() > 1 { format!("{}, {name}", group.name) } else { group.name.clone() };
    let mut text = format!("{who}: {}", q.show(value));
    if let Some((low, high)) = bar.interval {
        text += &format!(" ({} to {})", q.show(low), q.show(high));
    }
    text + &format!("; trials: {}", bar.trials.len())
}
