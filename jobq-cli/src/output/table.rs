//! Tables: aligned columns for people.

use unicode_width::UnicodeWidthStr as _;

use super::colour::Style;

/// The spaces between two columns.
const GAP: usize = 2;

/// The side to which a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with a title over each column. A row of a single text has a line of its own across all
/// columns, below the row to which it belongs.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

/// A text in a table.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in a style.
    pub(crate) fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: visible(text.as_ref()), style }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Its width in columns of a terminal.
    pub(crate) fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text.to_string(), Style::Plain)
    }
}

/// The text with its control characters escaped: names and errors come from other programs, and a
/// terminal obeys what is in them.
pub(crate) fn visible(text: &str) -> String {
    let escaped = |c: char| {
        // Marks that reorder a line hide as much as control characters do.
        let hides = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || hides { c.escape_default().to_string() } else { c.to_string() }
    };
    text.chars().map(escaped).collect()
}

/// The lines of a text, each [visible].
pub(crate) fn visible_lines(text: &str) -> String {
    text.lines().map(|line| visible(line) + "\n").collect()
}

impl Table {
    /// A table of rows with a text for each column, or with a single one.
    pub(crate) fn new<R: Into<Vec<Cell>>>(
        columns: &[(&'static str, Align)],
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        Self { columns: columns.to_vec(), rows: rows.into_iter().map(Into::into).collect() }
    }

    /// The text of the table.
    pub(crate) fn render(&self, colours: bool) -> String {
        let mut text = String::new();
        for line in self.lines() {
            text.extend(line.iter().map(|cell| cell.style.paint(&cell.text, colours)));
            text.push('\n');
        }
        text
    }

    /// The lines of the table, that of the titles first: each as the texts and the spaces in it.
    pub(crate) fn lines(&self) -> Vec<Vec<Cell>> {
        let title = |(title, _): &(&str, _)| Cell::new(title, Style::Title);
        let titles: Vec<_> = self.columns.iter().map(title).collect();
        let rows = || std::iter::once(&titles).chain(&self.rows);
        let width = |column: usize| {
            let rows = rows().filter(|row| !self.is_across(row));
            rows.filter_map(|row| row.get(column)).map(Cell::width).max()
        };
        let widths: Vec<_> = (0..self.columns.len()).filter_map(width).collect();
        rows().map(|row| self.line(row, &widths)).collect()
    }

    fn is_across(&self, row: &[Cell]) -> bool {
        row.len() == 1 && self.columns.len() > 1
    }

    fn line(&self, row: &[Cell], widths: &[usize]) -> Vec<Cell> {
        let mut line = Vec::new();
        if self.is_across(row) {
            line.push(Cell::from(" ".repeat(GAP)));
            line.extend_from_slice(row);
            return line;
        }
        // Spaces before the next text: no line ends with some.
        let mut spaces = 0;
        for ((cell, width), (_, align)) in row.iter().zip(widths).zip(&self.columns) {
            let padding = width - cell.width();
            let (before, after) = match align {
                Align::Left => (0, padding),
                Align::Right => (padding, 0),
            };
            spaces += before;
            if !cell.text.is_empty() {
                line.push(Cell::from(" ".repeat(spaces)));
                line.push(cell.clone());
                spaces = 0;
            }
            spaces += after + GAP;
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_line_ends_with_spaces() {
        let columns = [("QUEUE", Align::Left), ("READY", Align::Right), ("STATE", Align::Left)];
        let rows = [
            ["mail".into(), 112.into(), Cell::new("paused", Style::Notable)],
            ["größe".into(), "?".into(), "".into()],
            ["日本".into(), "".into(), "x".into()],
        ];
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(Into::into).collect();
        rows.insert(1, vec!["a text across all columns".into()]);
        let table = Table::new(&columns, rows);
        let expected = "\
            QUEUE  READY  STATE\n\
            mail     112  paused\n\
            \x20 a text across all columns\n\
            größe      ?\n\
            日本          x\n";
        assert_eq!(table.render(false), expected);
        let coloured = table.render(true);
        assert!(coloured.contains("\x1b[33mpaused\x1b[0m\n"), "{coloured:?}");
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        for (text, expected) in [
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("two\nlines\t", "two\\nlines\\t"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("größe 日本", "größe 日本"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(
            visible_lines("no\x1b[2J\n  because: \u{7}"),
            "no\\u{1b}[2J\n  because: \\u{7}\n"
        );
    }
}
