//! Layers around the attempts of a pool.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::attempt::Attempt;
use super::run::{Call, Ready};
use crate::guard::{Guarded, guarded};
use crate::job::{BoxError, Outcome};

/// The rest of an attempt inside a [layer](crate::WorkerPool::around): the inner layers, the
/// arguments of the job's function, and the function. Dropping it skips them.
#[must_use = "the job's function runs only if `.run()` is awaited"]
pub struct Next {
    layers: Arc<Layers>,
    /// The number of outer layers.
    depth: usize,
    attempt: Attempt,
    ready: Ready,
}

impl Next {
    /// Runs the rest of the attempt and returns its outcome. A panic is a failed outcome.
    pub async fn run(self) -> Outcome {
        let Self { layers, depth, attempt, ready } = self;
        let layer = layers.0.get(depth);
        let is_function = layer.is_none();
        let called = match layer {
            Some(layer) => {
                let (layers, attempt) = (Arc::clone(&layers), attempt.clone());
                let next = Self { layers, depth: depth + 1, attempt: attempt.clone(), ready };
                guarded(|| layer.get()(attempt, next))
            }
            None => guarded(|| ready(&attempt).unwrap_or_else(Call::refused)),
        };
        let ended = match called {
            Ok(call) => call.run().await,
            Err(panic) => Outcome::panicked(panic),
        };
        if is_function {
            attempt.function_ended(&ended);
        }
        ended
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The layers of a pool, the outermost first.
#[derive(Default)]
pub(crate) struct Layers(Vec<Guarded<Layer>>);

type Layer = Box<dyn Fn(Attempt, Next) -> Call + Send + Sync>;

impl Layers {
    /// Adds the innermost layer.
    pub(crate) fn push<F, Fut>(&mut self, layer: F)
    where
        F: Fn(Attempt, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let layer = move |attempt, next| Call::layer(layer(attempt, next));
        self.0.push(Guarded::new(Box::new(layer)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function call of a decoded job, wrapped in the layers.
    pub(super) fn around<F>(self: &Arc<Self>, attempt: &Attempt, ready: F) -> Call
    where
        F: FnOnce(&Attempt) -> Result<Call, BoxError> + Send + 'static,
    {
        if self.is_empty() {
            return ready(attempt).unwrap_or_else(Call::refused);
        }
        let (layers, attempt) = (Arc::clone(self), attempt.clone());
        Call::layer(Next { layers, depth: 0, attempt, ready: Box::new(ready) }.run())
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} layers", self.0.len())
    }
}
