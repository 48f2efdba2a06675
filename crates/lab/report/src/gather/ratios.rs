//! Every trial of a load as a share of its block's default, over all systems.

use std::collections::BTreeMap;

use super::percentages::Fields;
use super::spread;
use super::trials::{Trials, conditions, dot};
use crate::charts::bars::Dot;
use crate::charts::ratios::{Ratios, Row};
use crate::input::{Colour, DEFAULT, Outline};
use crate::quantity::Quantity;

/// The chart of a load; `None` where nothing is compared with the default.
pub fn ratios(outline: &Outline, fields: &Fields, trials: &Trials, load: (&str, &str)) -> Option<Ratios> {
    let rows: Vec<_> = outline
        .variants
        .iter()
        .skip(1)
        .map(|v| {
            let of = |system: &String| {
                let colour = fields.get(system, load, &v.name).map_or(Colour::TooFew, |f| f.colour);
                (colour, shares(trials, (system, load.0, load.1), &v.name))
            };
            Row { name: v.name.clone(), systems: outline.systems.iter().map(of).collect() }
        })
        .filter(|row| row.systems.iter().any(|s| !s.1.is_empty()))
        .collect();
    let any = trials.any(load.0, load.1)?;
    let modelled = |system: &str| {
        trials.all((system, load.0, load.1), DEFAULT).iter().any(|(r, _)| r.parameters.modelled)
    };
    let named = |s: &String| if modelled(s) { format!("{s} (modelled devices)") } else { s.clone() };
    (!rows.is_empty()).then(|| Ratios {
        title: format!("{}, {}: every trial as a share of its block's default", load.0, load.1),
        below: format!(
            "{}. Triangles up: judged better; down: worse; circles: neither; hollow: unsteady. The shares are of rates: \
             more is better.",
            conditions(&any)
        ),
        systems: outline.systems.iter().map(named).collect(),
        rows,
    })
}

/// Rates as shares, in per cent, of the geometric mean of the same block's defaults.
fn shares(trials: &Trials, cell: (&str, &str, &str), variant: &str) -> Vec<Dot> {
    let mut defaults: BTreeMap<(bool, u32), Vec<f64>> = BTreeMap::new();
    for (r, m) in trials.all(cell, DEFAULT) {
        defaults.entry((r.confirms, r.block)).or_default().push(m.ops_per_s);
    }
    let share = |t: &super::trials::Trial| {
        let default = spread(defaults.get(&(t.0.confirms, t.0.block))?.iter().copied())?;
        let value = 100.0 * t.1.ops_per_s / default.mean;
        let was = dot(t, Quantity::Ops);
        Some(Dot { value, hover: format!("{value:.1}% of the default; {}", was.hover), ..was })
    };
    trials.all(cell, variant).iter().filter_map(share).collect()
}
