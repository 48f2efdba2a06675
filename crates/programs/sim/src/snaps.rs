//! Snapshots: the pool's, or those that clients manage; made, used and removed while the faults go on.

use std::collections::BTreeMap;

use encoding::Decode;
use messages::{PoolOp, PoolOpReply};
use ops::SnapSet;
use store::{AttrChoice, CollectionId, ReadOutcome, ReadRequest};
use types::{GHObject, SnapId, UTime};

use crate::client::{Command, Purpose};
use crate::model::Context;
use crate::plan::{SECOND, SnapKind};
use crate::store_handle::StoreHandle;
use crate::world::{Happening, World};

/// The snapshots that clients know of.
#[derive(Default)]
pub struct Snaps {
    /// By their ids, with the names of the pool's own.
    live: BTreeMap<u64, String>,
    /// The newest one that there has been.
    seq: u64,
    /// Whether one is being made or removed: one at a time, so that the order of the map's changes is known.
    is_busy: bool,
    made: u64,
}

impl Snaps {
    /// What a client names in a change.
    pub fn context(&self) -> Context {
        Context { seq: self.seq, snaps: self.live.keys().rev().copied().collect() }
    }

    pub fn some(&self, random: u64) -> Option<u64> {
        self.live.keys().nth((random % (self.live.len() as u64).max(1)) as usize).copied()
    }

    pub fn all(&self) -> Vec<u64> {
        self.live.keys().copied().collect()
    }
}

impl World {
    /// A snapshot is made or removed, and the next turn is due.
    pub(crate) fn snap_turn(&mut self) {
        if self.is_healing {
            return;
        }
        let pause = self.random(2 * self.plan.snap_interval);
        self.after(pause, Happening::SnapTurn);
        self.change_snaps();
    }

    /// Makes or removes a snapshot.
    pub(crate) fn change_snaps(&mut self) {
        let Some(pool) = self.pool.filter(|_| !self.snaps.is_busy) else { return };
        self.snaps.is_busy = true;
        let count = self.snaps.live.len();
        let makes = count == 0 || (count < self.plan.snaps_max && self.random(5) < 3);
        let pool_op = |op, snap| {
            let (pool, snapid, crush_rule) = (pool.0 as u32, SnapId(snap), -1);
            let (tid, paxos, fsid, auid, name) = Default::default();
            Command::PoolOp(PoolOp { tid, paxos, fsid, pool, op, auid, snapid, name, crush_rule })
        };
        if makes {
            self.snaps.made += 1;
            let name = format!("s{}", self.snaps.made);
            let command = match self.plan.snaps {
                SnapKind::Own => pool_op(PoolOp::CREATE_UNMANAGED_SNAP, 0),
                SnapKind::None | SnapKind::Pool => of_pool("mksnap", &name),
            };
            return self.give(command, Purpose::Snapshots);
        }
        let which = self.random(count as u64);
        let Some(snap) = self.snaps.some(which) else { return };
        let name = self.snaps.live.remove(&snap).unwrap_or_default();
        let at = self.history.stamp();
        self.history.removals.insert(snap, at);
        let command = match self.plan.snaps {
            SnapKind::Own => pool_op(PoolOp::DELETE_UNMANAGED_SNAP, snap),
            SnapKind::None | SnapKind::Pool => of_pool("rmsnap", &name),
        };
        self.say_fault(&format!("snapshot {snap} is removed"));
        self.give(command, Purpose::Snapshots);
    }

    /// The monitor answered for a snapshot that clients manage.
    pub(crate) fn snap_given(&mut self, reply: &PoolOpReply) {
        self.snaps.is_busy = false;
        // A removal's answer has none.
        let Some(blob) = &reply.response else { return };
        match u64::from_bytes(&blob.0) {
            Ok(snap) => {
                self.snaps.seq = self.snaps.seq.max(snap);
                self.snaps.live.insert(snap, String::new());
                self.say_fault(&format!("snapshot {snap} is made"));
            }
            Err(error) => self.fail(format!("the id of a snapshot does not decode: {error}")),
        }
    }

    /// A client has the map with a change of the pool's snapshots.
    pub(crate) fn note_pool_snaps(&mut self, index: usize) {
        self.snaps.is_busy = false;
        let map = self.clients[index].core.map();
        let Some(pool) = self.pool.and_then(|id| map.and_then(|map| map.pools.get(&id))) else { return };
        let context = pool.snap_context();
        let snaps = context.snaps.iter().map(|snap| snap.0).collect();
        let epoch = pool.snap_epoch.0;
        let live = pool.snaps.iter().map(|(id, snap)| (id.0, snap.name.to_string())).collect();
        self.snaps.live = live;
        self.snaps.seq = context.seq;
        if self.history.pool_snaps.last().is_none_or(|(newest, _)| *newest < epoch) {
            self.history.pool_snaps.push((epoch, Context { seq: context.seq, snaps }));
        }
    }

    /// What of removed snapshots is left in the stores, or of clones that no head names; `None`: nothing.
    pub(crate) fn snap_leftover(&mut self) -> Option<String> {
        let removed: Vec<u64> = self.history.removals.keys().copied().collect();
        let now = self.time();
        self.osds.iter().flat_map(|osd| &osd.stores).find_map(|store| leftover(store, now, &removed))
    }

    /// Waits until nothing is left of removed snapshots.
    pub(crate) fn await_trims(&mut self, within: u64) {
        let until = self.now + within;
        while let Some(left) = self.snap_leftover() {
            if self.now >= until {
                return self
                    .fail(format!("removed snapshots are not trimmed after {} s: {left}", within / SECOND));
            }
            let next = (self.now + SECOND).min(until);
            self.run_while(next, |_| true);
            if self.has_failed() {
                return;
            }
        }
    }
}

fn of_pool(what: &str, name: &str) -> Command {
    Command::Text(format!(r#"{{"prefix":"osd pool {what}","pool":"data","snap":"{name}"}}"#))
}

fn leftover(store: &StoreHandle, now: UTime, removed: &[u64]) -> Option<String> {
    let collections = match store.look(now, &ReadRequest::Collections) {
        Ok(ReadOutcome::Collections(collections)) => collections,
        other => return Some(format!("{other:?}")),
    };
    for collection in collections.into_iter().filter(|c| matches!(c, CollectionId::Pg(_))) {
        let (start, end) = (GHObject::min(), GHObject::max());
        let attrs = AttrChoice::These(vec!["ss".into()]);
        let list = ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs };
        let objects = match store.look(now, &list) {
            Ok(ReadOutcome::Objects(page)) => page.objects,
            other => return Some(format!("{other:?}")),
        };
        let mut clones = Vec::new();
        let mut named = Vec::new();
        for (object, attrs) in objects {
            let snap = object.hobj.snap;
            let name = String::from_utf8_lossy(object.hobj.name.as_bytes()).into_owned();
            // The PG's own object has no name.
            if snap != SnapId::HEAD && !name.is_empty() {
                clones.push((name, snap));
                continue;
            }
            let Some(bytes) = attrs.get(&b"ss"[..]) else { continue };
            let snapset = match SnapSet::from_bytes(bytes) {
                Ok(snapset) => snapset,
                Err(error) => return Some(format!("the SnapSet of {name} does not decode: {error}")),
            };
            named.extend(snapset.clones.iter().map(|clone| (name.clone(), *clone)));
            let left = snapset.clone_snaps.values().flatten().find(|snap| removed.contains(&snap.0));
            if let Some(left) = left {
                return Some(format!("{name} has a clone for the removed snapshot {}", left.0));
            }
        }
        clones.sort();
        named.sort();
        if clones != named {
            return Some(format!("in {collection} are the clones {clones:?}, and the heads name {named:?}"));
        }
    }
    None
}
