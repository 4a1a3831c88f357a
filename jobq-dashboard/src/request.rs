//! The input of handlers: a request for a page, or a form.

use std::sync::Arc;

use askama::Template;
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use jobq::admin::Admin;

use crate::access::Viewer;
use crate::dashboard::App;
use crate::fields::Fields;
use crate::live;
use crate::pages::{Page, Tab, layout, render};
use crate::problem::Problem;

/// The most bytes of a form: a job of 1 MiB, with room for its encoding.
const MAX_FORM: usize = 4 * 1024 * 1024;

/// The answer of a handler.
pub(crate) type Answer = Result<Response, Problem>;

/// A request for a page, with the fields of its query.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) app: Arc<App>,
    pub(crate) viewer: Viewer,
    pub(crate) headers: HeaderMap,
    pub(crate) fields: Fields,
}

impl FromRequestParts<Arc<App>> for Request {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let (app, viewer) = (Arc::clone(app), Viewer::of(parts)?);
        let fields = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Self { app, viewer, headers: parts.headers.clone(), fields })
    }
}

impl Request {
    /// A page that does not change while somebody looks.
    pub(crate) fn page(&self, tab: Tab, title: &str, content: &impl Template) -> Answer {
        let (app, viewer) = (&self.app, Some(&self.viewer));
        let page = layout::page(app, viewer, tab, title, &render(content)?, false);
        Ok(Html(page).into_response())
    }

    /// A page that is live.
    pub(crate) async fn live(self, page: Page) -> Answer {
        live::answer(self, page).await
    }
}

/// A form that was sent, with its fields.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) app: Arc<App>,
    pub(crate) viewer: Viewer,
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Problem;

    async fn from_request(
        request: axum::extract::Request,
        app: &Arc<App>,
    ) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let (app, viewer) = (Arc::clone(app), Viewer::of(&parts)?);
        let body = to_bytes(body, MAX_FORM).await.map_err(|_| {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The form is too large",
                "A form may be at most 4 MiB. Nothing was changed.",
            )
        })?;
        Ok(Self { app, viewer, fields: Fields::parse(&body) })
    }
}

impl Form {
    /// The administration in the name of the sender.
    pub(crate) fn admin(&self) -> Admin {
        self.app.client().admin().by(self.viewer.name())
    }

    /// Records an action of the sender.
    pub(crate) fn record(&self, action: &'static str, target: String, result: String) {
        self.app.record(self.viewer.name(), action, target, result, None);
    }

    /// Records an action of the sender, and leads to a page with the figures after it.
    pub(crate) async fn acted<T>(
        &self,
        (action, target): (&'static str, String),
        done: jobq::Result<T>,
        result: impl FnOnce(&T) -> String,
        page: &str,
    ) -> Answer {
        let result = match &done {
            Ok(done) => result(done),
            Err(error) => format!("not done: {error}"),
        };
        self.record(action, target, result);
        done?;
        self.app.sampler.refresh().await;
        Ok(see(page))
    }
}

/// A redirect after a form.
pub(crate) fn see(path: &str) -> Response {
    Redirect::to(path).into_response()
}
