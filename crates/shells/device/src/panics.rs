//! Panics of redb as errors: it checks some of what it reads with assertions, so a damaged file can panic in it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread becomes an error, so that its message and backtrace are not printed.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a redb file.
///
/// # Errors
/// It panicked: the error has the panic's message, and nothing is printed. Its changes may be incomplete: the caller must
/// not use the file any more.
pub fn catch_redb<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(outer);
    done.map_err(|panic| format!("redb gave up on it: {}", words(&*panic)))
}

/// A panic's message, in one line.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words_and_other_threads_panic_as_before() {
        let (left, right) = (1, 2);
        let error = catch_redb(|| assert_eq!(left, right, "page {left}")).unwrap_err();
        assert_eq!(error, "redb gave up on it: assertion `left == right` failed: page 1 left: 1 right: 2");
        assert_eq!(catch_redb(|| 3), Ok(3));
        assert!(!CAUGHT.get());
    }
}
