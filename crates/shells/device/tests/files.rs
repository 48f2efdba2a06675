//! Files as devices: what the suite does not ask.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Op, Request, Token};
use buffer::{PieceMut, Rope};
use device::{DeviceOptions, Engine, FileDevice, FileQueue, Files, OpenError, Power};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use types::{Errno, UTime};

fn file(dir: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = dir.join(name);
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

fn write(n: u64) -> Request {
    let data = Rope::copy_from(&vec![n as u8; 4096]);
    let op = Op::Write { offset: 4096 * n, data, durability: Durability::Volatile };
    Request::new(Token(n), DeviceId::Data, op)
}

/// Waits for so many completions.
fn collect(queue: &mut FileQueue, count: usize) -> Vec<Completion> {
    let mut out = Vec::new();
    for _ in 0..60_000 {
        queue.completions(&mut out);
        if out.len() >= count {
            return out;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{} of {count} completions in a minute", out.len());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let data = FileDevice::new(DeviceId::Data, &file(dir.path(), "data", 1 << 20));
    let refused =
        |devices: &[FileDevice]| Files::open(devices, Engine::Threads).err().map(|error| error.to_string());
    let at = |path: &Path| FileDevice { path: path.to_owned(), ..data.clone() };
    assert_eq!(refused(std::slice::from_ref(&data)), None);
    let twice = Files::open(&[data.clone(), data.clone()], Engine::Threads).err();
    assert!(matches!(twice, Some(OpenError::NamedTwice { device: DeviceId::Data })));
    assert!(matches!(Files::open(&[at(dir.path())], Engine::Threads).err(), Some(OpenError::Io { .. })));
    let null = Files::open(&[at(Path::new("/dev/null"))], Engine::Threads).err();
    assert!(matches!(null, Some(OpenError::WrongKind { .. })));
    let small = refused(&[at(&file(dir.path(), "small", 4095))]).unwrap();
    assert!(small.contains("has 4095 bytes") && small.contains("make it longer"), "{small}");
    for block_bytes in [0, 256, 3000, 2 << 20] {
        let odd = Files::open(&[FileDevice { block_bytes, ..data.clone() }], Engine::Threads).err();
        assert!(matches!(odd, Some(OpenError::BlockBytes { .. })), "{block_bytes}");
    }
}

#[test]
fn crash_hooks_put_the_page_cache_to_use_and_that_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "data", 1 << 20);
    let debug = DeviceOptions { power: Some(Arc::new(Power::default())), ..DeviceOptions::default() };
    let files =
        Files::open(&[FileDevice { debug, ..FileDevice::new(DeviceId::Data, &path) }], Engine::Threads)
            .unwrap();
    let [note] = files.notes() else { panic!("{:?}", files.notes()) };
    assert!(note.starts_with("the data device") && note.contains("page cache"), "{note}");
}

fn threads(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn a_device_has_at_most_as_many_threads_as_its_queue_is_deep() {
    let dir = tempfile::tempdir().unwrap();
    let device =
        FileDevice { queue_depth: 3, ..FileDevice::new(DeviceId::Wal, &file(dir.path(), "wal", 4 << 20)) };
    let files = Files::open(&[device], Engine::Threads).unwrap();
    let mut queues = [files.queue(), files.queue()];
    for queue in &mut queues {
        let mut batch: Vec<Request> =
            (0..500).map(|n| Request { device: DeviceId::Wal, ..write(n) }).collect();
        queue.submit(UTime::default(), &mut batch);
    }
    for queue in &mut queues {
        assert!(collect(queue, 500).iter().all(|completion| completion.result.is_ok()));
        assert!((1..=3).contains(&threads("bdev-wal")), "{}", threads("bdev-wal"));
    }
    drop(files);
    drop(queues);
    // A thread that has ended leaves the list a moment later.
    let ended = (0..5000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        threads("bdev-wal") == 0
    });
    assert!(ended, "they end with the last queue");
}

#[test]
fn with_a_ring_reads_and_writes_need_no_threads() {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::new(DeviceId::Db, &file(dir.path(), "db", 4 << 20));
    let files = Files::open(&[device], Engine::IoUring).unwrap();
    let mut queue = files.queue();
    let no_rings = files.notes().iter().any(|note| note.starts_with("io_uring is not available"));
    assert_eq!(queue.engine(), if no_rings { Engine::Threads } else { Engine::IoUring });
    if !files.notes().is_empty() {
        // There are no rings, or there is no direct I/O here: threads do it.
        return;
    }
    let mut batch: Vec<Request> = (0..500).map(|n| Request { device: DeviceId::Db, ..write(n) }).collect();
    queue.submit(UTime::default(), &mut batch);
    assert!(collect(&mut queue, 500).iter().all(|completion| completion.result.is_ok()));
    assert!(threads("bdev-db") <= 1, "{}", threads("bdev-db"));
}

/// Has the kernel refuse a system call of this thread, and of those that it starts.
#[allow(unsafe_code, reason = "rustix installs no filters")]
fn refuse(call: u32) {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Instruction(u16, u8, u8, u32);
    #[repr(C)]
    struct Filter(u16, *const Instruction);
    unsafe extern "C" {
        fn prctl(option: i32, ...) -> i32;
    }
    // Loads the call's number; if it is this one, the call fails with EPERM.
    let code =
        [Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, call), Instruction(0x06, 0, 0, 0x0005_0001)];
    let code = [&code[..], &[Instruction(0x06, 0, 0, 0x7fff_0000)]].concat();
    let filter = Filter(code.len() as u16, code.as_ptr());
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers, PR_SET_SECCOMP reads a `struct sock_fprog`.
    let done = unsafe { [prctl(38, 1u64, 0u64, 0u64, 0u64), prctl(22, 2u64, &raw const filter)] };
    assert_eq!(done, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn where_a_call_for_rings_is_refused_threads_do_it() {
    // To make a ring, to use it, to register with it: numbers that all processors have in common.
    for call in [425, 426, 427] {
        let served = std::thread::spawn(move || {
            let dir = tempfile::tempdir().unwrap();
            let path = file(dir.path(), "data", 1 << 20);
            refuse(call);
            let files = Files::open(&[FileDevice::new(DeviceId::Data, &path)], Engine::IoUring).unwrap();
            assert!(files.notes().iter().any(|note| note.starts_with("io_uring is not available")), "{call}");
            let mut queue = files.queue();
            assert_eq!(queue.engine(), Engine::Threads);
            assert!(perform(&mut queue, fill(0, Durability::Durable)).is_ok());
        });
        served.join().unwrap();
    }
}

/// A file in memory, and its path.
fn memory_file(bytes: u64) -> (std::fs::File, PathBuf) {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file = std::fs::File::from(rustix::fs::memfd_create("device", flags).unwrap());
    file.set_len(bytes).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    (file, path)
}

/// One request, waited for.
fn perform(queue: &mut FileQueue, op: Op) -> Result<Done, DeviceError> {
    queue.submit(UTime::default(), &mut vec![Request::new(Token(7), DeviceId::Data, op)]);
    collect(queue, 1).remove(0).result
}

fn fill(offset: u64, durability: Durability) -> Op {
    Op::Write { offset, data: Rope::copy_from(&[5; 4096]), durability }
}

#[test]
fn whatever_performs_it_a_durable_write_that_fails_poisons_and_a_volatile_one_does_not() {
    for engine in [Engine::Threads, Engine::IoUring] {
        let (file, path) = memory_file(1 << 20);
        let files = Files::open(&[FileDevice::new(DeviceId::Data, &path)], engine).unwrap();
        let (mut queue, mut other) = (files.queue(), files.queue());
        let read = || Op::Read { offset: 0, buffer: PieceMut::zeroed(4096) };
        assert!(perform(&mut queue, fill(0, Durability::Durable)).is_ok());
        // The system refuses every write from now on.
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE).unwrap();
        let refused = DeviceError::Io { device: DeviceId::Data, offset: 8192, errno: Errno::EPERM };
        assert_eq!(perform(&mut queue, fill(8192, Durability::Volatile)).unwrap_err(), refused);
        assert!(perform(&mut other, Op::Flush).is_ok(), "{engine:?}: not poisoned");
        assert_eq!(perform(&mut queue, fill(8192, Durability::Durable)).unwrap_err(), refused);
        let poisoned = DeviceError::Poisoned { device: DeviceId::Data };
        for op in [fill(0, Durability::Volatile), fill(0, Durability::Durable), Op::Flush] {
            assert_eq!(perform(&mut other, op).unwrap_err(), poisoned, "{engine:?}");
        }
        let Ok(Done::Read(mut buffer)) = perform(&mut other, read()) else { panic!("reads go on") };
        assert!(buffer.as_mut_slice() == [5; 4096]);
    }
}

#[test]
fn a_file_that_became_shorter_fails_reads() {
    for engine in [Engine::Threads, Engine::IoUring] {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), "data", 1 << 20);
        let mut queue = Files::open(&[FileDevice::new(DeviceId::Data, &path)], engine).unwrap().queue();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
        let read = |offset| Op::Read { offset, buffer: PieceMut::zeroed(8192) };
        assert!(perform(&mut queue, read(0)).is_ok());
        for offset in [4096, 8192] {
            let eio = DeviceError::Io { device: DeviceId::Data, offset, errno: Errno::EIO };
            assert_eq!(perform(&mut queue, read(offset)).unwrap_err(), eio, "{engine:?}");
        }
    }
}

#[test]
fn nothing_is_written_after_the_last_queue_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "data", 4 << 20);
    for round in 0..20 {
        let engine = if round % 2 == 0 { Engine::Threads } else { Engine::IoUring };
        let mut queue = Files::open(&[FileDevice::new(DeviceId::Data, &path)], engine).unwrap().queue();
        queue.submit(UTime::default(), &mut (0..300).map(write).collect());
        drop(queue);
        let before = std::fs::read(&path).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(std::fs::read(&path).unwrap() == before);
        std::fs::write(&path, vec![0; 4 << 20]).unwrap();
    }
}

#[test]
fn a_discarded_range_gives_its_room_back() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "data", 4 << 20);
    let mut queue = Files::open(&[FileDevice::new(DeviceId::Data, &path)], Engine::Threads).unwrap().queue();
    if !queue.geometry(DeviceId::Data).unwrap().discards {
        return; // This file system makes no holes, and the geometry says so.
    }
    queue.submit(UTime::default(), &mut (0..64).map(write).collect());
    collect(&mut queue, 64);
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    let before = blocks();
    let discard = Op::Discard { offset: 0, len: 32 * 4096 };
    queue.submit(UTime::default(), &mut vec![Request::new(Token(1), DeviceId::Data, discard)]);
    assert!(matches!(collect(&mut queue, 1)[0].result, Ok(Done::Discarded)));
    assert_eq!(before - blocks(), 32 * 8);
    let read = Op::Read { offset: 32 * 4096, buffer: PieceMut::zeroed(4096) };
    queue.submit(UTime::default(), &mut vec![Request::new(Token(2), DeviceId::Data, read)]);
    let Ok(Done::Read(mut buffer)) = collect(&mut queue, 1).remove(0).result else { panic!("a read") };
    assert!(buffer.as_mut_slice() == [32; 4096]);
}

#[test]
fn a_ring_whose_event_was_taken_makes_it_readable_and_calls_no_waker() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "data", 1 << 20);
    let files = Files::open(&[FileDevice::new(DeviceId::Data, &path)], Engine::IoUring).unwrap();
    let mut queue = files.queue();
    // Where the system has no ring, or no direct I/O, there is no event.
    let Some(event) = queue.event().filter(|_| files.notes().is_empty()) else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    queue.set_waker(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let event = event.take().unwrap();
    let readable = |seconds| {
        let mut fds = [PollFd::new(&event, PollFlags::IN)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
        poll(&mut fds, Some(&timeout)).unwrap() > 0
    };
    // The thread that watched it has ended, at most once calling the waker.
    for _ in 0..1000 {
        if calls.load(Ordering::SeqCst) > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let before = calls.load(Ordering::SeqCst);
    for n in 0..20 {
        queue.submit(UTime::default(), &mut vec![write(n)]);
        assert!(readable(20), "write {n}");
        rustix::io::read(&event, &mut [0; 8]).unwrap();
        assert_eq!(collect(&mut queue, 1).len(), 1);
    }
    assert_eq!(calls.load(Ordering::SeqCst), before);
}
