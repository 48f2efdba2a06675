//! PgInfoQuery: an OSD asks another one what it has of placement groups. Loligo's own.

use types::{Epoch, Fsid, SpgId};

use crate::codec::{fields, payload};

/// Asks for a [`crate::PgInfoReply`] for each PG. Who asks is known by the session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgInfoQuery {
    /// The cluster.
    pub fsid: Fsid,
    pub pgs: Vec<PgQuestion>,
}

/// What is asked of a PG. The answer is the state in which it leaves every interval before this epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PgQuestion {
    pub pgid: SpgId,
    /// The map by which it is asked: who has an older one waits for it.
    pub epoch: Epoch,
    /// The first epoch of the interval in which it is asked: the answer is for no other.
    pub since: Epoch,
}

fields!(PgQuestion "a question for a PG" version 1, compat 1, [pgid, epoch, since]);
payload!(PgInfoQuery = PG_INFO_QUERY, version 1, compat 1, [fsid, pgs]);
