//! The `ladder` of a workload: depths to saturation, fixed rates, a target for latency.

use crate::fields::{Fields, text};
use crate::model::{Clients, Ladder, LatencyTarget};
use crate::node::Node;
use crate::problem::{Conflict, ProblemKind, Problems};

const KEYS: [&str; 4] = ["depths", "gain", "rates", "target"];

/// Of deeper ladders than this a user is warned by an error: a mistyped depth would take all memory.
const DEEPEST: u32 = 65_536;

/// The ladder of a load, if it has one. `rates`: whether the load knows fixed rates and percentiles.
pub(crate) fn read(load: &Fields<'_>, clients: &Clients, rates: bool, p: &mut Problems) -> Option<Ladder> {
    let fields = Fields::of(load.get("ladder")?, &format!("ladder of {}", load.place), &KEYS, p)?;
    for key in ["in_flight", "rate"] {
        if let Some(entry) = load.entry(key) {
            p.add(entry.at, Conflict::LadderWith { key });
        }
    }
    for key in ["rates", "target"] {
        if let Some(entry) = fields.entry(key).filter(|_| !rates) {
            p.add(entry.at, Conflict::LadderOfBench { key });
        }
    }
    let (first_depth, last_depth) = depths(&fields, clients, p);
    Some(Ladder {
        first_depth,
        last_depth,
        gain: fields.share("gain", 0.001, 1.0, p).unwrap_or(0.05),
        rates: shares(&fields, p),
        target: target(&fields, p),
    })
}

/// From one operation for each instance to 1024 over all, or as near as doublings come.
fn depths(fields: &Fields<'_>, clients: &Clients, p: &mut Problems) -> (u32, u32) {
    let instances = clients.total();
    let usual = (instances, instances.max(1024));
    let Some(node) = fields.get("depths") else { return usual };
    let Some(inner) = Fields::of(node, "depths", &["from", "to"], p) else { return usual };
    let first = inner.count("from", 1..=DEEPEST, p).unwrap_or(usual.0);
    let last = inner.count("to", 1..=DEEPEST, p).unwrap_or(usual.1.max(first));
    if first % instances != 0 {
        let at = inner.get("from").map_or(inner.at, |n| n.at);
        p.add(at, Conflict::NotAMultiple { in_flight: first, instances });
    }
    if last < first {
        let at = inner.get("to").map_or(inner.at, |n| n.at);
        p.add(at, Conflict::DepthsDescend { first, last });
    }
    (first, last)
}

/// Shares of the saturated throughput. Above it nothing holds, so nothing above 1.5 can be meant.
fn shares(fields: &Fields<'_>, p: &mut Problems) -> Vec<f64> {
    let mut shares: Vec<f64> = Vec::new();
    for node in fields.one_or_more("rates", p).unwrap_or_default() {
        let Some(share) = number(node, "rates", (0.01, 1.5), p) else { continue };
        if shares.last().is_some_and(|before| share <= *before) {
            p.add(node.at, Conflict::RatesDescend);
        }
        shares.push(share);
    }
    shares
}

fn target(fields: &Fields<'_>, p: &mut Problems) -> Option<LatencyTarget> {
    let inner = Fields::of(fields.get("target")?, "target", &["percentile", "latency"], p)?;
    inner.need(&["percentile", "latency"], p);
    let percentile = number(inner.get("percentile")?, "percentile", (1.0, 99.99), p);
    let node = inner.get("latency")?;
    let latency = text(node, "latency", p)?;
    let latency_us = microseconds(latency);
    if latency_us.is_none() {
        let want = "a time with its unit (500us, 5ms, 1s)".to_owned();
        p.add(node.at, ProblemKind::Value { place: "latency".to_owned(), text: latency.to_owned(), want });
    }
    Some(LatencyTarget { percentile: percentile?, latency_us: latency_us? })
}

/// A number within two others, both of them included.
fn number(node: &Node, key: &'static str, (low, high): (f64, f64), p: &mut Problems) -> Option<f64> {
    let text = text(node, key, p)?;
    let number = text.parse::<f64>().ok().filter(|n| (low..=high).contains(n));
    if number.is_none() {
        let want = format!("a number from {low} to {high}");
        p.add(node.at, ProblemKind::Value { place: key.to_owned(), text: text.to_owned(), want });
    }
    number
}

/// `500us`, `5ms`, `0.5s`: above nothing and at most an hour.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let us = number.trim_end().parse::<f64>().ok()? * unit;
    (us > 0.0 && us <= 3.6e9).then_some(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(microseconds("5ms"), Some(5000.0));
        assert_eq!(microseconds("500 us"), Some(500.0));
        assert_eq!(microseconds("0.5s"), Some(500_000.0));
        assert!(["5", "ms", "-1ms", "0us", "2h", "nans", "infs"].iter().all(|t| microseconds(t).is_none()));
    }
}
