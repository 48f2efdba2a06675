//! What a run leaves behind: one record a trial as JSON lines, time series beside it, CSV, the meaning of every column.
//!
//! Never judges: no statistics are kept, so results can be worked over again later.

mod record;

pub use record::{
    Build, CpuUse, DeviceUse, FORMAT, Histogram, Latency, Machine, Measurement, Outcome, Parameters, Process,
    Record, RunInfo, Sample, Series, Status,
};
