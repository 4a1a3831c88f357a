//! The frame around every handler: access, the origin of forms, headers, pages of problems.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::Viewer;
use crate::dashboard::App;
use crate::guard;
use crate::pages::layout;
use crate::problem::Problem;

const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer`, the `Origin` of a form would be `null`.
    (REFERRER_POLICY, "same-origin"),
];

/// Runs a handler if the request may have its answer.
pub(crate) async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let viewer = app.viewer(&parts);
    let response = match check(&app, &parts.method, &parts.headers, viewer.as_ref()) {
        Err(problem) => problem.into_response(),
        Ok(viewer) => {
            app.start();
            parts.extensions.insert(viewer);
            let writes = guard::writes(&parts.method);
            let running = next.run(Request::from_parts(parts, body));
            if writes { to_its_end(&app, running).await } else { running.await }
        }
    };
    finished(&app, viewer.as_ref(), response)
}

/// Runs what changes something to its end, with its record, also if the browser goes away.
async fn to_its_end(
    app: &App,
    running: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let write = Arc::clone(&app.writes).read_owned().await;
    let running = async move {
        let response = running.await;
        drop(write);
        response
    };
    tokio::spawn(running).await.unwrap_or_else(|_| {
        let text = "The request panicked; the log has details. Check whether anything changed.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal error", text).into_response()
    })
}

fn check(
    app: &App,
    method: &axum::http::Method,
    headers: &HeaderMap,
    viewer: Option<&Viewer>,
) -> Result<Viewer, Problem> {
    let viewer = viewer.ok_or_else(Problem::forbidden)?;
    if guard::writes(method) {
        guard::same_origin(headers, app.origins()).map_err(|foreign| {
            Problem::new(StatusCode::FORBIDDEN, "The form was refused", foreign.text())
        })?;
    } else if guard::reads_for_another_site(headers) {
        let text = "A page of another site requested it. Follow a link to it, or type its address.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "The request was refused", text));
    }
    Ok(viewer.clone())
}

/// Makes a page of a problem, and sets the headers.
fn finished(app: &App, viewer: Option<&Viewer>, mut response: Response) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let page = layout::problem(app, viewer, &problem);
        *response.body_mut() = Body::from(page);
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, html);
        response.headers_mut().remove("content-length");
    } else if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let text = "This address expects another method. Nothing was changed.";
        let problem = Problem::new(response.status(), "Method not allowed", text);
        return finished(app, viewer, problem.into_response());
    }
    protect(response.headers_mut());
    response
}

/// Sets the headers of every answer.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("cookie, authorization"));
    }
}
