//! Certificates and the URL of the broker's management API.

use std::fmt;

/// The certificates that [`ClientBuilder`](crate::ClientBuilder) was given for encrypted
/// connections, unchanged. The `Debug` form has no key.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Certificates of CAs that are trusted in addition to the system's, in PEM form.
    pub roots: Vec<Vec<u8>>,
    /// The certificate that authenticates the client.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate and its private key.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate and its intermediate certificates, in PEM form.
    pub chain: Vec<u8>,
    /// The private key, in PEM form, not encrypted.
    pub key: Vec<u8>,
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
        shown.field("roots", &self.roots.len()).field("client", &self.client).finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}
