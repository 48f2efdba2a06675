//! docs/results.md, made from the tables.

use std::fmt::Write;

use crate::columns;

/// A value that samples have, by name.
pub struct SeriesValue {
    /// As in [`crate::Sample::values`]; capital letters are for a name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// In words.
    pub meaning: &'static str,
}

/// The values that samples can have. A value that was not measured is missing, never 0.
pub fn series_values() -> &'static [SeriesValue] {
    SERIES
}

const fn value(name: &'static str, unit: &'static str, meaning: &'static str) -> SeriesValue {
    SeriesValue { name, unit, meaning }
}

static SERIES: &[SeriesValue] = &[
    value("ops_per_s", "1/s", "Operations that ended in this second, over all instances."),
    value("bytes_per_s", "bytes/s", "Bytes moved in this second."),
    value("latency_us", "us", "Mean latency of the operations that ended in this second."),
    value("cpu.PROCESS", "cores", "CPU of a process: `osd.0`, `mon.a`, `loligo`, `client`."),
    value("cpu.machine", "cores", "CPU of the whole machine."),
    value("memory.PROCESS", "bytes", "Resident memory of a process."),
    value("memory.machine", "bytes", "Memory of the machine that is in use and not cache."),
    value("disk.DEVICE.read", "bytes/s", "Bytes read from a device."),
    value("disk.DEVICE.written", "bytes/s", "Bytes written to a device."),
    value("disk.DEVICE.wait_ms", "ms", "Mean wait of a request that ended in this second."),
    value("disk.DEVICE.busy", "1", "Share of the second that the device was busy."),
    value("disk.DEVICE.request", "bytes", "Mean size of a request."),
    value("net.INTERFACE.bytes", "bytes/s", "Bytes received and sent."),
    value("switches", "1/s", "Context switches of the machine."),
    value("pressure.cpu", "1", "Share of the second in which something waited for CPU."),
    value("pressure.io", "1", "Share of the second in which something waited for a device."),
    value("pressure.memory", "1", "Share of the second in which something waited for memory."),
];

const HEAD: &str = "\
# What a run leaves behind

This file is made from the tables in `crates/lab/results` (`cargo run -p results --example columns`); a test compares it.

A results directory:

| file | what it holds |
|---|---|
| `run.json` | the run: study, seed, machine, notes from before the start |
| `study.yaml` | the study file, byte for byte |
| `plan.json` | the trials in their order, each with its ceph.conf |
| `trials.jsonl` | a JSON object a line, appended when a trial ends; of several with the same `id` the last one counts |
| `series/ID.jsonl` | what was measured each second of trial ID, a JSON object a line |
| `counters/ID.json` | every one of Ceph's perf counters that changed in a phase of trial ID: phase, `daemon.section.counter`, difference; absent where a cluster has none |
| `profiles/ID/PHASE.folded` | of a profiled trial: stacks of the servers, `process;thread;outermost;...;innermost COUNT` a line, as other programs that draw flame graphs read it |
| `profiles/ID/PHASE.DEVICE.json` | of a profiled trial: the requests that reached a device, and each second's reads, writes, flushes and seeks |
| `logs/ID/` | logs and configuration of trial ID: of failed trials always, of others if asked |

A last line without its end is what a crash left: it is ignored, with a message. Files of a newer `format` are refused.

## Columns of the CSV

`loligo lab export DIR` writes a row a measurement (a phase of a trial). A trial none of whose phases ended has one row,
with the columns of the phase empty. `1` as a unit is a number without one. *In the record* is where the value is in
a line of `trials.jsonl`; N counts the phases from 0. Texts are written unchanged: a name or an error that begins with `=`, `+`,
`-` or `@` is a formula to a spreadsheet unless it imports those columns as text.
";

const ONLY_IN_RECORDS: &str = "\
## Only in the records

| in the record | what it holds |
|---|---|
| `format` | the format of the line |
| `measurements.N.latency.histogram.buckets` | pairs of (upper bound in microseconds, operations), ascending; buckets of trials are added up before a percentile is taken |
| `measurements.N.cpu.by_process.NAME` | `user_s`, `system_s` (seconds), `rss_max` (bytes), `switches` |
| `measurements.N.devices.NAME` | `read`, `written` (bytes), `reads`, `writes`, `flushes`, `wait_ms` (ms), `busy` (0 to 1), `request` (bytes, mean) |
| `measurements.N.counters` | the telling ones of Ceph's perf counters over all OSDs, `section.counter`: sums as differences; latencies, with `_ms` at the end, as means over the phase |
";

const SERIES_HEAD: &str = "\
## Values of the series

A line of `series/ID.jsonl` has `t` (seconds since the trial began), `phase` (empty between phases; a step of a
ladder is PHASE.NUMBER-dDEPTH or PHASE.NUMBER-rRATE) and `values` by name.
A value that was not measured in that second is missing. Seconds of a trial are never samples of the statistics.
";

/// The documentation of the results directory.
pub fn markdown() -> String {
    let mut text = format!("{HEAD}\n| column | unit | meaning | in the record |\n|---|---|---|---|\n");
    for c in columns() {
        let path = match c.path.strip_prefix("made from ") {
            Some(source) => format!("made from `{source}`"),
            None => format!("`{}`", c.path),
        };
        // Writing to a String can't fail.
        let _ = writeln!(text, "| `{}` | {} | {} | {path} |", c.name, c.unit, c.meaning);
    }
    let _ = write!(text, "\n{ONLY_IN_RECORDS}\n{SERIES_HEAD}\n| value | unit | meaning |\n|---|---|---|\n");
    for v in series_values() {
        let _ = writeln!(text, "| `{}` | {} | {} |", v.name, v.unit, v.meaning);
    }
    text
}
