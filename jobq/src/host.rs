//! The name of this machine.

use std::sync::LazyLock;

static NAME: LazyLock<String> =
    LazyLock::new(|| gethostname::gethostname().to_string_lossy().into_owned());

/// The name of this machine, as it was at the first call.
pub(crate) fn name() -> &'static str {
    &NAME
}
