//! Files pass the devices' suite: with direct I/O, and through the page cache with a volatile cache whose power is cut.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;

mod threads {
    use blockdev::DeviceId;
    use device::Engine;

    use crate::common::Plain;

    blockdev::device_conformance_tests!(
        Plain::new(Engine::Threads, 4096, &[DeviceId::Data, DeviceId::Wal, DeviceId::Db]),
        skipped: crate::common::NEEDS_FAULTS
    );
}

mod io_uring {
    use blockdev::DeviceId;
    use device::Engine;

    use crate::common::Plain;

    blockdev::device_conformance_tests!(
        Plain::new(Engine::IoUring, 4096, &[DeviceId::Data, DeviceId::Wal, DeviceId::Db]),
        skipped: crate::common::NEEDS_FAULTS
    );
}

mod io_uring_with_small_blocks {
    use blockdev::DeviceId;
    use device::Engine;

    use crate::common::Plain;

    blockdev::device_conformance_tests!(
        Plain::new(Engine::IoUring, 512, &[DeviceId::Data]),
        skipped: crate::common::NEEDS_FAULTS
    );
}

mod with_a_volatile_cache {
    use blockdev::DeviceId;

    use crate::common::Switched;

    blockdev::device_conformance_tests!(
        Switched::new(512, &[DeviceId::Data, DeviceId::Wal]),
        skipped: ["a_failed_read_names_its_place_and_spares_its_neighbours",
            "a_failed_volatile_write_concerns_its_range_only"]
    );
}
