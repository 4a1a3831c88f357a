//! The route of a message: the exchange that it is published to, and the routing key.

use std::fmt;

use lapin::types::ShortString;

use crate::error::Result;
use crate::rabbitmq::values::short;

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
