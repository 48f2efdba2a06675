//! Commands sent to the OSD itself: `ceph tell osd.N ...`, `ceph pg PGID query`.

use auth::{Access, SessionInfo};
use buffer::Rope;
use messages::{Command, CommandReply};
use options::Values;
use serde_json::{Map, Value, json};
use types::{Errno, PgId, SpgId, UTime};

use super::Control;
use super::OsdPhase;
use super::admin::gathered;
use super::superblock::trim_lower_bound;
use crate::OsdEffect;
use crate::parts::{Asker, Out, ToShard};

/// A command's longest text. Stock clients' commands have some hundred bytes.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// A log level that is not set. One log serves all subsystems.
const LOG_LEVEL_DEFAULT: &str = "1/5";

/// A failed command: the error number and a sentence.
pub(super) type Refusal = (Errno, String);

/// The commands: words, arguments (name, type, whether it must be given, whether it takes all words left), help.
type Signature = (&'static [&'static str], &'static [(&'static str, &'static str, bool, bool)], &'static str);

const COMMANDS: &[Signature] = &[
    (
        &["bench"],
        &[("count", "CephInt", false, false), ("size", "CephInt", false, false)],
        "write COUNT bytes (1 GiB) to the store in blocks of SIZE (4 MiB), and say how fast that was",
    ),
    (
        &["bluestore", "allocator", "fragmentation", "block"],
        &[],
        "the share of free blocks that have no free neighbour behind them, from 0 to 1",
    ),
    (
        &["bluestore", "allocator", "score", "block"],
        &[],
        "how scattered the free space is: 0 in one piece, 1 in single blocks",
    ),
    (&["cache", "drop"], &[], "give up what the store keeps in memory to spare reads"),
    (&["cache", "status"], &[], "object contexts in memory"),
    (
        &["cluster_log"],
        &[("message", "CephString", true, true)],
        "write a line to the cluster log, as an error",
    ),
    (&["compact"], &[], "not supported"),
    (&["config", "diff"], &[], "options that differ from their defaults"),
    (
        &["config", "diff", "get"],
        &[("var", "CephString", true, false)],
        "an option, if it differs from its default",
    ),
    (&["config", "get"], &[("var", "CephString", true, false)], "an option's value"),
    (&["config", "help"], &[("var", "CephString", false, false)], "what an option is, or all of them"),
    (
        &["config", "set"],
        &[("var", "CephString", true, false), ("val", "CephString", true, true)],
        "set an option until the next restart",
    ),
    (&["config", "show"], &[], "all options that are effective here"),
    (&["config", "unset"], &[("var", "CephString", true, false)], "give an option its value from the start"),
    (&["counter", "dump"], &[], "the counters of perf dump, in the shape that has labels"),
    (&["counter", "schema"], &[], "what they are, in that shape"),
    (&["dump_blocked_ops"], &[], "operations that are under way for longer than osd_op_complaint_time"),
    (&["dump_blocked_ops_count"], &[], "how many there are of them"),
    (&["dump_blocklist"], &[], "addresses that are shut out"),
    (&["dump_historic_ops"], &[], "the slowest operations of late, in the order in which they came"),
    (&["dump_historic_ops_by_duration"], &[], "the slowest operations of late, the slowest first"),
    (
        &["dump_historic_slow_ops"],
        &[],
        "the last operations that took osd_op_history_slow_op_threshold or longer",
    ),
    (&["dump_mempools"], &[], "what is kept in memory"),
    (&["dump_ops_in_flight"], &[], "operations that are under way"),
    (&["dump_objectstore_kv_stats"], &[], "not supported"),
    (&["dump_osd_network"], &[], "slow pings of other OSDs (there are none)"),
    (&["dump_recovery_reservations"], &[], "recoveries under way (there are none)"),
    (&["dump_scrub_reservations"], &[], "how many scrubs are under way, and how many may be"),
    (&["dump_scrubs"], &[], "when placement groups are to be scrubbed"),
    (&["deep-scrub"], &[("pgid", "CephPgid", false, false)], "scrub a placement group deeply"),
    (&["deep_scrub"], &[("pgid", "CephPgid", false, false)], "the same as deep-scrub"),
    (&["dump_slow_ops"], &[], "the same as dump_blocked_ops"),
    (&["flush_pg_stats"], &[], "report statistics at once"),
    (&["dump_watchers"], &[], "clients that watch objects, and which"),
    (&["get_command_descriptions"], &[], "list available commands"),
    (&["get_heap_property"], &[("property", "CephString", false, false)], "not supported"),
    (&["get_latest_osdmap"], &[], "nothing to do: maps come as they are made"),
    (&["get_mapped_pools"], &[], "pools that have placement groups here"),
    (
        &["heap"],
        &[("heapcmd", "CephString", true, false), ("value", "CephString", false, false)],
        "not supported",
    ),
    (&["help"], &[], "list available commands, a line each"),
    (
        &["injectargs"],
        &[("injected_args", "CephString", true, true)],
        "set options as on a command line: --NAME VALUE",
    ),
    (&["list_devices"], &[], "devices that are watched (none are)"),
    (&["list_unfound"], &[("pgid", "CephPgid", false, false)], "objects of a placement group without a copy"),
    (&["log", "dump"], &[], "nothing to do: no line is held back from the log"),
    (&["log", "flush"], &[], "nothing to do: no line is held back from the log"),
    (&["objecter_requests"], &[], "requests of this OSD to others (there are none)"),
    (&["ops"], &[], "the same as dump_ops_in_flight"),
    (
        &["perf", "dump"],
        &[("logger", "CephString", false, false), ("counter", "CephString", false, false)],
        "the counters, all or those of a section and a name",
    ),
    (
        &["perf", "histogram", "dump"],
        &[("logger", "CephString", false, false), ("counter", "CephString", false, false)],
        "client operations by latency and size, all or those of a section and a name",
    ),
    (&["perf", "histogram", "schema"], &[], "what the histograms are"),
    (
        &["perf", "reset"],
        &[("var", "CephString", true, false)],
        "let all counters and histograms begin at zero: perf reset all",
    ),
    (
        &["perf", "schema"],
        &[("logger", "CephString", false, false), ("counter", "CephString", false, false)],
        "what the counters are",
    ),
    (&["query"], &[("pgid", "CephPgid", false, false)], "details of a placement group"),
    (&["scrub"], &[("pgid", "CephPgid", false, false)], "scrub a placement group"),
    (
        &["scrub-abort"],
        &[("pgid", "CephPgid", false, false)],
        "end the scrub of a placement group, and take back what operators want of it",
    ),
    (
        &["scrub_purged_snaps"],
        &[],
        "ask the monitor which snapshots were ever purged, and trim what is left of them",
    ),
    (&["send_beacon"], &[], "tell the monitor at once that the OSD is alive"),
    (&["set_recovery_delay"], &[("utime", "CephString", false, false)], "not supported"),
    (&["smart"], &[("devid", "CephString", false, false)], "not supported"),
    (&["status"], &[], "what the OSD is doing"),
    (
        &["trigger_deep_scrub"],
        &[("pgid", "CephString", true, false), ("time", "CephInt", false, false)],
        "the same as deep-scrub",
    ),
    (
        &["trigger_scrub"],
        &[("pgid", "CephString", true, false), ("time", "CephInt", false, false)],
        "the same as scrub",
    ),
    (&["version"], &[], "the version that the OSD runs"),
];

impl Control {
    pub(super) fn handle_command(
        &mut self,
        now: UTime,
        peer: &SessionInfo,
        command: &Command,
        out: &mut Out,
    ) {
        let asked = Asker::Session { session: peer.id, tid: command.tid };
        if !peer.caps.permits(Access::ADMIN) {
            return answer(asked, Err((Errno::EACCES, "permission denied".into())), out);
        }
        let text = command.cmd.first().map_or(&[][..], |text| text.as_bytes());
        self.take_command(now, text, asked, out);
    }

    /// A command of the admin socket. Whoever may open the socket may give any.
    pub(super) fn on_admin_command(&mut self, now: UTime, id: u64, command: &[u8], out: &mut Out) {
        self.take_command(now, command, Asker::Socket(id), out);
    }

    fn take_command(&mut self, now: UTime, command: &[u8], asked: Asker, out: &mut Out) {
        match self.run_command(now, command, asked, out) {
            Ok(Some(value)) => answer(asked, Ok(value), out),
            // The answers of other parts follow.
            Ok(None) => {}
            Err(refusal) => answer(asked, Err(refusal), out),
        }
    }

    /// A shard answers `pg PGID query`.
    pub(super) fn on_query_answer(&mut self, asked: Asker, value: Option<Value>, out: &mut Out) {
        // Asked for, and removed in the meantime.
        let gone = || (Errno::ENOENT, "the pg has just been removed".to_owned());
        answer(asked, value.ok_or_else(gone), out);
    }

    /// Runs a command. `None`: the answer comes when other parts have reported.
    fn run_command(
        &mut self,
        now: UTime,
        command: &[u8],
        asked: Asker,
        out: &mut Out,
    ) -> Result<Option<Value>, Refusal> {
        let (prefix, args) = parse(command)?;
        if let Some(wanted) = gathered(&prefix, &args)? {
            return self.gather(asked, wanted, out).map(|()| None);
        }
        match prefix.as_str() {
            "get_command_descriptions" => Ok(Some(descriptions())),
            "help" => Ok(Some(help_of_all())),
            "version" => Ok(Some(self.version())),
            "status" => Ok(Some(self.status())),
            "pg" | "query" | "list_unfound" | "mark_unfound_lost" | "scrub" | "deep-scrub" | "deep_scrub"
            | "trigger_scrub" | "trigger_deep_scrub" | "scrub-abort" => {
                self.pg_command(now, &prefix, &args, asked, out)
            }
            "injectargs" => self.injectargs(&args, out).map(Some),
            "flush_pg_stats" => self.flush_pg_stats(now).map(Some),
            "bench" => self.start_bench(now, &args, asked, out).map(|()| None),
            _ => match (prefix.strip_prefix("config "), self.fact_command(now, &prefix, &args, out)) {
                (_, Some(answer)) => answer.map(Some),
                (Some(verb), None) => self.config_command(verb, &args, out).map(Some),
                (None, None) => Err(unknown(&prefix)),
            },
        }
    }

    /// Lets the statistics go out now. The answer is the number that their report will have.
    fn flush_pg_stats(&mut self, now: UTime) -> Result<Value, Refusal> {
        self.stats_wanted(now);
        Ok(json!(self.next_stat_seq()))
    }

    fn version(&self) -> Value {
        let profile = self.config.profile;
        json!({
            "version": profile.version, "release": profile.release.name(), "release_type": "stable",
        })
    }

    fn status(&self) -> Value {
        let state = match self.state {
            OsdPhase::Initializing => "initializing",
            OsdPhase::Preboot => "preboot",
            OsdPhase::Booting => "booting",
            OsdPhase::Active => "active",
            OsdPhase::Stopping | OsdPhase::Stopped => "stopping",
        };
        json!({
            "cluster_fsid": self.config.cluster_fsid.to_string(),
            "osd_fsid": self.config.osd_fsid.to_string(),
            "whoami": self.config.whoami.0,
            "state": state,
            "maps": format!("[{}~{}]", self.superblock.oldest_map, self.stored_maps()),
            "oldest_map": self.superblock.oldest_map.0,
            "newest_map": self.superblock.newest_map.0,
            "cluster_osdmap_trim_lower_bound": trim_lower_bound(&self.superblock).0,
            "num_pgs": self.pgs.len(),
        })
    }

    fn stored_maps(&self) -> u32 {
        self.superblock.newest_map.0.saturating_sub(self.superblock.oldest_map.0) + 1
    }

    /// `pg PGID COMMAND`, and `tell PGID COMMAND`. `None`: the PG's shard answers.
    fn pg_command(
        &mut self,
        now: UTime,
        prefix: &str,
        args: &Map<String, Value>,
        asked: Asker,
        out: &mut Out,
    ) -> Result<Option<Value>, Refusal> {
        let Some(text) = args.get("pgid").and_then(Value::as_str) else {
            return Err((Errno::EINVAL, "no pgid specified".into()));
        };
        let pgid: PgId = text.parse().map_err(|e| (Errno::EINVAL, format!("{e}")))?;
        let cmd = match prefix {
            "pg" => args.get("cmd").and_then(Value::as_str).unwrap_or("query"),
            of_tell => of_tell,
        };
        let spg = SpgId::from(pgid);
        let Some(shard) = self.pgs.shard_of(&spg) else {
            return Err((Errno::ENOENT, format!("i don't have pgid {pgid}")));
        };
        match cmd {
            "query" => {
                out.send_shard(shard, ToShard::Query { pgid: spg, asked });
                Ok(None)
            }
            // Each object has one copy: none can be missing where another has it.
            "list_unfound" => Ok(Some(json!({
                "num_missing": 0, "num_unfound": 0, "objects": [], "state": "Active",
                "available_might_have_unfound": true, "might_have_unfound": [], "more": false,
            }))),
            "mark_unfound_lost" => Ok(Some(json!("pg has no unfound objects"))),
            "scrub" | "trigger_scrub" => self.order_scrub(now, spg, false, out).map(Some),
            "deep-scrub" | "deep_scrub" | "trigger_deep_scrub" => {
                self.order_scrub(now, spg, true, out).map(Some)
            }
            "scrub-abort" => self.abort_scrub(now, spg, shard, out).map(Some),
            _ => Err((Errno::EOPNOTSUPP, format!("'pg {text} {cmd}' is not supported yet"))),
        }
    }

    fn option_text(&self, spec: &options::OptionSpec) -> &str {
        self.options.text(spec.name).unwrap_or(spec.default)
    }

    /// Sets options until the next restart: all of them or, where one does not fit, none. What was set, in words.
    fn override_options(&mut self, given: &[(String, String)], out: &mut Out) -> Result<String, Refusal> {
        for (name, value) in given {
            if options::lookup(name).is_none() && !options::is_log_level(name) {
                return Err(not_effective(name));
            }
            Values::new().set(name, value).map_err(|e| (Errno::EINVAL, e.to_string()))?;
            options::check_settable(name, value).map_err(|e| (Errno::EINVAL, e.to_string()))?;
        }
        self.overrides.extend(given.iter().cloned());
        self.merge_options(out);
        let done = given.iter().map(|(name, value)| {
            let needs_restart = options::lookup(name).is_some_and(|spec| !spec.runtime);
            format!("{name} = '{value}'{}", if needs_restart { " (may need a restart)" } else { "" })
        });
        Ok(done.collect::<Vec<_>>().join(" "))
    }

    /// `injectargs --NAME VALUE --NAME=VALUE ...`.
    fn injectargs(&mut self, args: &Map<String, Value>, out: &mut Out) -> Result<Value, Refusal> {
        let text = args.get("injected_args").map(words).unwrap_or_default();
        let given = options::injected(&text).map_err(|why| (Errno::EINVAL, why))?;
        let success = self.override_options(&given, out)?;
        Ok(json!({ "success": success }))
    }

    fn config_command(
        &mut self,
        verb: &str,
        args: &Map<String, Value>,
        out: &mut Out,
    ) -> Result<Value, Refusal> {
        let var = args.get("var").and_then(Value::as_str).map(options::normalize);
        let named = || var.clone().ok_or_else(|| (Errno::EINVAL, "which option?".to_string()));
        let known = |name: &str| match options::lookup(name) {
            Some(spec) => Ok(spec),
            None => Err(not_effective(name)),
        };
        match verb {
            "get" => {
                let name = named()?;
                if options::is_log_level(&name) {
                    let value = self.options.text(&name).unwrap_or(LOG_LEVEL_DEFAULT);
                    return Ok(json!({ name: value }));
                }
                let value = self.option_text(known(&name)?);
                Ok(json!({ name: value }))
            }
            "show" => {
                let all = options::all().iter().map(|s| (s.name.to_string(), self.option_text(s).into()));
                Ok(Value::Object(all.collect()))
            }
            "diff" | "diff get" => {
                let wanted = |s: &&options::OptionSpec| verb == "diff" || var.as_deref() == Some(s.name);
                let diff = options::all().iter().filter(wanted).filter(|s| self.option_text(s) != s.default);
                let diff = diff
                    .map(|s| (s.name.into(), json!({ "default": s.default, "final": self.option_text(s) })));
                Ok(json!({ "diff": Value::Object(diff.collect()) }))
            }
            "help" => match &var {
                Some(name) => Ok(help(known(name)?)),
                None => Ok(Value::Array(options::all().iter().map(help).collect())),
            },
            "set" => {
                let name = named()?;
                let value = args.get("val").map(words).unwrap_or_default();
                let success = self.override_options(&[(name, value)], out)?;
                Ok(json!({ "success": success }))
            }
            "unset" => {
                let name = named()?;
                if !options::is_log_level(&name) {
                    known(&name)?;
                }
                self.overrides.remove(&name);
                self.merge_options(out);
                Ok(json!({ "success": "" }))
            }
            _ => Err(unknown(&format!("config {verb}"))),
        }
    }
}

/// Why an option can't be asked or set here: it is one of Ceph's without effect, or none at all.
fn not_effective(name: &str) -> Refusal {
    let text = match options::ceph_default(name) {
        Some(_) => {
            format!("the option '{name}' of Ceph's has no effect here; `config show` lists those that have")
        }
        None => format!("there is no option '{name}'; `config show` lists those that have an effect"),
    };
    (Errno::ENOENT, text)
}

/// What there is, where a command is none of it.
fn unknown(prefix: &str) -> Refusal {
    let names: Vec<String> = COMMANDS.iter().map(|(words, ..)| words.join(" ")).collect();
    let near = text::nearest(prefix, names.iter().map(String::as_str));
    let near = near.map(|name| format!("; the nearest is '{name}'")).unwrap_or_default();
    (Errno::EINVAL, format!("unknown command '{prefix}'{near}; 'help' lists all"))
}

/// A command's prefix and arguments.
fn parse(text: &[u8]) -> Result<(String, Map<String, Value>), Refusal> {
    let bad = |what: &str| (Errno::EINVAL, format!("not a command: {what}"));
    if text.is_empty() {
        return Err(bad("it is empty"));
    }
    if text.len() > COMMAND_BYTES_MAX {
        return Err((Errno::E2BIG, "the command is too long".into()));
    }
    let args: Map<String, Value> = serde_json::from_slice(text).map_err(|e| bad(&e.to_string()))?;
    let prefix = args.get("prefix").and_then(Value::as_str).ok_or_else(|| bad("it has no prefix"))?;
    Ok((prefix.to_owned(), args))
}

pub(super) fn answer(asked: Asker, result: Result<Value, Refusal>, out: &mut Out) {
    let result = result.map(|value| render(&value).into_bytes());
    let (session, tid) = match asked {
        Asker::Socket(id) => return out.push(OsdEffect::AdminAnswer { id, answer: result }),
        Asker::Session { session, tid } => (session, tid),
    };
    let (result, status, data) = match result {
        Ok(text) => (0, String::new(), Rope::from(text)),
        Err((errno, sentence)) => (errno.code(), sentence, Rope::new()),
    };
    out.send_session(session, CommandReply { tid, result, status, data });
}

/// An argument that takes all words left comes as an array.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn help(spec: &options::OptionSpec) -> Value {
    json!({
        "name": spec.name, "type": spec.kind.name(), "default": spec.default, "desc": spec.about,
        "can_update_at_runtime": spec.runtime,
    })
}

fn help_of_all() -> Value {
    let line = |(words, _, help): &Signature| (words.join(" "), Value::from(*help));
    Value::Object(COMMANDS.iter().map(line).collect())
}

fn descriptions() -> Value {
    let all = COMMANDS.iter().enumerate().map(|(i, (words, args, help))| {
        let words = words.iter().map(|w| json!(w));
        let args = args.iter().map(|&(name, kind, required, rest)| {
            let mut arg = json!({ "name": name, "type": kind });
            if let (false, Some(arg)) = (required, arg.as_object_mut()) {
                arg.insert("req".into(), "false".into());
            }
            if let (true, Some(arg)) = (rest, arg.as_object_mut()) {
                arg.insert("n".into(), "N".into());
            }
            arg
        });
        (format!("cmd{i:03}"), json!({ "sig": words.chain(args).collect::<Vec<_>>(), "help": help }))
    });
    let pg = json!({
        "sig": ["pg", { "name": "pgid", "type": "CephPgid" },
                { "name": "cmd", "strings": "query|list_unfound|mark_unfound_lost|scrub|deep-scrub", "type": "CephChoices" },
                { "name": "mulcmd", "strings": "revert|delete", "type": "CephChoices", "req": "false" }],
        "help": "show details of a placement group",
    });
    let pg = (format!("cmd{:03}", COMMANDS.len()), pg);
    Value::Object(all.chain([pg]).collect())
}

/// Indented as ceph-osd prints it, with a line's end.
fn render(value: &Value) -> String {
    let mut out = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, indent);
    // Writing to memory cannot fail.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}
