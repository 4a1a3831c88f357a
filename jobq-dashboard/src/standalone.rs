//! The dashboard without an application around it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HOST, HeaderValue, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use jobq::{Client, Error, ErrorKind, Result};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::access::Access;
use crate::dashboard::{App, Dashboard};
use crate::frame;
use crate::guard::{self, host_name};
use crate::links::Links;
use crate::secret::{Secret, user};
use crate::serve::serve;
use crate::topology::Declared;

/// How long the end waits for what is under way. A pass of an operation takes up to 20 s.
const LONGEST_END: Duration = Duration::from_secs(30);

/// A dashboard with a server of its own.
///
/// ```
/// use jobq_dashboard::Standalone;
///
/// # async fn example(client: jobq::Client) -> jobq::Result<()> {
/// let serving = Standalone::new(&client).start().await?;
/// println!("{}", serving.url());
/// serving.run_until(async { let _ = tokio::signal::ctrl_c().await; }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it serves nothing until it is started"]
pub struct Standalone {
    client: Client,
    address: SocketAddr,
    secret: Option<Secret>,
    hosts: Vec<String>,
    origin: Option<String>,
    prefix: String,
    read_only: bool,
    actor: Option<String>,
    redacted: Vec<String>,
    payloads: bool,
    declared: Declared,
}

impl Standalone {
    /// A dashboard of a client's queues, on 127.0.0.1:8700.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            address: SocketAddr::from(([127, 0, 0, 1], 8_700)),
            secret: None,
            hosts: Vec::new(),
            origin: None,
            prefix: String::new(),
            read_only: false,
            actor: None,
            redacted: Vec::new(),
            payloads: true,
            declared: Declared::default(),
        }
    }

    /// The address that it listens on. One that is not of this machine alone needs a
    /// [`secret`](Self::secret) and an [`origin`](Self::origin).
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Requires a secret.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Adds a name under which browsers may reach it, in the header `Host`. The names of this
    /// machine, the address that it listens on and the host of the [`origin`](Self::origin) are
    /// allowed already.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(host_name(&name.into()));
        self
    }

    /// Sets the origin that browsers see, such as `https://jobs.example.com`.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = Some(origin.into());
        self
    }

    /// Sets the external path, behind a proxy that has one. The proxy may remove it or not; it must
    /// not if the path begins as one of the pages does, such as `/queues`.
    pub fn prefix(mut self, path: impl Into<String>) -> Self {
        self.prefix = path.into();
        self
    }

    /// Whether it only shows, and changes nothing. Defaults to false.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets who acts, where a request does not say it by the user name of basic authentication.
    pub fn actor(mut self, name: impl Into<String>) -> Self {
        self.actor = Some(name.into());
        self
    }

    /// As [`Dashboard::redact`].
    pub fn redact<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.redacted.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// As [`Dashboard::payloads`].
    pub fn payloads(mut self, shown: bool) -> Self {
        self.payloads = shown;
        self
    }

    /// As [`Dashboard::topology`].
    #[cfg(feature = "rabbitmq")]
    pub fn topology(mut self, topology: jobq::rabbitmq::Topology) -> Self {
        self.declared.add(topology);
        self
    }

    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// [`Invalid`](jobq::ErrorKind::Invalid) if the origin is none, or the address is not of this
    /// machine alone and the secret or the origin is missing; [`Refused`](jobq::ErrorKind::Refused) if nothing can listen
    /// there.
    pub async fn start(self) -> Result<Serving> {
        self.check()?;
        let unusable = |error: io::Error| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot listen on {}: {error}; choose another port", self.address),
            )
        };
        let listener = TcpListener::bind(self.address).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let (router, app) = self.router(address);
        let path = Links::new(&self.prefix).to("/");
        let origin = self.origin.unwrap_or_else(|| format!("http://{address}"));
        let url = format!("{}{}/", origin.trim_end_matches('/'), path.trim_end_matches('/'));
        Ok(Serving { listener, address, router, app, url })
    }

    fn check(&self) -> Result<()> {
        let texts = [("the prefix of the dashboard", Some(&self.prefix))]
            .into_iter()
            .chain([("the origin of the dashboard", self.origin.as_ref())])
            .chain([("the name of the actor", self.actor.as_ref())])
            .chain(self.hosts.iter().map(|host| ("a host of the dashboard", Some(host))))
            .chain(self.redacted.iter().map(|name| ("a hidden value's pattern", Some(name))));
        for (name, text) in texts {
            text.map_or(Ok(()), |text| jobq::setting::check(name, text))?;
        }
        if let Some(text) = self.origin.as_ref().filter(|origin| guard::origin(origin).is_none()) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "`{text}` is not an origin: write the scheme, the host, and the port if it is \
                     not the default, such as `https://jobs.example.com`"
                ),
            ));
        }
        if self.address.ip().is_loopback() {
            return Ok(());
        }
        let address = self.address;
        let missing = if self.secret.is_none() {
            "a secret: without one, anyone who reaches it can change the jobs"
        } else if self.origin.is_none() {
            "its origin, such as `https://jobs.example.com`: without it, the dashboard cannot \
             detect forms from other sites"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Invalid,
            format!("a dashboard on {address}, which other machines may reach, needs {missing}"),
        ))
    }

    /// The router that serves this address.
    fn router(&self, address: SocketAddr) -> (Router, Arc<App>) {
        let access = if self.read_only { Access::Read } else { Access::All };
        let actor = self.actor.clone();
        let mut dashboard = Dashboard::new(&self.client)
            .access(move |_| access.clone())
            .actor(move |parts| user(parts).or_else(|| actor.clone()))
            .prefix(&self.prefix)
            .redact(self.redacted.clone())
            .payloads(self.payloads)
            .declared(self.declared.clone());
        let mut hosts = self.hosts.clone();
        hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        hosts.push(host_name(&address.to_string()));
        for name in
            ["localhost".to_owned(), address.ip().to_string(), host_name(&address.to_string())]
        {
            dashboard = dashboard.origin(format!("http://{name}:{}", address.port()));
        }
        if let Some(origin) = &self.origin {
            dashboard = dashboard.origin(origin);
            let host = origin.split_once("://").map_or(origin.as_str(), |(_, host)| host);
            hosts.push(host_name(host.trim_end_matches('/')));
        }
        let app = dashboard.app();
        let inner = Arc::clone(&app).router();
        let router = match &*Links::new(&self.prefix).to("/") {
            "/" => inner,
            // A proxy may remove the prefix or not.
            prefix => Router::new().nest_service(prefix, inner.clone()).fallback_service(inner),
        };
        let gate = Arc::new(Gate { hosts, secret: self.secret.clone() });
        (router.layer(from_fn_with_state(gate, guarded)), app)
    }
}

/// The conditions of a request before the dashboard sees it.
struct Gate {
    hosts: Vec<String>,
    secret: Option<Secret>,
}

async fn guarded(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(Authority::as_str);
    let host = host_name(host.or(authority).unwrap_or_default());
    // Against names of other sites that lead to this machine.
    if !gate.hosts.contains(&host) {
        let text = "This host name is not allowed. Allow it with the option for hosts.\n";
        return refused(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if gate.secret.as_ref().is_some_and(|secret| !secret.is_in(request.headers())) {
        let mut response = refused(StatusCode::UNAUTHORIZED, "The secret is missing or wrong.\n");
        let basic = HeaderValue::from_static("Basic realm=\"jobq\", charset=\"UTF-8\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, basic);
        return response;
    }
    next.run(request).await
}

fn refused(status: StatusCode, text: &'static str) -> Response {
    let mut response = (status, text).into_response();
    frame::protect(response.headers_mut());
    response
}

/// A dashboard that listens.
#[derive(Debug)]
#[must_use = "it answers nobody until it is run"]
pub struct Serving {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    app: Arc<App>,
    url: String,
}

impl Serving {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers requests until `end` completes. Open pages do not delay the end. Operations on failed
    /// jobs that run then are cancelled, and it waits up to 30 s for them and for other changes, so
    /// that no job is left both in its queue and failed.
    ///
    /// # Errors
    ///
    /// A listener that fails.
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<()> {
        let served = serve(self.listener, self.router, end).await.map_err(|error| {
            Error::new(ErrorKind::Refused, format!("the dashboard no longer listens: {error}"))
        });
        if timeout(LONGEST_END, self.app.end()).await.is_err() {
            tracing::warn!("dashboard stopped with changes still in progress");
        }
        served
    }
}
