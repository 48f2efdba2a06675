//! Queues on modelled disks pass the suite, over simulated devices; over files they take the model's time.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use blockdev::conformance::{Factory, Properties};
use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, DeviceQueue, Geometry, Op, Request, Token};
use buffer::PieceMut;
use device::{Engine, FileDevice, Files, ModelledDisk, ModelledQueue};
use devmodel::Model;
use types::UTime;

const SIZE: u64 = 16 << 20;
const DEVICES: [DeviceId; 2] = [DeviceId::Data, DeviceId::Wal];

/// Both devices on one disk.
struct Modelled {
    model: &'static str,
    disk: ModelledDisk,
    sim: Option<SimDisks>,
}

impl Modelled {
    fn new(model: &'static str) -> Self {
        Self { model, disk: ModelledDisk::named(model, "", 2 * SIZE).unwrap(), sim: None }
    }

    fn sim(&self) -> &SimDisks {
        self.sim.as_ref().unwrap()
    }

    fn heal(&self) {
        DEVICES.iter().for_each(|device| self.sim().heal(*device));
    }
}

impl Factory for Modelled {
    type Queue = ModelledQueue<SimQueue>;

    fn properties(&self) -> Properties {
        Properties { threads: None, power_loss: true, failing_flushes: true, failing_ranges: true }
    }

    fn devices(&self) -> Vec<DeviceId> {
        DEVICES.to_vec()
    }

    fn make(&mut self, seed: u64) {
        let geometry = Geometry {
            size_bytes: SIZE,
            block_bytes: 4096,
            request_bytes_max: 1 << 20,
            queue_depth: 16,
            discards: true,
            rotational: true,
            durable_flushes: false,
        };
        let model = Model::named("ssd", &[], SIZE).unwrap();
        let devices = DEVICES.map(|id| SimDevice { id, geometry, model: model.clone() }).to_vec();
        self.sim = Some(SimDisks::new(SimOptions { seed, jitter_ns: 0..2_000_000, devices }));
        self.disk = ModelledDisk::named(self.model, "", 2 * SIZE).unwrap();
    }

    fn open(&mut self) -> Self::Queue {
        let places =
            [(DeviceId::Data, self.disk.place(0, SIZE)), (DeviceId::Wal, self.disk.place(SIZE, SIZE))];
        ModelledQueue::new(self.sim().open(), places)
    }

    fn close(&mut self) {
        self.heal();
        self.sim().close();
    }

    fn power_loss(&mut self, seed: u64) {
        self.sim().reseed(seed);
        self.heal();
        self.sim().power_loss();
    }

    fn fail_flushes(&mut self, device: DeviceId) {
        self.sim().fail_flushes(device);
    }

    fn fail_reads(&mut self, device: DeviceId, range: Range<u64>) {
        self.sim().fail_reads(device, range);
    }

    fn fail_writes(&mut self, device: DeviceId, range: Range<u64>) {
        self.sim().fail_writes(device, range);
    }
}

mod disk {
    blockdev::device_conformance_tests!(super::Modelled::new("disk-7200"), skipped: []);
}

mod disk_with_a_write_cache {
    blockdev::device_conformance_tests!(super::Modelled::new("disk-7200-write-back"), skipped: []);
}

fn now() -> UTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    UTime::from_nanos(since.as_nanos() as u64)
}

#[test]
fn requests_to_files_take_the_models_time_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let files = Files::open(&[FileDevice::new(DeviceId::Data, &path)], Engine::Threads).unwrap();
    let slow = ModelledDisk::named("ssd", "read_us=30000, channels=64", 1 << 20).unwrap();
    let mut queue = ModelledQueue::new(files.queue(), [(DeviceId::Data, slow.place(0, 1 << 20))]);
    let (woken, wakes) = channel();
    // The test's end is the last to listen.
    queue.set_waker(Arc::new(move || _ = woken.send(())));
    let read = |n| Op::Read { offset: 4096 * n, buffer: PieceMut::zeroed(4096) };
    let start = Instant::now();
    let mut batch = (0..32).map(|n| Request::new(Token(n), DeviceId::Data, read(n))).collect();
    queue.submit(now(), &mut batch);
    let mut out = Vec::new();
    while out.len() < 32 {
        let deadline =
            queue.deadline().map_or(1_000_000_000, |d| d.as_nanos().saturating_sub(now().as_nanos()));
        // A timeout is what it waits for.
        let _ = wakes.recv_timeout(Duration::from_nanos(deadline));
        queue.turn(now());
        queue.completions(&mut out);
    }
    // One after the other they would take 960 ms. The machine may be busy with other things.
    let took = start.elapsed().as_millis();
    assert!((30..500).contains(&took), "{took} ms");
    assert!(out.iter().all(|completion| completion.result.is_ok()));
    assert_eq!(queue.deadline(), None, "nothing is in flight");
}
