//! The simulated disks pass the suite: an SSD with blocks of 4 KiB, and disks with a write cache and blocks of 512 bytes.

mod ssd {
    use blockdev::DeviceId;

    use crate::common::Sim;

    blockdev::device_conformance_tests!(
        Sim::new("ssd", 4096, &[DeviceId::Data, DeviceId::Wal, DeviceId::Db]),
        skipped: []
    );
}

mod disk_with_a_write_cache {
    use blockdev::DeviceId;

    use crate::common::Sim;

    blockdev::device_conformance_tests!(
        Sim::new("disk-7200-write-back", 512, &[DeviceId::Data, DeviceId::Db]),
        skipped: []
    );
}
