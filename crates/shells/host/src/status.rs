//! DIR/loligo.sock: answers every connection with the cluster's state as JSON, for `loligo status`.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

use crate::core::Core;

fn answer(core: &Core) -> Value {
    let node = core.node();
    let Some(mon) = node.mon() else { return Value::Null };
    let map = mon.osdmap();
    let osds_up = map.existing_osds().filter(|(_, osd)| osd.is_up()).count();
    let health = mon.health(core.shared.clock.now()).status().name();
    let failed = core.shared.failed_osds();
    let failed: Value = failed.iter().map(|(osd, reason)| (osd.to_string(), json!(reason))).collect();
    json!({ "epoch": map.epoch.0, "osds_up": osds_up, "health": health, "failed_osds": failed })
}

/// How long to wait when a connection cannot be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves the socket for good. A socket that can't be made costs only `loligo status` its details.
pub(crate) async fn serve(core: Rc<Core>, path: PathBuf) {
    // What a killed process left.
    let _ = std::fs::remove_file(&path);
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("{}: {error}; `loligo status` will know less", path.display()),
    };
    loop {
        let mut stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Usually out of files: other connections must end first.
                tracing::warn!("{}: accept: {error}", path.display());
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let text = answer(&core).to_string();
        // A peer that is gone already is no concern.
        let _ = stream.write_all(text.as_bytes()).await;
    }
}
