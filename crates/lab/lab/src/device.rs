//! `loligo lab device`: a modelled device served for a loop device, or the model's own figures.

use std::io::Write;
use std::time::Duration;

use devmodel::{Figures, Model, Pattern};
use modelled::timing::{Constant, Timing};

use crate::args::DeviceArgs;
use crate::error::LabError;

/// Serves a device until it is unmounted, or prints figures.
pub(crate) fn device(args: &DeviceArgs) -> Result<(), LabError> {
    let size = bytes("--size", &args.size)?;
    let parameters = parameters(&args.parameters)?;
    match (&args.backing, &args.mount) {
        (Some(backing), Some(mount)) => {
            let lead = Duration::from_micros(args.lead_us);
            let served = modelled::Served { size, backing: backing.clone(), mount: mount.clone(), lead };
            serve(&served, timing(&args.model, &parameters, size)?)
        }
        _ if args.figures => figures(args, &parameters, size),
        _ => Err(LabError::Nothing("give --backing and --mount to serve it, or --figures".to_owned())),
    }
}

fn bytes(what: &str, text: &str) -> Result<u64, LabError> {
    let wrong = || LabError::Nothing(format!("{what}: '{text}' is not a size (4096, 64K, 4M, 10GiB)"));
    options::parse_size(text).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// `a=b,c=d` in pairs.
fn parameters(text: &str) -> Result<Vec<(String, String)>, LabError> {
    let pair = |part: &str| match part.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(LabError::Nothing(format!("--parameters: '{part}' is not NAME=VALUE"))),
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn timing(model: &str, parameters: &[(String, String)], size: u64) -> Result<Box<dyn Timing>, LabError> {
    if model == "none" {
        return Ok(Box::new(Constant::default()));
    }
    Ok(Box::new(Model::named(model, parameters, size)?))
}

fn serve(served: &modelled::Served, timing: Box<dyn Timing>) -> Result<(), LabError> {
    let ready = || say(&format!("{} is the disk until it is unmounted", served.mount.display()));
    let counts = modelled::serve(served, timing, ready)?;
    let mean = counts.late_nanos.checked_div(counts.late).unwrap_or(0) / 1000;
    say(&format!(
        "{} requests; {} were later than the model, by {mean} us on average, since this machine was slower",
        counts.answered, counts.late
    ));
    Ok(())
}

/// Nobody may listen any more.
fn say(words: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{words}").and_then(|()| out.flush());
}

fn figures(args: &DeviceArgs, parameters: &[(String, String)], size: u64) -> Result<(), LabError> {
    let span = args.span.as_deref().map_or(Ok(0), |text| bytes("--span", text))?;
    let mut rows = Vec::new();
    for (name, standard) in devmodel::standard_patterns() {
        let mut model = Model::named(&args.model, parameters, size)?;
        let think = args.think_us.saturating_mul(1000);
        let (warm_up, time) = (nanos(args.warm_up_s), nanos(args.time_s));
        let pattern = Pattern { span_bytes: span, think, warm_up, time, ..standard };
        rows.push((name, pattern, devmodel::measure(&mut model, &pattern)));
    }
    if args.json {
        say(&json(&rows));
        return Ok(());
    }
    say(&table(&rows));
    for parameter in devmodel::parameters(&args.model)? {
        say(&format!(
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
            "p99_ns": f.p99,
            "flush_mean_ns": f.flush_mean,
        })
    };
    serde_json::Value::from(rows.iter().map(row).collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_pairs_and_anything_else_is_refused() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(parameters("a=1, b=2ms").unwrap(), [pair("a", "1"), pair("b", "2ms")]);
        assert_eq!(parameters("").unwrap(), []);
        assert!(parameters("a").is_err());
    }
}
