//! SVG text, piece by piece. Every piece has colours of its own, so that a chart is whole as a file; class names let the
//! page change them for dark screens.

use std::fmt::Write;

use super::words::{FONT, escape, width};

/// Colours that also people with red-green blindness can distinguish (M. Okabe and K. Ito, "Color universal design",
/// 2008), without those that vanish on white or black; the last two are P. Tol's, "Colour schemes", 2021.
pub const SERIES: [&str; 9] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f7f7f", "#882255", "#999933"];

/// A picture that grows.
pub struct Svg {
    width: f64,
    body: String,
    name: String,
}

/// Which end of a text is at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// Its beginning.
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Style {
    /// Pixels.
    pub size: f64,
    /// Its end that is at the place.
    pub anchor: Anchor,
    /// `ink`, `faint`, or a colour's class.
    pub class: &'static str,
    /// Whether it is bold.
    pub bold: bool,
    /// Whether it is drawn over lines, which it then clears around it.
    pub halo: bool,
}

impl Style {
    pub const fn plain(anchor: Anchor) -> Self {
        Self { size: 11.0, anchor, class: "ink", bold: false, halo: false }
    }

    /// Less strong.
    pub const fn faint(anchor: Anchor) -> Self {
        Self { class: "faint", ..Self::plain(anchor) }
    }

    /// Over lines.
    pub const fn over(self) -> Self {
        Self { halo: true, ..self }
    }

    pub const fn bold(anchor: Anchor) -> Self {
        Self { bold: true, ..Self::plain(anchor) }
    }
}

/// The colour of a class on white paper.
fn colour(class: &str) -> &'static str {
    match class {
        "faint" => "#5f6368",
        "green" => "#00684b",
        "red" => "#b03a00",
        _ => "#1b1b1b",
    }
}

impl Svg {
    /// An empty picture of that width. Its name is read to those who can't see it.
    pub fn new(width: f64, name: &str) -> Self {
        Self { width, body: String::new(), name: name.to_string() }
    }

    /// Pixels.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// Raw markup; what comes from outside must be escaped.
    pub fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// A rectangle.
    pub fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), fill: &str, class: &str, hover: &str) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        let shape = format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"",
            px(x),
            px(y),
            px(w),
            px(h)
        );
        self.close(&shape, "rect", hover);
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, class: &str) {
        let dashes = if class.ends_with("dashed") { " stroke-dasharray=\"5 3\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{stroke}\"{dashes}/>",
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    /// A dot.
    pub fn circle(&mut self, (x, y): (f64, f64), r: f64, paint: &str, class: &str, hover: &str) {
        let shape =
            format!("<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\" {paint}", px(x), px(y), px(r));
        self.close(&shape, "circle", hover);
    }

    fn close(&mut self, shape: &str, tag: &str, hover: &str) {
        let _ = if hover.is_empty() {
            writeln!(self.body, "{shape}/>")
        } else {
            writeln!(self.body, "{shape}><title>{}</title></{tag}>", escape(hover))
        };
    }

    /// A text on one line; `(x, y)` is on its base line.
    pub fn text(&mut self, (x, y): (f64, f64), text: &str, style: Style) {
        self.text_hover((x, y), text, style, "");
    }

    /// A text with more to say than it may show.
    pub fn text_hover(&mut self, (x, y): (f64, f64), text: &str, style: Style, hover: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        // Grid lines don't run through what is read.
        let halo = " paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\"";
        let halo = if style.halo { halo } else { "" };
        let weight = if style.bold { " font-weight=\"bold\"" } else { "" };
        let title =
            if hover.is_empty() { String::new() } else { format!("<title>{}</title>", escape(hover)) };
        let _ = writeln!(
            self.body,
            "<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"{weight}{halo}>{title}{}</text>",
            if style.halo { format!("{} halo", style.class) } else { style.class.to_string() },
            px(x),
            px(y),
            style.size,
            colour(style.class),
            escape(text)
        );
    }

    /// Title and, below it, what else must be known; gives the height that both take.
    pub fn heading(&mut self, title: &str, below: &str) -> f64 {
        let mut y = 20.0;
        for line in super::words::wrap(title, 15.0 * 1.1, self.width - 20.0) {
            self.text((10.0, y), &line, Style { size: 15.0, ..Style::bold(Anchor::Start) });
            y += 19.0;
        }
        for line in super::words::wrap(below, 11.0, self.width - 20.0) {
            self.text((10.0, y), &line, Style::faint(Anchor::Start));
            y += 15.0;
        }
        y
    }

    /// A legend that wraps; each entry can be clicked on the page. Gives the height that it takes.
    pub fn legend(&mut self, y: f64, left: f64, names: &[String]) -> f64 {
        let (mut x, mut line) = (left, y);
        for (i, name) in names.iter().enumerate() {
            let room = 34.0 + width(name, 11.0);
            if x > left && x + room > self.width - 10.0 {
                (x, line) = (left, line + 17.0);
            }
            x += self.legend_entry((x, line), name, (i, i), self.width - left - 10.0);
        }
        line - y + 17.0
    }

    /// An entry of a legend, of a colour and for the elements of a class `sN`. Gives the width that it takes, at most
    /// `room`.
    pub fn legend_entry(
        &mut self,
        (x, y): (f64, f64),
        name: &str,
        (colour, series): (usize, usize),
        room: f64,
    ) -> f64 {
        let shown = super::words::fit(name, 11.0, room - 34.0);
        self.raw(&format!("<g class=\"legend\" data-series=\"{series}\">"));
        self.rect((x, y - 9.0), (11.0, 11.0), SERIES[colour % SERIES.len()], "key", "");
        self.text_hover(
            (x + 16.0, y),
            &shown,
            Style::plain(Anchor::Start),
            if shown == name { "" } else { name },
        );
        self.raw("</g>");
        34.0 + width(&shown, 11.0)
    }

    /// The whole picture.
    pub fn finish(self, height: f64) -> String {
        // Whole pixels: a picture's edge would be half transparent.
        let (w, h) = (px(self.width.ceil()), px(height.ceil()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" font-family=\"{FONT}\" aria-label=\"{}\">\n\
             <rect class=\"paper\" width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(&self.name),
            self.body
        )
    }
}

/// Diagonal strokes over a rectangle, as the `d` of a path: what is red is also hatched.
pub fn hatch((x, y): (f64, f64), (w, h): (f64, f64)) -> String {
    let mut d = String::new();
    let step = 7.0;
    let mut at = step;
    while at < w + h {
        let from = if at <= h { (x, y + at) } else { (x + at - h, y + h) };
        let to = if at <= w { (x + at, y) } else { (x + w, y + at - w) };
        let _ = write!(d, "M{} {}L{} {}", px(from.0), px(from.1), px(to.0), px(to.1));
        at += step;
    }
    d
}

/// A number of pixels, to a tenth.
pub fn px(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}
