//! Private functions for benchmarks and fuzz targets. Not public API.

pub mod properties;
pub mod pure;
