//! The output of a command: documents and tables on standard output, messages on standard error.

pub(crate) mod colour;
pub(crate) mod confirm;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod time;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};

use jobq::admin::Figure;
use serde::Serialize;

use self::colour::{Style, When};
use self::table::{Table, visible_lines};

/// The version of the JSON documents.
const VERSION: u32 = 1;

/// The output of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    /// Whether standard output and standard error have colours.
    colours: (bool, bool),
}

/// A document with its version.
#[derive(Serialize)]
struct Document<T> {
    v: u32,
    #[serde(flatten)]
    content: T,
}

/// A document with the reason of a figure that is unknown.
#[derive(Serialize)]
pub(crate) struct Explained<'c, T> {
    #[serde(flatten)]
    content: &'c T,
    unknown: BTreeMap<&'static str, &'c str>,
}

impl<'c, T> Explained<'c, T> {
    pub(crate) fn new<F>(content: &'c T, name: &'static str, figure: &'c Figure<F>) -> Self {
        let unknown = figure.why().map(|why| (name, why));
        Self { content, unknown: unknown.into_iter().collect() }
    }
}

impl Output {
    pub(crate) fn new(color: When, json: bool) -> Self {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let out = color.applies(io::stdout().is_terminal(), forbidden);
        let err = color.applies(io::stderr().is_terminal(), forbidden);
        Self { json, colours: (out && !json, err) }
    }

    /// Whether standard output is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether standard output has colours.
    pub(crate) fn has_colours(self) -> bool {
        self.colours.0
    }

    /// Prints a document in one line: a map, to which its version is added.
    pub(crate) fn document<T: Serialize>(self, content: T) -> io::Result<()> {
        let text = serde_json::to_string(&Document { v: VERSION, content })?;
        self.line(&text)
    }

    /// Prints a document, or a text for people, each line of it [visible](table::visible).
    pub(crate) fn answer(
        self,
        document: impl Serialize,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if self.json { self.document(document) } else { self.print(&visible_lines(&text())) }
    }

    /// Prints a document, or a table with notes below it.
    pub(crate) fn listing(
        self,
        document: impl Serialize,
        table: &Table,
        notes: Vec<String>,
    ) -> io::Result<()> {
        if self.json {
            return self.document(document);
        }
        let printed = self.print(&table.render(self.has_colours()));
        self.notes(notes);
        printed
    }

    /// Prints a line.
    pub(crate) fn line(self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Prints a text.
    // A method, since every text goes through the `Output` of the command.
    #[allow(clippy::unused_self)]
    pub(crate) fn print(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints a message for people, whose text may be another program's. One that cannot be printed is left out.
    #[allow(clippy::unused_self)] // as `print`
    pub(crate) fn note(self, text: &str) {
        let _ = io::stderr().lock().write_all(visible_lines(text).as_bytes());
    }

    /// Prints messages.
    pub(crate) fn notes(self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.note(&text));
    }

    /// Prints an error.
    pub(crate) fn error(self, text: &str) {
        let word = Style::Bad.paint("error:", self.colours.1);
        let _ = write!(io::stderr().lock(), "{word} {}", visible_lines(text));
    }
}
