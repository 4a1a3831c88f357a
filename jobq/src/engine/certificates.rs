//! Certificates and the URL of the broker's management API.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};

/// The certificates that [`ClientBuilder`](crate::ClientBuilder) was given for encrypted
/// connections, unchanged. The `Debug` form has no key.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Certificates of CAs that are trusted in addition to the system's, in PEM form.
    pub roots: Vec<Pem>,
    /// The certificate that authenticates the client.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate and its private key.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate and its intermediate certificates, in PEM form.
    pub chain: Pem,
    /// The private key, in PEM form, not encrypted.
    pub key: Pem,
}

/// Certificates or a key in PEM form. The `Debug` form has no content.
#[derive(Clone)]
#[non_exhaustive]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// The file with the text. Each connection reads it anew, since it may have been renewed.
    File(PathBuf),
}

impl Pem {
    /// This file, also if the program changes its current directory later.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::File(std::path::absolute(&path).unwrap_or(path))
    }

    /// The text.
    ///
    /// # Errors
    ///
    /// [`Refused`](ErrorKind::Refused) if the file cannot be read.
    pub fn read(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::File(path) => std::fs::read(path).map(Cow::Owned).map_err(|source| {
                let text = format!(
                    "cannot read the file {}: {source}; each connection reads its certificates \
                     again, so keep a file in PEM format at this path",
                    path.display()
                );
                Error::new(ErrorKind::Refused, text).with_source(source)
            }),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The URL of a broker's management API. The `Debug` form omits it, since it may have a password.
#[derive(Clone)]
pub struct ManagementUrl(pub String);

impl fmt::Debug for ManagementUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagementUrl(..)")
    }
}

impl Certificates {
    /// Whether there are no certificates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.client.is_none()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Certificates");
        shown.field("roots", &self.roots).field("client", &self.client).finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}
