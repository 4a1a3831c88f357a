use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use jobq::Client;
use tokio::runtime::Handle;
use tokio::sync::{RwLock, watch};

use crate::access::{Access, Decide, Identify, Viewer};
use crate::activity::{Activities, Record};
use crate::failed::Looks;
use crate::links::Links;
use crate::live::Rendered;
use crate::operations::Operations;
use crate::pages::Page;
use crate::payload::Privacy;
use crate::request::Request;
use crate::sampler::{self, Sampler};
use crate::topology::{Comparison, Declared};
use crate::{assets, frame, guard, pages};

/// A dashboard, made by [`Dashboard::new`], of which it is not decided yet who may see it.
#[derive(Debug)]
#[must_use = "it becomes a router after `access`"]
pub struct Unguarded {
    client: Client,
}

impl Unguarded {
    /// Sets the function that decides what a request may do. It is called at each request, and for
    /// each action again. The request has been through the layers around the router, so that it
    /// finds what a login has put into the extensions of the request.
    pub fn access(self, decide: impl Fn(&Parts) -> Access + Send + Sync + 'static) -> Dashboard {
        Dashboard {
            client: self.client,
            decide: Arc::new(decide),
            identify: Arc::new(|_| None),
            links: Links::default(),
            origins: Vec::new(),
            privacy: Privacy::default(),
            declared: Declared::default(),
            shutdown: Mutex::default(),
        }
    }
}

/// The beginning of a shutdown.
type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The settings of a dashboard, which becomes a router of axum.
#[must_use = "it does nothing until it is a router"]
pub struct Dashboard {
    client: Client,
    decide: Decide,
    identify: Identify,
    links: Links,
    origins: Vec<String>,
    privacy: Privacy,
    declared: Declared,
    /// Taken when the dashboard starts.
    shutdown: Mutex<Option<Shutdown>>,
}

impl Dashboard {
    /// A dashboard of a client's queues. Who may see it is decided by [`Unguarded::access`].
    // Its type asks for the decision.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(client: &Client) -> Unguarded {
        Unguarded { client: client.clone() }
    }

    /// Sets the function that tells who sends a request: for the page of activities, for the record
    /// of a pause, and for the log. Nobody is named by default.
    pub fn actor(mut self, who: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.identify = Arc::new(who);
        self
    }

    /// Sets the external path of the router, such as `/admin/jobs`: each address on a page begins
    /// with it. Behind a proxy it is the path that browsers see. Defaults to none.
    pub fn prefix(mut self, path: &str) -> Self {
        self.links = Links::new(path);
        self
    }

    /// Adds an origin that browsers see, such as `https://shop.example.com`, without a path: forms that
    /// are sent from elsewhere are refused. Browsers that tell by `Sec-Fetch-Site` that a form is from the
    /// same origin need none. They do so on HTTPS and on this machine.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        let text = origin.into();
        self.origins.push(guard::origin(&text).unwrap_or(text));
        self
    }

    /// Hides values of payloads. A pattern is the path to a value, its keys separated by dots, with
    /// `*` for one key or index and `**` for any number of them. A single name hides the value
    /// under this key at any depth. Case makes no difference. A key with dots is JSON in brackets:
    /// `["card.number"]`, or `payment["card.number"]`. A pattern whose brackets cannot be read
    /// hides all values.
    ///
    /// Error texts and headers are shown as they are: the error of a payload that cannot be read
    /// quotes the value that does not fit.
    pub fn redact<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.privacy.redact(patterns.into_iter().map(Into::into));
        self
    }

    /// Whether payloads are shown. Defaults to true.
    pub fn payloads(mut self, shown: bool) -> Self {
        self.privacy.shown = shown;
        self
    }

    /// Adds what a program declares on RabbitMQ
    /// ([`WorkerPool::topology`](jobq::WorkerPool::topology)): the page of the doctor compares the
    /// broker with it. Give the declarations of all programs of the namespace.
    ///
    /// ```
    /// # use jobq::WorkerPool;
    /// # use jobq_dashboard::{Access, Dashboard};
    /// # fn example(client: jobq::Client, pool: WorkerPool) -> jobq::Result<()> {
    /// let dashboard = Dashboard::new(&client).access(|_| Access::Read).topology(pool.topology()?);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "rabbitmq")]
    pub fn topology(mut self, topology: jobq::rabbitmq::Topology) -> Self {
        self.declared.add(topology);
        self
    }

    /// Sets what programs declare.
    pub(crate) fn declared(mut self, declared: Declared) -> Self {
        self.declared = declared;
        self
    }

    /// Ends the streams of open pages when this future completes: the one that also ends the
    /// server. A server that shuts down gracefully waits for its answers, and a stream lasts up to
    /// 20 s otherwise. Streams end as well when the client is [closed](Client::close).
    ///
    /// ```
    /// # use axum::Router;
    /// # use jobq_dashboard::{Access, Dashboard};
    /// # async fn example(client: jobq::Client, listener: tokio::net::TcpListener) -> std::io::Result<()> {
    /// async fn stop() {
    ///     // A service awaits SIGTERM as well.
    ///     let _ = tokio::signal::ctrl_c().await;
    /// }
    /// let dashboard = Dashboard::new(&client).access(|_| Access::Read).shutdown(stop());
    /// let routes = Router::new().nest_service("/jobs", dashboard.prefix("/jobs").router());
    /// axum::serve(listener, routes).with_graceful_shutdown(stop()).await
    /// # }
    /// ```
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Mutex::new(Some(Box::pin(signal)));
        self
    }

    /// The router, to nest at any path: by `nest_service`, which takes the path with and without a
    /// `/` at its end, or by `nest`, which takes it without.
    ///
    /// Within a runtime of tokio it begins to read the figures of the queues at once, otherwise at
    /// its first request.
    pub fn router(self) -> Router {
        self.app().router()
    }

    /// The state of the router.
    pub(crate) fn app(self) -> Arc<App> {
        let app = Arc::new(App {
            sampler: Sampler::default(),
            starting: Once::new(),
            activities: Activities::default(),
            operations: Operations::default(),
            looks: Looks::default(),
            rendered: Rendered::default(),
            has_ended: watch::Sender::default(),
            writes: Arc::default(),
            settings: self,
        });
        if Handle::try_current().is_ok() {
            app.start();
        }
        app
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { links, origins, privacy, .. } = self;
        let mut debug = f.debug_struct("Dashboard");
        debug.field("links", links).field("origins", origins).field("privacy", privacy);
        debug.finish_non_exhaustive()
    }
}

fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(pages::queues::page))
        .route("/queues/{queue}", get(pages::queue::page))
        .route("/queues/{queue}/pause", post(pages::queue::pause))
        .route("/queues/{queue}/slots", post(pages::queue::slots))
        .route("/queues/{queue}/resume", post(pages::queue::resume))
        .route("/queues/{queue}/enqueue", post(pages::queue::enqueue))
        .route("/queues/{queue}/failed", get(pages::failed::page))
        .route(
            "/queues/{queue}/failed/{kind}",
            get(pages::operation::ask).post(pages::operation::start),
        )
        .route("/queues/{queue}/failed/jobs/{id}", get(pages::failed_job::page))
        .route("/operations/{id}", get(pages::operation::page))
        .route("/operations/{id}/cancel", post(pages::operation::cancel))
        .route("/failed", get(|request: Request| request.live(Page::FailedQueues)))
        .route("/pools", get(pages::pools::page))
        .route("/pools/{pool}/quiet", post(pages::pools::quiet))
        .route("/pools/{pool}/stop", get(pages::pools::ask_stop).post(pages::pools::stop))
        .route("/running/{id}/cancel", post(pages::pools::cancel))
        .route("/schedules", get(pages::schedules::page))
        .route("/schedules/{queue}/{schedule}/run", post(pages::schedules::run))
        .route("/schedules/{queue}/{schedule}/pause", post(pages::schedules::pause))
        .route("/schedules/{queue}/{schedule}/resume", post(pages::schedules::resume))
        .route("/schedules/{queue}/{schedule}/remove", post(pages::schedules::remove))
        .route("/doctor", get(pages::doctor::page))
        .route("/activity", get(|request: Request| request.live(Page::Activity)))
        .route("/assets/{name}", get(assets::serve))
        .fallback(pages::fallback)
}

/// The state that all requests share.
pub(crate) struct App {
    settings: Dashboard,
    pub(crate) sampler: Sampler,
    starting: Once,
    pub(crate) activities: Activities,
    pub(crate) operations: Operations,
    pub(crate) looks: Looks,
    pub(crate) rendered: Rendered,
    /// Whether streams have ended.
    pub(crate) has_ended: watch::Sender<bool>,
    /// Read by each request that changes something, for as long as it runs.
    pub(crate) writes: Arc<RwLock<()>>,
}

impl App {
    pub(crate) fn router(self: Arc<Self>) -> Router {
        routes().layer(from_fn_with_state(Arc::clone(&self), frame::around)).with_state(self)
    }

    /// Cancels the operations that run, and waits until they and all other changes have ended.
    pub(crate) async fn end(&self) {
        // No further ones begin.
        let _writes = self.writes.write().await;
        self.operations.end().await;
    }

    pub(crate) fn client(&self) -> &Client {
        &self.settings.client
    }

    /// Records what somebody did, with the id of the operation if it was one.
    pub(crate) fn record(
        &self,
        actor: &str,
        action: &'static str,
        target: String,
        result: String,
        operation: Option<u64>,
    ) {
        let (at, actor) = (SystemTime::now(), actor.to_owned());
        self.activities.add(Record { at, actor, action, target, result, operation });
        self.sampler.changed();
    }

    pub(crate) fn links(&self) -> &Links {
        &self.settings.links
    }

    pub(crate) fn privacy(&self) -> &Privacy {
        &self.settings.privacy
    }

    /// Whether everything is as programs declare it.
    pub(crate) async fn compare(&self) -> Comparison {
        self.settings.declared.compare(&self.client().admin()).await
    }

    pub(crate) fn origins(&self) -> &[String] {
        &self.settings.origins
    }

    /// The sender of a request, unless it may not look.
    pub(crate) fn viewer(&self, request: &Parts) -> Option<Viewer> {
        let Dashboard { decide, identify, .. } = &self.settings;
        Viewer::new(identify(request), decide(request))
    }

    /// Starts the sampler, and awaits the end of streams, once.
    pub(crate) fn start(self: &Arc<Self>) {
        self.starting.call_once(|| {
            sampler::start(self);
            self.await_end();
        });
    }

    /// Ends streams at the shutdown and when the client is closed.
    fn await_end(self: &Arc<Self>) {
        let shutdown = &self.settings.shutdown;
        let shutdown = shutdown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shutdown = shutdown.unwrap_or_else(|| Box::pin(std::future::pending()));
        let (client, mut app_lives) = (self.client().clone(), self.has_ended.subscribe());
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown => {}
                () = client.closed() => {}
                // The application was dropped.
                _ = app_lives.changed() => {}
            }
            if let Some(app) = weak.upgrade() {
                app.has_ended.send_replace(true);
            }
        });
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("settings", &self.settings).finish_non_exhaustive()
    }
}
