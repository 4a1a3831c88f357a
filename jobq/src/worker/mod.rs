//! Worker pools: taking jobs from queues and running them.

mod context;
mod function;
mod run;
mod state;

pub use context::JobContext;
pub use function::JobFunction;
pub use run::{Argument, Call, Needs, Run, Scope};
pub use state::State;
