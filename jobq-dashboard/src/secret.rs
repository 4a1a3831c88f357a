//! The secret that opens a dashboard with a server of its own.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jobq::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The secret that opens a dashboard: the password of basic authentication, with any user name, or
/// a bearer token.
#[derive(Clone)]
pub struct Secret {
    text: Arc<str>,
    hash: [u8; 32],
}

impl Secret {
    /// The fewest characters.
    const FEWEST: usize = 16;

    /// A new secret of 192 random bits. [`reveal`](Self::reveal) shows it, to be printed once.
    ///
    /// # Errors
    ///
    /// A system that gives no random bytes.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(ErrorKind::Refused, format!("the system gives no random bytes: {error}"))
        })?;
        Ok(Self::of(&URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// A secret of one's own, of at least 16 characters.
    ///
    /// # Errors
    ///
    /// [`Invalid`](jobq::ErrorKind::Invalid) if it is shorter, or has a character that nobody can
    /// type, such as the newline at the end of a file ([`jobq::setting`]).
    pub fn new(secret: &str) -> Result<Self> {
        jobq::setting::check("the secret of the dashboard", secret)?;
        if secret.chars().count() < Self::FEWEST {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("the secret of the dashboard needs at least {} characters", Self::FEWEST),
            ));
        }
        Ok(Self::of(secret))
    }

    fn of(secret: &str) -> Self {
        Self { text: secret.into(), hash: Sha256::digest(secret).into() }
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Whether it is this one. The work depends on the length of what is given alone: all of it is
    /// hashed, and all bytes of the two hashes are compared. So no answer tells how much of a guess
    /// is right, nor how long the secret is.
    fn is(&self, given: &[u8]) -> bool {
        Sha256::digest(given)[..].ct_eq(&self.hash).into()
    }

    /// Whether a request has it.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, given)) = given.and_then(|given| given.split_once(' ')) else {
            return false;
        };
        let given = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Some(given.trim().as_bytes().to_vec()),
            "basic" => STANDARD.decode(given.trim()).ok().and_then(|pair| {
                let colon = pair.iter().position(|byte| *byte == b':')?;
                Some(pair[colon + 1..].to_vec())
            }),
            _ => None,
        };
        given.is_some_and(|given| self.is(&given))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The user name of basic authentication, as the name of who acts.
pub(crate) fn user(parts: &Parts) -> Option<String> {
    let given = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, given) = given.split_once(' ')?;
    let pair =
        scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(given.trim()).ok())??;
    let pair = String::from_utf8(pair).ok()?;
    let (user, _) = pair.split_once(':')?;
    let user: String = user.chars().filter(|c| !c.is_control()).take(64).collect();
    (!user.is_empty()).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_nobody_can_type_is_refused_and_not_shown() {
        for (text, expected) in [
            ("topsecret of the test\n", "ends with a newline (U+000A)"),
            ("topsecret of the test\r", "ends with a carriage return (U+000D)"),
            (" topsecret of the test", "begins with a space (U+0020)"),
            ("topsecret\tof the test", "contains a tab (U+0009)"),
        ] {
            let error = Secret::new(text).unwrap_err();
            let expected = format!("the secret of the dashboard {expected}");
            assert!(error.is_invalid() && error.to_string().starts_with(&expected), "{error}");
            assert!(!error.to_string().contains("topsecret"), "{error}");
        }
    }

    #[test]
    fn the_whole_secret_alone_is_right() {
        let text = "a secret of the test";
        let secret = Secret::new(text).unwrap();
        assert!(secret.is(text.as_bytes()));
        for guess in
            ["", "a", "a secret of the tes", "a secret of the test\0", "A secret of the test"]
        {
            assert!(!secret.is(guess.as_bytes()), "{guess}");
        }
    }
}
