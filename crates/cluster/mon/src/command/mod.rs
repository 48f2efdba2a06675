//! Commands: what clients ask in JSON and are answered in text or JSON.

mod absent;
pub mod args;
mod auth;
mod config;
mod config_history;
mod crush_change;
mod crush_map;
mod crush_place;
mod crush_rules;
mod daemon;
mod erasure;
mod manager;
mod mgr;
mod mon;
mod monitors;
mod not_yet;
mod osd;
mod osd_change;
mod osd_df;
mod osd_flags;
mod osd_life;
mod osd_remove;
mod osd_safety;
mod pg;
mod pg_num;
mod pg_stuck;
mod pool;
mod pool_show;
mod pool_snap;
mod pool_var;
mod report;
mod scrub;
mod services;
pub mod signature;
pub(crate) mod status;
mod tell;
mod tell_state;
mod upmap;
pub(crate) use mon::{legacy, legacy_addr, mon_status};
pub(crate) use osd::set_text as osd_set_text;
pub(crate) use status::ratio;
pub(crate) use tell_state::counters;

use std::collections::BTreeSet;

use ::auth::{Access, SessionId};
use maps::OsdMap;
use messages::Message;
use types::{Errno, Fsid, UTime};

use crate::audit::{Requester, shown_command};
use crate::event::MonEffect;
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::log::LogLine;
use crate::service::osdmap;
pub(crate) use args::{Args, ArgsError, Format};

/// A command: how it is described and what answers it.
pub struct Command {
    /// Words, and an argument a word: `name=…,type=…`. Names and types are Ceph's, so that its programs check them.
    pub signature: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The module that it is listed under.
    pub module: &'static str,
    /// The access it needs: letters of `rwx`.
    pub perm: &'static str,
    pub(crate) run: Run,
}

/// What answers a command.
type Run = fn(&mut Mon, &Call<'_>) -> Result<Answer, Failure>;

/// A command of the module `mon` that only reads.
const fn mon_r(signature: &'static str, help: &'static str, run: Run) -> Command {
    Command { signature, help, module: "mon", perm: "r", run }
}

/// A command of the module `mgr` that only reads.
const fn mgr_r(signature: &'static str, help: &'static str, run: Run) -> Command {
    Command { signature, help, module: "mgr", perm: "r", run }
}

/// A command of the module `osd` that only reads.
const fn osd_r(signature: &'static str, help: &'static str, run: Run) -> Command {
    Command { signature, help, module: "osd", perm: "r", run }
}

/// A command of the module `osd` that changes something.
const fn osd_rw(signature: &'static str, help: &'static str, run: Run) -> Command {
    Command { signature, help, module: "osd", perm: "rw", run }
}

/// Everything about one call of a command.
pub(crate) struct Call<'a> {
    pub args: &'a Args,
    pub format: Format,
    pub now: UTime,
    pub by: &'a Requester,
    /// Input: the file of `ceph -i`.
    pub data: &'a [u8],
}

/// What a command gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The sentence for the user, shown on stderr.
    pub status: String,
    /// Output, shown on stdout.
    pub data: Vec<u8>,
}

/// Why a command gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It can't be done, with a sentence that says why.
    Errno(Errno, String),
    /// The answer is no, with the output that says why.
    Shown(Errno, Answer),
    /// It has to wait for the proposal that is being gathered.
    Wait,
}

impl From<ArgsError> for Failure {
    fn from(error: ArgsError) -> Self {
        Self::Errno(Errno::EINVAL, error.to_string())
    }
}

impl From<crush::BuildError> for Failure {
    fn from(error: crush::BuildError) -> Self {
        Self::Errno(Errno::EINVAL, error.to_string())
    }
}

/// A failure with a sentence.
pub(crate) fn fail<T>(errno: Errno, sentence: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Errno(errno, sentence.into()))
}

impl Answer {
    /// Only a sentence.
    pub fn status(text: impl Into<String>) -> Self {
        Self { status: text.into(), data: Vec::new() }
    }

    /// Only output.
    pub fn data(data: impl Into<Vec<u8>>) -> Self {
        Self { status: String::new(), data: data.into() }
    }
}

impl Call<'_> {
    /// The OSDs that the argument `ids` names; all of the map for `*`.
    pub fn osds(&self, map: &OsdMap) -> Result<BTreeSet<i32>, Failure> {
        let mut osds = BTreeSet::new();
        for id in self.args.list("ids")? {
            match (id.as_str(), args::parse_osd(&id)) {
                ("*" | "all" | "any", _) => osds.extend(osdmap::osds(map)),
                (_, Some(osd)) => drop(osds.insert(osd)),
                _ => return fail(Errno::EINVAL, format!("'{id}' is not an OSD")),
            }
        }
        Ok(osds)
    }

    /// The output in the format asked for; text is made only when it is wanted.
    pub fn show(&self, json: impl FnOnce() -> Json, text: impl FnOnce() -> String) -> Answer {
        Answer::data(match self.format {
            Format::Plain => text(),
            Format::Json => json().compact(),
            Format::JsonPretty => json().pretty() + "\n",
        })
    }

    /// Output that is JSON even in plain form (indented).
    pub fn show_json(&self, json: Json) -> Answer {
        Answer::data(match self.format {
            Format::Json => json.compact(),
            Format::Plain | Format::JsonPretty => json.pretty() + "\n",
        })
    }
}

/// Every command, in the order that help shows them.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [
        status::COMMANDS,
        mon::COMMANDS,
        osd::COMMANDS,
        osd_df::COMMANDS,
        osd_change::COMMANDS,
        osd_flags::COMMANDS,
        osd_life::COMMANDS,
        osd_remove::COMMANDS,
        osd_safety::COMMANDS,
        erasure::COMMANDS,
        upmap::COMMANDS,
        crush_map::COMMANDS,
        crush_change::COMMANDS,
        crush_place::COMMANDS,
        crush_rules::COMMANDS,
        pool::COMMANDS,
        pool_snap::COMMANDS,
        pool_var::COMMANDS,
        pg::COMMANDS,
        pg_stuck::COMMANDS,
        config::COMMANDS,
        config_history::COMMANDS,
        auth::COMMANDS,
        manager::COMMANDS,
        mgr::COMMANDS,
        monitors::COMMANDS,
        monitors::SEVERAL_MONITORS,
        monitors::MANAGERS,
        report::COMMANDS,
        scrub::COMMANDS,
        services::COMMANDS,
        absent::COMMANDS,
        not_yet::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// What `get_command_descriptions` gives.
pub fn descriptions() -> Json {
    describe(all())
}

fn describe(commands: impl Iterator<Item = &'static Command>) -> Json {
    let mut out = Json::object();
    for (number, command) in commands.enumerate() {
        let description = Json::object()
            .with("sig", signature::describe(command.signature))
            .with("help", command.help)
            .with("module", command.module)
            .with("perm", command.perm)
            .with("flags", 0);
        out.put(&format!("cmd{number:03}"), description);
    }
    out
}

fn access(perm: &str) -> Access {
    perm.chars().fold(Access::READ, |sum, letter| match letter {
        'w' => sum | Access::WRITE,
        'x' => sum | Access::EXECUTE,
        _ => sum,
    })
}

/// Whom a command is for.
#[derive(Clone, Copy)]
pub(crate) enum CommandTarget {
    /// The cluster: `ceph COMMAND`.
    Cluster,
    /// This monitor, which is the manager: `ceph tell mon.ID COMMAND`, `ceph tell mgr COMMAND`.
    Daemon,
}

impl CommandTarget {
    fn commands(self) -> Box<dyn Iterator<Item = &'static Command>> {
        match self {
            Self::Cluster => Box::new(all()),
            Self::Daemon => Box::new(tell::told()),
        }
    }
}

/// A command's strings; they need not be UTF-8.
fn parts(cmd: &[types::Name]) -> Vec<&[u8]> {
    cmd.iter().map(types::Name::as_bytes).collect()
}

/// How a command that ran is to be answered.
enum CommandOutcome {
    Now(i32, Answer),
    WhenDurable(Answer),
    Wait,
}

impl CommandOutcome {
    fn foreign() -> Self {
        Self::Now(
            Errno::EPERM.code(),
            Answer::status("the command is for another cluster (its fsid differs)"),
        )
    }
}

impl Mon {
    /// Whether a command that names this cluster is for another one. Some name none.
    fn is_foreign(&self, fsid: Fsid) -> bool {
        !fsid.is_zero() && fsid != self.config.fsid
    }

    /// A command from `ceph` or librados.
    pub(crate) fn mon_command(
        &mut self,
        now: UTime,
        session: SessionId,
        m: messages::MonCommand,
        out: &mut Vec<MonEffect>,
    ) {
        let before = self.pending.map_changes;
        let outcome = match self.is_foreign(m.fsid) {
            true => CommandOutcome::foreign(),
            false => self.run_command(now, session, CommandTarget::Cluster, &parts(&m.cmd), &m.data.to_vec()),
        };
        let reply = |version: u64, result: i32, answer: Answer| -> Message {
            messages::MonCommandAck {
                tid: m.tid,
                paxos: messages::Paxos::at(version),
                result,
                status: answer.status,
                cmd: m.cmd.clone(),
                data: answer.data.into(),
            }
            .into()
        };
        let version = u64::from(self.osdmap.epoch.0);
        match outcome {
            CommandOutcome::Now(result, answer) => {
                out.push(MonEffect::Send { session, message: reply(version, result, answer) });
            }
            CommandOutcome::WhenDurable(answer) => {
                let message = reply(version + 1, 0, answer);
                let audit = self.audit_command(now, session, &parts(&m.cmd));
                self.defer_reply(before, session, message, audit);
            }
            CommandOutcome::Wait => self.wait(session, m.into(), out),
        }
    }

    fn run_command<T: AsRef<[u8]>>(
        &mut self,
        now: UTime,
        session: SessionId,
        whom: CommandTarget,
        parts: &[T],
        data: &[u8],
    ) -> CommandOutcome {
        let before = self.pending.changes;
        let map_changes = self.pending.map_changes;
        let outcome = self.find_and_run(now, session, whom, parts, data).map(|mut answer| {
            if self.pending.map_changes != map_changes {
                let warning = self.warn_of_moves();
                let between = if answer.status.is_empty() || warning.is_empty() { "" } else { "\n" };
                answer.status = format!("{}{between}{warning}", answer.status.trim_end());
            }
            answer
        });
        match outcome {
            Ok(answer) if self.pending.changes != before => CommandOutcome::WhenDurable(answer),
            Ok(answer) => CommandOutcome::Now(0, answer),
            Err(Failure::Errno(errno, sentence)) => {
                CommandOutcome::Now(errno.code(), Answer::status(sentence))
            }
            Err(Failure::Shown(errno, answer)) => CommandOutcome::Now(errno.code(), answer),
            Err(Failure::Wait) => CommandOutcome::Wait,
        }
    }

    fn find_and_run<T: AsRef<[u8]>>(
        &mut self,
        now: UTime,
        session: SessionId,
        whom: CommandTarget,
        parts: &[T],
        data: &[u8],
    ) -> Result<Answer, Failure> {
        let args = Args::parse(parts)?;
        let prefix = args.prefix()?;
        if prefix == "get_command_descriptions" {
            return Ok(Answer::data(describe(whom.commands()).compact()));
        }
        let named = whom.commands().find(|c| signature::prefix(c.signature) == prefix);
        let Some(command) = named.or_else(|| not_yet::covering(prefix)) else {
            return fail(Errno::EINVAL, format!("command '{prefix}' is unknown"));
        };
        let known = self.sessions.get(&session).map(|s| (s.info.caps, Requester::from(&s.info)));
        let Some((_, by)) = known.filter(|(caps, _)| caps.permits(access(command.perm))) else {
            return fail(Errno::EACCES, format!("'{prefix}' needs the capability '{}'", command.perm));
        };
        if command.perm.contains('w') && self.is_proposing() {
            return Err(Failure::Wait);
        }
        let format = args.format()?;
        (command.run)(self, &Call { args: &args, format, now, by: &by, data })
    }

    /// The audit's line of a command that changed something.
    fn audit_command<T: AsRef<[u8]>>(
        &mut self,
        now: UTime,
        session: SessionId,
        parts: &[T],
    ) -> Option<LogLine> {
        self.audit_line(now, session, &format!("cmd='[{}]'", shown_command(parts)))
    }

    /// Takes a part of the map for a change, or waits.
    pub(crate) fn claim_or_wait(&mut self, what: crate::mon::Claim) -> Result<(), Failure> {
        if self.claim(what) { Ok(()) } else { Err(Failure::Wait) }
    }

    /// Takes several parts of the map for a change, or none of them and waits.
    pub(crate) fn claim_all_or_wait(&mut self, all: &[crate::mon::Claim]) -> Result<(), Failure> {
        if all.iter().any(|what| self.pending.claimed.contains(what)) {
            return Err(Failure::Wait);
        }
        self.pending.claimed.extend(all.iter().cloned());
        Ok(())
    }
}
