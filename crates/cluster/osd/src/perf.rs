//! Counters of an OSD, under Ceph's names where they mean the same.

use core::time::Duration;

use core::ops::AddAssign;

use messages::Op;
use pg::ScrubWork;
use serde_json::{Map, Value, json};
use telemetry::{Average, GRID_BUCKETS, GridAxis, LATENCY_AXIS, LatencySizeGrid, SIZE_AXIS};

/// What a request does, as counters tell requests apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpClass {
    Read,
    Write,
    ReadWrite,
}

impl OpClass {
    /// One that does neither, like a request without operations, counts as a read.
    #[inline]
    pub(crate) fn of(ops: &[Op]) -> Self {
        let (mut reads, mut writes) = (false, false);
        for op in ops {
            reads |= op.code.reads();
            writes |= op.code.writes();
        }
        match (reads, writes) {
            (_, false) => Self::Read,
            (false, true) => Self::Write,
            (true, true) => Self::ReadWrite,
        }
    }
}

/// Requests of one class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct ClassCounters {
    in_bytes: u64,
    out_bytes: u64,
    latency: Average,
    process_latency: Average,
}

impl AddAssign for ClassCounters {
    fn add_assign(&mut self, other: Self) {
        self.in_bytes += other.in_bytes;
        self.out_bytes += other.out_bytes;
        self.latency += other.latency;
        self.process_latency += other.process_latency;
    }
}

/// The scrubs of a shard's PGs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ScrubCounters {
    complete: Average,
    without_result: Average,
    work: ScrubWork,
}

impl ScrubCounters {
    /// A scrub has ended.
    pub(crate) fn add(&mut self, complete: bool, work: &ScrubWork) {
        let ended = if complete { &mut self.complete } else { &mut self.without_result };
        ended.add(u64::try_from(work.took.as_nanos()).unwrap_or(u64::MAX));
        self.work += *work;
    }

    fn rows(&self) -> [PerfRow; 12] {
        use PerfValue::{Counter, CounterBytes, Latency};
        let (ended, work) = (self.complete.count + self.without_result.count, &self.work);
        [
            (
                "num_scrubs_started_replicated",
                Counter(ended),
                "Scrubs that have ended, with a result or without",
            ),
            ("successful_scrubs_replicated", Counter(self.complete.count), "Scrubs that came to a result"),
            ("successful_scrubs_replicated_elapsed", Latency(self.complete), "Their time"),
            ("failed_scrubs_replicated", Counter(self.without_result.count), "Scrubs without a result"),
            ("failed_scrubs_replicated_elapsed", Latency(self.without_result), "Their time"),
            (
                "scrub_replicated_getattr_cnt",
                Counter(work.metadata_reads),
                "Objects whose metadata scrubs read",
            ),
            ("scrub_replicated_read_cnt", Counter(work.data_reads), "Reads of data by scrubs"),
            ("scrub_replicated_read_bytes", CounterBytes(work.data_bytes), "Bytes that they read"),
            ("scrub_omapget_cnt", Counter(work.omap_reads), "Reads of omaps by scrubs"),
            ("scrub_omapget_bytes", CounterBytes(work.omap_bytes), "Bytes of values that they read"),
            (
                "scrub_replicated_io_intersects",
                Counter(work.preemptions),
                "Writes that ended a scrub's chunk",
            ),
            (
                "scrub_replicated_io_blocked",
                Counter(work.held_back),
                "Writes that waited for a scrub's chunk",
            ),
        ]
        .map(|(name, value, about)| ("osd", name, value, about))
    }
}

impl AddAssign for ScrubCounters {
    fn add_assign(&mut self, other: Self) {
        self.complete += other.complete;
        self.without_result += other.without_result;
        self.work += other.work;
    }
}

/// The requests that a shard has answered, and its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct OpCounters {
    classes: [ClassCounters; 3],
    /// From a request's coming until its PG has it.
    before_dequeue: Average,
    /// From a transaction's submission until it is durable.
    pub commit_latency: Average,
    pub scrubs: ScrubCounters,
}

impl OpCounters {
    /// A request was answered, `took` nanoseconds after it came and `begun` after that its PG had it.
    #[inline]
    pub(crate) fn add(&mut self, class: OpClass, in_bytes: u64, out_bytes: u64, took: u64, begun: Duration) {
        let waited = u64::from(begun.subsec_nanos()) + begun.as_secs() * 1_000_000_000;
        let of_class = &mut self.classes[class as usize];
        of_class.in_bytes += in_bytes;
        of_class.out_bytes += out_bytes;
        of_class.latency.add(took);
        of_class.process_latency.add(took.saturating_sub(waited));
        self.before_dequeue.add(waited);
    }
}

impl AddAssign for OpCounters {
    fn add_assign(&mut self, other: Self) {
        self.classes.iter_mut().zip(other.classes).for_each(|(sum, class)| *sum += class);
        self.before_dequeue += other.before_dequeue;
        self.commit_latency += other.commit_latency;
        self.scrubs += other.scrubs;
    }
}

/// The requests that a shard has answered, by latency and bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct OpHistograms {
    reads_out: LatencySizeGrid,
    writes_in: LatencySizeGrid,
    read_writes_in: LatencySizeGrid,
    read_writes_out: LatencySizeGrid,
}

impl OpHistograms {
    /// See [`OpCounters::add`].
    #[inline]
    pub(crate) fn add(&mut self, class: OpClass, in_bytes: u64, out_bytes: u64, took: u64) {
        match class {
            OpClass::Read => self.reads_out.add(took, out_bytes),
            OpClass::Write => self.writes_in.add(took, in_bytes),
            OpClass::ReadWrite => {
                self.read_writes_in.add(took, in_bytes);
                self.read_writes_out.add(took, out_bytes);
            }
        }
    }

    /// Each with its name and what it counts, in the order of dumps.
    fn rows(&self) -> [(&'static str, &LatencySizeGrid, &'static str); 4] {
        [
            (
                "op_r_latency_out_bytes_histogram",
                &self.reads_out,
                "Reads by latency, queueing included, and bytes that they were answered",
            ),
            (
                "op_w_latency_in_bytes_histogram",
                &self.writes_in,
                "Writes by latency, queueing included, and bytes that they brought",
            ),
            (
                "op_rw_latency_in_bytes_histogram",
                &self.read_writes_in,
                "Operations that read and write by latency, queueing included, and bytes that they brought",
            ),
            (
                "op_rw_latency_out_bytes_histogram",
                &self.read_writes_out,
                "Operations that read and write by latency, queueing included, and bytes that they were answered",
            ),
        ]
    }

    /// Those that a filter lets through, each shown somehow, within their section.
    fn section(
        &self,
        section: Option<&str>,
        name: Option<&str>,
        show: impl Fn(&LatencySizeGrid, &str) -> Value,
    ) -> Value {
        if section.is_some_and(|section| section != "osd") {
            return json!({});
        }
        let rows = self.rows().into_iter().filter(|row| name.is_none_or(|name| name == row.0));
        let all: Map<String, Value> =
            rows.map(|(name, grid, about)| (name.to_owned(), show(grid, about))).collect();
        if all.is_empty() { json!({}) } else { json!({ "osd": all }) }
    }

    /// `perf histogram dump`.
    pub(crate) fn dump(&self, section: Option<&str>, name: Option<&str>) -> Value {
        self.section(section, name, |grid, _| {
            let values: Vec<Value> = grid.rows().iter().map(|row| json!(row)).collect();
            json!({ "axes": [axis(LATENCY_AXIS), axis(SIZE_AXIS)], "values": values })
        })
    }

    /// `perf histogram schema`.
    pub(crate) fn schema(&self) -> Value {
        self.section(None, None, |_, about| {
            json!({
                "type": HISTOGRAM | COUNTER | U64, "metric_type": "counter", "value_type": "integer-2d-histogram",
                "description": about, "nick": "", "priority": 5, "units": "none",
            })
        })
    }
}

impl AddAssign for OpHistograms {
    fn add_assign(&mut self, other: Self) {
        self.reads_out += other.reads_out;
        self.writes_in += other.writes_in;
        self.read_writes_in += other.read_writes_in;
        self.read_writes_out += other.read_writes_out;
    }
}

fn axis(axis: GridAxis) -> Value {
    let ranges: Vec<Value> = (0..GRID_BUCKETS)
        .map(|bucket| {
            let (min, max) = axis.range(bucket);
            let min = min.map(|min| ("min".to_owned(), json!(min)));
            let max = max.map(|max| ("max".to_owned(), json!(max)));
            Value::Object(min.into_iter().chain(max).collect())
        })
        .collect();
    json!({
        "name": axis.name, "min": 0, "quant_size": axis.quant, "buckets": GRID_BUCKETS, "scale_type": "log2",
        "ranges": ranges,
    })
}

/// A counter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PerfValue {
    /// It only grows.
    Counter(u64),
    CounterBytes(u64),
    Gauge(u64),
    GaugeBytes(u64),
    Latency(Average),
}

/// A counter: section, name, value, what it counts.
pub(crate) type PerfRow = (&'static str, &'static str, PerfValue, &'static str);

/// What the control part knows beside what the shards count.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct OsdGauges {
    pub ops_in_flight: u64,
    pub op_bytes_in_flight: u64,
    pub pgs: u64,
    pub pgs_led: u64,
    pub map_messages: u64,
    pub map_epochs: u64,
    pub bytes_total: u64,
    pub bytes_used: u64,
    pub bytes_available: u64,
    pub object_contexts: u64,
}

impl OpCounters {
    /// Every counter of an OSD, in the order of dumps.
    pub(crate) fn rows(&self, gauges: &OsdGauges) -> Vec<PerfRow> {
        use PerfValue::{Counter, CounterBytes, Gauge, GaugeBytes, Latency};
        let mut all = ClassCounters::default();
        self.classes.iter().for_each(|class| all += *class);
        let [r, w, rw] = self.classes;
        let mut rows = vec![
            ("osd", "op_wip", Gauge(gauges.ops_in_flight), "Client operations under way"),
            ("osd", "op", Counter(all.latency.count), "Client operations"),
            ("osd", "op_in_bytes", CounterBytes(all.in_bytes), "Bytes that client operations brought"),
            (
                "osd",
                "op_out_bytes",
                CounterBytes(all.out_bytes),
                "Bytes that client operations were answered",
            ),
            ("osd", "op_latency", Latency(all.latency), "Latency of client operations, queueing included"),
            (
                "osd",
                "op_process_latency",
                Latency(all.process_latency),
                "Latency of client operations, without the time in the queue",
            ),
            ("osd", "op_r", Counter(r.latency.count), "Client reads"),
            ("osd", "op_r_out_bytes", CounterBytes(r.out_bytes), "Bytes that reads were answered"),
            ("osd", "op_r_latency", Latency(r.latency), "Latency of reads, queueing included"),
            (
                "osd",
                "op_r_process_latency",
                Latency(r.process_latency),
                "Latency of reads, without the time in the queue",
            ),
            ("osd", "op_w", Counter(w.latency.count), "Client writes"),
            ("osd", "op_w_in_bytes", CounterBytes(w.in_bytes), "Bytes that writes brought"),
            ("osd", "op_w_latency", Latency(w.latency), "Latency of writes, queueing included"),
            (
                "osd",
                "op_w_process_latency",
                Latency(w.process_latency),
                "Latency of writes, without the time in the queue",
            ),
            ("osd", "op_rw", Counter(rw.latency.count), "Client operations that read and write"),
            ("osd", "op_rw_in_bytes", CounterBytes(rw.in_bytes), "Bytes that they brought"),
            ("osd", "op_rw_out_bytes", CounterBytes(rw.out_bytes), "Bytes that they were answered"),
            ("osd", "op_rw_latency", Latency(rw.latency), "Their latency, queueing included"),
            (
                "osd",
                "op_rw_process_latency",
                Latency(rw.process_latency),
                "Their latency, without the time in the queue",
            ),
            (
                "osd",
                "op_before_dequeue_op_lat",
                Latency(self.before_dequeue),
                "Time from a message's arrival until its placement group has it",
            ),
            ("osd", "numpg", Gauge(gauges.pgs), "Placement groups"),
            ("osd", "numpg_primary", Gauge(gauges.pgs_led), "Placement groups that this OSD leads"),
            (
                "osd",
                "numpg_replica",
                Gauge(gauges.pgs - gauges.pgs_led.min(gauges.pgs)),
                "Other placement groups",
            ),
            ("osd", "map_messages", Counter(gauges.map_messages), "Messages of OSD maps"),
            ("osd", "map_message_epochs", Counter(gauges.map_epochs), "OSD map epochs received"),
            ("osd", "stat_bytes", GaugeBytes(gauges.bytes_total), "Size of the store"),
            ("osd", "stat_bytes_used", GaugeBytes(gauges.bytes_used), "Bytes of the store in use"),
            (
                "osd",
                "stat_bytes_avail",
                GaugeBytes(gauges.bytes_available),
                "Bytes of the store that are free",
            ),
            ("osd", "object_ctx_cache_total", Gauge(gauges.object_contexts), "Object contexts in memory"),
            (
                "objectstore",
                "commit_latency",
                Latency(self.commit_latency),
                "Time from a transaction's submission until it is durable",
            ),
            (
                "throttle-osd_client_messages",
                "val",
                Gauge(gauges.ops_in_flight),
                "Client messages held until their replies",
            ),
            (
                "throttle-osd_client_bytes",
                "val",
                GaugeBytes(gauges.op_bytes_in_flight),
                "Bytes of client messages held until their replies",
            ),
        ];
        rows.extend(self.scrubs.rows());
        rows
    }
}

/// Puts the rows that a filter lets through into their sections. `section` and `counter` are names; `None` is any.
fn sections(
    rows: &[PerfRow],
    section: Option<&str>,
    counter: Option<&str>,
    show: impl Fn(&PerfRow) -> Value,
) -> Value {
    let mut all = Map::new();
    for row in rows {
        let is_wanted = section.is_none_or(|s| s == row.0) && counter.is_none_or(|c| c == row.1);
        if is_wanted {
            let of_section = all.entry(row.0).or_insert_with(|| json!({}));
            of_section[row.1] = show(row);
        }
    }
    Value::Object(all)
}

/// `perf dump`.
pub(crate) fn dump(rows: &[PerfRow], section: Option<&str>, counter: Option<&str>) -> Value {
    sections(rows, section, counter, |(_, _, value, _)| match value {
        PerfValue::Counter(n)
        | PerfValue::CounterBytes(n)
        | PerfValue::Gauge(n)
        | PerfValue::GaugeBytes(n) => {
            json!(n)
        }
        PerfValue::Latency(sum) => json!({
            "avgcount": sum.count,
            "sum": sum.nanos as f64 / 1e9,
            "avgtime": sum.mean().as_secs_f64(),
        }),
    })
}

/// The sections of [`dump`] or [`schema`] in the shape of `counter dump` and `counter schema`, which tell counters of one name apart by
/// labels: ours have none.
pub(crate) fn labelled(sections: Value) -> Value {
    let Value::Object(sections) = sections else { return sections };
    let listed = |counters: Value| json!([{ "labels": {}, "counters": counters }]);
    Value::Object(sections.into_iter().map(|(name, counters)| (name, listed(counters))).collect())
}

// The bits of a counter's type in `perf schema`.
const TIME: u32 = 1;
const U64: u32 = 2;
const LONGRUNAVG: u32 = 4;
const COUNTER: u32 = 8;
const HISTOGRAM: u32 = 16;

/// `perf schema`.
pub(crate) fn schema(rows: &[PerfRow], section: Option<&str>, counter: Option<&str>) -> Value {
    sections(rows, section, counter, |(_, _, value, about)| {
        let (kind, metric, value_type, units) = match value {
            PerfValue::Counter(_) => (U64 | COUNTER, "counter", "integer", "none"),
            PerfValue::CounterBytes(_) => (U64 | COUNTER, "counter", "integer", "bytes"),
            PerfValue::Gauge(_) => (U64, "gauge", "integer", "none"),
            PerfValue::GaugeBytes(_) => (U64, "gauge", "integer", "bytes"),
            PerfValue::Latency(_) => (TIME | LONGRUNAVG, "gauge", "real-integer-pair", "none"),
        };
        json!({
            "type": kind, "metric_type": metric, "value_type": value_type,
            "description": about, "nick": "", "priority": 5, "units": units,
        })
    })
}
