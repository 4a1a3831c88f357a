//! Payloads as trees, with exact numbers and without what is redacted. Pure.

use std::fmt::{self, Write as _};

use askama::filters::{Escaper as _, Html};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::problem::Problem;
use crate::show::count;

/// The most values of a tree.
const VALUES: usize = 2_000;
/// The deepest nesting of a tree. The parser of raw values has no limit of its own, each level parses
/// what is below it again, and a level needs room on the stack.
const DEPTH: usize = 100;
/// The most characters of a text.
const CHARACTERS: usize = 8_192;

const HIDDEN: &str = "<span class=\"quiet\">hidden</span>";

/// The parts of payloads that are shown.
#[derive(Debug, Clone)]
pub(crate) struct Privacy {
    pub(crate) shown: bool,
    redacted: Vec<Vec<Part>>,
}

impl Default for Privacy {
    fn default() -> Self {
        Self { shown: true, redacted: Vec::new() }
    }
}

impl Privacy {
    /// Adds patterns of paths. Hiding too much is the smaller harm: a single name is hidden at any
    /// depth, and a pattern that cannot be read hides everything.
    pub(crate) fn redact(&mut self, patterns: impl Iterator<Item = String>) {
        self.redacted.extend(patterns.map(|pattern| match parts(&pattern) {
            Some(parts) if matches!(parts[..], [Part::Name(_)]) => {
                [vec![Part::AnyNumber], parts].concat()
            }
            Some(parts) => parts,
            None => vec![Part::AnyNumber],
        }));
    }

    /// Whether a value is hidden. The names of its path are [folded].
    fn hides(&self, path: &[String]) -> bool {
        self.redacted.iter().any(|pattern| matches(pattern, path))
    }

    /// Returns an error if a filter by this value could be used to guess what is hidden.
    pub(crate) fn check_pointer(&self, pointer: &str, json: &str) -> Result<(), Problem> {
        let unescape = |key: &str| folded(&key.replace("~1", "/").replace("~0", "~"));
        let path: Vec<_> = pointer.split('/').skip(1).map(unescape).collect();
        let hidden = (0..=path.len()).any(|length| self.hides(&path[..length]));
        let is_tree = json.trim_start().starts_with(['{', '[']);
        if !self.shown || hidden || (is_tree && !self.redacted.is_empty()) {
            return Err(Problem::invalid(
                "This dashboard hides these payload values, so a filter cannot search them.",
            ));
        }
        Ok(())
    }
}

/// A part of a pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A key or an index, [folded].
    Name(String),
    /// `*`: any one.
    AnyOne,
    /// `**`: any number of them.
    AnyNumber,
}

/// A name without its case.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// The parts of a pattern: names separated by dots, or as JSON in brackets, such as
/// `card["a.b"].number`. `None` for brackets around something else.
fn parts(pattern: &str) -> Option<Vec<Part>> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    loop {
        if let Some(quoted) = rest.strip_prefix('[') {
            let mut names = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            parts.push(Part::Name(folded(&names.next()?.ok()?)));
            rest = quoted[names.byte_offset()..].strip_prefix(']')?;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            parts.push(match &rest[..end] {
                "*" => Part::AnyOne,
                "**" => Part::AnyNumber,
                name => Part::Name(folded(name)),
            });
            rest = &rest[end..];
        }
        match rest.strip_prefix('.') {
            Some(next) => rest = next,
            None if rest.is_empty() => return Some(parts),
            None if rest.starts_with('[') => {}
            None => return None,
        }
    }
}

/// Whether a path is one of a pattern.
fn matches(pattern: &[Part], path: &[String]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((Part::AnyNumber, rest)), _) => {
            (0..=path.len()).any(|skipped| matches(rest, &path[skipped..]))
        }
        (Some((Part::AnyOne, rest)), Some((_, more))) => matches(rest, more),
        (Some((Part::Name(name), rest)), Some((part, more))) => name == part && matches(rest, more),
        _ => false,
    }
}

/// A payload that is no text as HTML, by its size alone.
pub(crate) fn bytes(size: usize, content_encoding: Option<&str>) -> String {
    let kind = match content_encoding {
        Some(encoding) => format!("with the content encoding {}", escape(encoding)),
        None => "that are not UTF-8".to_owned(),
    };
    let size = count(size as u64);
    format!(
        "<span class=\"quiet\">{size} bytes {kind}. <code>jobq failed show --json</code> has them \
         in base64.</span>"
    )
}

/// A payload that is text as HTML.
pub(crate) fn tree(payload: &str, privacy: &Privacy) -> String {
    let mut tree = Tree { html: String::new(), privacy, path: Vec::new(), left: VALUES };
    match serde_json::from_str::<&RawValue>(payload) {
        Ok(_) if privacy.hides(&[]) => tree.html.push_str(HIDDEN),
        Ok(value) => tree.value(value),
        // Its secrets cannot be told apart.
        Err(_) if !privacy.redacted.is_empty() => tree.html.push_str(
            "<span class=\"quiet\">not JSON, and hidden, since values are hidden by their paths</span>",
        ),
        Err(_) => tree.cut("string", payload),
    }
    tree.html
}

struct Tree<'p> {
    html: String,
    privacy: &'p Privacy,
    path: Vec<String>,
    left: usize,
}

impl Tree<'_> {
    fn value(&mut self, value: &RawValue) {
        let json = value.get();
        match json.as_bytes().first() {
            Some(b'{' | b'[') if self.path.len() >= DEPTH => {
                self.html.push_str("<span class=\"quiet\">… nested deeper</span>");
            }
            Some(b'{') => match serde_json::from_str::<Entries<'_>>(json) {
                Ok(Entries(entries)) => self.list('{', '}', entries.len(), entries.into_iter()),
                Err(_) if self.privacy.redacted.is_empty() => self.cut("string", json),
                Err(_) => self.html.push_str(
                    "<span class=\"quiet\">hidden, since a name in it is not valid Unicode, and \
                     values are hidden by their paths</span>",
                ),
            },
            Some(b'[') => {
                let items = serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
                let items = items.into_iter().enumerate();
                self.list(
                    '[',
                    ']',
                    items.len(),
                    items.map(|(index, item)| (index.to_string(), item)),
                );
            }
            Some(b'"') => {
                // Half of a surrogate pair is JSON, and no text.
                match serde_json::from_str::<String>(json) {
                    Ok(text) => self.cut("string", &format!("\"{text}\"")),
                    Err(_) => self.cut("string", json),
                }
            }
            Some(b't' | b'f' | b'n') => self.cut("word", json),
            _ => self.cut("number", json),
        }
    }

    fn list<'v>(
        &mut self,
        open: char,
        close: char,
        length: usize,
        entries: impl Iterator<Item = (String, &'v RawValue)>,
    ) {
        if length == 0 {
            let _ = write!(self.html, "{open}{close}");
            return;
        }
        let is_open = if self.path.len() < 3 { " open" } else { "" };
        let _ = write!(
            self.html,
            "<details{is_open}><summary>{open} {} {close}</summary><ul>",
            count(length as u64)
        );
        for (index, (key, value)) in entries.enumerate() {
            if self.left == 0 {
                let more = count((length - index) as u64);
                let _ = write!(self.html, "<li class=\"quiet\">… {more} more</li>");
                break;
            }
            self.left -= 1;
            let _ = write!(self.html, "<li><span class=\"key\">{}</span>: ", escape(&key));
            self.path.push(folded(&key));
            if self.privacy.hides(&self.path) {
                self.html.push_str(HIDDEN);
            } else {
                self.value(value);
            }
            self.path.pop();
            self.html.push_str("</li>");
        }
        self.html.push_str("</ul></details>");
    }

    fn cut(&mut self, class: &str, text: &str) {
        let end = text.char_indices().nth(CHARACTERS).map_or(text.len(), |(end, _)| end);
        let _ = write!(self.html, "<span class=\"{class}\">{}</span>", escape(&text[..end]));
        if end < text.len() {
            let more = count((text.len() - end) as u64);
            let _ = write!(self.html, "<span class=\"quiet\"> … {more} bytes more</span>");
        }
    }
}

/// The text with escapes for what has a meaning in HTML, as the templates write it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Writing to a string does not fail.
    let _ = Html.write_escaped_str(&mut escaped, text);
    escaped
}

/// The entries of an object, in their order.
#[derive(Default)]
struct Entries<'v>(Vec<(String, &'v RawValue)>);

impl<'de: 'v, 'v> Deserialize<'de> for Entries<'v> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(InOrder).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(payload: &str, patterns: &[&str]) -> String {
        let mut privacy = Privacy::default();
        privacy.redact(patterns.iter().map(|pattern| (*pattern).to_owned()));
        tree(payload, &privacy)
    }

    #[test]
    fn bytes_are_not_shown_as_text() {
        for (encoding, said) in [(None, "not UTF-8"), (Some("<gzip>"), "encoding &#60;gzip&#62;")] {
            let html = bytes(1_234, encoding);
            assert!(html.contains("1,234 bytes") && html.contains(said), "{html}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_shown_as_it_was_written() {
        let (value, name) = (r#"{"to": "\ud83d!"}"#, r#"{"\ud83d": "secret"}"#);
        assert!(shown(value, &[]).contains(r"\ud83d!"));
        assert!(shown(name, &[]).contains("secret"));
        let hidden = shown(name, &["password"]);
        assert!(hidden.contains("hidden") && !hidden.contains("secret"), "{hidden}");
    }

    #[test]
    fn numbers_are_exact_and_texts_are_escaped() {
        let html =
            shown(r#"{"n": 123456789012345678901234.50, "<b>": "<script>&\"'", "e": {}}"#, &[]);
        assert!(html.contains(">123456789012345678901234.50<"), "{html}");
        assert!(html.contains("&#60;b&#62;") && html.contains("&#60;script&#62;&#38;&#34;&#39;"));
        assert!(!html.contains("<script>") && html.contains("{}"));
        assert!(shown("no <json>", &[]).contains("no &#60;json&#62;"));
    }

    #[test]
    fn what_is_redacted_is_nowhere() {
        let payload = r#"{"password": "s1", "a": {"token": "s2", "password": "s3"}, "l": [{"k": "s4"}], "x": "ok"}"#;
        for (patterns, hidden) in [
            (&["password"][..], &["s1", "s3"][..]),
            (&["**.token"], &["s2"]),
            (&["a.*"], &["s2", "s3"]),
            (&["l.*.k"], &["s4"]),
            (&["l.0.k"], &["s4"]),
            (&["a.password", "k"], &["s3", "s4"]),
            (&["**"], &["s1", "s2", "s3", "s4", "ok"]),
            (&["PassWord"], &["s1", "s3"]),
            (&["A.Token"], &["s2"]),
            (&["[\"a\"].token"], &["s2"]),
            (&["a[\"token\"]"], &["s2"]),
            (&["[\"a.token\"]"], &[]),
            // Unreadable patterns.
            (&["[\"a"], &["s1", "s2", "s3", "s4", "ok"]),
            (&["a[0]"], &["s1", "s2", "s3", "s4", "ok"]),
        ] {
            let html = shown(payload, patterns);
            for secret in ["s1", "s2", "s3", "s4", "ok"] {
                assert_eq!(
                    html.contains(secret),
                    !hidden.contains(&secret),
                    "{patterns:?} {secret}"
                );
            }
        }
        let dotted =
            r#"{"a.b": "s1", "x": {"A.B": "s2"}, "a": {"b": "ok"}, "*": "s4", "É\"]": "s5"}"#;
        for (pattern, hidden) in [
            (r#"["a.b"]"#, &["s1", "s2"][..]),
            (r#"x["a.b"]"#, &["s2"]),
            (r#"["*"]"#, &["s4"]),
            (r#"["é\"]"]"#, &["s5"]),
        ] {
            let html = shown(dotted, &[pattern]);
            for secret in ["s1", "s2", "s4", "s5", "ok"] {
                assert_eq!(html.contains(secret), !hidden.contains(&secret), "{pattern} {secret}");
            }
        }
        assert!(!shown("password=s1", &["password"]).contains("s1"));
        assert!(!shown("\"s1\"", &["**"]).contains("s1"));
    }

    #[test]
    fn what_is_hidden_cannot_be_guessed_by_a_filter() {
        let mut privacy = Privacy::default();
        assert!(privacy.check_pointer("/password", "1").is_ok());
        privacy.redact(["password".to_owned()].into_iter());
        for (pointer, json, allowed) in [
            ("/name", "1", true),
            ("/a/password", "1", false),
            ("/a/PASSWORD", "1", false),
            ("/password/first", "1", false),
            ("", "{\"password\": 1}", false),
            ("/a", " [1]", false),
        ] {
            assert_eq!(privacy.check_pointer(pointer, json).is_ok(), allowed, "{pointer}");
        }
        privacy.shown = false;
        assert!(privacy.check_pointer("/name", "1").is_err());
    }

    #[test]
    fn a_large_payload_is_cut() {
        let many = format!("[{}]", vec!["1"; 100_000].join(","));
        let html = shown(&many, &[]);
        assert!(html.len() < 200_000 && html.contains("… 98,000 more"), "{}", html.len());
        let long = shown(&format!("\"{}\"", "é".repeat(600_000)), &[]);
        assert!(long.len() < 20_000 && long.contains("bytes more"));
    }

    #[test]
    fn a_payload_that_is_nested_deep_is_cut() {
        let deep = |levels: usize| format!("{}7{}", "[".repeat(levels), "]".repeat(levels));
        let html = shown(&deep(20_000), &["password"]);
        assert!(html.len() < 20_000 && html.contains("… nested deeper"), "{}", html.len());
        assert!(!html.contains(">7<") && shown(&deep(DEPTH), &[]).contains(">7<"));
    }
}
