//! Charts to choose from.

use std::fmt::Write;

use crate::charts::words::escape;
use crate::figures::{Figure, Kind};

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
    for figure in figures.iter().filter(|f| f.kind == kind) {
        let keys: String = figure.keys.iter().map(|(k, v)| format!(" data-{k}=\"{}\"", escape(v))).collect();
        let _ =
            writeln!(out, "<template data-file=\"{}\"{keys}>{}</template>", escape(&figure.name), figure.svg);
    }
    out + "</div>\n"
}
