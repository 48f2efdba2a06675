//! Every column of the CSV: one table that makes the header, the rows and the documentation.

use labstats::histogram::Merged;

use crate::{DeviceUse, LadderPoint, Measurement, Process, Record, Status};

/// A column.
pub struct Column {
    /// In the CSV's header.
    pub name: &'static str,
    /// `s`, `us`, `bytes`, `bytes/s`, `1/s`, `1` for numbers without one, `text`, `yes/no`.
    pub unit: &'static str,
    /// Where the value is in a line of `trials.jsonl`, or what it is made from.
    pub path: &'static str,
    /// In words.
    pub meaning: &'static str,
    get: Get,
}

/// From what a value is made.
enum Get {
    /// The trial.
    Trial(fn(&Record) -> String),
    /// The phase; empty for a trial none of whose phases ended.
    Phase(fn(&Measurement) -> String),
}

impl Column {
    pub(crate) fn value(&self, record: &Record, measurement: Option<&Measurement>) -> String {
        match (&self.get, measurement) {
            (Get::Trial(get), _) => get(record),
            (Get::Phase(get), Some(measurement)) => get(measurement),
            (Get::Phase(_), None) => String::new(),
        }
    }
}

/// Every column, in the CSV's order. Names and order stay as they are within a format; new columns come at the end.
pub fn columns() -> &'static [Column] {
    COLUMNS
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_string()
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    }
}

fn settings(record: &Record) -> String {
    let all: Vec<String> =
        record.parameters.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    all.join("; ")
}

/// Empty where the load gave no histogram, or too few operations for that percentile.
fn percentile(m: &Measurement, percentile: f64) -> String {
    let mut all = Merged::default();
    let whole = m.latency.histogram.as_ref().is_some_and(|h| all.add(&h.buckets).is_ok());
    optional(if whole { all.percentile(percentile).ok() } else { None })
}

/// The client's processes are named `client` and `client.N`; all others serve.
fn is_client(name: &str) -> bool {
    name == "client" || name.starts_with("client.")
}

fn processes(m: &Measurement, client: bool) -> impl Iterator<Item = &Process> {
    m.cpu.by_process.iter().filter(move |(name, _)| is_client(name) == client).map(|(_, p)| p)
}

fn cpu_s(m: &Measurement, client: bool) -> String {
    // A sum of nothing is -0.
    let sum = processes(m, client).map(|p| p.user_s + p.system_s).fold(0.0, |sum, s| sum + s);
    sum.to_string()
}

fn devices(m: &Measurement, get: fn(&DeviceUse) -> u64) -> String {
    m.devices.values().map(get).fold(0, u64::saturating_add).to_string()
}

/// Empty where no device was watched.
fn largest(m: &Measurement, get: fn(&DeviceUse) -> f64) -> String {
    optional(m.devices.values().map(get).reduce(f64::max))
}

macro_rules! table {
    ($( $kind:ident $name:literal, $unit:literal, $path:literal, $meaning:literal, $get:expr; )*) => {
        &[ $( Column { name: $name, unit: $unit, path: $path, meaning: $meaning, get: Get::$kind($get) } ),* ]
    };
}

#[rustfmt::skip]
static COLUMNS: &[Column] = table! {
    Trial "id", "text", "id", "The trial, unique in the run.",
        |r| r.id.clone();
    Trial "order", "1", "order", "Place in the shuffled order, from 0, of the command that ran it: with other systems, workloads or blocks it starts from 0 again.",
        |r| r.order.to_string();
    Trial "block", "1", "block", "Block, from 0. A block holds every variant once and the default several times.",
        |r| r.block.to_string();
    Trial "confirms", "yes/no", "confirms", "Whether the trial was run to confirm a coloured cell.",
        |r| yes_no(r.confirms);
    Trial "started", "text", "started", "When it began, RFC 3339, UTC.",
        |r| r.started.clone();
    Trial "took_s", "s", "took_s", "From the first step to the last, clean-up included.",
        |r| r.took_s.to_string();
    Trial "status", "text", "outcome.status", "`ok`; `failed`: phases that had ended before are kept; `interrupted`: the run was stopped meanwhile.",
        |r| status(r.outcome.status).to_string();
    Trial "error", "text", "outcome.error", "What went wrong; empty if nothing.",
        |r| r.outcome.error.clone();
    Trial "logs", "text", "outcome.logs", "Where its logs are, relative to the results directory; empty if none were kept.",
        |r| r.outcome.logs.clone();
    Trial "system", "text", "parameters.system", "The system as the study names it.",
        |r| r.parameters.system.clone();
    Trial "program", "text", "parameters.program", "`loligo`, `ceph`, `nfs` or `running`.",
        |r| r.parameters.program.clone();
    Trial "release", "text", "parameters.release", "The release line of Ceph (`16.2`); empty otherwise.",
        |r| r.parameters.release.clone();
    Trial "store", "text", "parameters.store", "The store.",
        |r| r.parameters.store.clone();
    Trial "place", "text", "parameters.place", "Where data live, with mkfs and mount options.",
        |r| r.parameters.place.clone();
    Trial "journal", "text", "parameters.journal", "Where the journal or log lives; empty if with the data.",
        |r| r.parameters.journal.clone();
    Trial "modelled", "yes/no", "parameters.modelled", "Whether the devices are modelled ones. Compare such results with each other only.",
        |r| yes_no(r.parameters.modelled);
    Trial "osds", "1", "parameters.osds", "OSDs.",
        |r| r.parameters.osds.to_string();
    Trial "pool_size", "1", "parameters.pool_size", "Copies in the pools.",
        |r| r.parameters.pool_size.to_string();
    Trial "variant", "text", "parameters.variant", "The variant; `default` is what others are compared with.",
        |r| r.parameters.variant.clone();
    Trial "parameter", "text", "parameters.parameter", "The parameter or group that the variant belongs to.",
        |r| r.parameters.parameter.clone();
    Trial "settings", "text", "parameters.settings", "The options of the variant: `section/name=value`, joined by `; `.",
        settings;
    Trial "workload", "text", "parameters.workload", "The workload as the study names it.",
        |r| r.parameters.workload.clone();
    Trial "load", "text", "parameters.load", "What made the load: `rados bench`, `loligo bench`, `fio rados`, `fio rbd`, `command`.",
        |r| r.parameters.load.clone();
    Trial "block_size", "bytes", "parameters.block_size", "Size of an object or request; 0 where that means nothing.",
        |r| r.parameters.block_size.to_string();
    Trial "in_flight", "1", "parameters.in_flight", "Operations in flight over all instances; 0 where that means nothing, or where a ladder has several.",
        |r| r.parameters.in_flight.to_string();
    Trial "instances", "1", "parameters.instances", "Client processes.",
        |r| r.parameters.instances.to_string();
    Trial "pg_num", "1", "parameters.pg_num", "PGs of each pool.",
        |r| r.parameters.pg_num.to_string();
    Trial "open_loop", "yes/no", "parameters.open_loop", "Yes: requests come at a fixed rate. No: each comes when one has ended. With a ladder see `step_rate`.",
        |r| yes_no(r.parameters.open_loop);
    Trial "lab_version", "text", "build.lab", "Version of the lab.",
        |r| r.build.lab.clone();
    Trial "server_version", "text", "build.server", "What the server says of its version.",
        |r| r.build.server.clone();
    Trial "client_version", "text", "build.client", "What the load says of its version.",
        |r| r.build.client.clone();
    Phase "phase", "text", "measurements.N.phase", "`write`, `read`, `rand_write`, `rand_read`, `mixed` or `run`; empty in the one row of a trial none of whose phases ended.",
        |m| m.phase.clone();
    Phase "seconds", "s", "measurements.N.seconds", "How long the phase took, as the load itself says.",
        |m| m.seconds.to_string();
    Phase "operations", "1", "measurements.N.operations", "Operations completed over all instances.",
        |m| m.operations.to_string();
    Phase "bytes", "bytes", "measurements.N.bytes", "Bytes moved.",
        |m| m.bytes.to_string();
    Phase "ops_per_s", "1/s", "measurements.N.ops_per_s", "Operations a second; for a command, 1 / seconds.",
        |m| m.ops_per_s.to_string();
    Phase "bytes_per_s", "bytes/s", "measurements.N.bytes_per_s", "Bytes a second.",
        |m| m.bytes_per_s.to_string();
    Phase "latency_mean_us", "us", "measurements.N.latency.mean_us", "Mean latency over all operations.",
        |m| m.latency.mean_us.to_string();
    Phase "latency_max_us", "us", "measurements.N.latency.max_us", "Largest latency.",
        |m| m.latency.max_us.to_string();
    Phase "latency_p50_us", "us", "made from measurements.N.latency.histogram", "Latency that 50 of 100 operations did not exceed; empty where the load gives no histogram or fewer than ten operations lie beyond.",
        |m| percentile(m, 50.0);
    Phase "latency_p99_us", "us", "made from measurements.N.latency.histogram", "Latency that 99 of 100 operations did not exceed; empty where the load gives no histogram or fewer than ten operations lie beyond.",
        |m| percentile(m, 99.0);
    Phase "latency_p99_9_us", "us", "made from measurements.N.latency.histogram", "Latency that 99.9 of 100 operations did not exceed; empty where the load gives no histogram or fewer than ten operations lie beyond.",
        |m| percentile(m, 99.9);
    Phase "latency_p99_99_us", "us", "made from measurements.N.latency.histogram", "Latency that 99.99 of 100 operations did not exceed; empty where the load gives no histogram or fewer than ten operations lie beyond.",
        |m| percentile(m, 99.99);
    Phase "steady", "yes/no", "measurements.N.steady", "Whether throughput was steady over the phase; empty where that is unknown.",
        |m| optional(m.steady.map(yes_no));
    Phase "unsteady", "text", "measurements.N.unsteady", "Why it was not steady, or why that is unknown.",
        |m| m.unsteady.clone();
    Phase "cpu_machine_s", "s", "measurements.N.cpu.machine_s", "Busy seconds of the whole machine, over all cores.",
        |m| m.cpu.machine_s.to_string();
    Phase "cpu_servers_s", "s", "made from measurements.N.cpu.by_process", "CPU seconds of all processes but the clients.",
        |m| cpu_s(m, false);
    Phase "cpu_clients_s", "s", "made from measurements.N.cpu.by_process", "CPU seconds of the client processes.",
        |m| cpu_s(m, true);
    Phase "cpu_server_us_per_op", "us", "measurements.N.cpu.server_us_per_op", "CPU of the servers for each operation.",
        |m| m.cpu.server_us_per_op.to_string();
    Phase "ops_per_core_s", "1/s", "measurements.N.cpu.ops_per_core_s", "Operations for each second of CPU of the servers.",
        |m| m.cpu.ops_per_core_s.to_string();
    Phase "cycles", "1", "measurements.N.cpu.cycles", "Cycles that the servers took; empty: not counted.",
        |m| optional(m.cpu.cycles);
    Phase "servers_rss_max", "bytes", "made from measurements.N.cpu.by_process", "Sum of the largest resident memory of each process but the clients.",
        |m| processes(m, false).map(|p| p.rss_max).fold(0, u64::saturating_add).to_string();
    Phase "servers_switches", "1", "made from measurements.N.cpu.by_process", "Context switches of all processes but the clients.",
        |m| processes(m, false).map(|p| p.switches).fold(0, u64::saturating_add).to_string();
    Phase "devices_read", "bytes", "made from measurements.N.devices", "Bytes read from all devices.",
        |m| devices(m, |d| d.read);
    Phase "devices_written", "bytes", "made from measurements.N.devices", "Bytes written to all devices.",
        |m| devices(m, |d| d.written);
    Phase "devices_reads", "1", "made from measurements.N.devices", "Reads of all devices.",
        |m| devices(m, |d| d.reads);
    Phase "devices_writes", "1", "made from measurements.N.devices", "Writes of all devices.",
        |m| devices(m, |d| d.writes);
    Phase "devices_flushes", "1", "made from measurements.N.devices", "Flushes of all devices.",
        |m| devices(m, |d| d.flushes);
    Phase "devices_wait_ms", "ms", "made from measurements.N.devices", "Mean wait of a request on the device where it was longest; empty where none was watched.",
        |m| largest(m, |d| d.wait_ms);
    Phase "devices_busy", "1", "made from measurements.N.devices", "Share of the time that the busiest device was busy, 0 to 1; empty where none was watched.",
        |m| largest(m, |d| d.busy);
    Phase "device_bytes_per_byte", "1", "measurements.N.device_bytes_per_byte", "Bytes written to the devices for each byte that clients wrote; 0 where that is not known.",
        |m| m.device_bytes_per_byte.to_string();
    Phase "joules", "J", "measurements.N.joules", "What the processor's package took; empty where the host does not report it.",
        |m| optional(m.joules);
    Trial "profiled", "yes/no", "profiled", "Whether the trial was profiled: slower for that, so it is not a sample.",
        |r| yes_no(r.profiled);
    Trial "hosts", "text", "parameters.hosts", "The hosts that the client processes run on; empty: the machine of the servers.",
        |r| r.parameters.hosts.clone();
    Phase "start_skew_s", "s", "measurements.N.start_skew_s", "From the start of the first client process to that of the last; of hosts, as they are heard of.",
        |m| m.start_skew_s.to_string();
    Phase "step_name", "text", "measurements.N.step.name", "The step of a ladder in `series/`, `counters/` and `profiles/`; empty where the phase has no ladder: its own name is used there.",
        |m| optional(m.step.as_ref().map(|s| s.name.clone()));
    Phase "step_in_flight", "1", "measurements.N.step.in_flight", "Operations in flight of this step of a ladder, with a fixed rate at most; empty where the phase has no ladder.",
        |m| optional(m.step.as_ref().map(|s| s.in_flight));
    Phase "step_rate", "1/s", "measurements.N.step.rate", "Operations a second that the step asked for (open loop); empty in a closed loop.",
        |m| optional(m.step.as_ref().and_then(|s| s.rate));
    Phase "step_held", "yes/no", "measurements.N.step.held", "Whether the rate was achieved and its latency within the target; empty in a closed loop.",
        |m| optional(m.step.as_ref().and_then(|s| s.held).map(yes_no));
    Phase "step_found", "text", "measurements.N.step.found", "`saturation`: the best throughput of the closed loop; `held_rate`: the highest rate that holds the target; empty on the way.",
        |m| optional(m.step.as_ref().and_then(|s| s.found).map(LadderPoint::name));
};
