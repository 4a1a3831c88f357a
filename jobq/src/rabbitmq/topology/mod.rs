//! Exchanges, queues and bindings: their names and arguments, and declaring them.
//!
//! [`requirements`] are the needs of a queue, [`plan`] lists the [`declaration`]s with every
//! name and argument, [`declarer`] declares them, [`spread`] over the nodes of a cluster, and [`declared`]
//! stores them. [`routing`] chooses a tier or the [`levels`] for a job, and its route; that of a job
//! that waits is made when the message is sent, by its [`destination`]. [`upkeep`] declares deleted parts again. Queues that
//! end with their client are [`temporary`], of a type that [`queue_types`] finds out. All but
//! `declare`, `declarer`, `ensure`, `passive`, `queue_types`, `spread`, `upkeep` and the clock of
//! `destination` is pure.

pub(crate) mod declaration;
pub(crate) mod declare;
pub(crate) mod declarer;
pub(crate) mod destination;
pub(crate) mod ensure;
pub(crate) mod levels;
pub(crate) mod lookup;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod plan;
pub(crate) mod probes;
pub(crate) mod queue_types;
pub(crate) mod requirements;
pub(crate) mod rotation;
pub(crate) mod routing;
pub(crate) mod routing_key;
pub(crate) mod spread;
pub(crate) mod temporary;
pub(crate) mod upkeep;
