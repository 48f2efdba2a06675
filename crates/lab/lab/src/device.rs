//! `loligo lab device`: a modelled device served for a loop device, or the model's own figures.

use std::time::Duration;

use devmodel::{Figures, Model, Pattern};
use modelled::timing::{Constant, Timing};

use crate::args::DeviceArgs;
use crate::error::LabError;
use crate::output;

/// Not a model: everything takes the same time.
const CONSTANT: &str = "none";

/// Serves a device until it is unmounted, or prints figures, or the transport overhead.
pub(crate) fn device(args: &DeviceArgs) -> Result<(), LabError> {
    let Some(model) = args.model.as_deref() else { return overhead(args.json) };
    let size = args.size;
    let parameters = devmodel::pairs(&args.parameters)?;
    match (&args.backing, &args.mount) {
        (Some(backing), Some(mount)) => {
            let overhead = modelled::TransportOverhead {
                request: Duration::from_micros(args.overhead_us),
                flush: Duration::from_micros(args.flush_overhead_us),
                mib: Duration::from_micros(args.mib_overhead_us),
            };
            let served = modelled::Served { size, backing: backing.clone(), mount: mount.clone(), overhead };
            serve(&served, timing(model, &parameters, size)?)
        }
        _ if args.figures => figures(args, model, &parameters, size),
        _ => {
            // A wrong name is reported first: what else is missing does not help with it.
            timing(model, &parameters, size)?;
            Err(LabError::Nothing("give --backing and --mount to serve it, or --figures".to_owned()))
        }
    }
}

/// Measures the transport overhead and prints it as the options that subtract it.
fn overhead(json: bool) -> Result<(), LabError> {
    let dir = std::env::temp_dir().join(format!("loligo-overhead-{}", std::process::id()));
    let loligo = std::env::current_exe().unwrap_or_else(|_| "loligo".into());
    let overhead = testbed::overhead(&dir, &loligo);
    // Nothing is in it but an empty ledger and the disk's last words.
    let _ = std::fs::remove_dir_all(&dir);
    let overhead = overhead?;
    let [request, flush, mib] =
        [overhead.request, overhead.flush, overhead.mib].map(|time| time.as_micros() as u64);
    if json {
        output::line(
            serde_json::json!({ "overhead_us": request, "flush_overhead_us": flush, "mib_overhead_us": mib }),
        );
    } else {
        output::line(format_args!(
            "--overhead-us {request} --flush-overhead-us {flush} --mib-overhead-us {mib}"
        ));
    }
    Ok(())
}

fn timing(model: &str, parameters: &[(String, String)], size: u64) -> Result<Box<dyn Timing>, LabError> {
    if model != CONSTANT {
        return Ok(Box::new(Model::named(model, parameters, size)?));
    }
    let (mut time, mut mib) = (0, 0);
    for (name, value) in parameters {
        let wrong =
            || LabError::Nothing(format!("the device 'none' takes time_us and mib_us, not {name}={value}"));
        let part = match name.as_str() {
            "time_us" => &mut time,
            "mib_us" => &mut mib,
            _ => return Err(wrong()),
        };
        *part = value.parse::<u64>().map_err(|_| wrong())?.saturating_mul(1000);
    }
    Ok(Box::new(Constant::new(time, mib)))
}

fn serve(served: &modelled::Served, timing: Box<dyn Timing>) -> Result<(), LabError> {
    let ready = || output::line(format_args!("{} is the disk until it is unmounted", served.mount.display()));
    let counts = modelled::serve(served, timing, ready)?;
    let mean = counts.late_nanos.checked_div(counts.late).unwrap_or(0) / 1000;
    output::line(format_args!(
        "{} requests; {} were later than the model, by {mean} us on average, since this machine was slower",
        counts.answered, counts.late
    ));
    Ok(())
}

fn figures(
    args: &DeviceArgs,
    model_name: &str,
    parameters: &[(String, String)],
    size: u64,
) -> Result<(), LabError> {
    if model_name == CONSTANT {
        return Err(LabError::NoFigures);
    }
    let patterns = devmodel::standard_patterns();
    let largest = patterns.iter().map(|(_, pattern)| pattern.block_bytes).max().unwrap_or(0);
    let span = args.span.unwrap_or(0);
    for (flag, bytes) in [("--size", Some(size)), ("--span", args.span)] {
        if bytes.is_some_and(|bytes| bytes < largest) {
            return Err(LabError::TooSmallForFigures { flag, least: largest });
        }
    }
    let mut rows = Vec::new();
    for (name, standard) in patterns {
        let mut model = Model::named(model_name, parameters, size)?;
        let think = args.think_us.saturating_mul(1000);
        let (warm_up, time) = (nanos(args.warm_up_s), nanos(args.time_s));
        let pattern = Pattern { span_bytes: span, think, warm_up, time, ..standard };
        rows.push((name, pattern, devmodel::measure(&mut model, &pattern)));
    }
    if args.json {
        output::line(json(&rows));
        return Ok(());
    }
    output::line(table(&rows));
    for parameter in devmodel::parameters(model_name)? {
        output::line(format_args!(
            "{} [{}]: {} ({})",
            parameter.name, parameter.default, parameter.about, parameter.source
        ));
    }
    Ok(())
}

fn nanos(seconds: u64) -> devmodel::Nanos {
    seconds.saturating_mul(1_000_000_000)
}

type Row = (&'static str, Pattern, Figures);

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<20} {:>8} {:>5} {:>10} {:>9} {:>10} {:>10} {:>10}\n",
        "pattern", "block", "depth", "IOPS", "MB/s", "mean us", "p99 us", "flush us"
    );
    for (name, pattern, f) in rows {
        text += &format!(
            "{name:<20} {:>8} {:>5} {:>10.1} {:>9.2} {:>10} {:>10} {:>10}\n",
            pattern.block_bytes,
            pattern.depth,
            f.iops,
            f.bytes_per_second / 1e6,
            f.mean / 1000,
            f.p99 / 1000,
            f.flush_mean / 1000
        );
    }
    text
}

fn json(rows: &[Row]) -> String {
    let row = |(name, pattern, f): &Row| {
        serde_json::json!({
            "pattern": name,
            "op": if pattern.op == devmodel::Op::Read { "read" } else { "write" },
            "order": if pattern.order == devmodel::Order::Random { "random" } else { "sequential" },
            "block_bytes": pattern.block_bytes,
            "depth": pattern.depth,
            "flush_every": pattern.flush_every,
            "warm_up_ns": pattern.warm_up,
            "time_ns": pattern.time,
            "iops": f.iops,
            "mean_ns": f.mean,
            "p50_ns": f.p50,
            "p99_ns": f.p99,
            "flush_mean_ns": f.flush_mean,
        })
    };
    serde_json::Value::from(rows.iter().map(row).collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use clap::{FromArgMatches, Subcommand};

    use super::*;
    use crate::args::LabCommand;

    fn said(line: &str) -> String {
        let words = std::iter::once("lab").chain(line.split(' '));
        let matches = LabCommand::augment_subcommands(clap::Command::new("lab")).get_matches_from(words);
        let LabCommand::Device(args) = LabCommand::from_arg_matches(&matches).unwrap() else {
            panic!("{line}")
        };
        device(&args).unwrap_err().to_string()
    }

    #[test]
    fn figures_that_would_mean_nothing_are_refused() {
        let words = said("device --model none --figures");
        assert!(words.contains("'none'") && words.contains("no figures"), "{words}");
        for flag in ["--size", "--span"] {
            let words = said(&format!("device --model ssd --figures {flag} 1"));
            assert!(words.starts_with(flag) && words.contains("1048576"), "{words}");
        }
    }
}
