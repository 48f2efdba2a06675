//! Where log lines go: standard error, or DIR/log when detached.

use std::io::IsTerminal;

use tracing::Level;

/// The level that the highest `debug_*` setting asks for (Ceph's numbers: 0 errors, 1 to 5 some, 10 much, 20 all).
fn level(settings: &[(String, String)]) -> Level {
    let levels = settings.iter().filter(|(name, _)| options::is_log_level(&options::normalize(name)));
    // A value that is none is refused when the options are read. The log in memory, after the slash, is Ceph's.
    let highest = levels.filter_map(|(_, value)| Some(options::parse_log_level(value)?.0)).max();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_of_a_known_subsystem_counts() {
        let level = |settings: &[(&str, &str)]| {
            let owned: Vec<_> = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            super::level(&owned)
        };
        assert_eq!(level(&[]), Level::INFO);
        assert_eq!(level(&[("debug_osd", "0"), ("debug ms", "0/20")]), Level::ERROR);
        assert_eq!(level(&[("debug_osd", "10/20"), ("debug_mon", "1")]), Level::DEBUG);
        assert_eq!(level(&[("DEBUG_OSD", "20")]), Level::TRACE);
        assert_eq!(level(&[("debug_nonsense", "20"), ("debug_asserts_on_shutdown", "20")]), Level::INFO);
    }
}
