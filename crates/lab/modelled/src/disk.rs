//! The disk: requests are taken from the kernel and done on the backing file by the same thread; their answers are given
//! by [`Pace`].

use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use devmodel::Request;
use rustix::io::Errno;

use crate::backing::Backing;
use crate::kernel::{self, Message, Operation};
use crate::pace::Pace;

/// Buffers of reads that are kept for the next ones.
const KEPT: usize = 64;

pub(crate) struct Disk {
    /// The connection to the kernel.
    pub(crate) fuse: Arc<File>,
    pub(crate) backing: Backing,
    pub(crate) pace: Arc<Pace>,
    pub(crate) buffers: Arc<BufferPool>,
    /// Held from taking a request until the model knows of it: the model hears of them in the kernel's order.
    pub(crate) turn: Mutex<()>,
}

type Turn<'a> = MutexGuard<'a, ()>;

/// Buffers that are free.
#[derive(Default)]
pub(crate) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    fn take(&self, length: usize) -> Vec<u8> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < KEPT {
            all.push(buffer);
        }
    }
}

impl Disk {
    /// Takes requests until the disk is unmounted.
    pub(crate) fn run(&self) -> io::Result<()> {
        let mut buffer = vec![0; kernel::BUFFER];
        loop {
            let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            match rustix::io::read(&*self.fuse, &mut buffer) {
                Ok(length) => match kernel::parse(buffer.get(..length).unwrap_or_default()) {
                    Some(message) => self.answer(&message, turn),
                    None => {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "a request that is not whole",
                        ));
                    }
                },
                // The asker gave up before we took it.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn answer(&self, message: &Message<'_>, turn: Turn<'_>) {
        let unique = message.unique;
        let body = |body: Vec<u8>| give(&self.fuse, &kernel::head(unique, body.len()), &body);
        let refuse = |errno: Errno| give(&self.fuse, &kernel::error(unique, errno.raw_os_error()), &[]);
        match message.operation {
            Operation::Init { minor, readahead, can } => body(kernel::init(minor, readahead, can)),
            Operation::Attributes => {
                let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
                body(kernel::attributes(self.backing.size(), user.as_raw(), group.as_raw()));
            }
            Operation::Open => body(kernel::opened()),
            Operation::FileSystem => body(kernel::file_system(self.backing.size())),
            Operation::Nothing => body(Vec::new()),
            Operation::Forget => {}
            Operation::Change => refuse(Errno::PERM),
            Operation::Unknown => refuse(Errno::NOSYS),
            Operation::Read { offset, length } => self.read(unique, offset, length, turn),
            Operation::Write { offset, data, .. }
                if self.backing.within(offset, data.len() as u64) < data.len() as u64 =>
            {
                refuse(Errno::NOSPC);
            }
            Operation::Write { offset, data, sync } => {
                let request = Request { fua: sync, ..Request::write(offset, data.len() as u64) };
                let length = data.len() as u32;
                self.plain(unique, request, kernel::written(length), turn, || {
                    self.backing.write(offset, data)
                });
            }
            Operation::Flush => self.plain(unique, Request::flush(), Vec::new(), turn, || Ok(())),
            Operation::Hole { offset, length } => {
                let length = self.backing.within(offset, length);
                let request = Request::discard(offset, length);
                self.plain(unique, request, Vec::new(), turn, || self.backing.discard(offset, length));
            }
        }
    }

    fn read(&self, unique: u64, offset: u64, length: u32, turn: Turn<'_>) {
        let length = self.backing.within(offset, u64::from(length));
        if length == 0 {
            return give(&self.fuse, &kernel::head(unique, 0), &[]);
        }
        let id = self.pace.begin(Request::read(offset, length));
        drop(turn);
        let mut buffer = self.buffers.take(length as usize);
        let done = self.backing.read(offset, &mut buffer);
        let (fuse, buffers) = (self.fuse.clone(), self.buffers.clone());
        let answer = move || {
            match done {
                Ok(()) => give(&fuse, &kernel::head(unique, buffer.len()), &buffer),
                Err(error) => give(&fuse, &kernel::error(unique, number(&error)), &[]),
            }
            buffers.give(buffer);
        };
        self.pace.finish(id, Box::new(answer));
    }

    /// A request whose answer is known beforehand, unless its work fails.
    fn plain(
        &self,
        unique: u64,
        request: Request,
        body: Vec<u8>,
        turn: Turn<'_>,
        work: impl FnOnce() -> io::Result<()>,
    ) {
        let id = self.pace.begin(request);
        drop(turn);
        let done = work();
        let fuse = self.fuse.clone();
        let answer = move || match done {
            Ok(()) => give(&fuse, &kernel::head(unique, body.len()), &body),
            Err(error) => give(&fuse, &kernel::error(unique, number(&error)), &[]),
        };
        self.pace.finish(id, Box::new(answer));
    }
}

/// An error's number; what has none is an I/O error.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

/// Writes an answer. The kernel takes it whole; one that nobody waits for any more, or that comes after the unmount, is
/// refused, and lost to nobody.
fn give(fuse: &File, head: &[u8], body: &[u8]) {
    let _ = rustix::io::writev(fuse, &[IoSlice::new(head), IoSlice::new(body)]);
}
