//! Objects that clients watch and notify: every live watch gets a notify, or its outcome names the watch as one that has
//! not answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use messages::Blob;
use messages::osd_op::{Op, OpArgs, OpCode};
use objecter::{NotifyId, NotifyOutcome, Request, WatchEvent, WatchId};
use types::Errno;

use crate::Place;
use crate::images::Call;
use crate::plan::{Fault, LARGE_STORE, SECOND};
use crate::world::{Happening, World};

/// How long a notify waits for its watchers.
const PATIENCE: Duration = Duration::from_secs(8);

/// A watch.
#[derive(Debug)]
struct Watch {
    note: usize,
    client: usize,
    life: u32,
    /// The client's global id and the watch's cookie, by which outcomes name it.
    name: (u64, u64),
    /// When its client first knew that it is there.
    connected: Option<u64>,
    /// When its client began to end it, or knew that it has ended.
    ended: Option<u64>,
}

/// A notify.
#[derive(Debug)]
struct Notify {
    note: usize,
    payload: String,
    began: u64,
    end: Option<(u64, NotifyOutcome)>,
}

/// What clients did with the watched objects.
#[derive(Default)]
pub struct Notes {
    watches: Vec<Watch>,
    notifies: Vec<Notify>,
    /// Answers that watchers gave: the notify's payload and the watch's name.
    acks: BTreeSet<(String, (u64, u64))>,
    watch_at: BTreeMap<(usize, u32, WatchId), usize>,
    notify_at: BTreeMap<(usize, u32, NotifyId), usize>,
}

fn object(note: usize) -> String {
    format!("note{note}")
}

fn text(blob: &Blob) -> String {
    String::from_utf8_lossy(&blob.0).into_owned()
}

fn blob(text: &str) -> Blob {
    Blob(text.as_bytes().to_vec().into())
}

impl World {
    /// Makes the objects that are watched.
    pub(crate) fn make_notes(&mut self) {
        // No operation is begun before the pool is there.
        let Some(pool) = self.pool else { return };
        let admin = self.admin();
        for note in 0..self.plan.notes {
            let create = Op::new(OpCode::CREATE, OpArgs::extent(0, 0));
            let request = Request::on(pool, object(note).as_str(), vec![create]);
            let submitted = self.with_client(admin, |core, now, out| core.submit(now, request, out));
            match submitted {
                Ok(id) => drop(self.clients[admin].calls.insert(id, (note, Call::MakeNote))),
                Err(_) => self.fail("an object to watch can't be made".into()),
            }
        }
    }

    /// A client's turn with a watched object.
    pub(crate) fn note_turn(&mut self, index: usize, life: u32, note: usize) {
        let client = &self.clients[index];
        if client.life != life || !client.alive || self.is_healing {
            return;
        }
        let pause = self.random(40 * self.plan.think);
        self.after(pause, Happening::NoteTurn(index, life, note));
        let client = &self.clients[index];
        if !self.notes_made.contains(&note) || client.is_fenced || client.core.epoch().0 == 0 {
            return;
        }
        let own = |w: &Watch| (w.note, w.client, w.life, w.ended) == (note, index, life, None);
        let watching = self.notes.watches.iter().position(own);
        match (watching, self.random(8)) {
            (None, 0..4) => self.watch(index, note),
            (Some(at), 0) if self.notes.watches[at].connected.is_some() => self.unwatch(index, at),
            (_, 4..6) => self.notify(index, note),
            _ => {}
        }
    }

    fn watch(&mut self, index: usize, note: usize) {
        let Some(pool) = self.pool else { return };
        let id = self.with_client(index, |core, now, out| {
            core.watch(now, pool, object(note).as_str(), Duration::ZERO, out)
        });
        let (life, gid) = (self.clients[index].life, self.clients[index].global_id);
        self.say(Place::Client(index), &format!("watches {}: {}", object(note), id.0));
        self.notes.watch_at.insert((index, life, id), self.notes.watches.len());
        let name = (gid, id.0);
        self.notes.watches.push(Watch { note, client: index, life, name, connected: None, ended: None });
    }

    fn unwatch(&mut self, index: usize, at: usize) {
        let id = WatchId(self.notes.watches[at].name.1);
        self.notes.watches[at].ended = Some(self.history.stamp());
        self.say(Place::Client(index), &format!("ends watch {}", id.0));
        let ended = self.with_client(index, |core, now, out| core.unwatch(now, id, out));
        if let Ok(Some(id)) = ended {
            self.clients[index].unwatches.insert(id);
        }
    }

    pub(crate) fn notify(&mut self, index: usize, note: usize) {
        let Some(pool) = self.pool else { return };
        let payload = format!("n{}", self.notes.notifies.len());
        let message = blob(&payload);
        let id = self.with_client(index, |core, now, out| {
            core.notify(now, pool, object(note).as_str(), message, PATIENCE, out)
        });
        self.say(Place::Client(index), &format!("notifies {}: {payload}", object(note)));
        self.notes.notify_at.insert((index, self.clients[index].life, id), self.notes.notifies.len());
        let began = self.history.stamp();
        self.notes.notifies.push(Notify { note, payload, began, end: None });
    }

    pub(crate) fn watch_event(&mut self, index: usize, id: WatchId, event: WatchEvent) {
        let life = self.clients[index].life;
        let Some(&at) = self.notes.watch_at.get(&(index, life, id)) else {
            return self
                .fail(format!("client{index} has an event of a watch that it did not begin: {event:?}"));
        };
        self.say(Place::Client(index), &format!("has of watch {}: {event:?}", id.0));
        let stamp = self.history.stamp();
        let watch = &mut self.notes.watches[at];
        match event {
            WatchEvent::Connected => {
                watch.connected.get_or_insert(stamp);
            }
            WatchEvent::Notify { notify, payload, .. } => {
                let (name, payload) = (watch.name, text(&payload));
                self.notes.acks.insert((payload.clone(), name));
                let reply = blob(&format!("{payload} to {}", name.1));
                self.with_client(index, |core, now, out| core.ack(now, id, notify, &reply, out));
            }
            WatchEvent::Lost(errno) => {
                let was_ended = watch.ended.replace(stamp).is_some();
                if errno == Errno::ESHUTDOWN {
                    return self.fenced_client_learns(index);
                }
                let is_fenced = self.fenced.contains(&(index, life));
                if !was_ended && !is_fenced && !self.may_lose_watches() {
                    let name = object(self.notes.watches[at].note);
                    self.fail(format!("client{index}'s watch {} of {name} is lost: {errno}", id.0));
                }
            }
        }
    }

    /// Whether some fault of this run keeps clients from an OSD for so long that their watches end.
    fn may_lose_watches(&self) -> bool {
        let harmless = |fault: &Fault| match fault {
            Fault::KillOsd
            | Fault::PowerLossOsd
            | Fault::StopOsd
            | Fault::MarkDown
            | Fault::KillClient
            | Fault::FenceClient
            | Fault::OsdOption => true,
            // Connections that end again and again, maps that don't come, changes that wait or are refused.
            _ => false,
        };
        !self.plan.faults.iter().all(harmless) || self.plan.store_bytes < LARGE_STORE
    }

    pub(crate) fn notify_done(&mut self, index: usize, id: NotifyId, outcome: NotifyOutcome) {
        let life = self.clients[index].life;
        let Some(&at) = self.notes.notify_at.get(&(index, life, id)) else {
            return self.fail(format!("client{index} has the end of a notify that it did not begin"));
        };
        self.say(
            Place::Client(index),
            &format!("has the end of {}: {outcome:?}", self.notes.notifies[at].payload),
        );
        if outcome.result == Errno::ESHUTDOWN.code() {
            self.fenced_client_learns(index);
        }
        let stamp = self.history.stamp();
        self.notes.notifies[at].end = Some((stamp, outcome));
    }

    /// Whether a notify is under way of a process that lives.
    pub(crate) fn notifies_wait(&self) -> bool {
        let of_living = |(client, life, _): &(usize, u32, NotifyId)| {
            self.clients[*client].alive && self.clients[*client].life == *life
        };
        let mut all = self.notes.notify_at.iter();
        all.any(|(key, at)| of_living(key) && self.notes.notifies[*at].end.is_none())
    }

    /// Notifies all once more, and waits until clients must know which of their watches have ended.
    pub(crate) fn last_notifies(&mut self) {
        let admin = self.admin();
        let notes: Vec<usize> = self.notes_made.iter().copied().collect();
        notes.into_iter().for_each(|note| self.notify(admin, note));
        self.run_until_quiet("every notify ends");
        if self.plan.notes > 0 {
            self.run_while(self.now + 60 * SECOND, |_| true);
        }
    }

    /// What is wrong with the notifies, if anything.
    pub(crate) fn check_notifies(&self) -> Option<String> {
        self.notes.notifies.iter().find_map(|notify| self.check_notify(notify))
    }

    fn check_notify(&self, notify: &Notify) -> Option<String> {
        let (ended, outcome) = notify.end.as_ref()?;
        let timed_out = outcome.result == Errno::ETIMEDOUT.code();
        if outcome.result < 0 && !timed_out {
            return None;
        }
        let what = &notify.payload;
        if timed_out == outcome.missed.is_empty() {
            return Some(format!(
                "{what} has the result {}, and {:?} missed it",
                outcome.result, outcome.missed
            ));
        }
        for (name, answer) in &outcome.answers {
            if !self.notes.acks.contains(&(what.clone(), *name))
                || text(answer) != format!("{what} to {}", name.1)
            {
                return Some(format!(
                    "{what} has of {name:?} an answer that it did not give: {}",
                    text(answer)
                ));
            }
        }
        let is_named = |outcome: &NotifyOutcome, name: &(u64, u64)| {
            outcome.answers.contains_key(name) || outcome.missed.contains(name)
        };
        let named_later = |watch: &Watch| {
            let later = self.notes.notifies.iter().filter(|n| n.note == notify.note && n.began > *ended);
            let ends = later.filter_map(|n| n.end.as_ref());
            ends.into_iter().any(|(_, outcome)| is_named(outcome, &watch.name))
        };
        let is_last = self.notes.notifies.iter().all(|n| n.note != notify.note || n.began <= notify.began);
        let lives = |watch: &Watch| {
            let client = &self.clients[watch.client];
            watch.ended.is_none() && client.alive && client.life == watch.life && !client.is_fenced
        };
        let was_there = |watch: &&Watch| {
            watch.note == notify.note
                && watch.connected.is_some_and(|connected| connected < notify.began)
                && watch.ended.is_none_or(|watch_ended| watch_ended > *ended)
                && (named_later(watch) || is_last && lives(watch))
        };
        let missing =
            self.notes.watches.iter().filter(was_there).find(|watch| !is_named(outcome, &watch.name));
        missing.map(|watch| {
            format!("{what} has reached neither client{}'s watch nor names it: {watch:?}", watch.client)
        })
    }
}
