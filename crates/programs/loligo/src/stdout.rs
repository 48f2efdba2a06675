//! Whether standard output takes words. In the place of a closed one Rust's runtime opens /dev/null before `main` runs, and what is written
//! there would be lost without an error.

use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{OFlags, fcntl_getfl};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const READ_ONLY: u8 = 2;

static FOUND: AtomicU8 = AtomicU8::new(OPEN);

/// Runs before Rust's runtime: it makes a system call and nothing else.
extern "C" fn look() {
    let found = match fcntl_getfl(rustix::stdio::stdout()) {
        Ok(flags) if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) => READ_ONLY,
        Ok(_) => OPEN,
        Err(_) => CLOSED,
    };
    FOUND.store(found, Ordering::Relaxed);
}

#[used]
#[allow(
    unsafe_code,
    reason = "a function's address is put where the C library looks for what runs before `main`"
)]
// SAFETY: the section has addresses of functions, and this one needs nothing that is not there yet.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Why nothing that is written to it is seen, if so.
pub fn why_unusable() -> Option<&'static str> {
    match FOUND.load(Ordering::Relaxed) {
        CLOSED => Some("it is closed"),
        READ_ONLY => Some("it is open for reading alone"),
        _ => None,
    }
}
