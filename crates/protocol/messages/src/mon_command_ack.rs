//! MMonCommandAck: the monitors' answer to a command.

use buffer::Rope;
use types::Name;

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MMonCommandAck.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonCommandAck {
    /// The request's transaction id.
    pub tid: u64,
    /// The common prefix; its version is the map's that the command led to.
    pub paxos: Paxos,
    /// 0 or a negated error number.
    pub result: i32,
    /// The sentence for the user (shown on stderr).
    pub status: String,
    /// The command, repeated.
    pub cmd: Vec<Name>,
    /// Output (shown on stdout).
    pub data: Rope,
}

payload!(MonCommandAck = MON_COMMAND_ACK, version 1, compat 1, [paxos, result, status, cmd], outside [tid, data]);
