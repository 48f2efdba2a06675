//! Text tables: columns as wide as their widest cell, two spaces between them.

/// To which side a column's cells lean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Padded on the right.
    Left,
    /// Padded on the left.
    Right,
}

/// A table under construction.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more column; heading and cells may lean to different sides.
    pub fn column(mut self, heading: &str, heading_align: Align, cell_align: Align) -> Self {
        self.columns.push((heading.to_string(), heading_align, cell_align));
        self
    }

    /// Several columns whose headings and cells lean to the same side.
    pub fn columns(mut self, align: Align, headings: &[&str]) -> Self {
        self.columns.extend(headings.iter().map(|h| (h.to_string(), align, align)));
        self
    }

    /// One more row; missing cells are empty, those beyond the last column are dropped.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines, headings first, each ended by a newline.
    pub fn render(&self) -> String {
        let cell = |row: &[String], i: usize| row.get(i).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                let heading = self.columns.get(i).map_or(0, |c| c.0.chars().count());
                self.rows.iter().map(|r| cell(r, i).chars().count()).max().unwrap_or(0).max(heading)
            })
            .collect();
        let mut out = String::new();
        let headings = self.columns.iter().map(|(text, align, _)| (text.clone(), *align)).collect();
        push_line(&mut out, headings, &widths);
        for row in &self.rows {
            let cells = self.columns.iter().enumerate().map(|(i, (.., align))| (cell(row, i), *align));
            push_line(&mut out, cells.collect(), &widths);
        }
        out
    }
}

fn push_line(out: &mut String, cells: Vec<(String, Align)>, widths: &[usize]) {
    for (i, ((text, align), width)) in cells.into_iter().zip(widths).enumerate() {
        if i > 0 {
            out.push_str("  ");
        }
        let padding = " ".repeat(width.saturating_sub(text.chars().count()));
        match align {
            Align::Left => out.extend([text, padding]),
            Align::Right => out.extend([padding, text]),
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new()
            .columns(Align::Left, &["ID"])
            .column("WEIGHT", Align::Left, Align::Right)
            .columns(Align::Left, &["NAME"]);
        table.row(["-1", "0.5", "root default"]);
        table.row([" 0", "0.00200", "osd.0"]);
        assert_eq!(
            table.render(),
            "ID  WEIGHT   NAME        \n-1      0.5  root default\n 0  0.00200  osd.0       \n"
        );
    }
}
