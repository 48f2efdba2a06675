//! Charts: pure functions from data to SVG text. They never compute statistics.
//!
//! Bars begin at 0. An axis that doesn't, or whose steps are ratios, says so. Green and red also differ by their sign,
//! the dots' shape or a hatch. Room is reckoned from the widths of the texts, so that none lies over another.

pub mod axis;
pub mod bars;
pub mod flame;
pub mod history;
pub mod ladder;
pub mod over_time;
pub mod percentages;
pub mod percentiles;
pub mod ratios;
pub mod scale;
pub mod scatter;
pub mod seeks;
pub mod svg;
pub mod words;
