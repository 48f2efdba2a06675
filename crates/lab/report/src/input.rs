//! What a report is made from: plain values, gathered by the caller.

use std::collections::{BTreeMap, BTreeSet};

use labstats::judge::Criteria;
use results::{PhaseProfile, Record, RunInfo, Series};

/// Everything that a report is made from.
pub struct Input<'a> {
    /// About the run.
    pub run: RunInfo,
    /// What the study asks.
    pub outline: Outline,
    /// The last record of each trial.
    pub records: Vec<Record>,
    /// The judgements.
    pub judged: Judged,
    /// What is asked of comparisons that the report makes itself: A against B.
    pub criteria: Criteria,
    /// A trial's samples by its id; `None` where there are none, or where they can't be read.
    pub series: &'a dyn Fn(&str) -> Option<Series>,
    /// The last record of each trial that was profiled, and is no sample.
    pub profiled: Vec<Record>,
    /// What was seen of such a trial, by its id and the phase.
    pub profile: &'a dyn Fn(&str, &str) -> Option<PhaseProfile>,
}

/// What a study asks, in the order of its file. Order in the report is order here.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outline {
    /// Paragraphs.
    pub about: String,
    /// Title, author and date of what was published, where the study follows a publication.
    pub source: Option<Publication>,
    /// What differs from the publication, a sentence each.
    pub changes: Vec<String>,
    /// Names.
    pub systems: Vec<String>,
    /// Workloads with their phases.
    pub workloads: Vec<Workload>,
    /// Latency that a workload's ladder is to hold: percentile, microseconds.
    pub targets: BTreeMap<String, (f64, f64)>,
    /// Variants, the default first.
    pub variants: Vec<Variant>,
    /// (system, variant): none of the variant's options has an effect there.
    pub nothing_to_tune: BTreeSet<(String, String)>,
    /// (system, workload) to why it can't run yet.
    pub not_yet: BTreeMap<(String, String), String>,
}

/// What was published.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Publication {
    pub title: String,
    /// Who wrote it.
    pub author: String,
    /// YYYY-MM-DD.
    pub date: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    pub name: String,
    /// As in records: `write`, `read`, ...
    pub phases: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variant {
    pub name: String,
    /// The parameter or group that it belongs to.
    pub parameter: String,
}

/// The default's name in every study.
pub const DEFAULT: &str = "default";

impl Outline {
    /// Every workload with every phase of it, in order.
    pub fn loads(&self) -> impl Iterator<Item = (&str, &str)> {
        self.workloads.iter().flat_map(|w| w.phases.iter().map(|p| (w.name.as_str(), p.as_str())))
    }
}

/// A study's judgements.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Judged {
    /// Every cell that was planned.
    pub cells: Vec<Cell>,
    /// The rule in a few words; the one-sigma rule and false-discovery control must be distinguishable by it.
    pub rule_label: String,
    /// Sentences on the statistics: confidence, correction, smallest effect, false-colour rate.
    pub notes: Vec<String>,
}

/// What variants are compared within.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cell {
    pub system: String,
    pub workload: String,
    pub phase: String,
    /// All but the default.
    pub variants: Vec<JudgedVariant>,
}

/// A variant in a cell.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JudgedVariant {
    /// The variant.
    pub name: String,
    /// The parameter or group that it belongs to.
    pub parameter: String,
    /// Its value over the default's; means nothing where the colour isn't one of the four.
    pub ratio: f64,
    /// The lower end of the adjusted interval of the ratio.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The judgement.
    pub colour: Colour,
    /// Trials that the judgement is based on.
    pub samples: u32,
    /// Of those, unsteady ones.
    pub unsteady: u32,
    /// Trials that failed.
    pub failed: u32,
    /// Why, where the colour needs a sentence.
    pub why: String,
}

/// How a cell of the percentages table is coloured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Colour {
    /// Better.
    Green,
    /// Worse.
    Red,
    /// Shown equal.
    White,
    /// Undecided.
    Grey,
    /// None of the variant's options has an effect on this system.
    NothingToTune,
    /// The system can't run it yet.
    NotYet,
    /// Every trial failed.
    Failed,
    /// It did nothing, or what it is compared with did nothing: there is no ratio.
    Zero,
    /// One of the two that are compared doesn't have it.
    OneSided,
    /// Its trials have not run, or there are too few to compare.
    #[default]
    TooFew,
}

impl Colour {
    /// Whether there is a ratio.
    pub fn compared(self) -> bool {
        matches!(self, Self::Green | Self::Red | Self::White | Self::Grey)
    }

    /// A sign, so that no reader needs to distinguish colours.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Green => "▲",
            Self::Red => "▼",
            Self::White => "=",
            Self::Grey => "?",
            Self::Failed => "✗",
            _ => "",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Green => "better",
            Self::Red => "worse",
            Self::White => "shown equal",
            Self::Grey => "undecided",
            Self::NothingToTune => "nothing to tune",
            Self::NotYet => "not yet",
            Self::Failed => "failed",
            Self::Zero => "0, no ratio",
            Self::OneSided => "not compared",
            Self::TooFew => "too few trials",
        }
    }

    /// A class name for style sheets.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Red => "red",
            Self::White => "white",
            Self::Grey => "grey",
            _ => "none",
        }
    }
}

impl JudgedVariant {
    /// What a table's cell reads: `▲ +12.3 %`, `nothing to tune`.
    pub fn label(&self) -> String {
        if self.colour.compared() {
            format!("{} {}", self.colour.sign(), percent(self.ratio))
        } else {
            format!("{} {}", self.colour.sign(), self.colour.words()).trim_start().to_string()
        }
    }

    /// The interval, as `-5.0% to +12.3%`; why there is none where nothing was compared. One that leaves a factor of ten
    /// open on either side of no change says nothing, and its digits would look as if they did.
    pub fn interval(&self) -> String {
        if !self.colour.compared() {
            self.why.clone()
        } else if self.low < 1.0 && self.high > 1.0 && (self.low < 0.1 || self.high > 10.0) {
            "too few trials to say".to_owned()
        } else {
            format!("{} to {}", percent(self.low), percent(self.high))
        }
    }

    /// All that is known, in a line.
    pub fn details(&self) -> String {
        let mut text = self.colour.words().to_string();
        if self.colour.compared() {
            text += &format!(": {} ({})", percent(self.ratio), self.interval());
            text += &format!("; trials: {}", self.samples);
        }
        if self.unsteady > 0 {
            text += &format!("; unsteady: {}", self.unsteady);
        }
        if self.failed > 0 {
            text += &format!("; failed: {}", self.failed);
        }
        if !self.why.is_empty() {
            text += &format!("; {}", self.why);
        }
        text
    }
}

/// A ratio as a difference in per cent: 1.123 is `+12.3%`.
pub fn percent(ratio: f64) -> String {
    let p = (ratio - 1.0) * 100.0;
    // Ends of intervals from too few trials: their digits mean nothing.
    if !p.is_finite() || p > 99_999.0 {
        return "unbounded".into();
    }
    if p.abs() < 0.05 {
        return "±0.0%".into();
    }
    let sign = if p < 0.0 { '−' } else { '+' };
    let digits = if p.abs() < 99.95 { 1 } else { 0 };
    format!("{sign}{:.digits$}%", p.abs())
}
