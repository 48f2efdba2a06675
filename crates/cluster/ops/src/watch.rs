//! WATCH, NOTIFY and NOTIFY_ACK. The watches themselves are in the object's metadata; what is connected, and what a
//! notify waits for, outlives the request and is the PG's: see [`OpEffect`].

use encoding::{DecodeError, Decoder, Encode, Encoder};
use messages::osd_op::OpConst;
use messages::{Blob, Op};
use types::Errno;

use crate::object_info::WatchId;
use crate::run::{Runner, StepError, StepResult};
use crate::{Mutation, WatchInfo};

/// What an operation wants beyond its object. The PG performs it when the request's change is durable, and that of a
/// read at once. A request that fails has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpEffect {
    /// The caller's session is connected to its watch.
    Watch {
        info: WatchInfo,
        /// Whether the watch ends without pings. A legacy watch ends only after its session.
        pings: bool,
    },
    /// The caller shows that it is alive.
    Ping { cookie: u64 },
    /// A watch has ended.
    Unwatch {
        watcher: WatchId,
        /// Whether its client does not know yet, so that it gets [`messages::WatchNotify::DISCONNECT`].
        disconnect: bool,
    },
    /// The watchers get a message; the caller gets their answers.
    Notify {
        /// The OSD's number for it, [`WatchContext::next_notify_id`] or following.
        id: u64,
        /// The caller's number for it.
        cookie: u64,
        timeout_seconds: u32,
        payload: Blob,
    },
    /// The caller answers a notify.
    NotifyAck {
        id: u64,
        /// Of which of its watches; all of them if `None`.
        cookie: Option<u64>,
        reply: Blob,
    },
}

/// What an execution knows of the watches of its object.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WatchContext<'a> {
    /// The cookies of the caller's watches that are connected.
    pub connected: &'a [u64],
    /// Numbers of notifies from here on are free.
    pub next_notify_id: u64,
    /// What notifies and their answers hold already, of [`OpLimits::notify_bytes_max`](crate::OpLimits).
    pub notify_bytes: u64,
}

impl Runner<'_> {
    /// WATCH: `action` is one of CEPH_OSD_WATCH_OP_*.
    pub fn watch(&mut self, cookie: u64, action: u8, timeout_seconds: u32) -> StepResult {
        if !self.state.exists {
            return Err(Errno::ENOENT.into());
        }
        let watcher = (cookie, self.ctx.caller.reqid.name);
        let known = self.state.info.watchers.contains_key(&watcher);
        match u32::from(action) {
            action @ (OpConst::WATCH_WATCH | OpConst::WATCH_LEGACY_WATCH) => {
                let info = self.watch_info(cookie, timeout_seconds);
                if !known {
                    if self.state.info.watchers.len() as u64 >= self.ctx.limits.object_watchers_max {
                        return Err(Errno::EUSERS.into());
                    }
                    self.state.info.watchers.insert(watcher, info.clone());
                    self.mutations.push(Mutation::Touch);
                }
                self.effects.push(OpEffect::Watch { info, pings: action == OpConst::WATCH_WATCH });
            }
            OpConst::WATCH_RECONNECT | OpConst::WATCH_PING if !known => return Err(Errno::ENOTCONN.into()),
            OpConst::WATCH_RECONNECT => {
                let info = self.watch_info(cookie, timeout_seconds);
                self.effects.push(OpEffect::Watch { info, pings: true });
            }
            // The client connects again then.
            OpConst::WATCH_PING if !self.ctx.watches.connected.contains(&cookie) => {
                return Err(Errno::ETIMEDOUT.into());
            }
            OpConst::WATCH_PING => self.effects.push(OpEffect::Ping { cookie }),
            OpConst::WATCH_UNWATCH if known => {
                self.state.info.watchers.remove(&watcher);
                self.mutations.push(Mutation::Touch);
                self.effects.push(OpEffect::Unwatch { watcher, disconnect: false });
            }
            // The end of no watch, and numbers that have no meaning, which Ceph takes too.
            _ => {}
        }
        Ok(Some(0))
    }

    fn watch_info(&self, cookie: u64, timeout_seconds: u32) -> WatchInfo {
        let timeout_seconds =
            if timeout_seconds > 0 { timeout_seconds } else { self.ctx.limits.watch_timeout_seconds };
        let addr = self.ctx.caller.addrs.0.first().copied().unwrap_or_default();
        WatchInfo { cookie, timeout_seconds, addr }
    }

    /// All watches end with the object; their clients do not know.
    pub fn end_watches(&mut self) {
        let ended = std::mem::take(&mut self.state.info.watchers).into_keys();
        self.effects.extend(ended.map(|watcher| OpEffect::Unwatch { watcher, disconnect: true }));
    }

    /// NOTIFY: returns the OSD's number for it. What the input lacks is taken for absent, as Ceph does.
    pub fn notify(&mut self, cookie: u64, op: &Op) -> StepResult {
        let indata = op.indata.to_piece();
        let parse = |d: &mut Decoder<'_>| -> Result<(u32, Blob), DecodeError> {
            // Once the protocol's version.
            d.get::<u32>()?;
            Ok((d.get()?, d.get()?))
        };
        let (timeout, payload) = parse(&mut Decoder::new(&indata)).unwrap_or_default();
        let timeout_seconds = if timeout > 0 { timeout } else { self.ctx.limits.notify_timeout_seconds };
        self.check_notify_bytes(&payload)?;
        let before = self.effects.iter().filter(|effect| matches!(effect, OpEffect::Notify { .. }));
        let id = self.ctx.watches.next_notify_id + before.count() as u64;
        self.effects.push(OpEffect::Notify { id, cookie, timeout_seconds, payload });
        let mut e = Encoder::new(0);
        id.encode(&mut e);
        self.data = e.into_bytes().into();
        Ok(None)
    }

    /// NOTIFY_ACK. Old clients send nothing but the notify's number, in place of the cookie.
    pub fn notify_ack(&mut self, cookie: u64, op: &Op) -> StepResult {
        let indata = op.indata.to_piece();
        let parse = |d: &mut Decoder<'_>| -> Result<(u64, u64, Blob), DecodeError> {
            let (id, cookie) = (d.get()?, d.get()?);
            let reply = if d.remaining() > 0 { d.get()? } else { Blob::default() };
            Ok((id, cookie, reply))
        };
        let effect = match parse(&mut Decoder::new(&indata)) {
            Ok((id, cookie, reply)) => {
                self.check_notify_bytes(&reply)?;
                OpEffect::NotifyAck { id, cookie: Some(cookie), reply }
            }
            Err(_) => OpEffect::NotifyAck { id: cookie, cookie: None, reply: Blob::default() },
        };
        self.effects.push(effect);
        Ok(None)
    }

    /// ENOMEM where notifies hold too much. What brings no bytes is let in: it may end one.
    fn check_notify_bytes(&self, bytes: &Blob) -> Result<(), StepError> {
        let held = self.ctx.watches.notify_bytes.saturating_add(bytes.len() as u64);
        match bytes.is_empty() || held <= self.ctx.limits.notify_bytes_max {
            true => Ok(()),
            false => Err(Errno::ENOMEM.into()),
        }
    }
}
