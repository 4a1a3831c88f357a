//! Jobs as messages: properties and headers, both ways. Pure; `docs/wire.md` is for other clients.
//!
//! A job becomes a message in [`properties`], whose `republish` makes the next message of one that
//! is published again. [`deaths`] counts its attempts, and [`size`] keeps its headers within a frame.

pub(crate) mod deaths;
pub(crate) mod properties;
pub(crate) mod size;
