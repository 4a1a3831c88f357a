//! Traces of jobs: the spans that OpenTelemetry exports, and how they are related.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod jobs;
mod picture;
mod pictures;
