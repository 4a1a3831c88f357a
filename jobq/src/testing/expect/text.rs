//! Texts in patterns.

/// The text of a field that a pattern compares with a text.
#[must_use]
pub fn text<T: Text + ?Sized>(field: &T) -> &str {
    field.text()
}

/// A type that a text in a pattern can be compared with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared with a string literal",
    label = "not a string",
    note = "a string literal in a pattern matches `String`, `Cow<str>` and other types with \
            `AsRef<str>`; compare other values in a guard"
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
