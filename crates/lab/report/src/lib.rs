//! Results as one HTML file, charts and tables. Never measures, never changes results.
//!
//! ```text
//! study           --from_study---->  Outline  what was asked, in the file's order
//! labstats        --from_labstats->  Judged   what each variant did in each cell, the statistics' words
//! records, series ------------------ Input    with the two above
//! Input           --figures------->  Figure   every chart as SVG (`gather` finds what belongs together, `charts` draws)
//!                 --page---------->  HTML     one file, no network
//!                 --write--------->  files    the page, SVG, PNG (by a program of the machine)
//!                 --text---------->  tables for a terminal
//!                 --markdown------>  systems side by side, for a README
//! ```
//!
//! [`compare`] and [`history`] take several runs. CSV is [`results::export_csv`].

pub mod charts;
pub mod compare;
pub mod config_diff;
mod error;
pub mod figures;
pub mod from_labstats;
pub mod from_study;
pub mod gather;
pub mod history;
pub mod input;
pub mod markdown;
pub mod page;
mod png;
pub mod quantity;
pub mod text;
mod write;

pub use error::Error;
pub use png::{PROGRAMS, Pictures};
pub use results::export_csv as export;
pub use write::{Written, write, write_history};
