//! The percentages table as a picture: rows and columns with a colour, a sign and a number in each field.

use super::svg::{Anchor, Style, Svg, hatch};
use super::words::{fit, width};
use crate::input::{Colour, JudgedVariant};

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Percentages {
    /// What is shown.
    pub title: String,
    /// The rule and what else must be known.
    pub below: String,
    pub columns: Vec<String>,
    /// Rows: a name and a field for each column; `None`: not planned.
    pub rows: Vec<(String, Vec<Option<JudgedVariant>>)>,
}

const SIZE: f64 = 11.0;
const ROW: f64 = 22.0;

/// A field's colour on white paper.
pub fn fill(colour: Colour) -> &'static str {
    match colour {
        Colour::Green => "#a9e2c8",
        Colour::Red => "#fbcdb5",
        Colour::White => "#ffffff",
        Colour::Grey => "#e4e4e4",
        _ => "#f4f4f4",
    }
}

/// Draws it.
pub fn chart(data: &Percentages) -> String {
    let names = data.rows.iter().map(|r| width(&r.0, SIZE));
    let left = 24.0 + names.fold(60.0, f64::max).min(330.0);
    let columns: Vec<f64> = (0..data.columns.len()).map(|c| column_width(data, c)).collect();
    let total = (left + columns.iter().sum::<f64>() + 14.0).max(520.0);
    let mut svg = Svg::new(total, &data.title);
    let mut y = svg.heading(&data.title, &data.below) + 4.0;
    y += key(&mut svg, y);
    let mut x = left;
    for (name, width) in data.columns.iter().zip(&columns) {
        svg.text_hover(
            (x + width / 2.0, y + 14.0),
            &fit(name, SIZE * 1.12, width - 8.0),
            Style::bold(Anchor::Middle),
            name,
        );
        x += width;
    }
    y += ROW;
    for (name, fields) in &data.rows {
        svg.text_hover(
            (left - 10.0, y + 15.0),
            &fit(name, SIZE, left - 20.0),
            Style::plain(Anchor::End),
            name,
        );
        let mut x = left;
        for ((field, width), column) in fields.iter().zip(&columns).zip(&data.columns) {
            if let Some(v) = field {
                let hover = format!("{name}, {column}: {}", v.details());
                draw(&mut svg, v, (x, y), *width, &hover);
            }
            x += width;
        }
        y += ROW;
    }
    svg.finish(y + 10.0)
}

fn column_width(data: &Percentages, column: usize) -> f64 {
    let fields = data.rows.iter().filter_map(|(_, fields)| fields.get(column)?.as_ref());
    let widest = fields.map(|v| width(&v.label(), SIZE * 1.1)).fold(0.0, f64::max);
    let name = data.columns.get(column).map_or(0.0, |n| width(n, SIZE * 1.12)).min(130.0);
    (widest.max(name) + 14.0).max(76.0)
}

fn draw(svg: &mut Svg, v: &JudgedVariant, (x, y): (f64, f64), room: f64, hover: &str) {
    let (at, size) = ((x + 1.0, y + 1.0), (room - 2.0, ROW - 2.0));
    svg.raw(&format!("<g class=\"field {}\">", v.colour.class()));
    svg.rect(at, size, fill(v.colour), "back", hover);
    frame(svg, v.colour, at, size);
    if v.colour == Colour::Red {
        svg.raw(&format!(
            "<path class=\"hatch\" d=\"{}\" stroke=\"#f0a37c\" fill=\"none\" stroke-width=\"0.8\" pointer-events=\"none\"/>",
            hatch(at, size)
        ));
    }
    let style = match v.colour {
        Colour::Green | Colour::Red => Style::bold(Anchor::Middle),
        Colour::White => Style::plain(Anchor::Middle),
        _ => Style::faint(Anchor::Middle),
    };
    svg.text_hover((x + room / 2.0, y + 15.0), &fit(&v.label(), SIZE * 1.1, room - 4.0), style, hover);
    svg.raw("</g>");
}

/// White on white paper needs an edge.
fn frame(svg: &mut Svg, colour: Colour, (x, y): (f64, f64), (w, h): (f64, f64)) {
    if colour == Colour::White {
        let corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)];
        corners.windows(2).for_each(|side| svg.line(side[0], side[1], "#b8b8b8", "grid"));
    }
}

/// What the colours mean; gives its height.
fn key(svg: &mut Svg, y: f64) -> f64 {
    let mut x = 10.0;
    let (mut line, room) = (y, svg.width());
    for colour in [Colour::Green, Colour::Red, Colour::White, Colour::Grey] {
        let text = format!("{} {}", colour.sign(), colour.words());
        let wide = width(&text, SIZE) + 34.0;
        if x > 10.0 && x + wide > room {
            (x, line) = (10.0, line + 18.0);
        }
        svg.raw(&format!("<g class=\"field {}\">", colour.class()));
        svg.rect((x, line), (14.0, 13.0), fill(colour), "back", "");
        frame(svg, colour, (x, line), (14.0, 13.0));
        if colour == Colour::Red {
            let d = hatch((x, line), (14.0, 13.0));
            svg.raw(&format!(
                "<path class=\"hatch\" d=\"{d}\" stroke=\"#f0a37c\" fill=\"none\" stroke-width=\"0.8\"/>"
            ));
        }
        svg.raw("</g>");
        svg.text((x + 19.0, line + 11.0), &text, Style::plain(Anchor::Start));
        x += wide;
    }
    line - y + 24.0
}
