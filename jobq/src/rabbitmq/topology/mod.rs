//! Exchanges, queues and bindings: their names and arguments, and declaring them.

pub(crate) mod declarations;
pub(crate) mod declare;
pub(crate) mod declared;
pub(crate) mod ensure;
pub(crate) mod levels;
pub(crate) mod names;
pub(crate) mod passive;
pub(crate) mod requirements;
pub(crate) mod rotation;
pub(crate) mod route;
pub(crate) mod routing;
pub(crate) mod routing_key;
pub(crate) mod upkeep;
