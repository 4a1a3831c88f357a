//! The files that are compiled in. Their names have a hash of their content, so they never change.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// A file that is compiled in.
#[derive(Debug)]
pub(crate) struct Asset {
    stem: &'static str,
    extension: &'static str,
    media_type: &'static str,
    content: &'static str,
    hash: u64,
}

pub(crate) static STYLESHEET: Asset = Asset::new(
    "dashboard",
    "css",
    "text/css; charset=utf-8",
    include_str!("../assets/dashboard.css"),
);
pub(crate) static SCRIPT: Asset = Asset::new(
    "dashboard",
    "js",
    "text/javascript; charset=utf-8",
    include_str!("../assets/dashboard.js"),
);
pub(crate) static ICON: Asset =
    Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg"));

impl Asset {
    const fn new(
        stem: &'static str,
        extension: &'static str,
        media_type: &'static str,
        content: &'static str,
    ) -> Self {
        Self { stem, extension, media_type, content, hash: hash(content.as_bytes()) }
    }

    pub(crate) fn name(&self) -> String {
        format!("{}-{:016x}.{}", self.stem, self.hash, self.extension)
    }
}

/// The FNV-1a hash of bytes, which can be computed by the compiler.
pub(crate) const fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    hash
}

/// Serves the files.
pub(crate) async fn serve(Path(name): Path<String>) -> Result<Response, Problem> {
    let asset = [&STYLESHEET, &SCRIPT, &ICON].into_iter().find(|asset| asset.name() == name);
    let asset = asset.ok_or_else(Problem::not_found)?;
    let headers =
        [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, asset.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small() {
        assert!(SCRIPT.content.len() <= 15 * 1024, "{} bytes", SCRIPT.content.len());
    }

    #[test]
    fn the_hash_is_of_the_content() {
        // The test vectors of FNV.
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
