//! Charts to choose from.

use std::fmt::Write;

use crate::charts::words::escape;
use crate::figures::{Figure, Kind};

/// Bytes of charts of a kind in the page at most: the others are files beside it.
const IN_PAGE_MAX: usize = 12 << 20;

/// The charts of a kind with their choosers; empty where there are none. Without scripts the charts are the files beside.
pub fn section(figures: &[Figure], kind: Kind) -> String {
    let mut out = String::new();
    let Some(first) = figures.iter().find(|f| f.kind == kind) else { return out };
    let keys: Vec<&str> = first.keys.iter().map(|k| k.0).collect();
    let _ = write!(
        out,
        "<div class=\"chooser\" data-keys=\"{}\">\n<div class=\"choices\"></div>\n<div class=\"stage\"><noscript>The \
         charts are the files in charts/.</noscript></div>\n",
        keys.join(" ")
    );
    let mut room = IN_PAGE_MAX;
    let mut beside = String::new();
    for figure in figures.iter().filter(|f| f.kind == kind) {
        room = room.saturating_sub(figure.svg.len());
        if room == 0 {
            let name = escape(&figure.name);
            let _ = writeln!(beside, "<li><a href=\"charts/{name}.svg\">{name}</a></li>");
            continue;
        }
        let keys: String = figure.keys.iter().map(|(k, v)| format!(" data-{k}=\"{}\"", escape(v))).collect();
        let _ =
            writeln!(out, "<template data-file=\"{}\"{keys}>{}</template>", escape(&figure.name), figure.svg);
    }
    out += "</div>\n";
    if !beside.is_empty() {
        let _ = write!(out, "<p>Too large for this page, as files beside it:</p>\n<ul>\n{beside}</ul>\n");
    }
    out
}
