//! Another cluster address for an OSD that a map showed down while it was alive.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use messenger::{Daemon, Endpoint, Role};
use tokio::net::TcpListener;
use types::{EntityAddr, OsdId};

use crate::CoreReport;
use crate::core::Core;

/// What a nonce rises by with each change of address (as Ceph's): each start has a random one, so that they hardly meet.
const NONCE_STEP: u32 = 1_000_000;

impl Core {
    /// Listens at another port for an OSD's cluster address, which gets another nonce too, and ends what is at the old one.
    pub(crate) fn rebind(self: Rc<Self>, osd: OsdId) {
        let endpoint = Endpoint::new(Daemon::Osd(osd), Role::Cluster);
        // An OSD that has ended in the meantime needs no address.
        let Some(old) = self.messenger().address(endpoint) else { return };
        // The old listener is there while the new one is bound: the ports differ.
        match self.bind_another(old) {
            Ok((listener, addr)) => {
                self.rebound(osd, addr);
                // Like the first one's, its connections stay on this core.
                let listen = self.clone().listen(endpoint, listener, Vec::new());
                self.keep_listener(endpoint, tokio::task::spawn_local(listen));
            }
            Err(error) => self.report(CoreReport::Failed(format!(
                "osd.{osd}: it was marked down and needs another port for its cluster address: {error}"
            ))),
        }
    }

    fn bind_another(&self, old: EntityAddr) -> io::Result<(TcpListener, EntityAddr)> {
        let ip = old.socket.ok_or_else(|| io::Error::other("the one that it has is blank"))?.ip();
        let listener = runtime::bind(SocketAddr::new(ip, 0), self.shared.listen_backlog)?;
        let addr = EntityAddr::v2(listener.local_addr()?, old.nonce.wrapping_add(NONCE_STEP));
        Ok((TcpListener::from_std(listener)?, addr))
    }
}
