//! The `design` section of a study file: how trials are laid out and judged.

use crate::fields::Fields;
use crate::model::{Correction, Design, OnFailure, Profiled, Rule, Stop};
use crate::problem::{Conflict, Problems};

const KEYS: [&str; 12] = [
    "blocks",
    "defaults_per_block",
    "seed",
    "rule",
    "correction",
    "confidence",
    "effect",
    "assumed_spread",
    "confirm",
    "stop",
    "on_failure",
    "profile",
];

/// The most blocks that a study has.
pub const MAX_BLOCKS: u32 = 10_000;

/// The words of `profile`.
const PROFILED: [(&str, Profiled); 3] =
    [("no", Profiled::No), ("default", Profiled::Default), ("all", Profiled::All)];

impl Default for Design {
    fn default() -> Self {
        Self {
            blocks: 3,
            defaults_per_block: 2,
            seed: 1,
            rule: Rule::Adjusted(Correction::Holm),
            confidence: 0.95,
            effect: 0.05,
            assumed_spread: 0.1,
            confirm: true,
            stop: Stop::default(),
            on_failure: OnFailure::GoOn,
            profile: Profiled::No,
        }
    }
}

/// Reads the section.
pub(crate) fn read(node: &crate::node::Node, p: &mut Problems) -> Option<Design> {
    let fields = Fields::of(node, "design", &KEYS, p)?;
    let usual = Design::default();
    Some(Design {
        blocks: fields.count("blocks", 1..=MAX_BLOCKS, p).unwrap_or(usual.blocks),
        defaults_per_block: fields
            .count("defaults_per_block", 1..=100, p)
            .unwrap_or(usual.defaults_per_block),
        seed: fields.whole("seed", 0..=u64::MAX, p).unwrap_or(usual.seed),
        rule: rule(&fields, p),
        // Below a half an interval says less than a coin.
        confidence: fields.share("confidence", 0.5, 1.0, p).unwrap_or(usual.confidence),
        effect: fields.share("effect", 0.0, 1.0, p).unwrap_or(usual.effect),
        assumed_spread: fields.share("assumed_spread", 0.001, 10.0, p).unwrap_or(usual.assumed_spread),
        confirm: fields.yes("confirm", p).unwrap_or(usual.confirm),
        stop: stop(&fields, p).unwrap_or_default(),
        on_failure: fields
            .word("on_failure", &[("go_on", OnFailure::GoOn), ("stop", OnFailure::Stop)], p)
            .unwrap_or(usual.on_failure),
        profile: fields.word("profile", &PROFILED, p).unwrap_or(usual.profile),
    })
}

fn rule(fields: &Fields<'_>, p: &mut Problems) -> Rule {
    let corrections = [("holm", Correction::Holm), ("false_discovery", Correction::FalseDiscovery)];
    let correction = fields.word("correction", &corrections, p);
    let one_sigma = fields.word("rule", &[("adjusted", false), ("one_sigma", true)], p).unwrap_or(false);
    if !one_sigma {
        return Rule::Adjusted(correction.unwrap_or(Correction::Holm));
    }
    if let Some(entry) = fields.entry("correction") {
        p.add(entry.at, Conflict::CorrectionOfOneSigma);
    }
    Rule::OneSigma
}

fn stop(fields: &Fields<'_>, p: &mut Problems) -> Option<Stop> {
    let inner = Fields::of(fields.get("stop")?, "stop", &["precision", "budget"], p)?;
    Some(Stop {
        precision: inner.share("precision", 0.001, 1.0, p),
        budget: inner.whole("budget", 1..=u64::MAX, p),
    })
}
