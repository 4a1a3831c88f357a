//! The text of a setting: a URL, a secret or the path of a file, as an environment, an option or a file
//! gives it.
//!
//! A character that nobody sees changes the meaning of such a text: `sqlite://jobs.db` with a newline
//! at its end is another file.

use std::fmt;

/// A character that the text of a setting has by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// The character.
    pub character: char,
    /// Where it is.
    pub position: Position,
}

/// Where a [`Stray`] character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// At the beginning.
    Start,
    /// Between others.
    Within,
    /// At the end.
    End,
}

/// The first character that a setting cannot have: a control character, or white space or an invisible
/// character at either end. An empty text has none.
///
/// ```
/// use jobq_names::setting::stray;
///
/// assert_eq!(stray("sqlite://my jobs.db"), None);
/// let stray = stray("sqlite://jobs.db\n").expect("a newline");
/// assert_eq!(stray.to_string(), "ends with a newline (U+000A)");
/// ```
#[must_use]
pub fn stray(text: &str) -> Option<Stray> {
    let at = |character, position| Some(Stray { character, position });
    if let Some(last) = text.chars().next_back().filter(|last| is_unseen(*last)) {
        return at(last, Position::End);
    }
    if let Some(first) = text.chars().next().filter(|first| is_unseen(*first)) {
        return at(first, Position::Start);
    }
    text.chars().find(|c| c.is_control()).and_then(|control| at(control, Position::Within))
}

/// Whether a character is not seen: it is white space, or leaves nothing where it is printed.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    // Letters that are blank.
    let is_blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    c.is_whitespace() || is_blank || !is_printable(c)
}

/// Whether `Debug` prints the character as it is. After another one, since an accent alone is escaped.
fn is_printable(c: char) -> bool {
    let mut text = String::from("a");
    text.push(c);
    matches!(c, '"' | '\'' | '\\') || text.escape_debug().eq(text.chars())
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.character {
            '\n' => "a newline",
            '\r' => "a carriage return",
            '\t' => "a tab",
            ' ' => "a space",
            '\0' => "a NUL",
            '\u{a0}' => "a no-break space",
            '\u{feff}' => "a byte order mark",
            c if c.is_control() => "a control character",
            _ => "an invisible character",
        };
        let code = u32::from(self.character);
        match self.position {
            Position::Start => write!(f, "begins with {name} (U+{code:04X})"),
            Position::Within => write!(f, "contains {name} (U+{code:04X})"),
            Position::End => write!(f, "ends with {name} (U+{code:04X})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_named() {
        let table = [
            ("", None),
            ("sqlite://jobs.db", None),
            ("sqlite://my jobs.db", None),
            ("a secret with  spaces, ü and \u{1f600}", None),
            ("a\u{200d}b", None),
            ("an accent alone: cafe\u{301}", None),
            ("an emoji of two characters: \u{2764}\u{fe0f}", None),
            ("\"\\'", None),
            ("sqlite://jobs.db\n", Some("ends with a newline (U+000A)")),
            ("sqlite://jobs.db\r\n", Some("ends with a newline (U+000A)")),
            ("sqlite://jobs.db\r", Some("ends with a carriage return (U+000D)")),
            ("sqlite://jobs.db ", Some("ends with a space (U+0020)")),
            ("sqlite://jobs.db\t", Some("ends with a tab (U+0009)")),
            ("secret\u{a0}", Some("ends with a no-break space (U+00A0)")),
            ("secret\u{200b}", Some("ends with an invisible character (U+200B)")),
            ("secret\u{180e}", Some("ends with an invisible character (U+180E)")),
            ("secret\u{2063}", Some("ends with an invisible character (U+2063)")),
            ("secret\u{2069}", Some("ends with an invisible character (U+2069)")),
            ("secret\u{3164}", Some("ends with an invisible character (U+3164)")),
            ("secret\u{2028}", Some("ends with an invisible character (U+2028)")),
            ("secret\u{7f}", Some("ends with a control character (U+007F)")),
            ("secret\u{85}", Some("ends with a control character (U+0085)")),
            (" secret", Some("begins with a space (U+0020)")),
            ("\u{feff}secret", Some("begins with a byte order mark (U+FEFF)")),
            ("\nsecret", Some("begins with a newline (U+000A)")),
            ("\n", Some("ends with a newline (U+000A)")),
            ("one\ntwo", Some("contains a newline (U+000A)")),
            ("one\0two", Some("contains a NUL (U+0000)")),
            ("one\u{1b}[0mtwo", Some("contains a control character (U+001B)")),
        ];
        for (text, expected) in table {
            let found = stray(text).map(|stray| stray.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
