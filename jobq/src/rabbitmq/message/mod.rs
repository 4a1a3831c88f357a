//! Encoding of jobs as messages, and decoding. Pure; `docs/wire.md` is for other clients.
//!
//! [`properties`] encodes and decodes messages, and its `republish` builds the message of a job
//! that is published again. [`deaths`] counts attempts; [`size`] keeps the headers within a frame;
//! [`limited`] warns of a policy that removes jobs.

pub(crate) mod deaths;
pub(crate) mod limited;
pub(crate) mod properties;
pub(crate) mod size;
