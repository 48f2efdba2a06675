//! The system's limit of open files, against what a cluster needs.

use std::num::NonZero;

use crate::HostError;
use crate::cluster::UpRequest;
use crate::dir::Description;

/// Open files of a process with a cluster in which nothing happens, rounded up: those of the process, of each OSD (its store, its
/// ports, its connections to the monitor and to itself), and of each core.
const OF_PROCESS: u64 = 40;
const OF_OSD: u64 = 17;
const OF_CORE: u64 = 4;

/// What is to be left for clients, each of which has a connection to the monitor and to the OSDs that it uses.
const FOR_CLIENTS: u64 = 256;

/// Raises the limit of open files as far as it may be.
///
/// # Errors
/// The cluster could not start with it: the limit is lower than what it needs without a client.
pub(crate) fn check(request: &UpRequest, description: &Description) -> Result<OpenFiles, HostError> {
    let limit = runtime::raise_file_limit().unwrap_or_else(|(limit, error)| {
        tracing::warn!("the limit of open files stays at {limit}: {error}");
        limit
    });
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let osds = u64::from(description.osds);
    let cores = request.cores.map_or(osds, u64::from).min(cpus);
    let files = OpenFiles { limit, needed: OF_PROCESS + OF_OSD * osds + OF_CORE * cores };
    match files.limit < files.needed {
        true => Err(HostError::FewFiles { limit, needed: files.needed, osds: description.osds }),
        false => Ok(files),
    }
}

/// The limit of open files, and what the cluster needs without a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFiles {
    pub limit: u64,
    pub needed: u64,
}

impl OpenFiles {
    /// Whether some clients would come to the limit.
    pub fn are_few(&self) -> bool {
        self.limit < self.needed + FOR_CLIENTS
    }
}
