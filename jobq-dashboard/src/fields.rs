//! The fields of a query or a form.

use std::fmt::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The fields of a query or a form, in their order. A name may have several values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// A value without white space around it, unless it is empty.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let value = self.all(name).next()?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// A value, also an empty one.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The fields with these names, for a form that is sent on.
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let kept =
            self.0.iter().filter(|(key, value)| names.contains(&&**key) && !value.is_empty());
        Self(kept.cloned().collect())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// As a query, with its `?`, unless it is empty.
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (index, (name, value)) in self.0.iter().enumerate() {
            let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            let mark = if index == 0 { '?' } else { '&' };
            let _ = write!(query, "{mark}{}={}", encode(name), encode(value));
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let fields = Fields::parse(b"id=1&id=2&error=a+b%26%3C&job=");
        assert_eq!(fields.all("id").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((fields.one("error"), fields.one("job")), (Some("a b&<"), None));
        assert_eq!(fields.exact("job"), Some(""));
        let query = fields.only(&["id", "error"]).with("after", "x/y").query();
        assert_eq!(query, "?id=1&id=2&error=a%20b%26%3C&after=x%2Fy");
        assert_eq!(Fields::default().query(), "");
    }
}
