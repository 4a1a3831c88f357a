//! The check of settings that come as text.

use jobq_names::setting::stray;

use crate::error::{Error, Result};

/// Refuses a setting with a character that nobody sees: a control character, or white space or an
/// invisible character at either end. `name` tells where the text comes from, such as `JOBQ_URL`.
///
/// A text from a file of secrets often ends with a newline. A client checks its URL, its namespace and
/// the URL of the management API itself; a program calls this for other settings.
///
/// ```
/// let error = jobq::setting::check("SHOP_TOKEN", "topsecret\n").unwrap_err();
/// assert!(error.to_string().starts_with("SHOP_TOKEN ends with a newline (U+000A)"));
/// ```
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid), with the name and the character. The text is not shown, since
/// it may be a secret.
pub fn check(name: &str, text: &str) -> Result<()> {
    match stray(text) {
        None => Ok(()),
        Some(stray) => Err(Error::invalid(format!(
            "{name} {stray}; remove this character (`tr -d '\\r\\n'` strips the line ending of a \
             value read from a file)"
        ))),
    }
}
