//! The rights of a request.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::problem::Problem;

/// The rights of a request, the result of the function of [`Dashboard::access`](crate::Dashboard).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing: every answer is the status 403.
    No,
    /// Look at everything.
    Read,
    /// Look at everything, and these actions.
    Only(Vec<Action>),
    /// Everything.
    All,
}

/// A kind of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Pause and resume queues.
    Pause,
    /// Enqueue jobs.
    Enqueue,
    /// Retry failed jobs.
    Retry,
    /// Delete failed jobs.
    Discard,
    /// Tell pools to take no more jobs or to shut down, and cancel running jobs.
    Pools,
    /// Run, pause, resume and remove schedules of periodic jobs.
    Schedules,
}

impl Access {
    fn may(&self, action: Action) -> bool {
        match self {
            Self::No | Self::Read => false,
            Self::Only(actions) => actions.contains(&action),
            Self::All => true,
        }
    }
}

/// Decides what a request may do.
pub(crate) type Decide = Arc<dyn Fn(&Parts) -> Access + Send + Sync>;

/// Tells who sends a request.
pub(crate) type Identify = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The sender of a request with its rights. Only a request that may look has one.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    pub(crate) actor: Option<String>,
    access: Access,
}

impl Viewer {
    /// The sender of a request that has come through the frame.
    pub(crate) fn of(parts: &Parts) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::forbidden)
    }

    /// `None` if the request may not even look.
    pub(crate) fn new(actor: Option<String>, access: Access) -> Option<Self> {
        (access != Access::No).then_some(Self { actor, access })
    }

    /// The name for records.
    pub(crate) fn name(&self) -> &str {
        self.actor.as_deref().unwrap_or("unknown")
    }

    pub(crate) fn may(&self, action: Action) -> bool {
        self.access.may(action)
    }

    pub(crate) fn may_act(&self) -> bool {
        !matches!(&self.access, Access::Read) && self.access != Access::Only(Vec::new())
    }

    /// Returns an error if it may not do this.
    pub(crate) fn require(&self, action: Action) -> Result<(), Problem> {
        if self.may(action) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "You do not have access to this action",
            format!("Your access does not include the action {action:?}. Nothing was changed."),
        ))
    }

    /// A text that differs where a page does.
    pub(crate) fn key(&self) -> String {
        format!("{:?}", self.access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_includes_its_actions_alone() {
        for (access, retry, pause) in [
            (Access::Read, false, false),
            (Access::Only(vec![Action::Retry]), true, false),
            (Access::All, true, true),
        ] {
            let viewer = Viewer::new(None, access).unwrap();
            assert_eq!((viewer.may(Action::Retry), viewer.may(Action::Pause)), (retry, pause));
            assert_eq!(viewer.require(Action::Retry).is_ok(), retry);
        }
        assert!(Viewer::new(None, Access::No).is_none());
    }
}
