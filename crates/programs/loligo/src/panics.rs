//! A panic in a process that serves ends the process, and the log says why. The event loop of a core would contain it otherwise: its
//! request would wait for ever, and others would go on with whatever state it left. What was acknowledged is durable.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::thread;

/// From here on. Panics that someone catches with a hook of their own that is set later don't count.
pub fn end_the_process() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        before(panic);
        let words = words(panic);
        tracing::error!("{words}");
        host::say_last(&words);
        std::process::abort();
    }));
}

/// In one line.
fn words(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let what = panic.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "thread '{}' {what}: this is a bug, and the process ends. Nothing acknowledged is lost: start the cluster again",
        thread.name().unwrap_or("?")
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Names the process that is to end.
    const ENDS: &str = "LOLIGO_TEST_PANIC";

    #[test]
    fn a_panic_in_a_task_ends_the_process_and_is_logged() {
        if std::env::var_os(ENDS).is_some() {
            tracing_subscriber::fmt().with_writer(std::io::stderr).init();
            super::end_the_process();
            let core = runtime::spawn_core(0, false, || async {
                // Without the hook the task's end is all that is seen of it.
                let _ = tokio::task::spawn_local(async { panic!("a task\nhas {}", "failed") }).await;
            });
            let _ = core.expect("a thread").join();
            return;
        }
        let mut test = Command::new(std::env::current_exe().expect("the test's program"));
        test.args([
            "--exact",
            "panics::tests::a_panic_in_a_task_ends_the_process_and_is_logged",
            "--nocapture",
        ]);
        let done = test.env(ENDS, "1").env("RUST_BACKTRACE", "0").output().expect("the test runs again");
        let words = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.signal(), Some(6), "SIGABRT: {words}");
        assert!(words.contains("ERROR") && words.contains("thread 'core-0' panicked at"), "{words}");
        assert!(words.contains("a task has failed: this is a bug"), "{words}");
    }
}
