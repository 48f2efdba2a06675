//! Colours of a whole study: what each variant did in each cell, held together over all cells.
//!
//! Green or red: the adjusted interval excludes 1 and the estimate is at least `effect` away from it. White: equivalent,
//! the interval at the first step's level of Holm's procedure lies within ±`effect` (two one-sided tests: D. J. Schuirmann, "A comparison of the two one-sided tests
//! procedure and the power approach", 1987). Grey: undecided.
//!
//! Two checks confirm a colour, because Student's t assumes normal trials and real ones stall at times. A colour never
//! depends on one trial: without any one, the estimate must keep its direction and half its size. And p are raised
//! to those of the same t with the variants' names shuffled, which no distribution that all variants share can deceive
//! (a variant that spreads several times more than the others can: look at its trials); where that undoes a decision,
//! the interval is made to hold no effect. In few blocks that costs power with normal trials too, since shuffling has
//! few ways to choose from. With stalled trials effects are harder to find than planned. Where trials are too few for
//! shuffling to show anything, a cell that has outliers ([`CellFit::tails`]) shows no colour at all: three slow trials
//! in three blocks may be chance there. More blocks are the remedy. In such cells (three variants in three blocks, eight
//! of them) outliers often go unseen: drawn from real trials that swung by a factor of five, 5.9% of studies had a
//! false colour.
//!
//! With Holm's rule the interval of an entry is Dunnett's for its cell, at the level at which Holm's procedure decided
//! on that entry: it excludes 1 exactly where the procedure rejects, and it is as wide as in the plain single step
//! (level over cells) unless whole cells were rejected before. What is guaranteed for the family is the decision (no
//! false green or red anywhere with the asked confidence). The far ends of the intervals of rejected entries carry that
//! guarantee only at the single step's level; no procedure as strong as Holm's has simple intervals that do (K.
//! Strassburger and F. Bretz, "Compatible simultaneous lower confidence bounds for the Holm procedure", 2008).
//!
//! With false-discovery control, p and intervals are of each variant alone, Dunnett's comparison left out: the
//! procedure counts every entry by itself.

pub(crate) mod shuffling;

pub use shuffling::CLEARLY_NOT_NORMAL;

use crate::dunnett::Cache;
use crate::effect::{CellFit, Effect, NoFit, Trial, fit, own_spread};
use crate::family::{Adjusted, benjamini_hochberg, holm};
use crate::student::t_critical;

/// A cell: what variants are compared within.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// What is good.
    pub better: Better,
    /// Its trials, in any order; failed ones left out.
    pub trials: Vec<Trial>,
}

/// What is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency, cost.
    Lower,
}

/// What is held together over the cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Correction {
    /// No false colour in the whole study, with the confidence asked for.
    Holm,
    /// The share of false colours among all coloured, on average at most one minus the confidence.
    FalseDiscovery,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Criteria {
    /// Across cells.
    pub correction: Correction,
    /// Above 0 and below 1; 0.95 in most studies.
    pub confidence: f64,
    /// The smallest effect that is coloured, as a share, 0 or more.
    pub effect: f64,
    /// Of the shuffling that decisions are checked by.
    pub seed: u64,
}

/// A judged cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// What its trials say, or why they say nothing.
    pub fit: Result<CellFit, NoFit>,
    /// One for each of the fit's effects, in their order.
    pub entries: Vec<Entry>,
}

/// A variant in a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entry {
    pub variant: usize,
    /// Its value over the default's.
    pub ratio: f64,
    /// The ratio's interval for this entry alone, with the confidence asked for.
    pub interval: (f64, f64),
    /// Two-sided p of this entry alone.
    pub p: f64,
    /// The smallest level of the whole family at which this entry is told from the default.
    pub adjusted_p: f64,
    /// The ratio's interval that the colour is based on.
    pub adjusted: (f64, f64),
    /// The judgement.
    pub colour: Colour,
    /// Of a coloured one: [`own_spread`].
    pub own_spread: Option<f64>,
}

/// A judgement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Colour {
    /// Better.
    Green,
    /// Worse.
    Red,
    /// Shown equal.
    White,
    /// Undecided.
    Grey,
}

impl Colour {
    /// Green or red.
    pub fn tells_apart(self) -> bool {
        matches!(self, Self::Green | Self::Red)
    }
}

/// Judges a study: all its cells at once, since they are one family.
pub fn judge(cells: &[Cell], criteria: &Criteria) -> Vec<Judged> {
    let mut judged = judge_with(&mut Cache::default(), cells, criteria);
    for (cell, of_cell) in cells.iter().zip(&mut judged) {
        for entry in of_cell.entries.iter_mut().filter(|e| e.colour.tells_apart()) {
            entry.own_spread = own_spread(&cell.trials, entry.variant);
        }
    }
    judged
}

/// As [`judge`], with the distributions of studies judged before, and without the variants' own spreads.
pub(crate) fn judge_with(cache: &mut Cache, cells: &[Cell], criteria: &Criteria) -> Vec<Judged> {
    let fits: Vec<Result<CellFit, NoFit>> = cells.iter().map(|c| fit(&c.trials)).collect();
    let entries = match criteria.correction {
        Correction::Holm => by_holm(cache, cells, &fits, criteria),
        Correction::FalseDiscovery => by_discovery(cells, &fits, criteria),
    };
    fits.into_iter().zip(entries).map(|(fit, entries)| Judged { fit, entries }).collect()
}

/// The level that each cell has at Holm's first step, which no decision has eased yet.
pub(crate) fn first_level(cells_compared: usize, confidence: f64) -> f64 {
    (1.0 - confidence) / cells_compared.max(1) as f64
}

fn by_holm(
    cache: &mut Cache,
    cells: &[Cell],
    fits: &[Result<CellFit, NoFit>],
    criteria: &Criteria,
) -> Vec<Vec<Entry>> {
    let mut tests = Vec::new();
    for (cell, fit) in fits.iter().enumerate().filter_map(|(i, f)| Some((i, f.as_ref().ok()?))) {
        let joint = cache.get(&fit.shared(), fit.df);
        tests.extend(fit.effects.iter().map(|e| (cell, joint.p(e.t()))));
    }
    shuffling::raise(&mut tests, cells, fits, criteria);
    let adjusted = holm(&tests, 1.0 - criteria.confidence);
    let first = first_level(compared(fits), criteria.confidence);
    entries(cells, fits, criteria, (&adjusted, first), |fit, level| {
        cache.get(&fit.shared(), fit.df).critical(level)
    })
}

fn by_discovery(cells: &[Cell], fits: &[Result<CellFit, NoFit>], criteria: &Criteria) -> Vec<Vec<Entry>> {
    let mut tests = Vec::new();
    for (cell, fit) in fits.iter().enumerate().filter_map(|(i, f)| Some((i, f.as_ref().ok()?))) {
        tests.extend(fit.effects.iter().map(|e| (cell, fit.p_alone(e))));
    }
    shuffling::raise(&mut tests, cells, fits, criteria);
    let p: Vec<f64> = tests.iter().map(|t| t.1).collect();
    let adjusted = benjamini_hochberg(&p, 1.0 - criteria.confidence);
    // Each entry counts by itself.
    let first = first_level(tests.len(), criteria.confidence);
    entries(cells, fits, criteria, (&adjusted, first), |fit, level| t_critical(level, f64::from(fit.df)))
}

/// Cells in which anything is compared.
fn compared(fits: &[Result<CellFit, NoFit>]) -> usize {
    fits.iter().flatten().filter(|f| !f.effects.is_empty()).count()
}

/// The entries of all cells; `adjusted` holds one for each effect, in the same order, and `first` is the level at which
/// things are shown equal.
fn entries(
    cells: &[Cell],
    fits: &[Result<CellFit, NoFit>],
    criteria: &Criteria,
    (adjusted, first): (&[Adjusted], f64),
    mut critical: impl FnMut(&CellFit, f64) -> f64,
) -> Vec<Vec<Entry>> {
    let mut adjusted = adjusted.iter();
    let mut of_cell = |cell: &Cell, fit: &CellFit| {
        // Most entries of a cell have the same level.
        let mut known = (f64::NAN, 0.0);
        let mut result = Vec::new();
        let at_first = critical(fit, first);
        for (effect, &a) in fit.effects.iter().zip(adjusted.by_ref()) {
            if known.0 != a.level {
                known = (a.level, critical(fit, a.level));
            }
            result.push(entry(fit, effect, a, (known.1, at_first), cell.better, criteria));
        }
        result
    };
    cells.iter().zip(fits).map(|(c, f)| f.as_ref().map_or_else(|_| Vec::new(), |f| of_cell(c, f))).collect()
}

fn entry(
    fit: &CellFit,
    effect: &Effect,
    a: Adjusted,
    (critical, at_first): (f64, f64),
    better: Better,
    criteria: &Criteria,
) -> Entry {
    // Where shuffling raised p above the level, the interval must not exclude 1 either.
    let adjusted =
        effect.interval(if a.rejected { critical } else { critical.max(effect.t().abs() * (1.0 + 1e-9)) });
    let equal = {
        let (low, high) = effect.interval(at_first);
        (low.min(adjusted.0), high.max(adjusted.1))
    };
    Entry {
        variant: effect.variant,
        ratio: effect.ratio(),
        interval: fit.interval_alone(effect, criteria.confidence),
        p: fit.p_alone(effect),
        adjusted_p: a.p,
        adjusted,
        colour: colour(effect, a.rejected, equal, better, criteria.effect),
        own_spread: None,
    }
}

fn colour(effect: &Effect, told_apart: bool, equal: (f64, f64), better: Better, least: f64) -> Colour {
    let ratio = effect.ratio();
    if told_apart && stands(effect) && (ratio - 1.0).abs() >= least {
        let good = (ratio > 1.0) == (better == Better::Higher);
        if good { Colour::Green } else { Colour::Red }
    } else if equal.0 >= 1.0 - least && equal.1 <= 1.0 + least {
        Colour::White
    } else {
        Colour::Grey
    }
}

/// Whether an estimate keeps its direction and half its size without any one trial.
fn stands(effect: &Effect) -> bool {
    effect.least_without_one * effect.log_ratio.signum() >= 0.5 * effect.log_ratio.abs()
}

/// Whether a colour is confirmed after the flagged cell was run once more. `again` are the trials made for that alone: as
/// they were chosen by what the first ones showed, only they count here. It is confirmed if their effect has the same
/// direction in a one-sided test at one minus the confidence. Anything else that was green or red becomes grey.
pub fn confirm(first: &Entry, again: &[Trial], confidence: f64) -> Colour {
    if !first.colour.tells_apart() {
        return first.colour;
    }
    let stands = fit(again).ok().is_some_and(|f| {
        let critical = t_critical(2.0 * (1.0 - confidence), f64::from(f.df));
        let direction = first.ratio.ln().signum();
        f.effects.iter().any(|e| e.variant == first.variant && e.t() * direction > critical)
    });
    if stands { first.colour } else { Colour::Grey }
}

#[cfg(test)]
mod tests;
