//! Worker pools: taking jobs from queues and running them.

mod attempt;
mod context;
mod function;
mod pool;
mod prefetch;
mod queue;
mod registry;
mod run;
mod running;
mod signal;
mod state;

pub use context::JobContext;
pub use function::JobFunction;
pub use pool::WorkerPool;
pub use run::{Argument, Call, Needs, Run, Scope};
pub use running::RunningPool;
pub use state::State;
