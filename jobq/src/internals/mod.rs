//! Private functions for fuzz targets. Not public API.

pub mod properties;
