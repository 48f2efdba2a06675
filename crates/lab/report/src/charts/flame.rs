//! A flame graph: which functions the servers' time went to. A box is as wide as the share of samples that had the
//! function on the stack; what it called is above it. The order from left to right means nothing.

use std::collections::BTreeMap;

use super::svg::{Anchor, Style, Svg};
use super::words::{escape, fit, width};
use crate::quantity::{fixed, number};

/// What is drawn.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flame {
    /// What is shown.
    pub title: String,
    /// What else must be known.
    pub below: String,
    /// Frames from the outermost, joined by `;`, and how often each stack was seen.
    pub stacks: BTreeMap<String, u64>,
}

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 10.0;
const ROW: f64 = 17.0;
/// Rows at most: deeper frames are left out, and counted.
const ROWS_MAX: usize = 90;
/// Boxes at most: the widest are drawn, the others counted.
const BOXES_MAX: usize = 5000;
/// Pixels below which a box can't be seen.
const NARROW: f64 = 0.4;

/// A function on the stack, with what it called.
#[derive(Default)]
struct Node<'a> {
    count: u64,
    called: BTreeMap<&'a str, Node<'a>>,
}

/// A node in its place.
struct Laid<'a> {
    name: &'a str,
    depth: usize,
    /// Samples to its left.
    from: u64,
    count: u64,
}

/// Draws it; `None` where there is no sample.
pub fn chart(data: &Flame) -> Option<String> {
    let mut root = Node::default();
    for (stack, count) in &data.stacks {
        root.add(stack, *count);
    }
    if root.count == 0 {
        return None;
    }
    let mut laid = Vec::new();
    let mut left_out = 0;
    let scale = (WIDTH - 2.0 * LEFT) / root.count as f64;
    root.lay("all", (0, 0), scale, &mut laid, &mut left_out);
    // A box is never wider than the one below it, so that none hangs in the air.
    laid.sort_by_key(|l: &Laid| (std::cmp::Reverse(l.count), l.depth));
    left_out += laid.len().saturating_sub(BOXES_MAX);
    laid.truncate(BOXES_MAX);
    laid.sort_by_key(|l| (l.depth, l.from));
    Some(draw(data, &laid, scale, left_out, root.count))
}

impl<'a> Node<'a> {
    fn add(&mut self, stack: &'a str, count: u64) {
        self.count = self.count.saturating_add(count);
        let mut node = self;
        for name in stack.split(';').take(ROWS_MAX + 1) {
            node = node.called.entry(name).or_default();
            node.count = node.count.saturating_add(count);
        }
    }

    fn lay(
        &self,
        name: &'a str,
        (depth, from): (usize, u64),
        scale: f64,
        laid: &mut Vec<Laid<'a>>,
        left_out: &mut usize,
    ) {
        if self.count as f64 * scale < NARROW || depth > ROWS_MAX {
            *left_out += 1;
            return;
        }
        laid.push(Laid { name, depth, from, count: self.count });
        let mut at = from;
        for (name, called) in &self.called {
            called.lay(name, (depth + 1, at), scale, laid, left_out);
            at += called.count;
        }
    }
}

fn draw(data: &Flame, laid: &[Laid], scale: f64, left_out: usize, all: u64) -> String {
    let mut svg = Svg::new(WIDTH, &data.title);
    let left_out = match left_out {
        0 => String::new(),
        some => format!(" Boxes too narrow to be seen: {some}."),
    };
    let y = svg.heading(&data.title, &format!("{}{left_out}", data.below)) + 4.0;
    let rows = laid.iter().map(|l| l.depth).max().unwrap_or(0) + 1;
    let bottom = y + rows as f64 * ROW;
    svg.raw(&format!("<g class=\"flame\" data-left=\"{LEFT}\" data-width=\"{}\">", WIDTH - 2.0 * LEFT));
    for l in laid {
        let (x, w) = (LEFT + l.from as f64 * scale, l.count as f64 * scale);
        let top = bottom - (l.depth + 1) as f64 * ROW;
        let share = l.count as f64 / all as f64;
        // Read by the page: where it stands as shares of the whole, and how deep.
        svg.raw(&format!(
            "<g class=\"frame\" data-x=\"{:.6}\" data-w=\"{share:.6}\" data-d=\"{}\"><title>{} – {}% of the samples ({})</title>",
            l.from as f64 / all as f64,
            l.depth,
            escape(l.name),
            number(share * 100.0),
            fixed(l.count as f64, 0)
        ));
        svg.rect((x, top), ((w - 0.4).max(0.3), ROW - 1.0), colour(l), "box", "");
        if w > 30.0 {
            let style = Style { size: 10.5, class: "onbox", ..Style::plain(Anchor::Start) };
            svg.text((x + 3.0, top + 12.0), &shown(l.name, w - 6.0), style);
        }
        svg.raw("</g>");
    }
    svg.raw("</g>");
    svg.finish(bottom + 10.0)
}

/// The name, or what tells most of it in that room: the function with its type, then its beginning and end.
fn shown(name: &str, room: f64) -> String {
    const SIZE: f64 = 10.5;
    if width(name, SIZE) <= room {
        return name.to_owned();
    }
    let parts: Vec<&str> = name.split("::").collect();
    let tail = parts.get(parts.len().saturating_sub(2)..).unwrap_or_default().join("::");
    let plain = !tail.contains(['<', '>', '(', ')']);
    fit(if plain { &tail } else { name }, SIZE, room)
}

/// The kernel's apart from programs', what is unknown grey; functions of one crate or class alike.
fn colour(laid: &Laid) -> &'static str {
    const OURS: [&str; 6] = ["#f6c17f", "#f4a582", "#f2d98b", "#e9b97a", "#f0b3a0", "#e8cf9a"];
    match laid.name {
        _ if laid.depth == 0 => "#d9d9d9",
        _ if laid.depth == 1 => "#9ecae1",
        _ if laid.depth == 2 => "#c6dbef",
        name if name.ends_with("_[k]") => "#b8dcae",
        name if name.starts_with('[') => "#d9d9d9",
        name => {
            let family = name.trim_start_matches(['<', '&']).split("::").next().unwrap_or(name);
            let sum = family.bytes().fold(7_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
            OURS[sum % OURS.len()]
        }
    }
}

/// The functions that most samples ended in: name, share.
pub fn leaves(stacks: &BTreeMap<String, u64>, most: usize) -> Vec<(String, f64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, count) in stacks {
        *counts.entry(stack.rsplit(';').next().unwrap_or(stack)).or_default() += count;
    }
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(most);
    counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64 / all.max(1) as f64)).collect()
}

/// Width of a picture's drawing, for tests.
#[cfg(test)]
fn places(svg: &str) -> Vec<(f64, f64)> {
    let value = |part: &str, name: &str| -> f64 {
        let rest = part.split_once(&format!("{name}=\"")).unwrap().1;
        rest.split('"').next().unwrap().parse().unwrap()
    };
    svg.split("class=\"box\"").skip(1).map(|part| (value(part, " x"), value(part, " width"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&str, u64)]) -> Flame {
        let stacks = stacks.iter().map(|(s, c)| ((*s).to_owned(), *c)).collect();
        Flame { title: "t".into(), below: "b".into(), stacks }
    }

    #[test]
    fn a_box_is_as_wide_as_its_share_and_stands_on_its_caller() {
        let svg = chart(&flame(&[("p;t;a;b", 3), ("p;t;a", 1), ("p;u;c", 4)])).unwrap();
        let places = places(&svg);
        assert_eq!(places.len(), 7, "all, p, t, u, a, c, b");
        assert!((places[0].1 - 1159.6).abs() < 0.2, "{places:?}");
        assert!((places[2].1 / places[0].1 - 0.5).abs() < 0.01, "{places:?}");
        assert!(svg.contains("b – 37.5% of the samples (3)"), "{svg}");
    }

    #[test]
    fn what_is_too_narrow_too_deep_or_too_much_is_counted() {
        let mut stacks = vec![("p;t;main".to_owned(), 1_000_000), ("p;t;tiny".to_owned(), 1)];
        stacks.push((vec!["f"; 500].join(";"), 1_000_000));
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(s, c)| (s.as_str(), *c)).collect();
        let svg = chart(&flame(&stacks)).unwrap();
        assert!(svg.contains("too narrow to be seen: 2."), "the tiny one, and the row that is too high");
        let many: Vec<(String, u64)> = (0..40_000).map(|i| (format!("p;t;{};{i}", i % 100), 1)).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|(s, c)| (s.as_str(), *c)).collect();
        assert!(places(&chart(&flame(&many)).unwrap()).len() <= BOXES_MAX);
    }

    #[test]
    fn no_sample_is_no_picture_and_names_are_text() {
        assert_eq!(chart(&flame(&[])), None);
        assert!(chart(&flame(&[("<a as b>::c", 1)])).unwrap().contains("&lt;a as b&gt;::c"));
    }

    #[test]
    fn the_ends_of_stacks_are_told_by_their_share() {
        let flame = flame(&[("p;t;a;b", 3), ("p;t;b", 1), ("p;t;a", 4)]);
        assert_eq!(leaves(&flame.stacks, 1)[0].1, 0.5);
        assert_eq!(leaves(&flame.stacks, 9).len(), 2);
    }

    #[test]
    fn a_long_name_shows_its_end() {
        assert_eq!(shown("store::mem::MemStore::queue", 110.0), "MemStore::queue");
    }
}
