//! The engine for `sqlite:` URLs: one file, through `rusqlite`.

use std::sync::Arc;

use super::{Engine, EngineOptions};
use crate::error::Result;

pub(crate) async fn open(_url: &str, _options: EngineOptions) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(super::Detached))
}
