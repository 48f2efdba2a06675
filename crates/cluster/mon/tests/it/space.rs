//! What health says of OSDs whose file system has less than they may take.

use crate::common::{Cluster, config};
use maps::OsdState;
use types::{EntityType, Epoch};

/// What health says of an OSD that is nearly full, reports a size of 10 GiB, and has a store that was made for so many bytes.
fn health_with_store_for(made_for: u64) -> String {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let osd = cluster.open_session(EntityType::Osd, "0", 6800);
    let mut boot = cluster.boot_message(0, osd);
    boot.metadata.insert(mon::STORE_BYTES.into(), made_for.to_string());
    cluster.send(osd, boot);
    cluster.settle();
    cluster.report(0, osd, 1);
    assert_eq!(
        cluster.ok(client, r#"{"prefix":"health"}"#),
        "HEALTH_OK",
        "little space is no fault by itself"
    );
    let full =
        messages::OsdFull { paxos: Default::default(), map_epoch: Epoch(1), state: OsdState::NEARFULL };
    cluster.send(osd, full);
    cluster.settle();
    let detail = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(detail.contains("OSD_NEARFULL: 1 nearfull osd(s)"), "{detail}");
    detail
}

#[test]
fn a_full_osd_that_its_file_system_limits_says_so() {
    let detail = health_with_store_for(1 << 40);
    let line = "osd.0 may take 1 TiB, but its file system lets it have 10 GiB, and 9 GiB of that are free";
    assert!(detail.contains(line), "{detail}");
    // The logs of a store of many small shards take one byte in 32.
    let detail = health_with_store_for((10 << 30) / 31 * 32);
    assert!(!detail.contains("file system"), "{detail}");
}
