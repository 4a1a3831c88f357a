//! How a payload differs from a pattern.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::report::cut;

/// A part of a pattern that a payload does not match, with the part's source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    part: Part,
    expected: &'static str,
}

/// In the order in which the parts are reported: of a value of another variant no field is
/// compared, and with fields that differ no guard is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The variant of an enum.
    Variant,
    /// A field by its name in Rust, which is its key in the JSON unless serde renames it.
    Named(&'static str),
    /// The only element of a tuple struct, whose JSON is that of the struct.
    Only,
    /// An element of a tuple struct of several.
    Element(usize),
    /// One after `..`: 1 is the last.
    FromEnd(usize),
    Guard,
}

impl Difference {
    /// In the variant of an enum.
    #[must_use]
    pub const fn variant(path: &'static str) -> Self {
        Self { part: Part::Variant, expected: path }
    }

    /// In a field.
    #[must_use]
    pub const fn named(field: &'static str, expected: &'static str) -> Self {
        Self { part: Part::Named(field), expected }
    }

    /// In the only element of a tuple struct.
    #[must_use]
    pub const fn only(expected: &'static str) -> Self {
        Self { part: Part::Only, expected }
    }

    /// In an element of a tuple struct of several.
    #[must_use]
    pub const fn element(index: usize, expected: &'static str) -> Self {
        Self { part: Part::Element(index), expected }
    }

    /// In an element counted from the end, where 1 is the last.
    #[must_use]
    pub const fn from_end(index: usize, expected: &'static str) -> Self {
        Self { part: Part::FromEnd(index), expected }
    }

    /// In the guard.
    #[must_use]
    pub const fn guard(condition: &'static str) -> Self {
        Self { part: Part::Guard, expected: condition }
    }

    /// The sentence about this payload.
    pub(super) fn describe(&self, payload: &[u8]) -> String {
        let Self { part, expected } = self;
        let (name, found) = match *part {
            Part::Variant => return format!("it is no `{expected}`"),
            Part::Guard => return format!("the guard `{expected}` is false"),
            Part::Named(field) => (field.to_owned(), named(payload, field)),
            Part::Only => ("0".to_owned(), Some(String::from_utf8_lossy(payload).into_owned())),
            Part::Element(index) => (index.to_string(), element(payload, |_| Some(index))),
            Part::FromEnd(index) => {
                let name = match index {
                    1 => "last field".to_owned(),
                    _ => format!("field {index} from the end"),
                };
                (name, element(payload, |length| length.checked_sub(index)))
            }
        };
        let found = found.map(|found| format!(", found {}", cut(&found))).unwrap_or_default();
        format!("{name}: expected {expected}{found}")
    }

    fn rank(&self) -> u8 {
        match self.part {
            Part::Variant => 0,
            Part::Guard => 2,
            _ => 1,
        }
    }
}

/// The differences of a payload that does not match a pattern as a whole, from all parts of the
/// pattern and whether each matches by itself.
#[must_use]
pub fn differences(parts: &[(Difference, bool)]) -> Vec<Difference> {
    let failed = || parts.iter().filter(|(_, matches)| !matches).map(|(difference, _)| *difference);
    let first = failed().map(|difference| difference.rank()).min();
    failed().filter(|difference| Some(difference.rank()) == first).collect()
}

/// The JSON of a field.
fn named(payload: &[u8], field: &str) -> Option<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(payload).ok()?;
    fields.get(field).map(|value| value.get().to_owned())
}

/// The JSON of an element, whose index may depend on their number.
fn element(payload: &[u8], index: impl Fn(usize) -> Option<usize>) -> Option<String> {
    let elements: Vec<&RawValue> = serde_json::from_slice(payload).ok()?;
    elements.get(index(elements.len())?).map(|value| value.get().to_owned())
}

/// The text of a field that a pattern compares with a text.
#[must_use]
pub fn text<T: Text + ?Sized>(field: &T) -> &str {
    field.text()
}

/// A type that a text in a pattern can be compared with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared with a text",
    label = "not a text",
    note = "a text in a pattern matches `String`, `Cow<str>` and other types with `AsRef<str>`; compare \
            other values in a guard"
)]
pub trait Text {
    fn text(&self) -> &str;
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> Text for T {
    fn text(&self) -> &str {
        self.as_ref()
    }
}
