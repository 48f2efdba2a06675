//! Stores that tell of completions by a file descriptor: a core's loop watches it, and no thread wakes the core.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use node::NodeEvent;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use types::OsdId;

use crate::CoreReport;
use crate::core::Core;

/// The tasks that watch the stores of a core's OSDs, one for each shard.
#[derive(Default)]
pub(crate) struct StoreEvents(RefCell<BTreeMap<OsdId, Vec<JoinHandle<()>>>>);

impl StoreEvents {
    /// An OSD has ended.
    pub(crate) fn end(&self, osd: OsdId) {
        self.0.borrow_mut().remove(&osd).unwrap_or_default().iter().for_each(JoinHandle::abort);
    }
}

impl Core {
    /// Gives an OSD's store a turn whenever the descriptor of one of its shards becomes readable, until the OSD ends.
    pub(crate) fn watch_store(self: &Rc<Self>, osd: OsdId, event: OwnedFd) {
        #[allow(unsafe_code, reason = "tokio is handed a descriptor")]
        // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped, which the `AsyncFd` does.
        let watched = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) };
        match watched {
            Ok(event) => {
                let task = tokio::task::spawn_local(watch(self.clone(), osd, event));
                self.store_events.0.borrow_mut().entry(osd).or_default().push(task);
            }
            // Without it the OSD would wait for ever.
            Err(error) => {
                self.report(CoreReport::OsdFailed(osd, format!("its store can't be watched: {error}")));
            }
        }
    }
}

async fn watch(core: Rc<Core>, osd: OsdId, event: AsyncFd<OwnedFd>) {
    // It fails when the loop has ended.
    while let Ok(mut readable) = event.readable().await {
        // The loop is told of edges: each completion adds to the event, which is one, so that reading it would only cost
        // a system call.
        readable.clear_ready();
        core.dispatch(NodeEvent::StoreReady(osd));
    }
}
