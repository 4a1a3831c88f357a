//! The contexts that the propagation injects and extracts.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use jobq::{Propagation as _, Trace};
use jobq_opentelemetry::OpenTelemetry;
use opentelemetry::Context;
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::propagation::TextMapCompositePropagator;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt as _;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn w3c() -> OpenTelemetry {
    OpenTelemetry::with_propagator(TextMapCompositePropagator::new(vec![
        Box::new(TraceContextPropagator::new()),
        Box::new(BaggagePropagator::new()),
    ]))
}

/// A context of another program.
fn remote(state: &str) -> Context {
    let span = SpanContext::new(
        TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736").unwrap(),
        SpanId::from_hex("00f067aa0ba902b7").unwrap(),
        TraceFlags::SAMPLED,
        true,
        state.parse::<TraceState>().unwrap(),
    );
    Context::new().with_remote_span_context(span)
}

fn injected(propagation: &OpenTelemetry, span: &Span) -> HashMap<String, String> {
    let mut headers = HashMap::new();
    propagation.inject(span, &mut |name, value| {
        headers.insert(name.to_owned(), value.to_owned());
    });
    headers
}

/// What a subscriber with OpenTelemetry exports.
fn exported(run: impl FnOnce()) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
    exporter.get_finished_spans().unwrap()
}

#[test]
fn a_span_that_is_filtered_out_leaves_the_context_around_it() {
    let _entered = remote("a=1").attach();
    let headers = injected(&w3c(), &Span::none());
    assert_eq!(headers["traceparent"], PARENT);
    assert_eq!(headers["tracestate"], "a=1");
}

#[test]
fn an_empty_state_is_no_header() {
    let _entered = remote("").attach();
    assert_eq!(injected(&w3c(), &Span::none()).keys().collect::<Vec<_>>(), ["traceparent"]);
}

#[test]
fn without_a_context_nothing_is_injected() {
    assert!(injected(&w3c(), &Span::none()).is_empty());
}

#[test]
fn the_context_of_the_span_itself_is_injected() {
    let spans = exported(|| {
        let span = info_span!("send");
        let headers = injected(&w3c(), &span);
        let id = span.context().span().span_context().span_id().to_string();
        assert!(headers["traceparent"].contains(&id), "{headers:?} {id}");
    });
    assert_eq!(spans.len(), 1);
}

#[test]
fn each_mode_relates_the_span_and_keeps_the_baggage() {
    let headers = |name: &str| match name {
        "traceparent" => Some(PARENT.to_owned()),
        "baggage" => Some("tenant=7".to_owned()),
        _ => None,
    };
    for mode in [Trace::Link, Trace::Child] {
        let spans = exported(|| {
            let span = info_span!("process");
            w3c().extract(&span, &headers, mode);
            assert_eq!(span.context().baggage().get("tenant").unwrap().as_str(), "7");
        });
        let trace = remote("").span().span_context().trace_id();
        let links: Vec<_> = spans[0].links.iter().map(|l| l.span_context.trace_id()).collect();
        let is_child = spans[0].span_context.trace_id() == trace;
        match mode {
            Trace::Child => assert_eq!((is_child, links), (true, vec![])),
            _ => assert_eq!((is_child, links), (false, vec![trace])),
        }
    }
}

#[test]
fn a_job_without_a_context_begins_a_trace_of_its_own() {
    for (mode, header) in [(Trace::Link, None), (Trace::Child, None), (Trace::Child, Some("00-no"))]
    {
        let spans = exported(|| {
            w3c().extract(&info_span!("process"), &|_| header.map(str::to_owned), mode);
        });
        assert_eq!((spans[0].parent_span_id, spans[0].links.len()), (SpanId::INVALID, 0));
        assert!(spans[0].span_context.is_valid());
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_propagator_that_passes_nothing_on_is_told_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        // The default of OpenTelemetry.
        let propagation = OpenTelemetry::new();
        assert!(injected(&propagation, &Span::none()).is_empty(), "there is nothing to pass on");
        let _entered = remote("").attach();
        for _ in 0..3 {
            assert!(injected(&propagation, &Span::none()).is_empty());
        }
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("set_text_map_propagator").count(), 1, "{log}");
}

/// As `docs/tracing.md` has it.
#[test]
fn a_log_may_leave_out_the_fields_for_traces() {
    let log = Log::default();
    let writer = log.clone();
    let fields = format::debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?} "),
        name if name.contains('.') => Ok(()),
        name => write!(writer, "{name}={value:?} "),
    });
    let subscriber = tracing_subscriber::fmt().without_time().with_target(false).with_ansi(false);
    let subscriber = subscriber.fmt_fields(fields).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("attempt", job = "mail", otel.name = "process mail", attempt = 1);
        span.in_scope(|| tracing::info!(pages = 7, "printed"));
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.trim(), "INFO attempt{job=\"mail\" attempt=1 }: printed pages=7");
}
