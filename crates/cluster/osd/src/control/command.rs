//! Commands sent to the OSD itself: `ceph tell osd.N ...`, `ceph pg PGID query`.

use auth::{Access, SessionInfo};
use buffer::Rope;
use messages::{Command, CommandReply};
use options::Values;
use serde_json::{Map, Value, json};
use types::{Errno, PgId, SpgId};

use super::Control;
use super::OsdPhase;
use super::superblock::trim_lower_bound;
use crate::parts::{Out, QueryId, ToShard};

/// A command's longest text. Stock clients' commands have some hundred bytes.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// A failed command: the error number and a sentence.
type Refusal = (Errno, String);

/// The commands: words, arguments (name, type, whether it must be given, whether it takes all words left), help.
type Signature = (&'static [&'static str], &'static [(&'static str, &'static str, bool, bool)], &'static str);

const COMMANDS: &[Signature] = &[
    (&["config", "diff"], &[], "options that differ from their defaults"),
    (&["config", "get"], &[("var", "CephString", true, false)], "an option's value"),
    (&["config", "help"], &[("var", "CephString", false, false)], "what an option is, or all of them"),
    (
        &["config", "set"],
        &[("var", "CephString", true, false), ("val", "CephString", true, true)],
        "set an option until the next restart",
    ),
    (&["config", "show"], &[], "all options that are effective here"),
    (&["config", "unset"], &[("var", "CephString", true, false)], "give an option its value from the start"),
    (&["get_command_descriptions"], &[], "list available commands"),
    (&["status"], &[], "what the OSD is doing"),
    (&["version"], &[], "the version that the OSD runs"),
];

impl Control {
    pub(super) fn handle_command(&mut self, peer: &SessionInfo, command: &Command, out: &mut Out) {
        let asked = QueryId { session: peer.id, tid: command.tid };
        let result = match peer.caps.permits(Access::ADMIN) {
            true => self.run_command(command, asked, out),
            false => Err((Errno::EACCES, "permission denied".into())),
        };
        match result {
            Ok(Some(value)) => answer(asked, Ok(value), out),
            // The answer of a PG's shard follows.
            Ok(None) => {}
            Err(refusal) => answer(asked, Err(refusal), out),
        }
    }

    /// A shard answers `pg PGID query`.
    pub(super) fn on_query_answer(&mut self, asked: QueryId, value: Option<Value>, out: &mut Out) {
        // Asked for, and removed in the meantime.
        let gone = || (Errno::ENOENT, "the pg has just been removed".to_owned());
        answer(asked, value.ok_or_else(gone), out);
    }

    /// Runs a command. `None`: the answer comes from a shard.
    fn run_command(
        &mut self,
        command: &Command,
        asked: QueryId,
        out: &mut Out,
    ) -> Result<Option<Value>, Refusal> {
        let (prefix, args) = parse(command)?;
        match prefix.as_str() {
            "get_command_descriptions" => Ok(Some(descriptions())),
            "version" => Ok(Some(self.version())),
            "status" => Ok(Some(self.status())),
            "pg" | "query" => self.pg_command(&args, asked, out).map(|()| None),
            _ => match prefix.strip_prefix("config ") {
                Some(verb) => self.config_command(verb, &args, out).map(Some),
                None => Err((Errno::EINVAL, format!("unknown command '{prefix}'"))),
            },
        }
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
            "cluster_osdmap_trim_lower_bound": trim_lower_bound(&self.superblock).0,
            "num_pgs": self.pgs.len(),
        })
    }

    fn stored_maps(&self) -> u32 {
        self.superblock.newest_map.0.saturating_sub(self.superblock.oldest_map.0) + 1
    }

    fn pg_command(&self, args: &Map<String, Value>, asked: QueryId, out: &mut Out) -> Result<(), Refusal> {
        let text = args.get("pgid").and_then(Value::as_str).unwrap_or_default();
        let pgid: PgId = text.parse().map_err(|e| (Errno::EINVAL, format!("{e}")))?;
        let cmd = args.get("cmd").and_then(Value::as_str).unwrap_or("query");
        if cmd != "query" {
            return Err((Errno::EOPNOTSUPP, format!("'pg {text} {cmd}' is not there yet")));
        }
        let spg = SpgId::from(pgid);
        let Some(shard) = self.pgs.shard_of(&spg) else {
            return Err((Errno::ENOENT, format!("i don't have pgid {pgid}")));
        };
        out.send_shard(shard, ToShard::Query { pgid: spg, asked });
        Ok(())
    }

    fn option_text(&self, spec: &options::OptionSpec) -> &str {
        self.options.text(spec.name).unwrap_or(spec.default)
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
            None => Err((Errno::ENOENT, format!("no option '{name}' is effective here"))),
        };
        match verb {
            "get" => {
                let name = named()?;
                let value = self.option_text(known(&name)?);
                Ok(json!({ name: value }))
            }
            "show" => {
                let all = options::all().iter().map(|s| (s.name.to_string(), self.option_text(s).into()));
                Ok(Value::Object(all.collect()))
            }
            "diff" => {
                let diff = options::all().iter().filter(|s| self.option_text(s) != s.default);
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
                let spec = known(&name)?;
                let value = args.get("val").map(words).unwrap_or_default();
                // Tried apart first: what does not fit changes nothing.
                Values::new().set(&name, &value).map_err(|e| (Errno::EINVAL, e.to_string()))?;
                self.overrides.insert(name.clone(), value.clone());
                self.merge_options(out);
                let note = if spec.runtime { "" } else { " (may need a restart)" };
                Ok(json!({ "success": format!("{name} = '{value}'{note}") }))
            }
            "unset" => {
                let name = named()?;
                self.overrides.remove(known(&name)?.name);
                self.merge_options(out);
                Ok(json!({ "success": "" }))
            }
            _ => Err((Errno::EINVAL, format!("unknown command 'config {verb}'"))),
        }
    }
}

/// A command's prefix and arguments.
fn parse(command: &Command) -> Result<(String, Map<String, Value>), Refusal> {
    let bad = |what: &str| (Errno::EINVAL, format!("not a command: {what}"));
    let text = command.cmd.first().ok_or_else(|| bad("it is empty"))?;
    if text.len() > COMMAND_BYTES_MAX {
        return Err((Errno::E2BIG, "the command is too long".into()));
    }
    let args: Map<String, Value> = serde_json::from_slice(text).map_err(|e| bad(&e.to_string()))?;
    let prefix = args.get("prefix").and_then(Value::as_str).ok_or_else(|| bad("it has no prefix"))?;
    Ok((prefix.to_owned(), args))
}

fn answer(asked: QueryId, result: Result<Value, Refusal>, out: &mut Out) {
    let (result, status, data) = match result {
        Ok(value) => (0, String::new(), Rope::from(render(&value).into_bytes())),
        Err((errno, sentence)) => (errno.code(), sentence, Rope::new()),
    };
    out.send_session(asked.session, CommandReply { tid: asked.tid, result, status, data });
}

/// An argument that takes all words left comes as an array.
fn words(value: &Value) -> String {
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
                { "name": "cmd", "strings": "query", "type": "CephChoices" }],
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
