//! Single OSDs of a running process: stopped, started again, and given an empty store under the same number.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use types::OsdId;

use crate::HostError;
use crate::cluster::{Cluster, MON_CORE};
use crate::control::{OsdReply, OsdRequest};
use crate::core_main::{CoreCommand, OsdParts};
use crate::dir;
use crate::mon_command::{MonAnswer, MonCommand};
use crate::osds::OsdState;

/// How long an OSD may take to stop, or to take part.
const OSD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the monitor may take to answer a command.
const MON_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that an OSD has not got to the end of.
pub(crate) struct WaitingRequest {
    request: OsdRequest,
    reply: OsdReply,
    until: Instant,
    /// What is to be said beside that it is done.
    note: String,
}

impl OsdRequest {
    fn osd(self) -> OsdId {
        match self {
            Self::Stop(osd) | Self::Start { osd, .. } => osd,
        }
    }
}

impl Cluster {
    pub(crate) fn on_request(&mut self, request: OsdRequest, reply: OsdReply) {
        let begun = match request {
            OsdRequest::Stop(osd) => self.begin_stop(osd),
            OsdRequest::Start { osd, replace, confirmed } => self.begin_start(osd, replace, confirmed),
        };
        let answer = match begun {
            Ok(Begun::Waits(note)) => {
                let until = Instant::now() + OSD_TIMEOUT;
                return self.waiting.push(WaitingRequest { request, reply, until, note });
            }
            Ok(Begun::Done(text)) => Ok(text),
            Err(reason) => Err(reason),
        };
        // A peer that is gone needs no answer.
        let _ = reply.send(answer);
    }

    fn begin_stop(&mut self, osd: OsdId) -> Result<Begun, String> {
        match self.state(osd)? {
            OsdState::Stopped => Ok(Begun::Done(format!("osd.{osd}: not running"))),
            OsdState::Failed(reason) => {
                Ok(Begun::Done(format!("osd.{osd}: not running since it failed: {reason}")))
            }
            OsdState::Starting | OsdState::Active | OsdState::Held => {
                tracing::info!("osd.{osd} is to stop (asked to)");
                self.stop_osd(osd);
                Ok(Begun::Waits(String::new()))
            }
            OsdState::Stopping => Ok(Begun::Waits(String::new())),
        }
    }

    fn begin_start(&mut self, osd: OsdId, replace: bool, confirmed: bool) -> Result<Begun, String> {
        let state = self.state(osd)?;
        match state {
            OsdState::Stopped | OsdState::Failed(_) if self.osds.has_ended(osd) => {}
            OsdState::Stopped | OsdState::Failed(_) | OsdState::Stopping => {
                return Err(format!("osd.{osd} has not ended yet; try again"));
            }
            OsdState::Starting | OsdState::Active | OsdState::Held if replace => {
                return Err(format!(
                    "osd.{osd} runs, and its store is in use: stop it first, with loligo stop {} --osd {osd}",
                    self.dir.path().display()
                ));
            }
            OsdState::Starting => return Ok(Begun::Waits(String::new())),
            OsdState::Active | OsdState::Held => return Ok(Begun::Done(format!("osd.{osd}: runs already"))),
        }
        if !self.planner.description.store.is_durable() && !replace {
            return Err(format!(
                "the store 'mem' keeps nothing, so osd.{osd} would start with an empty one; --replace does that"
            ));
        }
        let started =
            if replace { self.replace(osd, confirmed) } else { self.start_osd(osd, false, String::new()) };
        if let (Err(reason), OsdState::Failed(_)) = (&started, &state) {
            tracing::error!("osd.{osd} can't be started again: {reason}");
        }
        started
    }

    fn state(&self, osd: OsdId) -> Result<OsdState, String> {
        match self.osds.state(osd) {
            Some(state) if self.planner.has(osd) => Ok(state.clone()),
            _ => Err(format!(
                "there is no osd.{osd} here: {} has those from 0 to {}",
                self.dir.path().display(),
                self.planner.description.osds.saturating_sub(1)
            )),
        }
    }

    /// Opens an OSD's store, or makes it (`is_new`), and has the cores run the OSD.
    fn start_osd(&mut self, osd: OsdId, is_new: bool, note: String) -> Result<Begun, String> {
        let parts = self.open(osd, is_new).map_err(|error| format!("osd.{osd}: {}", error.of_osd()))?;
        tracing::info!("osd.{osd} starts (asked to)");
        // The control part's core is the last: when that begins, the others have their parts.
        for (core, parts) in parts {
            self.send(core, CoreCommand::StartOsd(Box::new(parts)));
        }
        match self.planner.boots(osd) {
            true => Ok(Begun::Waits(note)),
            false => Ok(Begun::Done(format!("osd.{osd}: open, and kept from booting (osd_debug_no_boot)"))),
        }
    }

    fn open(&mut self, osd: OsdId, is_new: bool) -> Result<Vec<(osd::CoreId, OsdParts)>, HostError> {
        let listeners = self.planner.bind(osd)?;
        let nonce = self.planner.next_nonce(self.osds.nonce(osd).unwrap_or(0))?;
        let plan = self.planner.plan(osd, listeners, nonce, is_new)?;
        let placement = plan.placement.clone();
        let parts = OsdParts::of(plan, &self.planner.values, &self.cores())?;
        self.dir.write_description(&self.planner.description)?;
        let state = if self.planner.boots(osd) { OsdState::Starting } else { OsdState::Held };
        self.osds.add(osd, placement, nonce, state);
        Ok(parts)
    }

    /// Gives an OSD that does not run an empty store under its number, as a new disk's would be: `osd destroy`, mkfs with
    /// another id, `osd new`. Interrupted anywhere it leaves an OSD that does not start, and can be done again.
    fn replace(&mut self, osd: OsdId, confirmed: bool) -> Result<Begun, String> {
        self.destroy(osd, confirmed)?;
        let failed = |error: HostError| format!("osd.{osd} has no store now: {}", error.of_osd());
        let uuid = self.planner.renew_uuid(osd).map_err(failed)?;
        self.dir.write_description(&self.planner.description).map_err(failed)?;
        let mut note = ", with an empty store".to_owned();
        if self.planner.description.device_of(osd.0 as u32).is_some() {
            note += ": its device is written over";
        } else if self.planner.description.store.is_durable() {
            let aside = dir::move_store_aside(&self.planner.store_dir(osd)).map_err(failed)?;
            if let Some(aside) = aside {
                let log = match self.planner.description.log_device_of(osd.0 as u32) {
                    None => "",
                    Some(_) => ", without its log, which is written over",
                };
                note += &format!(
                    "\nIts former store is in {}{log}; remove that to have the space.",
                    aside.display()
                );
            }
        }
        self.mon(json!({ "prefix": "osd new", "uuid": uuid, "id": osd.to_string() }))
            .map_err(|answer| format!("osd.{osd} has no store now: {}", answer.status))?;
        if confirmed {
            note += "\nPGs whose only copy it had stay stale or unknown (`ceph pg ls` shows them) until each is made again, empty, by\n  \
                     ceph osd force-create-pg PGID --yes-i-really-mean-it";
        }
        self.start_osd(osd, true, note)
    }

    /// Has the monitor give up what an OSD held. It refuses where that would lose objects, unless `confirmed`.
    fn destroy(&mut self, osd: OsdId, confirmed: bool) -> Result<(), String> {
        let mut command = json!({ "prefix": "osd destroy", "id": osd.to_string() });
        if confirmed {
            command["yes_i_really_mean_it"] = true.into();
        }
        self.mon(command).map(drop).map_err(|answer| {
            let dir = self.dir.path().display();
            let why = answer.status.lines().next().unwrap_or_default();
            match confirmed {
                true => format!("osd.{osd} keeps its store: {why}"),
                false => format!(
                    "osd.{osd} keeps its store, for objects would be lost with it: {why} To give them up:\n  \
                     loligo start {dir} --osd {osd} --replace --yes-i-really-mean-it"
                ),
            }
        })
    }

    /// What the monitor answers to a command; an error is what it refuses.
    fn mon(&self, command: Value) -> Result<MonAnswer, MonAnswer> {
        let (sender, receiver) = channel();
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        self.send(MON_CORE, CoreCommand::Mon(MonCommand::Cluster(command), reply));
        match receiver.recv_timeout(MON_TIMEOUT) {
            Ok(answer) if answer.result == 0 => Ok(answer),
            Ok(refused) => Err(refused),
            Err(_) => Err(MonAnswer {
                result: types::Errno::ETIMEDOUT.code(),
                status: format!("the monitor does not answer within {} s", MON_TIMEOUT.as_secs()),
                data: Vec::new(),
            }),
        }
    }

    /// Answers the requests whose OSDs have got there.
    pub(crate) fn answer_requests(&mut self) {
        for request in std::mem::take(&mut self.waiting) {
            match self.outcome(&request) {
                // A peer that is gone needs no answer.
                Some(outcome) => drop(request.reply.send(outcome)),
                None => self.waiting.push(request),
            }
        }
    }

    fn outcome(&self, waiting: &WaitingRequest) -> Option<Result<String, String>> {
        let (osd, note) = (waiting.request.osd(), &waiting.note);
        let state = self.osds.state(osd)?;
        match (waiting.request, state) {
            (_, OsdState::Stopped | OsdState::Failed(_)) if !self.osds.has_ended(osd) => None,
            (OsdRequest::Stop(_), OsdState::Stopped) => Some(Ok(format!("osd.{osd}: stopped"))),
            (OsdRequest::Start { .. }, OsdState::Active | OsdState::Held) => {
                Some(Ok(format!("osd.{osd}: up{note}")))
            }
            (OsdRequest::Start { .. }, OsdState::Stopped) => {
                Some(Err(format!("osd.{osd} was stopped before it was up{note}")))
            }
            (_, OsdState::Failed(reason)) => Some(Err(format!("osd.{osd} failed: {reason}{note}"))),
            (OsdRequest::Stop(_), _)
            | (OsdRequest::Start { .. }, OsdState::Starting | OsdState::Stopping) => None,
        }
    }

    /// Answers the requests that have waited too long.
    pub(crate) fn give_up_late_requests(&mut self) {
        let now = Instant::now();
        let (late, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|w| w.until <= now);
        self.waiting = waiting;
        for request in late {
            let done = match request.request {
                OsdRequest::Stop(_) => "stopped",
                OsdRequest::Start { .. } => "up",
            };
            let (osd, seconds) = (request.request.osd(), OSD_TIMEOUT.as_secs());
            let log = self.dir.path().join("log");
            let text = format!("osd.{osd} is not {done} after {seconds} s; {} says why", log.display());
            let _ = request.reply.send(Err(text + &request.note));
        }
    }
}

/// How far a request has got.
enum Begun {
    Done(String),
    /// It waits for the OSD; what is to be said beside that it is done.
    Waits(String),
}
