//! Words on standard output. A reader that has enough (`| head`) is no error; whatever else stands in the way is told at
//! the end. Nothing panics, and a run whose output is not read goes on.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The first error of this process's standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Why nothing that is written is seen, where the process was started so.
static UNUSABLE: OnceLock<&str> = OnceLock::new();

/// From here on every text is an error: the process was started without a standard output, and [`io::stdout`] would lose the text
/// and say nothing.
pub fn set_unusable(why: &'static str) {
    UNUSABLE.get_or_init(|| why);
}

/// Whether a text could be seen.
///
/// # Errors
/// Why none can.
pub fn check() -> io::Result<()> {
    UNUSABLE.get().map_or(Ok(()), |why| Err(io::Error::other(*why)))
}

/// Writes a text as it is.
pub fn write(text: impl Display) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    // Whoever waits for a line sees it now.
    *failed = check().and_then(|()| write!(out, "{text}")).and_then(|()| out.flush()).err();
}

/// Writes a line.
pub fn line(text: impl Display) {
    write(format_args!("{text}\n"));
}

/// What stood in the way of any of it.
///
/// # Errors
/// The first error, other than that the reader has closed.
pub fn ended() -> io::Result<()> {
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
