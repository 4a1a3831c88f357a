//! The metrics of a program without the feature `metrics`: types without content, whose methods do
//! nothing.
// As those that do something.
#![allow(clippy::unused_self)] // the variant with the feature uses it

use std::any::TypeId;
use std::time::Duration;

use crate::engine::Settlement;
use crate::error::Error;

pub(crate) const IS_ENABLED: bool = false;

#[derive(Debug)]
pub(crate) struct ClientMetrics;

#[derive(Debug)]
pub(crate) struct Call;

#[derive(Debug)]
pub(crate) struct Batch;

impl ClientMetrics {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn enqueue(&self, _: TypeId, _: &'static str, _: &'static str) -> Call {
        Call
    }

    pub(crate) fn enqueue_all(&self, _: TypeId, _: &'static str, _: &'static str) -> Batch {
        Batch
    }

    pub(crate) fn enqueue_named(&self) -> Call {
        Call
    }

    pub(crate) fn publish(&self) -> Call {
        Call
    }
}

impl Call {
    pub(crate) fn ended(&mut self, _: Option<&Error>) {}
}

impl Batch {
    pub(crate) fn takes_one(&mut self) {}

    pub(crate) fn ended<'e>(self, _: impl Iterator<Item = &'e Error>) {}
}

#[derive(Debug)]
pub(crate) struct QueueMetrics;

#[derive(Debug)]
pub(crate) struct PoolLevel;

#[derive(Debug)]
pub(crate) struct Switch;

impl QueueMetrics {
    pub(crate) fn new(_: &'static str, _: impl IntoIterator<Item = &'static str>) -> Self {
        Self
    }

    pub(crate) fn unrecorded(&self) {}

    pub(crate) fn starts(&self, _: Option<Duration>) -> PoolLevel {
        PoolLevel
    }

    pub(crate) fn decided(&self, _: &str, _: &Settlement, _: Option<Duration>) {}

    pub(crate) fn has_slots(&self, _: u16) -> PoolLevel {
        PoolLevel
    }

    pub(crate) fn loses_slot(&self) -> PoolLevel {
        PoolLevel
    }

    pub(crate) fn consuming(&self) -> Switch {
        Switch
    }

    pub(crate) fn paused(&self) -> Switch {
        Switch
    }
}

impl Switch {
    pub(crate) fn set(&mut self, _: bool) {}
}

#[cfg(feature = "rabbitmq")]
#[derive(Debug)]
pub(crate) struct ConnectionMetrics;

#[cfg(feature = "rabbitmq")]
impl ConnectionMetrics {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn reconnected(&self) {}

    pub(crate) fn unroutable(&self) {}
}

#[cfg(feature = "rabbitmq")]
#[derive(Debug, Default)]
pub(crate) struct WaitMetrics;

#[cfg(feature = "rabbitmq")]
impl WaitMetrics {
    pub(crate) fn set(&self, _: Option<&str>, _: crate::engine::Passage) {}
}
