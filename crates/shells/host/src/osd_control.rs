//! Single OSDs of a running process: stopped and started again.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use osd::Placement;
use serde_json::Value;
use types::OsdId;

use crate::HostError;
use crate::cluster::{Cluster, MON_CORE};
use crate::control::{OsdReply, OsdRequest};
use crate::core_main::{CoreCommand, OsdParts};
use crate::mon_command::{MonAnswer, MonCommand};
use crate::osds::OsdState;
use crate::replace::Former;

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
    /// What the OSD had before it got the store that it starts with.
    former: Option<Box<Former>>,
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
            Ok(Begun::Waits { note, former }) => {
                let until = Instant::now() + OSD_TIMEOUT;
                return self.waiting.push(WaitingRequest { request, reply, until, note, former });
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
                Ok(Begun::waits())
            }
            OsdState::Stopping => Ok(Begun::waits()),
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
            OsdState::Starting => return Ok(Begun::waits()),
            OsdState::Active | OsdState::Held => return Ok(Begun::Done(format!("osd.{osd}: runs already"))),
        }
        if !self.planner.description.store.is_durable() && !replace {
            return Err(format!(
                "the store 'mem' keeps nothing, so osd.{osd} would start with an empty one; --replace does that"
            ));
        }
        let started = if replace { self.replace(osd, confirmed) } else { self.start_osd(osd) };
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

    /// Opens an OSD's store, and has the cores run the OSD.
    fn start_osd(&mut self, osd: OsdId) -> Result<Begun, String> {
        let opened = self.open(osd, false).and_then(|opened| {
            self.dir.write_description(&self.planner.description)?;
            Ok(opened)
        });
        let opened = opened.map_err(|error| format!("osd.{osd}: {}", error.of_osd()))?;
        Ok(self.run(osd, opened, String::new()))
    }

    /// Has the cores run an OSD.
    pub(crate) fn run(&mut self, osd: OsdId, opened: OpenOsd, note: String) -> Begun {
        let OpenOsd { parts, placement, nonce } = opened;
        let state = if self.planner.boots(osd) { OsdState::Starting } else { OsdState::Held };
        self.osds.add(osd, placement, nonce, state);
        tracing::info!("osd.{osd} starts (asked to)");
        // The control part's core is the last: when that begins, the others have their parts.
        for (core, parts) in parts {
            self.send(core, CoreCommand::StartOsd(Box::new(parts)));
        }
        match self.planner.boots(osd) {
            true => Begun::Waits { note, former: None },
            false => Begun::Done(format!("osd.{osd}: open, and kept from booting (osd_debug_no_boot)")),
        }
    }

    /// Opens an OSD's store, or makes it (`is_new`).
    pub(crate) fn open(&mut self, osd: OsdId, is_new: bool) -> Result<OpenOsd, HostError> {
        let listeners = self.planner.bind(osd)?;
        let nonce = self.planner.next_nonce(self.osds.nonce(osd).unwrap_or(0))?;
        let plan = self.planner.plan(osd, listeners, nonce, is_new)?;
        let placement = plan.placement.clone();
        let parts = OsdParts::of(plan, &self.planner.values, &self.cores())?;
        Ok(OpenOsd { parts, placement, nonce })
    }

    /// What the monitor answers to a command; an error is what it refuses.
    pub(crate) fn mon(&self, command: Value) -> Result<MonAnswer, MonAnswer> {
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
            let outcome = match self.outcome(&request) {
                None => {
                    self.waiting.push(request);
                    continue;
                }
                Some(Ok(done)) => Ok(done + &request.note),
                Some(Err(why)) => Err(self.not_up(request.request.osd(), request.former, why, &request.note)),
            };
            // A peer that is gone needs no answer.
            let _ = request.reply.send(outcome);
        }
    }

    /// An OSD failed, or was stopped, on its way up. One that has a new store gets the former one back, if the monitor has never seen it
    /// up with the new one.
    fn not_up(&mut self, osd: OsdId, former: Option<Box<Former>>, why: String, note: &str) -> String {
        let has_failed = matches!(self.osds.state(osd), Some(OsdState::Failed(_)));
        match former.filter(|former| has_failed && self.can_come_back(osd, former)) {
            Some(former) => self.put_back(osd, *former, &why),
            None => why + note,
        }
    }

    fn outcome(&self, waiting: &WaitingRequest) -> Option<Result<String, String>> {
        let osd = waiting.request.osd();
        let state = self.osds.state(osd)?;
        match (waiting.request, state) {
            (_, OsdState::Stopped | OsdState::Failed(_)) if !self.osds.has_ended(osd) => None,
            (OsdRequest::Stop(_), OsdState::Stopped) => Some(Ok(format!("osd.{osd}: stopped"))),
            (OsdRequest::Start { .. }, OsdState::Active | OsdState::Held) => {
                Some(Ok(format!("osd.{osd}: up")))
            }
            (OsdRequest::Start { .. }, OsdState::Stopped) => {
                Some(Err(format!("osd.{osd} was stopped before it was up")))
            }
            (_, OsdState::Failed(reason)) => Some(Err(format!("osd.{osd} failed: {reason}"))),
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

/// An OSD whose store is open, and which no core runs yet.
pub(crate) struct OpenOsd {
    parts: Vec<(osd::CoreId, OsdParts)>,
    placement: Arc<Placement>,
    nonce: u32,
}

/// How far a request has got.
pub(crate) enum Begun {
    Done(String),
    /// It waits for the OSD.
    Waits {
        /// What is to be said beside that it is done.
        note: String,
        former: Option<Box<Former>>,
    },
}

impl Begun {
    fn waits() -> Self {
        Self::Waits { note: String::new(), former: None }
    }
}
