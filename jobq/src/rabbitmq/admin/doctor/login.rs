//! The user of requests to the management API.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::rabbitmq::connection::identity::Identity;

/// The user of requests.
#[derive(Clone)]
pub(super) enum Login {
    /// A user, with the header.
    Fixed { user: String, authorization: String },
    /// The credentials of the connections.
    Changing(Arc<Identity>),
}

impl Login {
    pub(super) fn fixed(user: String, password: &str) -> Self {
        let authorization = basic(&user, password);
        Self::Fixed { user, authorization }
    }

    /// The user, unless there is a token, and the header.
    pub(super) async fn current(&self) -> Result<(Option<String>, String), String> {
        match self {
            Self::Fixed { user, authorization } => Ok((Some(user.clone()), authorization.clone())),
            Self::Changing(identity) => {
                let held = identity.current().await.map_err(|error| error.to_string())?;
                let secret = held.secret();
                let (user, text) = (secret.user(), secret.text());
                if secret.is_token() {
                    return Ok((None, format!("Bearer {text}")));
                }
                Ok((Some(user.to_owned()), basic(user, text)))
            }
        }
    }
}

pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}
