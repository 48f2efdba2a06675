//! MCommand: a command to a daemon (`ceph tell`).

use buffer::Rope;
use types::{Fsid, Name};

use crate::codec::payload;

/// Ceph's MCommand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Command {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The cluster.
    pub fsid: Fsid,
    /// The command as JSON: `{"prefix": "version"}`. Usually one element. Not always UTF-8.
    pub cmd: Vec<Name>,
    /// Input (the file of `ceph -i`).
    pub data: Rope,
}

payload!(Command = COMMAND, version 1, compat 1, [fsid, cmd], outside [tid, data]);
