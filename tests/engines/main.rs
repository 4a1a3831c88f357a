//! The conformance suite of the engines, and programs that run on both.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

mod ahead;
mod blocking;
mod clock;
mod conformance;
mod control;
mod design;
mod earlier;
mod end_to_end;
mod hardened;
mod headers;
mod kit;
mod layers;
mod log;
mod many;
mod metrics;
mod named;
mod operations;
mod order;
mod origin;
mod own_engine;
mod panics;
mod plain;
mod poison;
mod priorities;
mod runtimes;
mod schedules;
mod signals;
mod suspended;
mod traces;
mod waits;
