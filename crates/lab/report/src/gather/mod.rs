//! From records to what charts and tables show: which trials belong together, in what words.

pub mod bars;
pub mod cost;
pub mod counters;
pub mod ladder;
pub mod over_time;
pub mod percentages;
pub mod percentiles;
pub mod profiles;
pub mod ratios;
pub mod scatter;
mod spread;
mod trials;

pub use spread::{Spread, spread};
pub use trials::{Trials, conditions, is_open_loop, load_words, loop_words, metrics, value};
