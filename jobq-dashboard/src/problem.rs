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
        Self::new(StatusCode::FORBIDDEN, "No access", "You do not have access to this page.")
    }

    pub(crate) fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "Page not found",
            "The address may belong to another version. Start from the queues.",
        )
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Invalid request", text)
    }
}

impl From<jobq::Error> for Problem {
    fn from(error: jobq::Error) -> Self {
        let (status, title) = match error.kind() {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "Invalid request"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "Not found"),
            ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "Not supported by this engine"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "Conflict"),
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "It took too long"),
            ErrorKind::Refused => (StatusCode::BAD_GATEWAY, "It was refused"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "The broker or the file does not answer"),
        };
        let mut text = error.to_string();
        if error.maybe_enqueued() {
            text.push_str(
                ". The job may be in its queue nevertheless: check before you enqueue it again.",
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
