//! The errors of requests, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jobq::ErrorKind;

/// The error of a request. The frame around all handlers makes a page of it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { status, title: title.into(), text: text.into() }
    }

    pub(crate) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "No access", "You may not see this page.")
    }

    pub(crate) fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "There is no such page",
            "The address may be of another version. Begin at the queues.",
        )
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "This cannot be done so", text)
    }
}

impl From<jobq::Error> for Problem {
    fn from(error: jobq::Error) -> Self {
        let (status, title) = match error.kind() {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "This cannot be done so"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "It is not there"),
            ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "This engine cannot do that"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "Somebody else is at it"),
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "It took too long"),
            ErrorKind::Refused => (StatusCode::BAD_GATEWAY, "It was refused"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "The broker or the file does not answer"),
        };
        let mut text = error.to_string();
        if error.maybe_enqueued() {
            text.push_str(
                ". The job may be in its queue nevertheless: look before you send it again.",
            );
        }
        Self::new(status, title, text)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, format!("{}: {}\n", self.title, self.text)).into_response();
        response.extensions_mut().insert(self);
        response
    }
}
