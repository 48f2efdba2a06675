//! Reads and writes by io_uring: a batch is one system call, and no thread waits for a request.
//!
//! Flushes and discards are not for the ring: the kernel would give them to threads of its own, and the device's pool
//! gathers the flushes of all queues. Only devices with direct I/O are served: those of the page cache need locks.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use blockdev::{Completion, DeviceError, DeviceId, Done, Durability, Op, Token};
use buffer::{Piece, PieceMut};
use io_uring::{IoUring, Probe, opcode, squeue, types as ring_types};
use rustix::event::EventfdFlags;
use rustix::io::{Errno, ReadWriteFlags};
use types::UTime;

use super::Opened;
use super::direct::{DirectFile, PIECES_MAX};
use super::rope::{aligned, aligned_buffer, is_aligned};
use super::threads::Ready;
use super::unit::Unit;

/// When a submission is tried again that the kernel had no memory for.
const RETRY: Duration = Duration::from_millis(1);

/// A ring whose completions interrupt no thread that is at work: the kernel (from 5.19 on) sees to them when the thread calls it
/// the next time, as it does before it waits.
fn build(entries: u32) -> io::Result<IoUring> {
    match IoUring::builder().setup_clamp().setup_coop_taskrun().build(entries) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
            IoUring::builder().setup_clamp().build(entries)
        }
        built => built,
    }
}

/// Puts a request for nothing into a ring's submission queue.
#[allow(unsafe_code, reason = "the kernel may be handed memory in a request")]
fn submit_nothing(ring: &mut IoUring) -> io::Result<()> {
    // SAFETY: the request has no memory.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)
}

/// One queue's ring. Must be used by the thread that first submits: the kernel cancels what is in flight when that ends.
pub struct Ring {
    ring: IoUring,
    /// Requests in flight, by the number that the kernel has for them. The kernel uses their memory.
    slots: Vec<Option<Flight>>,
    free: Vec<usize>,
    lanes: BTreeMap<DeviceId, Lane>,
    /// Requests that ended without the kernel.
    done: Vec<Completion>,
    /// When to submit again what the kernel did not take.
    retry: Option<UTime>,
    now: UTime,
    watcher: Watcher,
}

/// The requests to one device.
struct Lane {
    depth: usize,
    in_flight: usize,
    waiting: VecDeque<Flight>,
}

struct Flight {
    token: Token,
    device: DeviceId,
    offset: u64,
    /// Bytes of the request, and those that are done: the kernel may do a part.
    len: usize,
    done: usize,
    what: What,
}

enum What {
    /// `copy`: the buffer is not aligned, and is filled from this.
    Read { buffer: PieceMut, copy: Option<PieceMut> },
    /// `vectors` points into `pieces`.
    Write { pieces: Vec<Piece>, vectors: Vec<Vector>, durability: Durability },
}

/// `struct iovec`. Numbers, because a request may move to another thread before it is submitted.
#[derive(Clone, Copy)]
#[repr(C)]
struct Vector {
    base: usize,
    len: usize,
}

impl Ring {
    /// Whether the system has rings for this process, and does what is asked through one: a system may give one and refuse each call
    /// that submits to it (seccomp), and one before Linux 5.6 has no such reads.
    ///
    /// # Errors
    /// It has none, or not now, or such a one.
    pub fn probe() -> io::Result<()> {
        let mut ring = build(1)?;
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known)?;
        if ![opcode::Read::CODE, opcode::Writev::CODE].iter().all(|code| known.is_supported(*code)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        submit_nothing(&mut ring)?;
        loop {
            match ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                submitted => return submitted.map(drop),
            }
        }
    }

    /// A ring for the devices with direct I/O; it wakes the owner of `ready`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(opened: &Opened, ready: &Arc<Ready>) -> io::Result<Self> {
        let lane =
            |unit: &Unit| Lane { depth: unit.geometry.queue_depth, in_flight: 0, waiting: VecDeque::new() };
        let units = opened.pools.iter().map(|(id, pool)| (*id, pool.unit()));
        let direct = units.filter(|(_, unit)| unit.direct().is_some());
        let lanes: BTreeMap<DeviceId, Lane> = direct.map(|(id, unit)| (id, lane(unit))).collect();
        let depth: usize = lanes.values().map(|lane| lane.depth).sum();
        let ring = build(depth.max(1) as u32)?;
        let watcher = Watcher::start(Arc::clone(ready))?;
        ring.submitter().register_eventfd(watcher.event.as_raw_fd())?;
        Ok(Self {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            lanes,
            done: Vec::new(),
            retry: None,
            now: UTime::default(),
            watcher,
        })
    }

    /// What the kernel makes readable when a request of this ring is done.
    pub fn event(&self) -> RingEvent {
        RingEvent { event: Arc::clone(&self.watcher.event), closing: Arc::clone(&self.watcher.closing) }
    }

    pub fn serves(&self, device: DeviceId) -> bool {
        self.lanes.contains_key(&device)
    }

    /// Takes a read or a write that was checked; hands anything else back. [`Ring::begin`] begins it.
    pub fn take(&mut self, file: &DirectFile, device: DeviceId, token: Token, op: Op) -> Option<Op> {
        let (offset, len, what) = match op {
            Op::Read { offset, mut buffer } => {
                let len = buffer.len();
                let fits = is_aligned(buffer.as_mut_slice().as_ptr(), file.memory_align);
                (offset, len, What::Read { buffer, copy: (!fits).then(|| aligned_buffer(len)) })
            }
            Op::Write { offset, data, durability } => {
                let pieces = aligned(&data, file.block_bytes as usize, file.memory_align);
                (offset, data.len(), What::Write { pieces, vectors: Vec::new(), durability })
            }
            op @ (Op::Flush | Op::Discard { .. }) => return Some(op),
        };
        if let Some(lane) = self.lanes.get_mut(&device) {
            lane.waiting.push_back(Flight { token, device, offset, len, done: 0, what });
        }
        None
    }

    /// Gives the kernel what was taken, as far as the devices' depths allow, in one call.
    pub fn begin(&mut self, opened: &Opened, now: Option<UTime>) {
        self.now = now.unwrap_or(self.now);
        for (id, pool) in &opened.pools {
            let unit = pool.unit();
            while let Some(flight) = self.next_of(*id) {
                let changes = matches!(flight.what, What::Write { .. });
                match (unit.unless_poisoned(), unit.direct()) {
                    (Err(error), _) if changes => self.end(flight, Err(error)),
                    (_, Some(file)) => self.issue(&file.ring_file, flight),
                    (_, None) => self.end(flight, Err(DeviceError::NoSuchDevice { device: *id })),
                }
            }
        }
        self.submit();
    }

    /// The next request of a device that may be in flight, counted as such.
    fn next_of(&mut self, device: DeviceId) -> Option<Flight> {
        let lane = self.lanes.get_mut(&device).filter(|lane| lane.in_flight < lane.depth)?;
        let flight = lane.waiting.pop_front()?;
        lane.in_flight += 1;
        Some(flight)
    }

    /// Ends a request that was in flight.
    fn end(&mut self, flight: Flight, result: Result<Done, DeviceError>) {
        if let Some(lane) = self.lanes.get_mut(&flight.device) {
            lane.in_flight -= 1;
        }
        self.done.push(Completion { token: flight.token, result });
    }

    /// Puts what is left of a request into the submission queue.
    #[allow(unsafe_code, reason = "the kernel is handed memory")]
    fn issue(&mut self, file: &File, mut flight: Flight) {
        let entry = flight.entry(file);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(flight);
        let entry = entry.user_data(slot as u64);
        loop {
            // SAFETY: the file is open as long as the devices are, which the queue keeps so. The memory is owned by the
            // flight in its slot: it neither moves on the heap nor is touched or freed until the kernel has completed the
            // request, which `drop` waits for.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // There are as many entries as requests may be in flight; older ones may still wait to be submitted.
            self.submit();
            if self.retry.is_some() {
                // The kernel has no memory now: this one goes back to the head of its lane.
                if let Some(flight) = self.slots[slot].take() {
                    self.free.push(slot);
                    if let Some(lane) = self.lanes.get_mut(&flight.device) {
                        lane.in_flight -= 1;
                        lane.waiting.push_front(flight);
                    }
                }
                return;
            }
        }
    }

    /// Hands the submission queue to the kernel.
    fn submit(&mut self) {
        self.retry = None;
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EAGAIN or EBUSY: it stays in the queue.
                Err(_) => {
                    self.retry = Some(self.now.after(RETRY));
                    return;
                }
            }
        }
    }

    pub fn deadline(&self) -> Option<UTime> {
        self.retry
    }

    /// Appends what has completed, and lets follow what waited for that.
    pub fn completions(&mut self, opened: &Opened, out: &mut Vec<Completion>) {
        let reaped: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        let any = !reaped.is_empty();
        for (slot, result) in reaped {
            self.completed(opened, slot as usize, result);
        }
        if any {
            self.begin(opened, None);
        }
        out.append(&mut self.done);
    }

    fn completed(&mut self, opened: &Opened, slot: usize, result: i32) {
        // Every number that the kernel hands back is one of ours.
        let Some(mut flight) = self.slots.get_mut(slot).and_then(Option::take) else {
            debug_assert!(false, "the ring completed slot {slot}, which has no request");
            return;
        };
        self.free.push(slot);
        let Some(unit) = opened.pools.get(&flight.device).map(|pool| pool.unit()) else {
            debug_assert!(false, "a request to {}, which is not open, was submitted", flight.device);
            return;
        };
        let again = match result {
            _ if result == -Errno::INTR.raw_os_error() || result == -Errno::AGAIN.raw_os_error() => true,
            // The file has become shorter.
            0 => return self.failed(unit, flight, Errno::IO),
            ..0 => return self.failed(unit, flight, Errno::from_raw_os_error(-result)),
            1.. => {
                flight.done += result as usize;
                flight.done < flight.len
            }
        };
        match unit.direct() {
            Some(file) if again => self.issue(&file.ring_file, flight),
            // Its bytes are not all there, and nothing can ask for the rest.
            None if again => self.failed(unit, flight, Errno::IO),
            _ => {
                let result = flight.finish(unit);
                self.end(flight, result);
            }
        }
    }

    fn failed(&mut self, unit: &Unit, flight: Flight, errno: Errno) {
        if matches!(flight.what, What::Write { durability: Durability::Durable, .. }) {
            unit.poison();
        }
        let error = unit.error(flight.offset, errno);
        self.end(flight, Err(error));
    }

    fn in_flight(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

impl Drop for Ring {
    /// Waits until the kernel has no memory of ours.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if let Err(error) = self.ring.submit_and_wait(1) {
                let error = Errno::from_io_error(&error);
                if !matches!(error, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) {
                    // Nothing can be known of what is in flight: its memory is the kernel's for ever.
                    std::mem::forget(std::mem::take(&mut self.slots));
                    return;
                }
            }
            let reaped: Vec<u64> = self.ring.completion().map(|entry| entry.user_data()).collect();
            for slot in reaped {
                self.slots[slot as usize] = None;
            }
        }
    }
}

impl Flight {
    /// The submission of what is left.
    fn entry(&mut self, file: &File) -> squeue::Entry {
        let fd = ring_types::Fd(file.as_raw_fd());
        let (offset, skip) = (self.offset + self.done as u64, self.done);
        match &mut self.what {
            What::Read { buffer, copy } => {
                let memory = &mut copy.as_mut().unwrap_or(buffer).as_mut_slice()[skip..self.len];
                opcode::Read::new(fd, memory.as_mut_ptr(), memory.len() as u32).offset(offset).build()
            }
            What::Write { pieces, vectors, durability } => {
                let flags = match durability {
                    Durability::Volatile => ReadWriteFlags::empty(),
                    Durability::Durable => ReadWriteFlags::DSYNC,
                };
                *vectors = left_of(pieces, skip);
                let (memory, count) = (vectors.as_ptr().cast(), vectors.len() as u32);
                opcode::Writev::new(fd, memory, count).offset(offset).rw_flags(flags.bits() as i32).build()
            }
        }
    }

    /// The outcome of a request whose bytes are all done.
    fn finish(&mut self, unit: &Unit) -> Result<Done, DeviceError> {
        match &mut self.what {
            What::Read { buffer, copy } => {
                if let Some(copy) = copy {
                    let len = buffer.len();
                    buffer.as_mut_slice().copy_from_slice(&copy.as_mut_slice()[..len]);
                }
                Ok(Done::Read(std::mem::replace(buffer, PieceMut::zeroed(0))))
            }
            What::Write { .. } => unit.unless_poisoned().map(|()| Done::Written),
        }
    }
}

/// The pieces behind the first `skip` bytes, as many as one call takes.
fn left_of(pieces: &[Piece], mut skip: usize) -> Vec<Vector> {
    let mut out = Vec::with_capacity(pieces.len().min(PIECES_MAX));
    for piece in pieces {
        let from = skip.min(piece.len());
        skip -= from;
        if from < piece.len() && out.len() < PIECES_MAX {
            let rest = &piece[from..];
            out.push(Vector { base: rest.as_ptr().expose_provenance(), len: rest.len() });
        }
    }
    out
}

/// A ring's event, for an owner whose loop watches file descriptors.
pub struct RingEvent {
    event: Arc<OwnedFd>,
    closing: Arc<AtomicBool>,
}

impl RingEvent {
    /// The event as a descriptor (an `eventfd`, read in 8 bytes, without blocking) that becomes readable when there are
    /// completions. From now on no thread turns it into a call of the queue's waker.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn take(self) -> io::Result<OwnedFd> {
        let taken = self.event.try_clone()?;
        rustix::io::ioctl_fionbio(&taken, true)?;
        self.closing.store(true, Ordering::SeqCst);
        // It wakes the thread, which ends. What else it may have read is not lost: the owner is woken once, below.
        rustix::io::write(&self.event, &1u64.to_ne_bytes())?;
        Ok(taken)
    }
}

/// The thread that turns the ring's event into a wake-up.
struct Watcher {
    event: Arc<OwnedFd>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(ready: Arc<Ready>) -> io::Result<Self> {
        let event = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let closing = Arc::new(AtomicBool::new(false));
        let (its, ends) = (Arc::clone(&event), Arc::clone(&closing));
        let thread = std::thread::Builder::new().name("bdev-ring".into()).spawn(move || {
            let mut count = [0; 8];
            loop {
                match rustix::io::read(&its, &mut count) {
                    // Whoever watches the event instead may have missed what was read here.
                    _ if ends.load(Ordering::SeqCst) => return ready.wake(),
                    Ok(_) => ready.wake(),
                    // An eventfd has no other errors.
                    Err(_) => {}
                }
            }
        })?;
        Ok(Self { event, closing, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // It fails only when the counter is full, and then the thread wakes up too.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been shown already.
            let _ = thread.join();
        }
    }
}
