//! Commands and pool operations to the monitor.

use buffer::Rope;
use messages::{Message, MonCommand, MonCommandAck, PoolOp, PoolOpReply};
use types::{Errno, Name, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Objecter, Timer};

/// The number of a command or a pool operation, never used twice by a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(pub u64);

/// A command or a pool operation that is not answered.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    message: ToMon,
    deadline: Option<UTime>,
}

#[derive(Clone, Debug)]
enum ToMon {
    Command(MonCommand),
    PoolOp(PoolOp),
}

impl From<ToMon> for Message {
    fn from(to: ToMon) -> Self {
        match to {
            ToMon::Command(command) => command.into(),
            ToMon::PoolOp(op) => op.into(),
        }
    }
}

impl Objecter {
    /// Sends a command (JSON, `{"prefix": "status"}`) to the monitor, and again after each reconnection until it is
    /// answered: a command may be executed more than once.
    pub fn command(
        &mut self,
        now: UTime,
        cmd: impl Into<Name>,
        data: Rope,
        out: &mut Vec<ObjecterEffect>,
    ) -> CommandId {
        let tid = self.next_tid();
        let message = MonCommand {
            tid,
            paxos: Default::default(),
            fsid: self.config.fsid,
            cmd: vec![cmd.into()],
            data,
        };
        self.begin_command(now, tid, ToMon::Command(message), out)
    }

    /// Sends an operation on a pool or its snapshots, and again like a command: an id for a snapshot may be given twice.
    /// Its number and the cluster are filled in.
    pub fn pool_op(&mut self, now: UTime, op: PoolOp, out: &mut Vec<ObjecterEffect>) -> CommandId {
        let tid = self.next_tid();
        let message = PoolOp { tid, fsid: self.config.fsid, ..op };
        self.begin_command(now, tid, ToMon::PoolOp(message), out)
    }

    fn begin_command(
        &mut self,
        now: UTime,
        tid: u64,
        message: ToMon,
        out: &mut Vec<ObjecterEffect>,
    ) -> CommandId {
        if self.mon.is_ready() {
            self.send_to_mon(message.clone().into(), out);
        }
        let timeout = self.config.command_timeout;
        let deadline = (!timeout.is_zero()).then(|| now.after(timeout));
        self.timers.extend(deadline.map(|at| (at, Timer::Command(tid))));
        self.commands.insert(tid, PendingCommand { message, deadline });
        CommandId(tid)
    }

    /// Commands that are not answered.
    pub fn commands_pending(&self) -> usize {
        self.commands.len()
    }

    /// A session to a monitor is ready: whatever an earlier one may not have answered is sent.
    pub(crate) fn resend_commands(&mut self, out: &mut Vec<ObjecterEffect>) {
        let messages: Vec<Message> = self.commands.values().map(|c| c.message.clone().into()).collect();
        messages.into_iter().for_each(|message| self.send_to_mon(message, out));
    }

    pub(crate) fn on_command_ack(&mut self, ack: MonCommandAck, out: &mut Vec<ObjecterEffect>) {
        if self.end_command(ack.tid) {
            out.push(ObjecterEffect::CommandDone(CommandId(ack.tid), ack));
        }
    }

    pub(crate) fn on_pool_op_reply(&mut self, reply: PoolOpReply, out: &mut Vec<ObjecterEffect>) {
        if self.end_command(reply.tid) {
            out.push(ObjecterEffect::PoolOpDone(CommandId(reply.tid), reply));
        }
    }

    /// False for one that was answered before, on another session, or given up.
    fn end_command(&mut self, tid: u64) -> bool {
        let Some(command) = self.commands.remove(&tid) else { return false };
        if let Some(at) = command.deadline {
            self.timers.remove(&(at, Timer::Command(tid)));
        }
        true
    }

    pub(crate) fn on_command_timeout(&mut self, tid: u64, out: &mut Vec<ObjecterEffect>) {
        let result = Errno::ETIMEDOUT.code();
        out.extend(self.commands.remove(&tid).map(|command| match command.message {
            ToMon::Command(MonCommand { cmd, .. }) => {
                let status = "the monitor did not answer in time".into();
                let ack = MonCommandAck { tid, result, status, cmd, ..MonCommandAck::default() };
                ObjecterEffect::CommandDone(CommandId(tid), ack)
            }
            ToMon::PoolOp(_) => {
                let reply = PoolOpReply { tid, result, ..PoolOpReply::default() };
                ObjecterEffect::PoolOpDone(CommandId(tid), reply)
            }
        }));
    }
}
