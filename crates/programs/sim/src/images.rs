//! Images as RBD has them: whoever holds the exclusive lock of a header changes the image's data. A client that wants a
//! lock that another holds fences the holder, waits for the map that says so, breaks the lock and takes it.
//!
//! Each hold of a lock has a number, in the order in which the lock went from client to client. What a holder wrote takes
//! effect before anything that a later holder does, or never: `linear` checks it.

use std::collections::BTreeMap;

use encoding::Encoder;
use messages::osd_op::{Op, OpArgs, OpCode, OsdFlags};
use objecter::{Outcome, Request, RequestId};
use types::{EntityAddr, EntityName, Errno, Name, UTime};

use crate::Place;
use crate::client::Purpose;
use crate::daemons::client_addr;
use crate::plan::{Defect, SECOND};
use crate::workload::Slot;
use crate::world::{Happening, World};

/// The lock's name.
const LOCK: &str = "rbd_lock";
/// Operations on data that a holder has under way, at most.
const WINDOW: usize = 4;

/// An image.
pub struct Image {
    header: String,
    pub data: Slot,
    /// The numbers of holds by their cookies, each of one client's process.
    holds: BTreeMap<String, Hold>,
    /// The hold that clients know to be in force.
    holder: Option<String>,
}

struct Hold {
    number: u64,
    /// Whether its release has begun, or its breaking.
    is_ending: bool,
}

/// What a client is at with an image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum User {
    #[default]
    Idle,
    /// Waits for an answer.
    Busy,
    Holds(String),
}

/// What a client called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    Lock(String),
    Unlock(String),
    GetInfo,
    Break,
    /// Makes an object that clients watch.
    MakeNote,
}

/// A lock that another client holds.
#[derive(Clone, Debug)]
pub struct Locker {
    name: EntityName,
    cookie: String,
    addr: EntityAddr,
}

impl Image {
    pub fn new(number: usize, data: Slot) -> Self {
        Self { header: format!("image{number}"), data, holds: BTreeMap::new(), holder: None }
    }

    /// The number of a hold: the next one when it is met first.
    fn hold(&mut self, cookie: &str) -> &mut Hold {
        let number = self.holds.len() as u64 + 1;
        self.holds.entry(cookie.into()).or_insert(Hold { number, is_ending: false })
    }
}

/// The process that a cookie names.
fn owner(cookie: &str) -> Option<(usize, u32)> {
    let mut parts = cookie.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn call(method: &str, input: impl FnOnce(&mut Encoder)) -> Op {
    let mut e = Encoder::new(0);
    e.versioned(1, 1, input);
    let (class, input) = ("lock", e.into_bytes());
    let args = OpArgs::Class {
        class_len: class.len() as u8,
        method_len: method.len() as u8,
        argc: 0,
        indata_len: input.len() as u32,
    };
    Op::new(OpCode::CALL, args).with_indata([class.as_bytes(), method.as_bytes(), &input].concat())
}

impl World {
    pub(crate) fn make_images(&mut self) {
        for image in 0..self.plan.images {
            let object = self.history.object(format!("objdata{image}-0"));
            self.images.push(Image::new(image, Slot::of(object)));
        }
    }

    /// A client's turn with an image.
    pub(crate) fn image_turn(&mut self, index: usize, life: u32, image: usize) {
        let client = &self.clients[index];
        if client.life != life || !client.alive || self.is_healing {
            return;
        }
        let pause = self.random(4 * self.plan.think);
        self.after(pause, Happening::ImageTurn(index, life, image));
        let client = &self.clients[index];
        if self.pool.is_none() || client.is_fenced {
            return;
        }
        match client.users.get(&image).cloned().unwrap_or_default() {
            User::Busy => {}
            // Those that do not hold it want it now and then.
            User::Idle if self.one_in(8) => self.lock(index, image),
            User::Idle => {}
            User::Holds(cookie) => {
                let under_way = self.data_under_way(index, image);
                if under_way == 0 && self.one_in(30) {
                    self.images[image].hold(&cookie).is_ending = true;
                    let unlock = call("unlock", |e| {
                        e.put(&Name::from(LOCK)).put(&Name::from(cookie.as_str()));
                    });
                    self.call(index, image, Call::Unlock(cookie), unlock);
                } else if under_way < WINDOW {
                    self.write_data(index, image, &cookie);
                }
            }
        }
    }

    fn data_under_way(&self, index: usize, image: usize) -> usize {
        let of_image = |place: &&usize| self.history.operations[**place].hold.is_some_and(|h| h.0 == image);
        self.clients[index].requests.values().filter(of_image).count()
    }

    fn write_data(&mut self, index: usize, image: usize, cookie: &str) {
        let number = self.images[image].hold(cookie).number;
        if self.images[image].data.is_used_up() {
            let next = self.images[image].data.next();
            let object = self.history.object(format!("objdata{image}-{next}"));
            self.images[image].data.begin(object);
        }
        let slot = &mut self.images[image].data;
        slot.operations += 1;
        let object = slot.object;
        let action = self.some_action(object);
        self.begin_holding(index, object, action, Some((image, number)));
    }

    fn lock(&mut self, index: usize, image: usize) {
        let stamp = self.history.stamp();
        let cookie = format!("{index}.{}.{stamp}", self.clients[index].life);
        let lock = call("lock", |e| {
            let name = |text: &str| Name::from(text);
            e.put(&name(LOCK)).put(&1u8).put(&name(&cookie)).put(&name("internal")).put(&name("sim"));
            e.put(&UTime::default()).put(&0u8);
        });
        self.call(index, image, Call::Lock(cookie), lock);
    }

    /// Calls a method of the class `lock` on an image's header.
    fn call(&mut self, index: usize, image: usize, what: Call, op: Op) {
        // No operation is begun before the pool is there.
        let Some(pool) = self.pool else { return };
        let header = self.images[image].header.clone();
        let mut request = Request::on(pool, header.as_str(), vec![op]);
        if what != Call::GetInfo {
            request.flags |= OsdFlags::WRITE;
        }
        self.say(Place::Client(index), &format!("calls {what:?} of {header}"));
        self.clients[index].users.insert(image, User::Busy);
        let submitted = self.with_client(index, |core, now, out| core.submit(now, request, out));
        match submitted {
            Ok(id) => drop(self.clients[index].calls.insert(id, (image, what))),
            Err(_) => drop(self.clients[index].users.insert(image, User::Idle)),
        }
    }

    /// Whether the request was a call; then it has ended.
    pub(crate) fn call_done(&mut self, index: usize, id: RequestId, outcome: &Outcome) -> bool {
        let Some((image, what)) = self.clients[index].calls.remove(&id) else { return false };
        let result = outcome.result();
        self.say(Place::Client(index), &format!("has the result {result} of {what:?}"));
        let is = |errno: Errno| result == errno.code();
        if is(Errno::ESHUTDOWN) {
            self.fenced_client_learns(index);
            return true;
        }
        if is(Errno::ETIMEDOUT) {
            // What became of it is unknown: the process ends, as one that can't go on.
            let life = self.clients[index].life;
            self.after(SECOND, Happening::ReplaceClient(index, life));
            return true;
        }
        let mut next = User::Idle;
        match what {
            Call::Lock(cookie) if result == 0 => {
                self.granted(image, &cookie);
                next = User::Holds(cookie);
            }
            Call::Lock(_) if is(Errno::EBUSY) => {
                let info = call("get_info", |e| {
                    e.put(&Name::from(LOCK));
                });
                self.call(index, image, Call::GetInfo, info);
                return true;
            }
            Call::GetInfo if result == 0 => {
                if self.fence_holder(index, image, outcome) {
                    return true;
                }
            }
            Call::Unlock(cookie) if result == 0 => {
                if self.images[image].holder.as_ref() == Some(&cookie) {
                    self.images[image].holder = None;
                }
            }
            Call::Break if result == 0 || is(Errno::ENOENT) => {
                self.lock(index, image);
                return true;
            }
            Call::GetInfo if is(Errno::ENOENT) => {}
            Call::MakeNote if result == 0 || is(Errno::EEXIST) => {
                self.notes_made.insert(image);
                return true;
            }
            // It is tried again: a lock that was not taken, or a release that was not made.
            what if is(Errno::ENOSPC) => {
                if let Call::Unlock(cookie) = what {
                    next = User::Holds(cookie);
                }
            }
            what => self.fail(format!("client{index}'s call {what:?} has the result {result}")),
        }
        self.clients[index].users.insert(image, next);
        true
    }

    /// A client holds the lock: no other may, unless its hold is ending.
    fn granted(&mut self, image: usize, cookie: &str) {
        let image = &mut self.images[image];
        let before = image.holder.clone().filter(|of| image.holds.get(of).is_some_and(|h| !h.is_ending));
        // A hold that was broken before its client got the answer.
        if image.hold(cookie).is_ending {
            return;
        }
        let number = image.hold(cookie).number;
        image.holder = Some(cookie.into());
        if let Some(before) = before {
            let text = format!("{} is locked by {before} and by {cookie}, its hold {number}", image.header);
            self.fail(text);
        }
    }

    /// Begins to take the lock from its holder. Whether there is one.
    fn fence_holder(&mut self, index: usize, image: usize, outcome: &Outcome) -> bool {
        let holders = match cls::lock_holders(&outcome.data().to_vec()) {
            Ok(holders) => holders,
            Err(error) => {
                self.fail(format!("a lock's holders do not decode: {error}"));
                return true;
            }
        };
        let Some((name, cookie, addr)) = holders.into_iter().next() else { return false };
        let locker = Locker { name, cookie: cookie.to_string(), addr };
        let Some((client, life)) = owner(&locker.cookie) else {
            self.fail(format!("a lock has the cookie {}, which no client made", locker.cookie));
            return true;
        };
        // Its holder lives on, for some time at least.
        if self.clients[client].alive && self.clients[client].life == life && !self.one_in(4) {
            return false;
        }
        if client == index && self.clients[index].life == life {
            // An earlier hold of its own, whose release failed.
            return false;
        }
        self.images[image].hold(&locker.cookie);
        let addr = client_addr(client, life);
        if locker.addr.socket != addr.socket || locker.addr.nonce != addr.nonce {
            self.fail(format!("the lock of {} has the address {:?}", locker.cookie, locker.addr));
            return true;
        }
        if self.plan.defect == Some(Defect::LockIsOnlyBroken) {
            self.break_lock(index, image, &locker);
            return true;
        }
        self.fenced.insert((client, life));
        let what = r#""prefix":"osd blocklist","blocklistop":"add","expire":86400"#;
        let json = format!(r#"{{{what},"addr":"{}/{}"}}"#, addr.socket.unwrap(), addr.nonce);
        self.say(Place::Client(index), &format!("commands {json}"));
        let id = self.with_client(index, |core, now, out| core.command(now, json, Default::default(), out));
        self.clients[index].users.insert(image, User::Busy);
        let purpose = Purpose::TakeLock { image, locker, client, life };
        self.clients[index].commands.insert(id, purpose);
        true
    }

    /// The holder is fenced, or so it should be.
    pub(crate) fn break_lock(&mut self, index: usize, image: usize, locker: &Locker) {
        self.images[image].hold(&locker.cookie).is_ending = true;
        let op = call("break_lock", |e| {
            let cookie = Name::from(locker.cookie.as_str());
            e.put(&Name::from(LOCK)).put(&locker.name).put(&cookie);
        });
        self.call(index, image, Call::Break, op);
    }
}
