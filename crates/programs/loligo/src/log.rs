//! Where log lines go: standard error, or DIR/log when detached.

use std::io::IsTerminal;

use tracing::Level;

/// The level that the highest `debug_*` setting asks for (Ceph's numbers: 0 errors, 1 to 5 some, 10 much, 20 all).
fn level(settings: &[(String, String)]) -> Level {
    let numbers = settings.iter().filter(|(name, _)| options::normalize(name).starts_with("debug_"));
    // `5/20` has the level of the file first, that of the memory log after it.
    let highest = numbers.filter_map(|(_, v)| v.split('/').next()?.trim().parse::<u32>().ok()).max();
    match highest {
        None | Some(1..=5) => Level::INFO,
        Some(0) => Level::ERROR,
        Some(6..=10) => Level::DEBUG,
        Some(_) => Level::TRACE,
    }
}

/// Starts logging.
pub fn init(settings: &[(String, String)]) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(level(settings))
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(host::log_writer);
    // Only fails when a logger is set already.
    let _ = builder.try_init();
}
