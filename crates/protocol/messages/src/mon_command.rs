//! MMonCommand: a command to the monitors (`ceph osd pool create ...`).

use buffer::Rope;
use types::{Fsid, Name};

use crate::Paxos;
use crate::codec::payload;

/// Ceph's MMonCommand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonCommand {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster; zero when the client does not know it yet.
    pub fsid: Fsid,
    /// The command as JSON: `{"prefix": "status", "format": "json"}`. Usually one element. Not always UTF-8.
    pub cmd: Vec<Name>,
    /// Input (the file of `ceph -i`).
    pub data: Rope,
}

payload!(MonCommand = MON_COMMAND, version 1, compat 1, [paxos, fsid, cmd], outside [tid, data]);
