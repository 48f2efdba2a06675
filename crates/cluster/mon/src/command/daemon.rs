//! Commands to this daemon: by `ceph tell mon.…`, and what librados sends to a manager.

use auth::SessionId;
use messages::{Command, CommandReply, Message, MgrCommand, MgrCommandReply};
use types::{Fsid, Name, UTime};

use super::{Answer, CommandOutcome, CommandTarget, parts};
use crate::event::MonEffect;
use crate::mon::Mon;

/// A message that carries a command, and is answered by one of its own kind.
pub(crate) trait DaemonCommand: Into<Message> {
    fn fsid(&self) -> Fsid;
    fn cmd(&self) -> &[Name];
    fn input(&self) -> Vec<u8>;
    fn reply(&self, result: i32, status: String, data: Vec<u8>) -> Message;
}

macro_rules! daemon_command {
    ($message:ident, $reply:ident) => {
        impl DaemonCommand for $message {
            fn fsid(&self) -> Fsid {
                self.fsid
            }

            fn cmd(&self) -> &[Name] {
                &self.cmd
            }

            fn input(&self) -> Vec<u8> {
                self.data.to_vec()
            }

            fn reply(&self, result: i32, status: String, data: Vec<u8>) -> Message {
                $reply { tid: self.tid, result, status, data: data.into() }.into()
            }
        }
    };
}
daemon_command!(Command, CommandReply);
daemon_command!(MgrCommand, MgrCommandReply);

impl Mon {
    pub(crate) fn daemon_command(
        &mut self,
        now: UTime,
        session: SessionId,
        whom: CommandTarget,
        request: impl DaemonCommand,
        out: &mut Vec<MonEffect>,
    ) {
        let before = self.pending.map_changes;
        let outcome = match self.is_foreign(request.fsid()) {
            true => CommandOutcome::foreign(),
            false => self.run_command(now, session, whom, &parts(request.cmd()), &request.input()),
        };
        let reply = |result, Answer { status, data }| request.reply(result, status, data);
        match outcome {
            CommandOutcome::Now(result, answer) => {
                out.push(MonEffect::Send { session, message: reply(result, answer) });
            }
            CommandOutcome::WhenDurable(answer) => {
                let audit = self.audit_command(now, session, &parts(request.cmd()));
                self.defer_reply(before, session, reply(0, answer), audit);
            }
            CommandOutcome::Wait => self.wait(session, request.into(), out),
        }
    }
}
