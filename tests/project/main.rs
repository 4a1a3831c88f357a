//! Checks of the project itself: its layers, examples, docs, packages, fuzz targets and benchmarks.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod alerts;
mod arbitrary_precision;
#[path = "../benches/speed/callgrind_tests.rs"]
mod callgrind_tests;
mod corpora;
mod docs;
mod examples;
mod layers;
mod logs;
mod metrics;
mod observability;
mod packages;
