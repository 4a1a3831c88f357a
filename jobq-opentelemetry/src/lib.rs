//! Traces of [`jobq`]'s jobs with [OpenTelemetry](https://opentelemetry.io): a request and the jobs
//! that it enqueues are one connected picture, also where a job runs days later and on another
//! machine.
//!
//! [`OpenTelemetry`] injects the context of the span that sends a job into headers of the job,
//! `traceparent` and `tracestate` with the propagator of W3C's Trace Context, and relates the spans
//! of the job's attempts to it: by a link, or as children ([`Trace`]).
//!
//! ```
//! use jobq::Client;
//! use jobq_opentelemetry::OpenTelemetry;
//! use opentelemetry::trace::TracerProvider as _;
//! use opentelemetry_sdk::propagation::TraceContextPropagator;
//! use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
//! use tracing_subscriber::layer::SubscriberExt as _;
//! use tracing_subscriber::util::SubscriberInitExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), jobq::BoxError> {
//! // Or that of `opentelemetry-otlp`.
//! let exporter = InMemorySpanExporter::default();
//! let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
//! opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
//! tracing_subscriber::registry()
//!     .with(tracing_subscriber::filter::LevelFilter::INFO)
//!     .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("shop")))
//!     .init();
//!
//! let client =
//!     Client::builder("sqlite::memory:").propagation(OpenTelemetry::new()).connect().await?;
//! // Jobs of this client, and pools on it.
//! # client.close().await;
//! provider.shutdown()?; // sends what is left
//! # Ok(())
//! # }
//! ```
//!
//! The spans are those of `jobq`, with the names and attributes of OpenTelemetry's messaging
//! conventions; [`tracing_opentelemetry`] exports them. The page `docs/tracing.md` of the repository
//! lists them.

use std::collections::HashMap;
use std::sync::Once;

use jobq::{Propagation, Trace};
use opentelemetry::baggage::{BaggageExt as _, KeyValueMetadata};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, global};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Passes OpenTelemetry's context on with jobs, for
/// [`ClientBuilder::propagation`](jobq::ClientBuilder::propagation).
///
/// ```
/// use jobq::{Client, Trace};
/// use jobq_opentelemetry::OpenTelemetry;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let client = Client::builder("sqlite::memory:")
///     .propagation(OpenTelemetry::new())
///     .trace(Trace::Child) // instead of a link
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// The spans reach OpenTelemetry by a layer of [`tracing_opentelemetry`]. Where jobq's spans are
/// filtered out, the context of the program's own span travels with the job.
#[derive(Debug)]
pub struct OpenTelemetry {
    /// `None` for the global one.
    propagator: Option<Box<dyn TextMapPropagator + Send + Sync>>,
    told: Once,
}

impl OpenTelemetry {
    /// Uses the [global propagator](global::set_text_map_propagator), as it is at each call. The
    /// program must set one: the default one passes nothing on, which is logged once.
    #[must_use]
    pub fn new() -> Self {
        Self { propagator: None, told: Once::new() }
    }

    /// Uses this propagator.
    ///
    /// Headers of jobs have names of `[a-z0-9-]`, and none begins with `x-`: of Zipkin's
    /// propagators the one with the single header `b3` can be used.
    ///
    /// ```
    /// use jobq_opentelemetry::OpenTelemetry;
    /// use opentelemetry_sdk::propagation::TraceContextPropagator;
    ///
    /// let propagation = OpenTelemetry::with_propagator(TraceContextPropagator::new());
    /// ```
    #[must_use]
    pub fn with_propagator(propagator: impl TextMapPropagator + Send + Sync + 'static) -> Self {
        Self { propagator: Some(Box::new(propagator)), told: Once::new() }
    }

    fn with<T>(&self, mut use_it: impl FnMut(&dyn TextMapPropagator) -> T) -> T {
        match &self.propagator {
            Some(propagator) => use_it(&**propagator),
            None => global::get_text_map_propagator(use_it),
        }
    }
}

impl Default for OpenTelemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Propagation for OpenTelemetry {
    fn inject(&self, span: &Span, set: &mut dyn FnMut(&str, &str)) {
        let own = span.context();
        // The span may be filtered out.
        let context = if own.span().span_context().is_valid() { own } else { Context::current() };
        let mut headers = HashMap::new();
        self.with(|propagator| propagator.inject_context(&context, &mut headers));
        if headers.is_empty() && context.span().span_context().is_valid() {
            self.told.call_once(|| {
                tracing::warn!(
                    "the propagator of OpenTelemetry passes no context on, so traces end where \
                     jobs are enqueued; set one by `opentelemetry::global::set_text_map_propagator`"
                );
            });
        }
        // An empty `tracestate` says nothing.
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            set(name, value);
        }
    }

    fn extract(&self, span: &Span, get: &dyn Fn(&str) -> Option<String>, mode: Trace) {
        let context = self.with(|propagator| {
            let named = propagator.fields().filter_map(|name| Some((name.to_owned(), get(name)?)));
            let headers: HashMap<_, _> = named.collect();
            propagator.extract_with_context(&Context::new(), &headers)
        });
        if mode == Trace::Child {
            // A span that is filtered out has no parent.
            let _ = span.set_parent(context);
            return;
        }
        span.add_link(context.span().span_context().clone());
        if !context.baggage().is_empty() {
            let entries = context.baggage().iter().map(|(name, (value, metadata))| {
                KeyValueMetadata::new(name.clone(), value.clone(), metadata.clone())
            });
            let _ = span.set_parent(Context::new().with_baggage(entries));
        }
    }
}

/// Compiles the programs in the page on traces.
#[cfg(doctest)]
#[doc = include_str!("../../docs/tracing.md")]
struct Page;
