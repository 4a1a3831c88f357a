//! Colours. A text says the same without them.

use clap::ValueEnum;

/// The condition for colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless the environment variable `NO_COLOR` is set
    Auto,
    /// Even if the output is not a terminal
    Always,
    /// Nowhere
    Never,
}

impl When {
    /// Whether to use colours.
    pub(crate) fn applies(self, is_terminal: bool, no_color: bool) -> bool {
        match self {
            Self::Auto => is_terminal && !no_color,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The style of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Title,
    Good,
    Notable,
    Bad,
}

impl Style {
    /// The text in this style, or as it is without colours.
    pub(crate) fn paint(self, text: &str, colours: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            _ if !colours => return text.to_owned(),
            Self::Title => "1",
            Self::Good => "32",
            Self::Notable => "33",
            Self::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_or_an_order() {
        for (when, is_terminal, no_color, expected) in [
            (When::Auto, true, false, true),
            (When::Auto, true, true, false),
            (When::Auto, false, false, false),
            (When::Always, false, true, true),
            (When::Never, true, false, false),
        ] {
            assert_eq!(when.applies(is_terminal, no_color), expected, "{when:?}");
        }
    }

    #[test]
    fn a_style_leaves_the_text_as_it_is_without_colours() {
        assert_eq!(Style::Bad.paint("no", false), "no");
        assert_eq!(Style::Bad.paint("no", true), "\x1b[31mno\x1b[0m");
        assert_eq!(Style::Plain.paint("yes", true), "yes");
    }
}
