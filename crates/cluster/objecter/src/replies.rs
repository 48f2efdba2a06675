//! What OSDs send.

use messages::osd_op::OsdFlags;
use messages::{Message, OsdOpReply};
use types::{Errno, OsdId, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Objecter, Timer};
use crate::request::{Outcome, Target};
use crate::session::OsdSession;

impl Objecter {
    pub(crate) fn on_osd_message(
        &mut self,
        now: UTime,
        id: OsdSession,
        message: Message,
        out: &mut Vec<ObjecterEffect>,
    ) {
        // Of a session that was closed: what it answers was sent again elsewhere.
        let Some(osd) = self.osd_of(id) else { return };
        self.heard_from(osd);
        match message {
            Message::OsdOpReply(reply) => self.on_reply(now, osd, *reply, out),
            Message::OsdBackoff(backoff) => self.on_backoff(now, osd, *backoff, out),
            Message::WatchNotify(message) => self.on_watch_notify(message, out),
            Message::OsdMap(map) => self.on_osd_map(now, &map, out),
            other => {
                let text = format!("osd.{osd} sent {}, which a client does not take", other.name());
                out.push(ObjecterEffect::Warning(text));
            }
        }
    }

    fn on_reply(&mut self, now: UTime, osd: OsdId, reply: OsdOpReply, out: &mut Vec<ObjecterEffect>) {
        let tid = reply.tid;
        let pending = self.pending.get_mut(&tid).filter(|p| p.home == Some(osd));
        // Answered before, given up, or meant for another OSD since.
        let Some(pending) = pending else { return };
        if reply.retry_attempt >= 0 && reply.retry_attempt != pending.attempts - 1 {
            // The answer to a later sending will come: handed out now, answers could overtake each other.
            return;
        }
        if let Some(redirect) = reply.redirect {
            let (name, locator) = (redirect.object, redirect.locator);
            if let Target::Object { name: own, locator: at } = &mut pending.request.target {
                if !name.is_empty() {
                    *own = name;
                }
                *at = locator;
            }
            pending.flags |= OsdFlags::REDIRECTED | OsdFlags::IGNORE_CACHE | OsdFlags::IGNORE_OVERLAY;
            return self.submit_again(now, tid, out);
        }
        if reply.result == Errno::EAGAIN.code() {
            // A replica that may not serve the read: the primary will.
            pending.flags &= !(OsdFlags::BALANCE_READS | OsdFlags::LOCALIZE_READS);
            return self.submit_again(now, tid, out);
        }
        if reply.ops.len() != pending.request.ops.len() {
            let (sent, got) = (pending.request.ops.len(), reply.ops.len());
            let text = format!("osd.{osd} answered tid {tid} of {sent} operations with {got}");
            out.push(ObjecterEffect::Warning(text));
        }
        let OsdOpReply { result, ops, user_version, epoch, .. } = reply;
        self.end(tid, Outcome::Replied { result, ops, user_version, epoch }, out);
    }

    /// Submits a request that was answered as a new one: an OSD would recognise the old tid.
    fn submit_again(&mut self, now: UTime, tid: u64, out: &mut Vec<ObjecterEffect>) {
        let Some(mut pending) = self.pending.remove(&tid) else {
            debug_assert!(false, "request {tid} is answered and has ended");
            return;
        };
        self.cancel_map_check(tid);
        pending.placement = None;
        pending.home = None;
        pending.attempts = 0;
        let next = self.next_tid();
        if let Some(at) = pending.deadline {
            self.timers.remove(&(at, Timer::Request(tid)));
            self.timers.insert((at, Timer::Request(next)));
        }
        self.pending.insert(next, pending);
        self.start_request(now, next, out);
    }
}
