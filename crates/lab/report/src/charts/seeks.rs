//! A seek plot: where on a device each request went, over time; below it how often the place changed.

use std::collections::BTreeSet;
use std::fmt::Write;

use results::{RequestKind, RequestSecond, Requests};

use super::axis;
use super::scale::Scale;
use super::svg::{Anchor, SERIES, Style, Svg, px};
use super::words::width;
use crate::quantity::Quantity;

/// What is drawn.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seeks {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    pub requests: Requests,
}

const WIDTH: f64 = 860.0;
const PLOT: f64 = 300.0;
const PANEL: f64 = 100.0;
const GAP: f64 = 34.0;
/// Pixels of a dot. Those that fall on each other are drawn once.
const DOT: f64 = 1.6;

/// Draws it; `None` where there is no request.
pub fn chart(data: &Seeks) -> Option<String> {
    let requests = &data.requests;
    let moving = || requests.requests.iter().filter(|r| r.kind != RequestKind::Flush);
    let first = requests.requests.first()?.t.floor();
    let last = requests.requests.last()?.t.max(first + 1.0);
    let highest = moving().map(|r| r.sector.saturating_add(r.sectors)).max()?;
    let mut svg = Svg::new(WIDTH, &data.title);
    let top = svg.heading(&data.title, &data.below) + GAP - 6.0;
    let time = Scale { low: 0.0, high: last - first, from: 74.0, to: WIDTH - 16.0, log: false };
    let bottom = top + PLOT;
    let unit = 2.0 * f64::from(1 << 20);
    let place = Scale::linear(highest as f64 / unit, bottom, top, 6);
    axis::grid(&mut svg, &time, (top, bottom));
    rows(&mut svg, &time, &place, 6);
    svg.text((time.from, top - 7.0), "place on the device (GiB)", Style::bold(Anchor::Start));
    let mut x = time.from + width("place on the device (GiB)", 11.0 * 1.12) + 20.0;
    let kinds = [
        (RequestKind::Read, "reads", 0),
        (RequestKind::Write, "writes", 5),
        (RequestKind::Discard, "discards", 6),
    ];
    for (kind, name, colour) in kinds {
        let dots: BTreeSet<(i64, i64)> = moving()
            .filter(|r| r.kind == kind)
            .map(|r| (time.at(r.t - first), place.at(r.sector as f64 / unit)))
            .map(|(x, y)| ((x / DOT).round() as i64, (y / DOT).round() as i64))
            .collect();
        if dots.is_empty() {
            continue;
        }
        x += svg.legend_entry((x, top - 7.0), name, (colour, colour), 160.0);
        let mut d = String::new();
        for (x, y) in dots {
            // Writing to a String can't fail.
            let _ = write!(d, "M{} {}h{DOT}", px(x as f64 * DOT), px(y as f64 * DOT));
        }
        let stroke = SERIES[colour % SERIES.len()];
        svg.raw(&format!("<path class=\"dots s{colour}\" d=\"{d}\" stroke=\"{stroke}\" stroke-width=\"{DOT}\" fill=\"none\"/>"));
    }
    let end = rates(&mut svg, requests, (&time, first), bottom + GAP);
    let height =
        end + axis::below(&mut svg, &time, Quantity::Seconds.unit(1.0), "time in the phase", (end, end));
    Some(svg.finish(height))
}

/// A line of the panel below: its name, its place among the colours, and its value in a second.
type Rate = (&'static str, usize, fn(&RequestSecond) -> u64);

fn rows(svg: &mut Svg, time: &Scale, scale: &Scale, about: usize) {
    let ticks = scale.ticks(about);
    for (tick, label) in ticks.iter().zip(axis::labels(&ticks)) {
        svg.line((time.from, scale.at(*tick)), (time.to, scale.at(*tick)), axis::GRID, "grid");
        svg.text((time.from - 6.0, scale.at(*tick) + 4.0), &label, Style::faint(Anchor::End));
    }
}

/// The panel below; gives its lower edge.
fn rates(svg: &mut Svg, requests: &Requests, (time, first): (&Scale, f64), top: f64) -> f64 {
    let bottom = top + PANEL;
    let lines: [Rate; 4] = [
        ("seeks", 7, |s| s.seeks),
        ("reads", 0, |s| s.reads),
        ("writes", 5, |s| s.writes),
        ("flushes", 2, |s| s.flushes),
    ];
    let largest = requests.seconds.iter().flat_map(|s| lines.iter().map(|l| l.2(s))).max().unwrap_or(1);
    let scale = Scale::linear(largest as f64, bottom, top, 4);
    axis::grid(svg, time, (top, bottom));
    rows(svg, time, &scale, 4);
    // Read by the page for what is pointed at.
    svg.raw(&format!(
        "<g class=\"panel\" data-t=\"{} {} {}\" data-v=\"{} {} {}\" data-unit=\"a second\">",
        px(time.from),
        px(time.to),
        time.high,
        px(bottom),
        px(top),
        scale.high
    ));
    svg.rect((time.from, top), (time.to - time.from, PANEL), "none", "catch", "");
    for (number, (name, colour, of)) in lines.iter().enumerate() {
        let mut d = String::new();
        for second in &requests.seconds {
            // A second's data is drawn at its middle.
            let x = time.at((second.t - 0.5 - first).clamp(0.0, time.high));
            let _ = write!(
                d,
                "{}{} {}",
                if d.is_empty() { 'M' } else { 'L' },
                px(x),
                px(scale.at(of(second) as f64))
            );
        }
        svg.raw(&format!(
            "<path class=\"line s{}\" data-name=\"{name}\" d=\"{d}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>",
            20 + number,
            SERIES[colour % SERIES.len()]
        ));
    }
    svg.raw("</g>");
    svg.text((time.from, top - 7.0), "requests a second", Style::bold(Anchor::Start));
    let mut x = time.from + width("requests a second", 11.0 * 1.12) + 20.0;
    for (number, (name, colour, _)) in lines.iter().enumerate() {
        x += svg.legend_entry((x, top - 7.0), name, (*colour, 20 + number), 160.0);
    }
    bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Request;

    fn seeks(requests: Vec<Request>) -> Seeks {
        let seconds =
            vec![RequestSecond { t: 8.0, reads: 1, writes: 3, seeks: 2, ..RequestSecond::default() }];
        Seeks {
            title: "t".into(),
            below: "b".into(),
            requests: Requests { requests, seconds, one_of: 1, ..Requests::default() },
        }
    }

    fn request(t: f64, sector: u64, kind: RequestKind) -> Request {
        Request { t, sector, sectors: 8, kind }
    }

    #[test]
    fn each_kind_has_its_dots_and_equal_ones_are_drawn_once() {
        let mut all = vec![request(7.5, 0, RequestKind::Read), request(7.6, 4 << 21, RequestKind::Write)];
        all.extend([request(7.6, 4 << 21, RequestKind::Write), request(7.7, 0, RequestKind::Flush)]);
        let svg = chart(&seeks(all)).unwrap();
        assert_eq!(svg.matches("class=\"dots").count(), 2);
        assert_eq!(svg.matches(&format!("h{DOT}")).count(), 2);
        assert!(svg.contains(">writes<") && !svg.contains(">discards<"));
    }

    #[test]
    fn nothing_but_flushes_is_no_picture() {
        assert_eq!(chart(&seeks(vec![request(7.5, 0, RequestKind::Flush)])), None);
        assert_eq!(chart(&seeks(Vec::new())), None);
    }

    #[test]
    fn a_request_at_the_end_of_the_largest_device_is_drawn() {
        assert!(chart(&seeks(vec![request(1e9, u64::MAX, RequestKind::Read)])).is_some());
    }
}
