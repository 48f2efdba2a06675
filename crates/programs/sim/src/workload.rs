//! The clients' operations, and the record of their results.

use objecter::{Outcome, Request, RequestId};
use types::{Epoch, Errno, SnapContext, SnapId};

use crate::Place;
use crate::history::{Action, End, Operation, Seen, contents};
use crate::model::Context;
use crate::plan::{LARGE_STORE, SnapKind};
use crate::world::{Happening, World};

/// Operations on an object after which another takes its place.
const OPERATIONS_PER_OBJECT: usize = 120;
/// Operations without an answer on an object after which another takes its place: each may still take effect at any
/// moment, which makes a history costly to check.
const UNKNOWN_PER_OBJECT: usize = 6;

/// Operations that a client has under way at most while it is being fenced.
const DOOMED_WINDOW: usize = 6;
/// Its mean time between two, nanoseconds.
const DOOMED_THINK: u64 = 2_000_000;

/// What a burst of operations changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    Any,
    /// Some make the object larger and some do not: a full pool holds back the former alone.
    Sizes,
}

/// Operations that a client is to begin on one object.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub index: usize,
    pub life: u32,
    pub slot: usize,
    pub left: u32,
    pub mix: Mix,
}

/// An object that clients use now.
pub struct Slot {
    pub object: usize,
    generation: usize,
    pub operations: usize,
    pub unknown: usize,
}

impl Slot {
    pub fn of(object: usize) -> Self {
        Self { object, generation: 0, operations: 0, unknown: 0 }
    }

    /// Whether another object is to take its place.
    pub fn is_used_up(&self) -> bool {
        self.operations >= OPERATIONS_PER_OBJECT || self.unknown >= UNKNOWN_PER_OBJECT
    }

    /// The number of the next object.
    pub fn next(&self) -> usize {
        self.generation + 1
    }

    /// Begins with another object.
    pub fn begin(&mut self, object: usize) {
        *self = Self { generation: self.next(), ..Self::of(object) };
    }
}

impl World {
    pub(crate) fn make_slots(&mut self) {
        for slot in 0..self.plan.objects {
            let object = self.history.object(format!("obj{slot}-0"));
            self.slots.push(Slot::of(object));
        }
    }

    /// Begins an operation of a client, or none, and sets the time of the next one.
    pub(crate) fn think(&mut self, index: usize, life: u32) {
        let client = &self.clients[index];
        if client.life != life || !client.alive || self.is_healing || index == self.admin() {
            return;
        }
        // A client that is being fenced sends more, all to one object: the fence then meets requests that wait there.
        let is_doomed = self.fenced.contains(&(index, life));
        let window = self.plan.window.max(if is_doomed { DOOMED_WINDOW } else { 0 });
        // A program has a map before it begins. (What it learns of snapshots is then as new as its map: of what is removed
        // earlier it would never hear.)
        let may_begin = self.pool.is_some() && client.core.epoch() > Epoch(0) && !client.is_fenced;
        let may_begin = may_begin && client.requests.len() < window;
        if may_begin && (is_doomed || !self.turn_to_source(index)) {
            self.begin_operation(index, is_doomed.then_some(life as usize), None);
        }
        let most = if is_doomed { DOOMED_THINK } else { self.plan.think };
        let pause = self.random(2 * most);
        self.after(pause, Happening::Think(index, life));
    }

    /// Begins an operation of a burst on the object of a slot, and the next one a moment later.
    pub(crate) fn go_on_with_burst(&mut self, burst: Burst) {
        let Burst { index, life, slot, left, mix } = burst;
        let client = &self.clients[index];
        let may_begin = self.pool.is_some() && client.core.epoch() > Epoch(0) && !client.is_fenced;
        if client.life != life || !client.alive || self.is_healing || !may_begin || left == 0 {
            return;
        }
        if client.requests.len() < self.plan.window.max(DOOMED_WINDOW) {
            let action = (mix == Mix::Sizes).then(|| self.some_change_of_size(left));
            self.begin_operation(index, Some(slot), action);
        }
        let pause = self.random(2 * DOOMED_THINK);
        self.after(pause, Happening::Burst(Burst { left: left - 1, ..burst }));
    }

    /// Begins an operation on the object of some slot, or of this one: some operation, or this one.
    fn begin_operation(&mut self, index: usize, slot: Option<usize>, action: Option<Action>) {
        let slots = self.slots.len();
        let at = slot.map_or_else(|| self.random(slots as u64) as usize, |slot| slot % slots);
        if self.slots[at].is_used_up() {
            if self.plan.store_bytes < LARGE_STORE {
                // What nobody uses any more takes no room.
                self.begin(index, self.slots[at].object, Action::Remove);
            }
            let object = self.history.object(format!("obj{at}-{}", self.slots[at].next()));
            self.slots[at].begin(object);
        }
        let slot = &mut self.slots[at];
        slot.operations += 1;
        let object = slot.object;
        let action = action.unwrap_or_else(|| self.some_action(object));
        self.begin(index, object, action);
    }

    /// A client that runs reads an object, unless all is over.
    pub(crate) fn read_again(&mut self, object: usize) {
        let index = self.random(self.plan.clients as u64) as usize;
        let client = &self.clients[index];
        if client.alive && !client.is_fenced && !self.is_healing && client.core.epoch() > Epoch(0) {
            self.begin(index, object, Action::Read);
        }
    }

    /// Of a burst of which so many operations are left.
    fn some_change_of_size(&mut self, left: u32) -> Action {
        // While a copy waits for its source, what follows waits for the object.
        if let Some(copy) = self.some_copy() {
            return copy;
        }
        match left {
            // It waits until what was written before it is durable, and what follows waits for it.
            5 => Action::Read,
            _ if left % 2 == 0 => Action::Append { blocks: 1 },
            _ => Action::Write { at: 0, blocks: 1 },
        }
    }

    pub(crate) fn some_action(&mut self, object: usize) -> Action {
        let most = self.plan.blocks_max as u64;
        let blocks = 1 + self.random(most) as usize;
        if let Some(copy) = self.some_copy() {
            return copy;
        }
        let which = self.random(if self.plan.snaps == SnapKind::None { 20 } else { 26 });
        if which >= 20 {
            let random = self.random(1 << 16);
            return match self.snaps.some(random) {
                Some(snap) if which >= 24 => Action::Rollback { snap },
                Some(snap) => Action::ReadAt { snap },
                None => Action::Append { blocks: 1 },
            };
        }
        match which {
            0..5 => Action::Read,
            5..11 => Action::Append { blocks: 1 },
            11..13 => Action::WriteFull { blocks },
            13..16 => Action::Write { at: self.random(most) as usize, blocks },
            16 => Action::Truncate { blocks: self.random(most) as usize },
            17 => Action::Remove,
            18 => Action::Create,
            _ => {
                // One of the latest changes: perhaps the last.
                let recent: Vec<u64> = self.history.of_object(object).map(|op| op.mark).collect();
                let back = self.random(3) as usize;
                let expected = recent.iter().rev().nth(back).copied().unwrap_or(1);
                Action::Swap { expected, blocks }
            }
        }
    }

    /// Begins an operation of a client.
    pub(crate) fn begin(&mut self, index: usize, object: usize, action: Action) {
        self.begin_holding(index, object, action, None);
    }

    /// The same of one that holds an image's lock.
    pub(crate) fn begin_holding(
        &mut self,
        index: usize,
        object: usize,
        action: Action,
        hold: Option<(usize, u64)>,
    ) {
        let mark = self.history.operations.len() as u64 + 1;
        let name = self.history.objects[object].clone();
        // No operation is begun before its pool is there.
        let Some(pool) = self.pool_of(object) else { return };
        let from = match action {
            Action::Copy { source } => {
                // Nor a copy before its source's is.
                let Some(from) = self.pool_of(source) else { return };
                (from, self.history.objects[source].clone())
            }
            _ => (pool, String::new()),
        };
        let mut request = Request::on(pool, name.as_str(), action.ops(mark, (from.0, &from.1)));
        if let Action::ReadAt { snap } = action {
            request.snapid = SnapId(snap);
        }
        // A snapshot is of one pool.
        let own = self.plan.snaps == SnapKind::Own && action.writes() && !self.is_elsewhere(object);
        let context = if own { self.snaps.context() } else { Context::default() };
        let snaps = context.snaps.iter().copied().map(SnapId).collect();
        request.snapc = SnapContext { seq: context.seq, snaps };
        let client = &self.clients[index];
        let operation = Operation {
            mark,
            object,
            client: index,
            life: client.life,
            action: action.clone(),
            context,
            hold,
            began: self.history.stamp(),
            epoch: client.core.epoch().0,
            logged: (0, 0),
            end: None,
            times: (self.now, 0),
        };
        let place = self.history.operations.len();
        self.history.operations.push(operation);
        self.say(Place::Client(index), &format!("begins {mark} on {name}: {action:?}"));
        let submitted = self.with_client(index, |core, now, out| core.submit(now, request, out));
        match submitted {
            // It may have ended within.
            Ok(id) => {
                let client = &mut self.clients[index];
                client.requests.insert(id, place);
                self.requests.insert((client.global_id as i64, id.0), place);
            }
            Err(_) => self.end(place, (0, 0), Seen::NoEffect),
        }
    }

    pub(crate) fn operation_done(&mut self, index: usize, id: RequestId, outcome: &Outcome) {
        if self.call_done(index, id, outcome) || self.part_done(index, id, outcome) {
            return;
        }
        if self.clients[index].unwatches.remove(&id) {
            if outcome.result() == Errno::ESHUTDOWN.code() {
                self.fenced_client_learns(index);
            }
            return;
        }
        let Some(place) = self.clients[index].requests.remove(&id) else {
            return self.fail(format!("client{index} got an answer to {id:?}, which is not under way"));
        };
        let operation = &self.history.operations[place];
        let answer = match outcome {
            Outcome::Replied { epoch, user_version, .. } => (epoch.0, *user_version),
            Outcome::Ended { .. } => (0, 0),
        };
        let damaged = self.damaged.contains(&self.history.objects[operation.object]);
        match seen(operation, outcome, damaged) {
            Ok(seen) => {
                if outcome.result() == Errno::ESHUTDOWN.code() {
                    self.fenced_client_learns(index);
                }
                self.end(place, answer, seen);
            }
            Err(result) => {
                let (mark, name) = (operation.mark, &self.history.objects[operation.object]);
                self.fail(format!("operation {mark} on {name} has the result {result}"));
            }
        }
    }

    fn end(&mut self, place: usize, (epoch, version): (u32, u64), seen: Seen) {
        let at = self.history.stamp();
        let now = self.now;
        let operation = &mut self.history.operations[place];
        operation.times.1 = now;
        let (client, mark, object) = (operation.client, operation.mark, operation.object);
        let words = format!("ends {mark} on {}: {}", self.history.objects[object], brief(&seen));
        let unknown = seen == Seen::Unknown;
        operation.end = Some(End { at, epoch, version, seen });
        if unknown {
            let images = self.images.iter_mut().map(|image| &mut image.data);
            let slots = self.slots.iter_mut().chain(&mut self.sources).chain(images);
            slots.filter(|s| s.object == object).for_each(|s| s.unknown += 1);
        }
        self.say(Place::Client(client), &words);
    }
}

/// Contents in few words.
pub fn brief(seen: &Seen) -> String {
    match seen {
        Seen::Ok(Some(contents)) => {
            let blocks: Vec<String> =
                contents.blocks.iter().map(|w| format!("{}.{}", w >> 16, w & 0xffff)).collect();
            format!("mark {}, {} blocks {}", contents.mark, blocks.len(), blocks.join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// The answer that an outcome holds. An error: a result that no operation may have.
fn seen(operation: &Operation, outcome: &Outcome, damaged: bool) -> Result<Seen, i32> {
    let (result, ops) = match outcome {
        Outcome::Replied { result, ops, .. } => (*result, ops),
        Outcome::Ended { sent: false, .. } => return Ok(Seen::NoEffect),
        Outcome::Ended { errno: Errno::ETIMEDOUT, .. } => return Ok(Seen::Unknown),
        Outcome::Ended { errno, .. } => return Err(errno.code()),
    };
    let is = |errno: Errno| result == errno.code();
    let action = &operation.action;
    if result >= 0 {
        if action.writes() {
            return Ok(Seen::Ok(None));
        }
        let data = |i: usize| ops.get(i).map(|op| op.outdata.to_vec()).unwrap_or_default();
        return Ok(Seen::Ok(Some(contents(&data(0), &data(1)))));
    }
    if is(Errno::ESHUTDOWN) {
        // An earlier attempt may have taken effect, and its answer got lost.
        return Ok(Seen::Unknown);
    }
    if is(Errno::ENOSPC) && action.writes() {
        return Ok(Seen::NoEffect);
    }
    if is(Errno::EIO) && damaged {
        return Ok(Seen::NoEffect);
    }
    let (absent, exists, changed) = (Errno::ENOENT, Errno::EEXIST, Errno::ECANCELED);
    match action {
        Action::Read | Action::ReadAt { .. } | Action::Remove | Action::Swap { .. } | Action::Copy { .. }
            if is(absent) =>
        {
            Ok(Seen::Error(absent))
        }
        Action::Create if is(exists) => Ok(Seen::Error(exists)),
        Action::Swap { .. } if is(changed) => Ok(Seen::Error(changed)),
        _ => Err(result),
    }
}
