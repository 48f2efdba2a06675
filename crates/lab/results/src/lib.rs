//! What a run leaves behind: one record a trial as JSON lines, time series beside it, CSV, the meaning of every column.
//!
//! Never judges: no statistics are kept, so results can be worked over again later. Never changes a record that was
//! written: a trial that runs again gets a second one, and the last one of an id counts.
//!
//! ```text
//! Directory --appender--> Appender     a line a trial, on the disk before `append` returns
//!           --records---> Records      the last record of each id, in the order of the plan
//!           --series----> SeriesReader a trial's samples, one at a time
//! export_csv                           a row a measurement
//! columns, markdown                    what each column means; docs/results.md is `markdown()`
//! ```

mod columns;
mod csv_export;
mod directory;
mod docs;
mod error;
mod lines;
mod profile;
mod record;
mod series;
mod write;

pub use columns::{Column, columns};
pub use csv_export::export_csv;
pub use directory::{Appender, Directory, PhaseCounters, Records};
pub use docs::{SeriesValue, markdown, series_values};
pub use error::Error;
pub use profile::{PhaseProfile, Request, RequestKind, RequestSecond, Requests, Stacks};
pub use record::{
    Build, CpuUse, DeviceUse, FORMAT, Histogram, LadderPoint, Latency, Machine, Measurement, Outcome,
    Parameters, Process, Record, RunInfo, Sample, Series, Status, Step,
};
pub use series::{SeriesReader, SeriesWriter};
