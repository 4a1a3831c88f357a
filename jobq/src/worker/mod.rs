//! Worker pools: taking jobs from queues and running them.

mod attempt;
mod attempts;
mod context;
mod function;
mod gate;
mod health;
#[cfg(test)]
mod in_flight;
mod lives;
mod lost;
mod origins;
mod pool;
mod prefetch;
mod queue;
mod registry;
mod run;
mod running;
mod signal;
mod slots;
mod solo;
mod state;
mod tally;
mod unrecorded;

pub use context::JobContext;
pub use function::JobFunction;
pub use health::{PoolHealth, QueueHealth, QueueState};
pub use pool::WorkerPool;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use registry::Registered;
pub use run::{Argument, Call, Needs, Run, Scope, Travels};
pub use running::RunningPool;
pub use state::State;
#[cfg(all(feature = "testing", feature = "rabbitmq", feature = "sqlite"))]
pub(crate) use state::States;
