//! Metrics and traces of the calls by which a client sends.
//!
//! The path of an enqueue tells an [`Observer`] and knows nobody behind it.

use std::any::TypeId;

use tracing::Span;

use super::JobKind;
use crate::error::{Error, Result};
use crate::job::{Headers, JobId};
use crate::metrics::{Batch, Call, ClientMetrics, UNKNOWN};
use crate::traces::{self, Sent, Traces};

/// Those who watch the calls of a client.
pub(super) struct Observer {
    metrics: ClientMetrics,
    traces: Option<Traces>,
}

/// A call that sends one job or event, or with a [`Batch`] many jobs. Dropped before its answer, it
/// has an unknown result.
pub(super) struct Sending<C = Call> {
    counted: C,
    traced: Option<traces::Sending>,
}

/// A call that sends many jobs.
pub(super) type SendingAll = Sending<Batch>;

/// A call that makes the row of a job or an event. It counts nothing: the row may be rolled back.
pub(super) type Writing = Sending<()>;

impl Observer {
    /// Those who watch a client, with traces if it has a propagation.
    pub(super) fn new(traces: Option<Traces>) -> Self {
        Self { metrics: ClientMetrics::new(), traces }
    }

    /// The traces, if the client has a propagation.
    pub(super) fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// A job is about to be sent.
    pub(super) fn sending(&self, kind: &JobKind, id: JobId) -> Sending {
        let JobKind { type_id, queue, name, .. } = *kind;
        let sent = Sent { to: queue, job: Some(name), id: Some(id) };
        self.begin(self.metrics.enqueue(type_id, queue, name), &sent)
    }

    /// Jobs are about to be sent.
    pub(super) fn sending_all(&self, kind: &JobKind) -> SendingAll {
        let JobKind { type_id, queue, name, .. } = *kind;
        let sent = Sent { to: queue, job: Some(name), id: None };
        self.begin(self.metrics.enqueue_all(type_id, queue, name), &sent)
    }

    /// A job whose type this program does not have is about to be sent.
    pub(super) fn sending_named(&self, name: &str, queue: &str, id: JobId) -> Sending {
        let sent = Sent { to: queue, job: Some(name), id: Some(id) };
        // Names that a program does not have are no labels.
        self.begin(self.metrics.enqueue(TypeId::of::<Self>(), UNKNOWN, UNKNOWN), &sent)
    }

    /// An event is about to be sent.
    pub(super) fn sending_event(&self, topic: &str, id: JobId) -> Sending {
        self.begin(self.metrics.publish(), &Sent { to: topic, job: None, id: Some(id) })
    }

    /// A job or an event is about to be written to a table, from which a relay sends it.
    pub(super) fn writing(&self, to: &str, job: Option<&str>, id: Option<JobId>) -> Writing {
        self.begin((), &Sent { to, job, id })
    }

    fn begin<C>(&self, counted: C, sent: &Sent<'_>) -> Sending<C> {
        Sending { counted, traced: self.traces.as_ref().map(|traces| traces.send(sent)) }
    }
}

impl<C> Sending<C> {
    /// The span of the call.
    pub(super) fn span(&self) -> Span {
        self.traced.as_ref().map_or_else(Span::none, |traced| traced.span.clone())
    }

    /// Adds the headers that connect an attempt with this call.
    pub(super) fn add_to(&self, headers: &mut Headers) {
        if let Some(traced) = &self.traced {
            traced.add_context(headers);
        }
    }
}

impl Sending {
    /// The call has ended.
    pub(super) fn answered<T>(mut self, answer: &Result<T>) {
        let error = answer.as_ref().err();
        if let (Some(traced), Some(error)) = (&self.traced, error) {
            traced.failed(error);
        }
        self.counted.ended(error);
    }
}

impl Writing {
    /// The row is made, or there is none.
    pub(super) fn written<T>(&self, row: &Result<T>) {
        if let (Some(traced), Err(error)) = (&self.traced, row) {
            traced.failed(error);
        }
    }
}

impl SendingAll {
    /// The call takes one job more.
    pub(super) fn takes_one(&mut self) {
        self.counted.takes_one();
    }

    /// The call has ended, with the numbers of accepted, refused and possibly accepted jobs.
    pub(super) fn answered(self, counts: [usize; 3], error: impl FnOnce() -> Option<Error>) {
        if let Some(traced) = &self.traced {
            traced.counted(counts.into_iter().sum());
            if let Some(error) = error() {
                traced.failed(&error);
            }
        }
        self.counted.ended(counts);
    }
}
