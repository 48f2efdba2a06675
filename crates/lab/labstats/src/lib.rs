//! Statistics of the lab: numbers in, judgements out. Pure: no files, no clock; random numbers come from a seed.
//!
//! A *sample* is a whole trial, never a second of one. A *cell* is what variants are compared within (a system, a
//! workload, a phase); variant 0 is the default. The way of a study's numbers:
//!
//! ```text
//! trials of a cell  --effect-->  ratio to the default, standard error, degrees of freedom
//!                   --dunnett--> p of each variant, all comparisons within the cell together
//!                   --family-->  p over all cells of the study
//!                   --judge-->   adjusted interval and colour
//! ```
//!
//! Beside it are [`one_sigma`] (the 2013 article's rule), [`power`] (what a plan can detect), [`simulate`] (what
//! the whole procedure does on made-up or resampled studies), [`stop`] (when a run may end), [`steady`] (one phase's
//! seconds), [`together`] (the same of a cell whose phases are short), [`histogram`] (latency) and [`change_points`] (a
//! series of runs).
//!
//! Each file names the published source of its method and its limits.

pub mod change_points;
pub mod dunnett;
pub mod effect;
pub mod family;
pub mod histogram;
pub mod judge;
pub mod one_sigma;
pub mod power;
pub mod simulate;
pub mod steady;
pub mod stop;
pub mod trend;

mod matrix;
mod outliers;
mod random;
mod student;
