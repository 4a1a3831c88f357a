//! Jobs as messages: properties and headers, both ways.

pub(crate) mod deaths;
pub(crate) mod properties;
pub(crate) mod size;
