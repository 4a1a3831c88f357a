//! Figures, times and states as people read them. Pure.

use std::fmt::{self, Display};
use std::time::{Duration, SystemTime};

use askama::Template;
use jobq::admin::text;
use jobq::admin::{Activity, Figure, Passage, RelayActivity, State};

use crate::topology::PartState;

/// A figure: a number, a duration, or what is unknown and why.
#[derive(Debug, Clone, Template)]
#[template(
    ext = "html",
    source = r#"{% if let Some(why) = why %}<span class="unknown" title="{{ why }}">?<span class="sr"> (unknown: {{ why }})</span></span>{% else %}<span{% if is_zero %} class="zero"{% endif %}>{{ text }}</span>{% endif %}"#
)]
pub(crate) struct ShownFigure {
    pub(crate) text: String,
    pub(crate) why: Option<String>,
    is_zero: bool,
}

impl ShownFigure {
    /// A number.
    pub(crate) fn number<N: Copy + Into<u64>>(read: &Figure<N>) -> Self {
        Self::of(read, |number| count((*number).into()))
    }

    /// The longest wait of a queue from which something started, or how long attempts took, where
    /// some ended.
    pub(crate) fn duration(read: &Figure<Option<Duration>>) -> Self {
        Self::of(read, |duration| duration.map_or_else(|| "–".to_owned(), text::duration))
    }

    /// Whether waiting jobs come through, where there are any places for them.
    pub(crate) fn waits(read: &Figure<Option<Passage>>) -> Self {
        Self::of(read, |passage| passage.map_or_else(|| "–".to_owned(), |it| it.to_string()))
    }

    /// The memory of a process, in bytes.
    pub(crate) fn memory(bytes: Option<u64>) -> Self {
        let why = "its system does not report it, or it runs an earlier version of jobq";
        Self::of(&bytes.map_or_else(|| Figure::unknown(why), Figure::Known), |bytes| size(*bytes))
    }

    fn of<T>(read: &Figure<T>, text: impl FnOnce(&T) -> String) -> Self {
        match read {
            Figure::Known(figure) => {
                let text = text(figure);
                Self { is_zero: text == "0" || text == "–", text, why: None }
            }
            Figure::Unknown(why) => {
                Self { text: "?".to_owned(), why: Some(why.to_string()), is_zero: false }
            }
        }
    }
}

/// The first line of a text, at most so many characters of it, with a sign for what is left out.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A number with a comma before each three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the largest binary unit that fits.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    match bytes {
        ..MIB => format!("{} KiB", bytes >> 10),
        MIB..GIB => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, bytes % GIB * 10 / GIB),
    }
}

/// A time with its machine-readable form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) SystemTime);

impl Time {
    /// For templates, which pass references.
    pub(crate) fn of(time: &SystemTime) -> Self {
        Self(*time)
    }

    /// The time of day.
    pub(crate) fn of_day(self) -> String {
        self.text().split_off(11)
    }

    /// Date and time of day, to the second.
    pub(crate) fn text(self) -> String {
        let mut text = text::time(self.0).replace('T', " ");
        text.pop();
        text
    }

    /// The time since then.
    pub(crate) fn age(self, now: SystemTime) -> String {
        text::duration(now.duration_since(self.0).unwrap_or_default().max(Duration::from_secs(1)))
    }
}

/// As an element of HTML.
impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<time datetime=\"{}\">{}</time>", text::time_millis(self.0), self.text())
    }
}

/// A state as a sign, a word and a class for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = r#"<span class="state {{ class }}"><span aria-hidden="true">{{ mark }}</span>{{ word }}</span>"#
)]
pub(crate) struct Sign {
    mark: &'static str,
    pub(crate) word: &'static str,
    class: &'static str,
}

impl From<State> for Sign {
    fn from(state: State) -> Self {
        let (mark, word, class) = match state {
            State::Consumed => ("●", "consumed", "good"),
            State::Stuck => ("▲", "stuck", "bad"),
            State::Withheld => ("▲", "withheld", "bad"),
            State::Paused => ("‖", "paused", "warn"),
            State::Halted => ("■", "halted", "bad"),
            State::Unattended => ("○", "no pool", "quiet"),
            State::Missing => ("?", "no such queue", "warn"),
            _ => ("?", "unknown", "warn"),
        };
        Self { mark, word, class }
    }
}

impl Sign {
    /// For templates, which pass references.
    pub(crate) fn of<T: Copy + Into<Self>>(state: &T) -> Self {
        (*state).into()
    }

    /// Of jobs that wait, where they certainly do not come through in time.
    pub(crate) fn of_waits(waits: &Figure<Option<Passage>>) -> Option<Self> {
        match waits.known().copied().flatten()? {
            Passage::Late => Some(Self { mark: "!", word: "waits late", class: "warn" }),
            Passage::Stuck => Some(Self { mark: "▲", word: "waits stuck", class: "bad" }),
            _ => None,
        }
    }
}

impl From<Activity> for Sign {
    fn from(activity: Activity) -> Self {
        let (mark, class) = match activity {
            Activity::Consuming => ("●", "good"),
            Activity::Resting => ("◐", "good"),
            Activity::Paused | Activity::Quiet => ("‖", "warn"),
            Activity::Interrupted => ("!", "bad"),
            _ => ("■", "quiet"),
        };
        Self { mark, word: activity.as_str(), class }
    }
}

impl From<RelayActivity> for Sign {
    fn from(activity: RelayActivity) -> Self {
        let (mark, class) = match activity {
            RelayActivity::Sending => ("●", "good"),
            RelayActivity::Starting | RelayActivity::Standby => ("‖", "quiet"),
            RelayActivity::Interrupted => ("!", "bad"),
            _ => ("■", "quiet"),
        };
        Self { mark, word: activity.as_str(), class }
    }
}

impl From<jobq::Severity> for Sign {
    fn from(severity: jobq::Severity) -> Self {
        let (mark, word, class) = match severity {
            jobq::Severity::Error => ("✕", "error", "bad"),
            jobq::Severity::Warning => ("!", "warning", "warn"),
            _ => ("i", "note", "quiet"),
        };
        Self { mark, word, class }
    }
}

impl From<PartState> for Sign {
    fn from(state: PartState) -> Self {
        let (mark, word, class) = match state {
            PartState::Missing => ("✕", "missing", "bad"),
            PartState::Different => ("≠", "different", "bad"),
            PartState::Unknown => ("?", "unknown", "warn"),
        };
        Self { mark, word, class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(count(number), text);
        }
        assert_eq!(ShownFigure::duration(&Figure::Known(None)).text, "–");
        for (bytes, text) in [
            (4_096, "4 KiB"),
            (1_048_575, "1023 KiB"),
            (54_525_952, "52 MiB"),
            (1_073_741_823, "1023 MiB"),
            (4_187_593_113, "3.8 GiB"),
        ] {
            assert_eq!(ShownFigure::memory(Some(bytes)).text, text);
        }
        assert_eq!(ShownFigure::memory(None).text, "?");
    }

    #[test]
    fn what_is_unknown_is_never_a_number_and_says_why() {
        let figure = ShownFigure::number::<u64>(&Figure::unknown("no <leader>"));
        let html = figure.render().unwrap();
        assert!(html.contains(">?<") && html.contains("unknown: no &#60;leader&#62;"), "{html}");
        assert!(ShownFigure::number(&Figure::Known(0_u64)).render().unwrap().contains("zero"));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        for (text, shown) in
            [("", ""), ("größe", "größe"), ("größer", "größe…"), ("no\nbecause", "no…")]
        {
            assert_eq!(first_line(text, 5), shown, "{text}");
        }
    }

    #[test]
    fn times_are_to_the_second() {
        let time = Time(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        assert_eq!((time.text(), time.of_day()), ("2023-11-14 22:13:20".into(), "22:13:20".into()));
        assert!(time.to_string().contains("datetime=\"2023-11-14T22:13:20.123Z\""));
        assert_eq!(time.age(SystemTime::UNIX_EPOCH), "1.0s");
    }
}
