//! The parts of an OSD that are on one core, as one value.

use std::collections::VecDeque;
use std::sync::Arc;

use messages::OsdOp;
use store::StoreShard;
use types::{Epoch, SpgId, UTime};

use crate::control::{Control, OsdPhase};
use crate::gate::Gate;
use crate::parts::{Out, PartMessage, PgPlace, Stores, To, ToControl, ToShard, Touched};
use crate::shard::Shard;
use crate::{CoreId, OsdConfig, OsdEffect, OsdEvent, Placement};

/// The parts of one OSD on one core. Messages between them go through a queue in memory; one for a part elsewhere is
/// [`OsdEffect::ToCore`].
pub struct Osd {
    core: CoreId,
    placement: Arc<Placement>,
    /// On the core of store shard 0: its own records are in that shard.
    control: Option<Control>,
    gate: Option<Gate>,
    shards: Vec<Shard>,
    inbox: VecDeque<To>,
    /// [`OsdEffect::Continue`] was given, and its event has not come.
    continues: bool,
    /// The most work that maps were in one event.
    map_work_max: usize,
    /// It has stopped or failed, and does nothing any more.
    stopped: bool,
}

impl Osd {
    /// A whole OSD on one core, with one shard. Nothing happens before [`OsdEvent::Start`].
    pub fn new(config: OsdConfig) -> Self {
        Self::on_core(config, CoreId(0), Arc::new(Placement::one_core(1)))
    }

    /// The parts that `placement` puts on `core`. Every core of the placement needs its parts.
    pub fn on_core(config: OsdConfig, core: CoreId, placement: Arc<Placement>) -> Self {
        let limits = crate::config::limits(&config.options, placement.gates().len());
        let (whoami, control_core) = (config.whoami, placement.control());
        let gate = placement.gates().contains(&core).then(|| Gate::new(core, whoami, limits));
        let shards = placement.shards_of(core).map(|shard| Shard::new(shard, whoami)).collect();
        let control = (core == control_core).then(|| Control::new(config, placement.clone()));
        // Each event holds it: a count of holders that cores share would go from one to another each time.
        let placement = Arc::new(Placement::clone(&placement));
        Self {
            core,
            placement,
            control,
            gate,
            shards,
            inbox: VecDeque::new(),
            continues: false,
            map_work_max: 0,
            stopped: false,
        }
    }

    /// Where the OSD is in its life; only where the control part is.
    pub fn state(&self) -> OsdPhase {
        self.control.as_ref().map_or(OsdPhase::Initializing, |control| control.state())
    }

    /// The epoch of the control part's map.
    pub fn epoch(&self) -> Epoch {
        self.control.as_ref().map_or(Epoch(0), |control| control.epoch())
    }

    /// Switches a defect of its PGs on, before the start.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, planted: pg::Planted) {
        if let Some(control) = &mut self.control {
            control.plant(planted);
        }
    }

    /// The PGs of this core's shards.
    pub fn pg_ids(&self) -> Vec<SpgId> {
        self.shards.iter().flat_map(Shard::pg_ids).collect()
    }

    /// Client messages of this core's sessions that are held until their replies, and their bytes.
    pub fn held(&self) -> (u64, u64) {
        self.gate.as_ref().map_or((0, 0), |gate| gate.held())
    }

    /// Object contexts that the PGs of this core's shards hold.
    pub fn object_contexts(&self) -> usize {
        self.shards.iter().map(Shard::object_contexts).sum()
    }

    /// The most work that maps were in one event, in looks at a PG that stays what it is.
    pub fn map_work_max(&self) -> usize {
        self.map_work_max
    }

    /// When [`OsdEvent::Tick`] is due next, if ever.
    pub fn deadline(&self) -> Option<UTime> {
        let control = self.control.as_ref().filter(|_| !self.stopped).and_then(|control| control.deadline());
        let shards = self.shards.iter().filter(|_| !self.stopped && !self.is_failing());
        control.into_iter().chain(shards.filter_map(Shard::deadline)).min()
    }

    /// Whether it has stopped or failed: nothing has an effect on these parts any more.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Takes an event. After [`OsdEffect::Stopped`] or [`OsdEffect::Failed`] nothing has an effect, nor has it on other
    /// cores once they have the message that says so. `stores` is the memory
    /// of the stores of this core's shards, which must have got every transaction that earlier events gave.
    pub fn handle(&mut self, now: UTime, event: OsdEvent, stores: &mut dyn Stores, out: &mut Vec<OsdEffect>) {
        if self.stopped {
            return;
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        let placement = self.placement.clone();
        let mut out = Out::new(out, &mut inbox, stores, self.core, &placement, now);
        let was_failing = self.is_failing();
        match &mut self.control {
            Some(control) if was_failing => control.on_event_failing(now, event, &mut out),
            _ => self.on_event(now, event, &mut out),
        }
        while let Some(message) = out.next_message() {
            if self.is_done() || self.is_failing() {
                out.clear_messages();
                break;
            }
            self.deliver(now, message, &mut out);
        }
        let fails = self.is_failing() && !was_failing;
        if let Some(control) = self.control.as_mut().filter(|_| fails) {
            control.report_failure(now, &mut out);
        }
        self.stopped = self.is_done();
        if fails || self.stopped && !was_failing && self.control.is_some() {
            for core in placement.all_cores().into_iter().filter(|core| *core != self.core) {
                out.send(To::Stop(core));
            }
        }
        self.map_work_max = self.map_work_max.max(out.work());
        if !self.stopped && !self.is_failing() && !self.continues && self.has_work() {
            self.continues = true;
            out.push(OsdEffect::Continue);
        }
        self.inbox = inbox;
        debug_assert_eq!(self.check(), Ok(()));
    }

    /// Brings closer to the processor what a request will need of a PG's memory. `None`: it is on another core, or not there.
    pub fn touch(&self, op: &OsdOp) -> Option<Touched> {
        self.touch_at(self.gate.as_ref()?.place_of(&op.pgid)?, op.hash)
    }

    /// The same for a message that may bring one from another core.
    pub fn touch_for(&self, message: &PartMessage) -> Option<Touched> {
        match &message.0 {
            To::Shard(shard, ToShard::Request { slot, op, .. }) => {
                self.touch_at(PgPlace { shard: *shard, slot: *slot }, op.op.hash)
            }
            _ => None,
        }
    }

    fn touch_at(&self, PgPlace { shard, slot }: PgPlace, hash: u32) -> Option<Touched> {
        self.shards.iter().find(|of| of.id() == shard)?.touch(slot, hash);
        Some(Touched { shard, hash })
    }

    fn has_work(&self) -> bool {
        self.shards.iter().any(Shard::has_work) || self.control.as_ref().is_some_and(Control::has_work)
    }

    fn is_done(&self) -> bool {
        self.stopped || self.control.as_ref().is_some_and(|control| control.state() == OsdPhase::Stopped)
    }

    fn is_failing(&self) -> bool {
        self.control.as_ref().is_some_and(Control::is_failing)
    }

    fn on_event(&mut self, now: UTime, event: OsdEvent, out: &mut Out) {
        match event {
            OsdEvent::SessionOpened(info) => self.gate(out, |gate, out| gate.open(info, out)),
            OsdEvent::SessionClosed(session) => self.gate(out, |gate, out| gate.close(session, out)),
            OsdEvent::SessionBehind { session, is_behind } => {
                self.gate(out, |gate, out| gate.on_behind(session, is_behind, out));
            }
            OsdEvent::Message { session, message, bytes } => {
                self.gate(out, |gate, out| gate.on_message(session, message, bytes, out));
            }
            OsdEvent::Store(shard, completion) => {
                match (Shard::is_controls(completion.token()), &mut self.control) {
                    (true, Some(control)) => control.on_completion(now, completion, out),
                    (true, None) => {
                        out.broken("the store completes a request of the control part, elsewhere")
                    }
                    (false, _) => self.shard(shard, out, |s, out| s.on_completion(now, completion, out)),
                }
            }
            OsdEvent::FromCore(message) => out.send(message.0),
            OsdEvent::Broken(what) => out.send_control(ToControl::Failed(what)),
            OsdEvent::Continue => {
                self.continues = false;
                for shard in &mut self.shards {
                    shard.go_on(now, out);
                    shard.collect_stats(now, out);
                    shard.tell_purged(now, out);
                }
                if let Some(control) = &mut self.control {
                    control.go_on_creating(out);
                }
            }
            OsdEvent::Tick => {
                if let Some(control) = &mut self.control {
                    control.on_event(now, event, out);
                }
                self.shards.iter_mut().for_each(|shard| shard.tick(now, out));
            }
            OsdEvent::Start
            | OsdEvent::Mon(_)
            | OsdEvent::PeerLost(_)
            | OsdEvent::Rebound(_)
            | OsdEvent::AdminCommand { .. }
            | OsdEvent::Surroundings(_)
            | OsdEvent::Shutdown => {
                if let Some(control) = &mut self.control {
                    control.on_event(now, event, out);
                }
            }
        }
    }

    fn deliver(&mut self, now: UTime, to: To, out: &mut Out) {
        match (to, &mut self.control) {
            (To::Control(message), Some(control)) => control.handle(now, message, out),
            (To::Control(_), None) => out.broken("a message for the control part, which is elsewhere"),
            (To::Gate(_, message), _) => self.gate(out, |gate, out| gate.handle(message, out)),
            (To::Shard(shard, message), _) => {
                self.shard(shard, out, |s, out| s.handle(now, message, out));
            }
            (To::Stop(_), _) => self.stopped = true,
        }
    }

    fn gate<'a>(&mut self, out: &mut Out<'a>, f: impl FnOnce(&mut Gate, &mut Out<'a>)) {
        match &mut self.gate {
            Some(gate) => f(gate, out),
            None => out.broken("something for a gate, which is on another core"),
        }
    }

    fn shard<'a>(&mut self, id: StoreShard, out: &mut Out<'a>, f: impl FnOnce(&mut Shard, &mut Out<'a>)) {
        match self.shards.iter_mut().find(|shard| shard.id() == id) {
            Some(shard) => f(shard, out),
            None => out.broken(format!("something for shard {}, which is on another core", id.0)),
        }
    }

    /// The first of the parts' invariants that does not hold. Nothing holds of an OSD that has stopped or fails.
    ///
    /// # Errors
    /// What is wrong: a bug.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.stopped || self.is_failing() {
            return Ok(());
        }
        self.control.as_ref().map_or(Ok(()), Control::check)?;
        self.gate.as_ref().map_or(Ok(()), Gate::check)?;
        self.shards.iter().try_for_each(Shard::check)?;
        if self.placement.cores() > 1 {
            // What one part knows of another is on its way, perhaps.
            return Ok(());
        }
        let (Some(control), Some(gate)) = (&self.control, &self.gate) else {
            return Err("an OSD on one core lacks a part");
        };
        control.check_shards(&self.shards)?;
        gate.check_shards(&self.shards)
    }
}
