//! Live pages: the content of a page again, whenever it has changed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::access::Viewer;
use crate::assets::hash;
use crate::dashboard::App;
use crate::pages::{Page, layout};
use crate::problem::Problem;
use crate::request::{Answer, Request};

/// The time that a stream lasts. Then the browser opens a new one, so that a login that has ended
/// ends it, and a server that shuts down without telling the dashboard does not wait for long.
const LASTS: Duration = Duration::from_secs(20);
/// The most contents that are kept, and the most bytes of them: each search has a content of its own.
const MOST: usize = 256;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The time that a browser waits before it opens a new one.
const AGAIN: Duration = Duration::from_millis(250);

/// The contents of pages since the last change, for all who look at them.
#[derive(Debug, Default)]
pub(crate) struct Rendered(Mutex<(u64, HashMap<String, Arc<str>>)>);

impl Rendered {
    fn content(&self, app: &App, viewer: &Viewer, page: &Page) -> Result<Arc<str>, Problem> {
        // Held while it renders, so that each page is rendered once, whatever the viewers.
        let mut rendered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, contents) = &mut *rendered;
        let now = *app.sampler.changes().borrow();
        if *version != now || is_full(contents) {
            *version = now;
            contents.clear();
        }
        let key = format!("{page:?} {}", viewer.key());
        if let Some(content) = contents.get(&key) {
            return Ok(Arc::clone(content));
        }
        let content: Arc<str> = page.content(app, viewer)?.into();
        contents.insert(key, Arc::clone(&content));
        Ok(content)
    }
}

fn is_full(contents: &HashMap<String, Arc<str>>) -> bool {
    let size = |(key, content): (&String, &Arc<str>)| key.len() + content.len();
    contents.len() >= MOST || contents.iter().map(size).sum::<usize>() >= MOST_BYTES
}

/// The answer to a request for a page: the page, its content alone, or a stream of it.
pub(crate) async fn answer(request: Request, page: Page) -> Answer {
    let Request { app, viewer, headers, fields } = request;
    app.sampler.looked().await;
    // Also before a stream: that of a page that is not there would end at once, and the browser would
    // open the next one for ever.
    let content = app.rendered.content(&app, &viewer, &page)?;
    Ok(match fields.one("live") {
        // Its stream would end at once, and the browser would open the next one.
        Some("stream") if *app.has_ended.borrow() => {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The dashboard has ended",
                "The program shuts down, or has closed its client. Reload the page later.",
            ));
        }
        // A proxy such as nginx keeps back what it reads, unless it is told.
        Some("stream") => {
            ([("x-accel-buffering", "no")], stream_of(app, viewer, page)).into_response()
        }
        Some("fragment") => fragment(&headers, &content),
        _ => {
            let (tab, title) = page.heading();
            Html(layout::page(&app, Some(&viewer), tab, &title, &content, true)).into_response()
        }
    })
}

/// The content, or nothing if the browser has it.
fn fragment(headers: &HeaderMap, content: &Arc<str>) -> Response {
    let tag = format!("\"{:016x}\"", hash(content.as_bytes()));
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    ([(ETAG, tag), (CONTENT_TYPE, "text/html; charset=utf-8".to_owned())], content.to_string())
        .into_response()
}

struct Watcher {
    app: Arc<App>,
    viewer: Viewer,
    page: Page,
    changes: watch::Receiver<u64>,
    has_ended: watch::Receiver<bool>,
    /// The hash of what was sent.
    sent: Option<u64>,
    end: Instant,
}

fn stream_of(
    app: Arc<App>,
    viewer: Viewer,
    page: Page,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (changes, has_ended) = (app.sampler.changes(), app.has_ended.subscribe());
    let end = Instant::now() + LASTS;
    let watcher = Watcher { app, viewer, page, changes, has_ended, sent: None, end };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let content = watcher.next().await?;
        let event = Event::default().event("content").retry(AGAIN).data(&*content);
        Some((Ok(event), watcher))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

impl Watcher {
    /// The content, when it differs from what was sent; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            if self.sent.is_some() {
                tokio::select! {
                    changed = timeout_at(self.end, self.changes.changed()) => changed.ok()?.ok()?,
                    _ = self.has_ended.wait_for(|ended| *ended) => return None,
                }
            }
            let content = self.app.rendered.content(&self.app, &self.viewer, &self.page).ok()?;
            let tag = hash(content.as_bytes());
            if self.sent != Some(tag) {
                self.sent = Some(tag);
                return Some(content);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_contents_and_few_bytes_are_kept() {
        let contents = |number: usize, size: usize| {
            let content: Arc<str> = "x".repeat(size).into();
            (0..number).map(|key| (key.to_string(), Arc::clone(&content))).collect()
        };
        for (number, size, expected) in
            [(0, 0, false), (MOST - 1, 1, false), (MOST, 1, true), (3, MOST_BYTES / 3, true)]
        {
            assert_eq!(is_full(&contents(number, size)), expected, "{number} {size}");
        }
    }
}
