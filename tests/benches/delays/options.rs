//! The options of a part: `--name value`, or `--name` alone.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::{anyhow, ensure};

/// Options that were given and not yet asked for.
#[derive(Debug)]
pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    pub(crate) fn parse(words: Vec<String>) -> anyhow::Result<Self> {
        let mut options = BTreeMap::new();
        let mut words = words.into_iter().peekable();
        while let Some(name) = words.next() {
            ensure!(name.starts_with("--"), "`{name}` is no option");
            let value = words.next_if(|word| !word.starts_with("--")).unwrap_or_default();
            options.insert(name, value);
        }
        Ok(Self(options))
    }

    /// The value of an option, or its default.
    pub(crate) fn take<T, E: Display>(
        &mut self,
        name: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let text = self.0.remove(name).unwrap_or_else(|| default.to_owned());
        read(&text).map_err(|error| anyhow!("{name} {text}: {error}"))
    }

    /// Whether an option without a value was given.
    #[allow(dead_code)] // not every benchmark has one
    pub(crate) fn flag(&mut self, name: &str) -> anyhow::Result<bool> {
        self.take(name, "no", |value| match value {
            "" => Ok(true),
            "no" => Ok(false),
            _ => Err("it takes no value"),
        })
    }

    /// Refuses what nobody asked for.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let unknown: Vec<_> = self.0.into_keys().collect();
        ensure!(unknown.is_empty(), "there is no option {}", unknown.join(", "));
        Ok(())
    }
}
