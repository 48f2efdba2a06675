//! Commands that ask all gates and shards: what operations do, and counters.

use std::collections::BTreeMap;

use options::opt;
use serde_json::{Map, Value, json};
use store::MemoryPool;
use types::{Errno, UTime};

use super::Control;
use super::command::{Refusal, answer};
use crate::memory::{CONTEXT_BYTES, LOG_ENTRY_BYTES};
use crate::parts::{Asker, Out, PartReport, ReportKind, ToGate, ToShard};
use crate::perf::{self, OsdGauges};

/// Commands that may wait for the parts' reports; more are refused.
const GATHERS_MAX: usize = 64;

/// Why the dumps of operations are empty.
const NOT_TRACKED: &str = "operations are not tracked; set osd_enable_op_tracker to true";

/// Why an OSD does not say how its free space lies.
const NO_BLOCKS: &str = "only a block store knows how its free space lies";

/// Why an OSD keeps its caches.
const NO_CACHES: &str = "cache drop: only a block store gives up its caches by command";

/// How an answer is made of the parts' reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    InFlight,
    Blocked {
        count_only: bool,
    },
    Historic {
        by_duration: bool,
    },
    HistoricSlow,
    PerfDump {
        section: Option<String>,
        counter: Option<String>,
    },
    PerfSchema {
        section: Option<String>,
        counter: Option<String>,
    },
    PerfReset,
    CounterDump,
    CounterSchema,
    HistogramDump {
        section: Option<String>,
        counter: Option<String>,
    },
    HistogramSchema,
    /// How the free space lies: its score, or its plain fragmentation.
    FreeSpace {
        score: bool,
    },
    Mempools,
    Cache,
    CacheDrop,
    Watchers,
}

impl Wanted {
    fn kind(&self) -> ReportKind {
        match self {
            Self::InFlight => ReportKind::InFlight { slow_only: false },
            Self::Blocked { .. } => ReportKind::InFlight { slow_only: true },
            Self::Historic { .. } => ReportKind::Longest,
            Self::HistoricSlow => ReportKind::LongestSlow,
            Self::PerfReset => ReportKind::ResetCounters,
            Self::HistogramDump { .. } | Self::HistogramSchema => ReportKind::Histograms,
            Self::FreeSpace { .. } => ReportKind::FreeSpace,
            Self::Watchers => ReportKind::Watches,
            Self::Mempools => ReportKind::Memory,
            Self::CacheDrop => ReportKind::DropCaches,
            Self::PerfDump { .. }
            | Self::PerfSchema { .. }
            | Self::CounterDump
            | Self::CounterSchema
            | Self::Cache => ReportKind::Counters,
        }
    }

    fn is_of_tracker(&self) -> bool {
        match self {
            Self::InFlight | Self::Blocked { .. } | Self::Historic { .. } | Self::HistoricSlow => true,
            Self::PerfDump { .. }
            | Self::PerfSchema { .. }
            | Self::CounterDump
            | Self::CounterSchema
            | Self::PerfReset
            | Self::HistogramDump { .. }
            | Self::HistogramSchema
            | Self::FreeSpace { .. }
            | Self::Mempools
            | Self::Cache
            | Self::CacheDrop
            | Self::Watchers => false,
        }
    }
}

/// What a command wants of the other parts; `None`: it is no such command.
pub(super) fn gathered(prefix: &str, args: &Map<String, Value>) -> Result<Option<Wanted>, Refusal> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Some(match prefix {
        "dump_ops_in_flight" | "ops" => Wanted::InFlight,
        "dump_blocked_ops" | "dump_slow_ops" => Wanted::Blocked { count_only: false },
        "dump_blocked_ops_count" => Wanted::Blocked { count_only: true },
        "dump_historic_ops" => Wanted::Historic { by_duration: false },
        "dump_historic_ops_by_duration" => Wanted::Historic { by_duration: true },
        "dump_historic_slow_ops" => Wanted::HistoricSlow,
        "dump_mempools" => Wanted::Mempools,
        "cache drop" => Wanted::CacheDrop,
        "cache status" => Wanted::Cache,
        "dump_watchers" => Wanted::Watchers,
        "bluestore allocator score block" => Wanted::FreeSpace { score: true },
        "bluestore allocator fragmentation block" => Wanted::FreeSpace { score: false },
        "counter dump" => Wanted::CounterDump,
        "counter schema" => Wanted::CounterSchema,
        "perf dump" => Wanted::PerfDump { section: text("logger"), counter: text("counter") },
        "perf schema" => Wanted::PerfSchema { section: text("logger"), counter: text("counter") },
        "perf histogram dump" => Wanted::HistogramDump { section: text("logger"), counter: text("counter") },
        "perf histogram schema" => Wanted::HistogramSchema,
        "perf reset" => match text("var").as_deref() {
            Some("all") => Wanted::PerfReset,
            other => {
                let what = other.unwrap_or("nothing");
                return Err((Errno::EINVAL, format!("perf reset: {what} cannot be reset alone; give 'all'")));
            }
        },
        _ => return Ok(None),
    }))
}

/// A command that waits for reports.
#[derive(Debug)]
struct Gather {
    asked: Asker,
    wanted: Wanted,
    /// Parts that have not reported.
    missing: usize,
    sum: PartReport,
}

/// The commands that wait for reports.
#[derive(Debug, Default)]
pub(super) struct Gathers {
    last: u64,
    all: BTreeMap<u64, Gather>,
}

impl Control {
    /// Asks all parts for what a command wants.
    pub(super) fn gather(&mut self, asked: Asker, wanted: Wanted, out: &mut Out) -> Result<(), Refusal> {
        let complaint_time = crate::config::complaint_time(&self.options);
        if wanted.is_of_tracker() && complaint_time.is_none() {
            return Err((Errno::EINVAL, NOT_TRACKED.into()));
        }
        if self.gathers.all.len() >= GATHERS_MAX {
            return Err((Errno::EBUSY, format!("{GATHERS_MAX} commands are being answered; try again")));
        }
        self.gathers.last += 1;
        let (id, what) = (self.gathers.last, wanted.kind());
        let missing = self.shards.len() + self.placement.gates().len();
        self.gathers.all.insert(id, Gather { asked, wanted, missing, sum: PartReport::default() });
        out.send_shards(|| ToShard::Report { id, what });
        out.send_gates(|| ToGate::Report { id, what, complaint_time });
        Ok(())
    }

    /// A part reports. When all have, the command is answered.
    pub(super) fn on_part_report(&mut self, now: UTime, id: u64, report: PartReport, out: &mut Out) {
        let Some(gather) = self.gathers.all.get_mut(&id) else {
            return out.broken("a part reports what no command asks for");
        };
        gather.sum.ops.extend(report.ops);
        gather.sum.counters += report.counters;
        gather.sum.histograms += report.histograms;
        gather.sum.held.0 += report.held.0;
        gather.sum.held.1 += report.held.1;
        gather.sum.object_contexts += report.object_contexts;
        gather.sum.log_entries += report.log_entries;
        gather.sum.store_memory += report.store_memory;
        gather.sum.watches.extend(report.watches);
        gather.sum.keeps_caches |= report.keeps_caches;
        if let Some(free) = report.free_space {
            *gather.sum.free_space.get_or_insert_default() += free;
        }
        gather.missing -= 1;
        if gather.missing > 0 {
            return;
        }
        let Some(Gather { asked, wanted, sum, .. }) = self.gathers.all.remove(&id) else { return };
        answer(asked, self.gathered_answer(now, wanted, sum), out);
    }

    fn gathered_answer(&self, now: UTime, wanted: Wanted, mut sum: PartReport) -> Result<Value, Refusal> {
        let options = &self.options;
        let json_of = |sum: &PartReport, is_done: bool| -> Vec<Value> {
            sum.ops.iter().map(|op| op.json(now, is_done)).collect()
        };
        sum.ops.sort_by_key(|op| op.times.received());
        Ok(match wanted {
            Wanted::InFlight => json!({ "ops": json_of(&sum, false), "num_ops": sum.ops.len() }),
            Wanted::Blocked { count_only } => {
                let mut answer = json!({
                    "complaint_time": options.get(opt::OSD_OP_COMPLAINT_TIME), "num_blocked_ops": sum.ops.len(),
                });
                if !count_only {
                    answer["ops"] = json_of(&sum, false).into();
                }
                answer
            }
            Wanted::Historic { by_duration } => {
                let size = options.get(opt::OSD_OP_HISTORY_SIZE);
                // Of each shard's slowest ones the slowest.
                sum.ops.sort_by_key(|op| core::cmp::Reverse(op.took_nanos));
                sum.ops.truncate(size as usize);
                if !by_duration {
                    sum.ops.sort_by_key(|op| op.times.received());
                }
                let duration = options.get(opt::OSD_OP_HISTORY_DURATION);
                json!({ "size": size, "duration": duration, "ops": json_of(&sum, true) })
            }
            Wanted::HistoricSlow => {
                let size = options.get(opt::OSD_OP_HISTORY_SLOW_OP_SIZE);
                let excess = sum.ops.len().saturating_sub(size as usize);
                sum.ops.drain(..excess);
                let threshold = options.get(opt::OSD_OP_HISTORY_SLOW_OP_THRESHOLD);
                json!({ "num to keep": size, "threshold to keep": threshold, "Ops": json_of(&sum, true) })
            }
            Wanted::PerfDump { section, counter } => {
                perf::dump(&sum.counters.rows(&self.gauges(&sum)), section.as_deref(), counter.as_deref())
            }
            Wanted::PerfSchema { section, counter } => {
                perf::schema(&sum.counters.rows(&self.gauges(&sum)), section.as_deref(), counter.as_deref())
            }
            Wanted::CounterDump => {
                perf::labelled(perf::dump(&sum.counters.rows(&self.gauges(&sum)), None, None))
            }
            Wanted::CounterSchema => {
                perf::labelled(perf::schema(&sum.counters.rows(&self.gauges(&sum)), None, None))
            }
            Wanted::HistogramDump { section, counter } => {
                sum.histograms.dump(section.as_deref(), counter.as_deref())
            }
            Wanted::HistogramSchema => sum.histograms.schema(),
            Wanted::PerfReset => json!({ "success": "perf reset all" }),
            Wanted::Mempools => mempools(&sum),
            Wanted::Watchers => json!({ "watchers": sum.watches }),
            Wanted::Cache => json!({ "object_ctx": sum.object_contexts }),
            Wanted::CacheDrop if sum.keeps_caches => return Err((Errno::EOPNOTSUPP, NO_CACHES.into())),
            Wanted::CacheDrop => Value::String(String::new()),
            Wanted::FreeSpace { score } => {
                let free = sum.free_space.ok_or((Errno::EOPNOTSUPP, NO_BLOCKS.into()))?;
                json!({ "fragmentation_rating": if score { free.score() } else { free.fragmentation() } })
            }
        })
    }

    fn gauges(&self, sum: &PartReport) -> OsdGauges {
        let space = self.statfs();
        OsdGauges {
            ops_in_flight: sum.held.0,
            op_bytes_in_flight: sum.held.1,
            pgs: self.pgs.len() as u64,
            pgs_led: self.pgs.led() as u64,
            map_messages: self.map_messages,
            map_epochs: self.map_epochs,
            bytes_total: space.bytes_total,
            bytes_used: space.bytes_used,
            bytes_available: space.bytes_available,
            object_contexts: sum.object_contexts,
        }
    }
}

/// `dump_mempools`: those of Ceph's pools that there can be something of. Items are counted; the bytes of some are estimates.
fn mempools(sum: &PartReport) -> Value {
    let (contexts, entries) = (sum.object_contexts, sum.log_entries);
    let of_osd = [
        ("buffer_anon", MemoryPool::of(sum.held.0, sum.held.1)),
        ("osd", MemoryPool::of(contexts, contexts * CONTEXT_BYTES)),
        ("osd_pglog", MemoryPool::of(entries, entries * LOG_ENTRY_BYTES)),
    ];
    let (mut by_pool, mut total) = (Map::new(), MemoryPool::default());
    let shown = |pool: MemoryPool| json!({ "items": pool.items, "bytes": pool.bytes });
    for (name, pool) in of_osd.into_iter().chain(sum.store_memory.named()) {
        total += pool;
        by_pool.insert(name.to_owned(), shown(pool));
    }
    json!({ "mempool": { "by_pool": by_pool, "total": shown(total) } })
}
