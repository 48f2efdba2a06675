//! The scatter of a cell: every variant's trials against the default's.

use super::spread;
use super::trials::{Trials, conditions, dot, metrics, value};
use crate::charts::scatter::{Row, Scatter};
use crate::input::{Cell, DEFAULT};

/// The chart of a cell; `None` where the default has no trial or nothing is compared with it.
pub fn scatter(trials: &Trials, cell: &Cell, rule: &str) -> Option<Scatter> {
    let key = (cell.system.as_str(), cell.workload.as_str(), cell.phase.as_str());
    let quantity = metrics(trials, &cell.workload, &cell.phase).into_iter().next()?;
    let first = trials.all(key, DEFAULT).first()?;
    if cell.variants.is_empty() {
        return None;
    }
    let rows = cell.variants.iter().map(|v| Row {
        name: v.name.clone(),
        parameter: v.parameter.clone(),
        trials: trials.all(key, &v.name).iter().map(|t| dot(t, quantity)).collect(),
        colour: v.colour,
        label: v.label(),
        details: format!("{}: {}", v.name, v.details()),
        ratio: v.colour.compared().then(|| inverted(v.low, v.high, quantity)),
    });
    let modelled = if first.0.parameters.modelled { ", modelled devices" } else { "" };
    Some(Scatter {
        title: format!("{} on {}{modelled}, {}", cell.workload, cell.system, cell.phase),
        below: format!(
            "{}. Dots: trials, hollow where unsteady. Band: the default's trials; blue line: their geometric mean. Grey \
             lines: interval of the ratio. {rule}",
            conditions(first)
        ),
        quantity,
        default: trials.all(key, DEFAULT).iter().map(|t| dot(t, quantity)).collect(),
        default_mean: spread(trials.planned(key, DEFAULT).map(|(_, m)| value(m, quantity))).map(|s| s.mean),
        rows: rows.collect(),
    })
}

/// Judgements are of rates; a command's chart shows seconds, whose ratio is the other way up.
fn inverted(low: f64, high: f64, quantity: crate::quantity::Quantity) -> (f64, f64) {
    if quantity == crate::quantity::Quantity::Seconds { (1.0 / high, 1.0 / low) } else { (low, high) }
}
