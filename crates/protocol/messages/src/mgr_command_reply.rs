//! MMgrCommandReply: the manager's answer to a command.

use buffer::Rope;

use crate::codec::payload;

/// Ceph's MMgrCommandReply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrCommandReply {
    /// The request's transaction id.
    pub tid: u64,
    /// 0 or a negated error number.
    pub result: i32,
    /// The sentence for the user (shown on stderr).
    pub status: String,
    /// Output (shown on stdout).
    pub data: Rope,
}

payload!(MgrCommandReply = MGR_COMMAND_REPLY, version 1, compat 1, [result, status], outside [tid, data]);
