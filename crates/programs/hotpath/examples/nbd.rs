//! A door for measuring programs: serves a file through the device layer as an NBD export on a Unix socket, so that
//! fio's `nbd` engine measures the layer, with or without a model. Never part of the product.
//!
//! `nbd SOCKET FILE SIZE [MODEL [PARAMETERS]]`: makes the file if it is missing, serves one connection after the other
//! until it is ended. SIZE in bytes.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use blockdev::{DeviceId, Done, Durability, Op};
use buffer::{Piece, PieceMut, Rope};
use device::{Device, DeviceOptions, DeviceRole, Modelled, ModelledRange};

/// Requests worked on at once: what a SATA queue holds, and some.
const THREADS: usize = 40;
/// A request larger than this ends the connection.
const LENGTH_MAX: u32 = 32 << 20;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const ANSWER_MAGIC: u32 = 0x6744_6698;
/// Has flags, takes flushes, takes trims.
const EXPORT_FLAGS: u16 = 1 | 4 | 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, file, size, model @ ..] = &args[..] else {
        return Err("usage: nbd SOCKET FILE SIZE [MODEL [PARAMETERS]]".into());
    };
    let size: u64 = size.parse()?;
    let path = PathBuf::from(file);
    let mut device = Device::open(&path, true, DeviceRole::Image, DeviceOptions::default())?;
    device.set_len(size)?;
    if let Some(name) = model.first() {
        let parameters = model.get(1).map_or("", String::as_str);
        device = device.on(ModelledRange::new(&Modelled::named(name, parameters, size)?, 0, size));
    }
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    for stream in listener.incoming() {
        match serve(&device, &stream?, size) {
            // A client that just goes is no error.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => eprintln!("{error}"),
            _ => {}
        }
    }
    Ok(())
}

/// What a worker is given.
struct Job {
    op: Op,
    cookie: u64,
}

/// One connection, from its greeting to its end.
fn serve(device: &Device, stream: &UnixStream, size: u64) -> io::Result<()> {
    let mut input = BufReader::with_capacity(256 << 10, stream);
    negotiate(&mut input, stream, size)?;
    let (jobs, inbox) = channel::<Job>();
    let inbox = Arc::new(Mutex::new(inbox));
    let output = Mutex::new(stream);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (inbox, output) = (&inbox, &output);
            scope.spawn(move || work(device, inbox, output));
        }
        let ended = (|| {
            while let Some(job) = read_request(&mut input)? {
                // Workers end only when the sender is gone.
                let _ = jobs.send(job);
            }
            Ok(())
        })();
        drop(jobs);
        ended
    })
}

/// Performs jobs until there are no more.
fn work(device: &Device, inbox: &Mutex<Receiver<Job>>, output: &Mutex<&UnixStream>) {
    loop {
        let job = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let (errno, data) = match device.perform(DeviceId::Data, job.op) {
            Ok(Done::Read(buffer)) => (0, buffer.freeze()),
            Ok(Done::Written | Done::Flushed | Done::Discarded) => (0, Piece::empty()),
            Err(error) => (error.errno().0.unsigned_abs(), Piece::empty()),
        };
        let mut answer = Vec::with_capacity(16 + data.len());
        answer.extend(ANSWER_MAGIC.to_be_bytes());
        answer.extend(errno.to_be_bytes());
        answer.extend(job.cookie.to_be_bytes());
        answer.extend(&data[..]);
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.write_all(&answer).is_err() {
            return;
        }
    }
}

fn u16_of(input: &mut impl Read) -> io::Result<u16> {
    let mut bytes = [0; 2];
    input.read_exact(&mut bytes).map(|()| u16::from_be_bytes(bytes))
}

fn u32_of(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes).map(|()| u32::from_be_bytes(bytes))
}

fn u64_of(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes).map(|()| u64::from_be_bytes(bytes))
}

/// The next request; `None` when the client says goodbye.
fn read_request(input: &mut impl Read) -> io::Result<Option<Job>> {
    if u32_of(input)? != REQUEST_MAGIC {
        return Err(io::Error::other("no request"));
    }
    let (_flags, kind) = (u16_of(input)?, u16_of(input)?);
    let (cookie, offset, length) = (u64_of(input)?, u64_of(input)?, u32_of(input)?);
    if length > LENGTH_MAX && kind <= 1 {
        return Err(io::Error::other("too long"));
    }
    let op = match kind {
        0 => Op::Read { offset, buffer: PieceMut::zeroed(length as usize) },
        1 => {
            let mut data = PieceMut::zeroed(length as usize);
            input.read_exact(data.as_mut_slice())?;
            Op::Write { offset, data: Rope::from(data.freeze()), durability: Durability::Volatile }
        }
        2 => return Ok(None),
        3 => Op::Flush,
        4 => Op::Discard { offset, len: u64::from(length) },
        _ => return Err(io::Error::other("an unknown request")),
    };
    Ok(Some(Job { op, cookie }))
}

/// The fixed newstyle handshake, without structured replies: every export name is ours.
fn negotiate(input: &mut impl Read, mut output: &UnixStream, size: u64) -> io::Result<()> {
    output.write_all(b"NBDMAGIC")?;
    output.write_all(&OPTION_MAGIC.to_be_bytes())?;
    output.write_all(&3u16.to_be_bytes())?;
    let client_flags = u32_of(input)?;
    let export = [&size.to_be_bytes()[..], &EXPORT_FLAGS.to_be_bytes()].concat();
    loop {
        if u64_of(input)? != OPTION_MAGIC {
            return Err(io::Error::other("no option"));
        }
        let (option, length) = (u32_of(input)?, u32_of(input)?);
        if length > 65_536 {
            return Err(io::Error::other("an option that is too long"));
        }
        io::copy(&mut input.take(u64::from(length)), &mut io::sink())?;
        let reply = |kind: u32, data: &[u8]| {
            let head = [option.to_be_bytes(), kind.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat();
            [&REPLY_MAGIC.to_be_bytes()[..], &head, data].concat()
        };
        match option {
            // The old way to choose an export.
            1 => {
                output.write_all(&export)?;
                let padding = if client_flags & 2 == 0 { 124 } else { 0 };
                return output.write_all(&vec![0; padding]);
            }
            2 => {
                output.write_all(&reply(1, &[]))?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // Information, and go.
            6 | 7 => {
                output.write_all(&reply(3, &[&0u16.to_be_bytes()[..], &export].concat()))?;
                output.write_all(&reply(1, &[]))?;
                if option == 7 {
                    return Ok(());
                }
            }
            _ => output.write_all(&reply(0x8000_0001, &[]))?,
        }
    }
}
