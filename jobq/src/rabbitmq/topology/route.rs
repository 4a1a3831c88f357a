//! The route of a message: the exchange that it is published to, and the routing key.

use std::fmt;

use lapin::types::ShortString;

use crate::error::{Error, Result};

/// An exchange and a routing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
}

impl Route {
    /// # Errors
    ///
    /// A name or a key that is too long for AMQP.
    pub(crate) fn new(exchange: String, key: String) -> Result<Self> {
        Ok(Self { exchange: short(exchange)?, key: short(key)? })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange `{}` with the key `{}`", self.exchange, self.key)
    }
}

/// A short string of AMQP: at most 255 bytes.
pub(crate) fn short(text: impl Into<String>) -> Result<ShortString> {
    let text = text.into();
    let is_long = text.len() > usize::from(u8::MAX);
    let start: Option<String> = is_long.then(|| text.chars().take(40).collect());
    ShortString::try_new(text).map_err(|source| {
        let start = start.unwrap_or_default();
        Error::invalid(format!("`{start}...` is too long for AMQP")).because(source)
    })
}
