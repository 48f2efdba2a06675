//! Why a client cannot begin or go on.

use std::io;
use std::path::PathBuf;

use auth::KeyError;
use types::EntityId;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no ceph.conf found at {0}; name it with --conf, or name the monitors with --mon-host")]
    NoConf(String),
    #[error("{0}: {1}")]
    ReadConf(PathBuf, io::Error),
    #[error("{0}: {1}")]
    ParseConf(PathBuf, options::ConfError),
    #[error("{0}: no mon_host in its section [global]; name the monitors with --mon-host")]
    NoMonHost(PathBuf),
    #[error(
        "'{text}' names no monitor: {why} (expected like 10.0.0.1, [v2:10.0.0.1:3300/0] or mon.example:3300)"
    )]
    BadMonHost { text: String, why: String },
    #[error("keyring {0}: {1}")]
    ReadKeyring(PathBuf, io::Error),
    #[error(
        "keyring {path}: it has no key for {entity}; name another user with --id, or another file with --keyring"
    )]
    NotInKeyring { path: PathBuf, entity: EntityId },
    #[error("{path}: its key can't be used: {error}")]
    BadKey { path: PathBuf, error: KeyError },
    #[error(
        "no key for {entity}, and auth_client_required asks for cephx; looked in {tried}; name the file with --keyring"
    )]
    NoKey { entity: EntityId, tried: String },
    #[error("waiting for sockets: {0}")]
    Wait(io::Error),
    #[error("the monitor gave no ticket for OSDs: this client's capabilities don't have them")]
    NoTicket,
    #[error("random numbers: {0}")]
    Random(io::Error),
}
