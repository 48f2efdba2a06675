//! Where log lines go: standard error, or DIR/log when detached.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// What the log shows at one of Ceph's levels (0 errors, 1 to 5 some, 10 much, 20 all); `None` is the default.
fn filter(level: Option<u8>) -> LevelFilter {
    match level {
        None | Some(1..=5) => LevelFilter::INFO,
        Some(0) => LevelFilter::ERROR,
        Some(6..=10) => LevelFilter::DEBUG,
        Some(_) => LevelFilter::TRACE,
    }
}

/// The level that the highest `debug_*` setting asks for. A value that is none is refused when the options are read.
fn start_level(settings: &[(String, String)]) -> Option<u8> {
    options::highest_log_level(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// Starts logging. OSDs raise the level while they run.
pub fn init(settings: &[(String, String)]) {
    let at_start = start_level(settings);
    let (level, handle) = reload::Layer::new(filter(at_start));
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(host::log_writer);
    // Only fails when a logger is set already.
    let _ = tracing_subscriber::registry().with(level).with(lines).try_init();
    host::on_log_level(move |level| {
        // Only fails when the logger is gone, as at the process's end.
        let _ = handle.reload(filter(at_start).max(filter(level)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_of_a_known_subsystem_counts() {
        let level = |settings: &[(&str, &str)]| {
            let owned: Vec<_> = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            filter(start_level(&owned))
        };
        assert_eq!(level(&[]), LevelFilter::INFO);
        assert_eq!(level(&[("debug_osd", "0"), ("debug ms", "0/20")]), LevelFilter::ERROR);
        assert_eq!(level(&[("debug_osd", "10/20"), ("debug_mon", "1")]), LevelFilter::DEBUG);
        assert_eq!(level(&[("DEBUG_OSD", "20")]), LevelFilter::TRACE);
        assert_eq!(
            level(&[("debug_nonsense", "20"), ("debug_asserts_on_shutdown", "20")]),
            LevelFilter::INFO
        );
    }
}
