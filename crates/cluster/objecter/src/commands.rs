//! Commands to the monitor.

use buffer::Rope;
use messages::{Message, MonCommand, MonCommandAck};
use types::{Errno, Name, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Objecter, Timer};

/// A command's number, never used twice by a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(pub u64);

/// A command that is not answered.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    message: MonCommand,
    deadline: Option<UTime>,
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
        // Answered before, on another session, or given up.
        let Some(command) = self.commands.remove(&ack.tid) else { return };
        if let Some(at) = command.deadline {
            self.timers.remove(&(at, Timer::Command(ack.tid)));
        }
        out.push(ObjecterEffect::CommandDone(CommandId(ack.tid), ack));
    }

    pub(crate) fn on_command_timeout(&mut self, tid: u64, out: &mut Vec<ObjecterEffect>) {
        if let Some(PendingCommand { message, .. }) = self.commands.remove(&tid) {
            let (result, status) = (Errno::ETIMEDOUT.code(), "the monitor did not answer in time".into());
            let ack = MonCommandAck { tid, result, status, cmd: message.cmd, ..MonCommandAck::default() };
            out.push(ObjecterEffect::CommandDone(CommandId(tid), ack));
        }
    }
}
