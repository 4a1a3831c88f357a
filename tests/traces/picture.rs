//! The spans that were exported, as text.

use std::sync::LazyLock;

use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{SpanId, Value};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Exports the spans of this process from the first call on.
pub(crate) fn exporter() -> &'static InMemorySpanExporter {
    static EXPORTER: LazyLock<(InMemorySpanExporter, SdkTracerProvider)> = LazyLock::new(|| {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
        // `lapin` has a span for each connection.
        let wanted =
            Targets::new().with_default(LevelFilter::INFO).with_target("lapin", LevelFilter::OFF);
        tracing_subscriber::registry().with(wanted).with(layer).init();
        (exporter, provider)
    });
    &EXPORTER.0
}

/// All spans so far.
pub(crate) struct Picture(Vec<SpanData>);

impl Picture {
    pub(crate) fn take() -> Self {
        let mut spans = exporter().get_finished_spans().unwrap();
        spans.sort_by_key(|span| span.start_time);
        Self(spans)
    }

    /// The spans with the attributes of messages, in the order of their starts.
    pub(crate) fn details(&self) -> Vec<String> {
        self.0.iter().map(|span| format!("{} {}", self.line(span), attributes(span))).collect()
    }

    /// The spans with their attempt, outcome, class of error and status, sorted.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.0.iter().map(|span| self.outcome(span)).collect();
        lines.sort();
        lines
    }

    fn outcome(&self, span: &SpanData) -> String {
        let shown = ["jobq.attempt", "jobq.outcome", "error.type"];
        let mut parts = vec![self.line(span)];
        parts.extend(shown.iter().filter_map(|name| value(span, name)));
        if span.status != Status::Unset {
            parts.push(format!("{:?}", span.status));
        }
        parts.join(" ")
    }

    /// The kind of a span, its name, and its relations: `<` its parent, `~` a link.
    fn line(&self, span: &SpanData) -> String {
        let kind = format!("{:?}", span.span_kind).to_lowercase();
        let parent = (span.parent_span_id != SpanId::INVALID).then(|| {
            let (name, trace) = self.name(span.parent_span_id);
            assert_eq!(trace, span.span_context.trace_id(), "a parent is of the same trace");
            format!(" < {name}")
        });
        let links = span.links.iter().map(|link| {
            let (name, trace) = self.name(link.span_context.span_id());
            assert_eq!(trace, link.span_context.trace_id());
            assert_ne!(trace, span.span_context.trace_id(), "a link leads to another trace");
            format!(" ~ {name}")
        });
        format!("{kind} {}{}{}", span.name, parent.unwrap_or_default(), links.collect::<String>())
    }

    fn name(&self, id: SpanId) -> (&str, opentelemetry::TraceId) {
        let found = self.0.iter().find(|span| span.span_context.span_id() == id);
        let found = found.expect("a related span is exported, too");
        (&found.name, found.span_context.trace_id())
    }
}

fn value(span: &SpanData, name: &str) -> Option<String> {
    let mut found = span.attributes.iter().filter(|attribute| attribute.key.as_str() == name);
    let value = &found.next()?.value;
    assert!(found.next().is_none(), "`{name}` is there once");
    let is_number = ["jobq.attempt", "messaging.batch.message_count"].contains(&name);
    assert_eq!(matches!(value, Value::I64(_)), is_number, "{name} {value:?}");
    Some(value.to_string())
}

/// The attributes of the messaging conventions and of jobq.
fn attributes(span: &SpanData) -> String {
    let ours = ["messaging.", "jobq.", "error."];
    let is_ours = |name: &str| ours.iter().any(|prefix| name.starts_with(prefix));
    let names = span.attributes.iter().map(|attribute| attribute.key.as_str());
    let mut names: Vec<_> = names.filter(|name| is_ours(name)).collect();
    names.sort_unstable();
    let values = names.iter().map(|name| format!("{name}={}", value(span, name).unwrap()));
    values.collect::<Vec<_>>().join(" ")
}
