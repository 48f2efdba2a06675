//! The plan of a study: which trials, in which order.
//!
//! Trials come in blocks. A block has, for each system and each workload, one trial of every variant that runs there and
//! several of the default, all of them shuffled: what drifts over hours meets every variant alike, and an effect is a
//! ratio within a block.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Profiled, Study};
use crate::shuffle::Shuffle;

/// What a plan leaves out, by places in the study's lists. The default of a system that runs is never left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotRun {
    /// (system, variant): nothing of the variant is effective there.
    pub variants: BTreeSet<(usize, usize)>,
    /// (system, workload): the system can't run it yet, or a program is missing.
    pub workloads: BTreeSet<(usize, usize)>,
}

impl NotRun {
    /// What can't run whatever the options are: variants on systems that the lab doesn't configure.
    pub fn of(study: &Study) -> Self {
        let fixed = study.systems.iter().enumerate().filter(|(_, s)| !s.target.configurable());
        let variants = fixed.flat_map(|(s, _)| (1..study.variants.len()).map(move |v| (s, v))).collect();
        Self { variants, workloads: BTreeSet::new() }
    }

    fn runs(&self, cell: Cell) -> bool {
        !self.workloads.contains(&(cell.system, cell.workload))
            && (cell.variant == 0 || !self.variants.contains(&(cell.system, cell.variant)))
    }
}

/// A variant on a system under a workload, by their places in the study's lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    /// In [`Study::systems`].
    pub system: usize,
    /// In [`Study::workloads`].
    pub workload: usize,
    /// In [`Study::variants`]; 0 is the default.
    pub variant: usize,
}

/// A fresh cluster that runs all phases of a workload once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// Its place in the order, from 0.
    pub order: u32,
    /// Unique in the run, safe as a file name: `b0.SYSTEM.WORKLOAD.VARIANT.0`. The same whenever the plan is made again.
    pub id: String,
    /// From 0; trials that confirm have blocks of their own after the plan's.
    pub block: u32,
    /// What runs.
    pub cell: Cell,
    /// Which of this variant's trials in the block it is, from 0; only the default has several.
    pub repeat: u32,
    /// Whether it confirms a flagged cell.
    pub confirms: bool,
    /// Whether it is profiled, and so no sample.
    pub profiled: bool,
}

/// The trials of a study, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What the order was made from.
    pub seed: u64,
    /// In order.
    pub trials: Vec<Trial>,
}

impl Plan {
    /// The plan of a study without what can't run. The same arguments always give the same plan.
    pub fn new(study: &Study, not_run: &NotRun, seed: u64) -> Self {
        let mut cells = Vec::new();
        for system in 0..study.systems.len() {
            for workload in 0..study.workloads.len() {
                let variants = 0..study.variants.len();
                cells.extend(variants.map(|variant| Cell { system, workload, variant }));
            }
        }
        cells.retain(|cell| not_run.runs(*cell));
        Self { seed, trials: Layout::new(study, seed).trials(&cells, 0, false) }
    }

    /// The trials that confirm flagged cells: as many blocks as the study has, with the flagged variants and their
    /// defaults alone. They come after the plan's own. The same cells in any order give the same trials.
    pub fn confirm(&self, study: &Study, flagged: &[Cell]) -> Vec<Trial> {
        let mut cells: BTreeSet<Cell> = flagged.iter().copied().collect();
        cells.extend(flagged.iter().map(|cell| Cell { variant: 0, ..*cell }));
        cells.retain(|cell| {
            cell.system < study.systems.len()
                && cell.workload < study.workloads.len()
                && cell.variant < study.variants.len()
        });
        let cells: Vec<Cell> = cells.into_iter().collect();
        let first = u32::try_from(self.trials.len()).unwrap_or(u32::MAX);
        Layout::new(study, self.seed).trials(&cells, first, true)
    }

    /// One trial for each cell that is to be profiled, after all others, in the order of the study's file.
    pub fn profiles(&self, study: &Study) -> Vec<Trial> {
        let wanted = |cell: &Cell| match study.design.profile {
            Profiled::No => false,
            Profiled::Default => cell.variant == 0,
            Profiled::All => true,
        };
        let layout = Layout::new(study, self.seed);
        // The plan's trials come first, then at most as many that confirm.
        let first = u32::try_from(self.trials.len().saturating_mul(2)).unwrap_or(u32::MAX);
        let block = study.design.blocks.saturating_mul(2);
        let trial = |(order, cell): (u32, Cell)| Trial {
            order: first.saturating_add(order),
            id: layout.id('p', block, cell, 0),
            block,
            cell,
            repeat: 0,
            confirms: false,
            profiled: true,
        };
        (0..).zip(self.counts().into_keys().filter(wanted)).map(trial).collect()
    }

    /// How many trials each cell has.
    pub fn counts(&self) -> BTreeMap<Cell, u32> {
        let mut counts = BTreeMap::new();
        for trial in &self.trials {
            *counts.entry(trial.cell).or_insert(0) += 1;
        }
        counts
    }
}

/// What trials are made with.
struct Layout {
    seed: u64,
    blocks: u32,
    defaults: u32,
    /// File-name parts of systems, workloads, variants.
    systems: Vec<String>,
    workloads: Vec<String>,
    variants: Vec<String>,
}

impl Layout {
    fn new(study: &Study, seed: u64) -> Self {
        Self {
            seed,
            blocks: study.design.blocks,
            defaults: study.design.defaults_per_block,
            systems: study.systems.iter().map(|s| study.trial_names.system(&s.name)).collect(),
            workloads: study.workloads.iter().map(|w| study.trial_names.workload(&w.name)).collect(),
            variants: study.variants.iter().map(|v| study.trial_names.variant(&v.name)).collect(),
        }
    }

    /// The blocks of these cells. Every block is shuffled by a stream of its own, so that a study with more blocks
    /// begins like one with fewer.
    fn trials(&self, cells: &[Cell], first_order: u32, confirms: bool) -> Vec<Trial> {
        let mut trials = Vec::new();
        let first_block = if confirms { self.blocks } else { 0 };
        for block in first_block..first_block.saturating_add(self.blocks) {
            let mut of_block = Vec::new();
            for cell in cells {
                let repeats = if cell.variant == 0 { self.defaults } else { 1 };
                of_block.extend((0..repeats).map(|repeat| (*cell, repeat)));
            }
            Shuffle::new(self.seed, u64::from(block) << 1 | u64::from(confirms)).shuffle(&mut of_block);
            for (cell, repeat) in of_block {
                let order = u32::try_from(trials.len()).unwrap_or(u32::MAX).saturating_add(first_order);
                let id = self.id(if confirms { 'c' } else { 'b' }, block, cell, repeat);
                trials.push(Trial { order, id, block, cell, repeat, confirms, profiled: false });
            }
        }
        trials
    }

    fn id(&self, letter: char, block: u32, cell: Cell, repeat: u32) -> String {
        let of = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let system = of(&self.systems, cell.system);
        let workload = of(&self.workloads, cell.workload);
        let variant = of(&self.variants, cell.variant);
        format!("{letter}{block}.{system}.{workload}.{variant}.{repeat}")
    }
}
