//! The route of a message: the exchange that it is published to, and the routing key.

use std::fmt;
use std::sync::Arc;

use lapin::types::ShortString;

use super::wait::Wait;
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

/// Where a message goes.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// The same way whenever it is sent.
    Route(Arc<Route>),
    /// By way of the wait that is left when it is sent.
    Wait(Box<Wait>),
}

impl Destination {
    /// The route of a message that is sent now.
    pub(crate) fn route(&self) -> Arc<Route> {
        match self {
            Self::Route(route) => Arc::clone(route),
            Self::Wait(wait) => Arc::new(wait.route()),
        }
    }
}

impl From<Arc<Route>> for Destination {
    fn from(route: Arc<Route>) -> Self {
        Self::Route(route)
    }
}

impl From<Route> for Destination {
    fn from(route: Route) -> Self {
        Self::Route(Arc::new(route))
    }
}

impl From<Wait> for Destination {
    fn from(wait: Wait) -> Self {
        Self::Wait(Box::new(wait))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange `{}` with the key `{}`", self.exchange, self.key)
    }
}
