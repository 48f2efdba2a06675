//! Bars of all systems under a load.

use super::spread;
use super::trials::{Trial, Trials, conditions, dot, metrics, value};
use crate::charts::bars::{Bar, Bars, Group};
use crate::input::{DEFAULT, Outline, Variant};
use crate::quantity::Quantity;

/// More bars than this in one chart are the default's alone; the variants have their scatter.
const BARS_MAX: usize = 48;

/// The charts of a load, one for each quantity that is measured.
pub fn bars(outline: &Outline, trials: &Trials, workload: &str, phase: &str) -> Vec<Bars> {
    let few = outline.systems.len() * outline.variants.len() <= BARS_MAX;
    let variants = if few { &outline.variants[..] } else { outline.variants.get(..1).unwrap_or_default() };
    let quantities = metrics(trials, workload, phase).into_iter();
    quantities.filter_map(|q| chart(outline, trials, (workload, phase), variants, q)).collect()
}

fn chart(
    outline: &Outline,
    trials: &Trials,
    (workload, phase): (&str, &str),
    variants: &[Variant],
    quantity: Quantity,
) -> Option<Bars> {
    let mut groups = Vec::new();
    let mut modelled = (false, false);
    for system in &outline.systems {
        let cell = (system.as_str(), workload, phase);
        let bars: Vec<Bar> = variants
            .iter()
            .enumerate()
            .filter(|(_, v)| !outline.nothing_to_tune.contains(&(system.clone(), v.name.clone())))
            .map(|(series, v)| bar(outline, trials, cell, (series, &v.name), quantity))
            .collect();
        for (r, _) in variants.iter().flat_map(|v| trials.planned(cell, &v.name)) {
            if r.parameters.modelled { modelled.0 = true } else { modelled.1 = true }
        }
        let name =
            if is_modelled(trials, cell) { format!("{system} (modelled devices)") } else { system.clone() };
        groups.push(Group { name, bars });
    }
    groups.iter().flat_map(|g| &g.bars).find(|b| b.value.is_some())?;
    let any = trials.any(workload, phase)?;
    let what = if variants.len() < outline.variants.len() { ", the default of each system" } else { "" };
    Some(Bars {
        title: format!("{workload}, {phase}: {}{what}", quantity.words()),
        below: below(&any, quantity, modelled),
        quantity,
        groups,
        series: variants.iter().map(|v| v.name.clone()).collect(),
    })
}

fn is_modelled(trials: &Trials, cell: (&str, &str, &str)) -> bool {
    trials.all(cell, DEFAULT).first().is_some_and(|(r, _)| r.parameters.modelled)
}

fn below(trial: &Trial, quantity: Quantity, modelled: (bool, bool)) -> String {
    let mut text = conditions(trial);
    text += ". Bar: geometric mean of the trials; line: its 95% interval, each bar alone; dots: trials, hollow where \
             unsteady.";
    if matches!(quantity, Quantity::Latency | Quantity::CpuPerOp | Quantity::Seconds) {
        text += " Less is better.";
    }
    if modelled == (true, true) {
        text += " Modelled devices can't be compared with real ones.";
    }
    text
}

fn bar(
    outline: &Outline,
    trials: &Trials,
    cell: (&str, &str, &str),
    (series, variant): (usize, &str),
    quantity: Quantity,
) -> Bar {
    let found = spread(trials.planned(cell, variant).map(|(_, m)| value(m, quantity)));
    let not_yet = outline.not_yet.get(&(cell.0.to_string(), cell.1.to_string()));
    let note = match not_yet {
        Some(why) => why.clone(),
        None if trials.all(cell, variant).is_empty() => "no trial has ended well".into(),
        None => "not measured".into(),
    };
    Bar {
        series,
        value: found.map(|s| s.mean),
        interval: found.and_then(|s| s.interval),
        trials: trials.planned(cell, variant).map(|t| dot(&t, quantity)).collect(),
        note,
    }
}
