//! Exchanges, queues and bindings: their names and arguments, and declaring them.
//!
//! A job's way: [`requirements`] says what its queue needs, [`declarations`] lists that with every
//! name and argument, [`declarer`] declares it and [`declared`] remembers it. [`routing`] chooses
//! how a job waits, by a tier or by the [`levels`], and gives its [`route`]. [`upkeep`] declares
//! again what somebody deleted. All but `declare`, `declarer`, `ensure`, `passive` and `upkeep` is
//! pure.

pub(crate) mod declarations;
pub(crate) mod declare;
pub(crate) mod declared;
pub(crate) mod declarer;
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
