//! What a client is told beside its URL: certificates, and where the broker's management
//! API is.

use std::fmt;

/// What [`ClientBuilder`](crate::ClientBuilder) was given for encrypted connections, as it
/// was given. It shows itself without a key.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Those of CAs that are trusted beside the system's, in PEM form.
    pub roots: Vec<Vec<u8>>,
    /// That by which the client shows who it is.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate and its private key.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate, and those between it and its CA's, in PEM form.
    pub chain: Vec<u8>,
    /// The private key, in PEM form, not encrypted.
    pub key: Vec<u8>,
}

/// The URL of a broker's management API. It shows itself without what it says, which may
/// hold a password.
#[derive(Clone)]
pub struct ManagementUrl(pub String);

impl fmt::Debug for ManagementUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagementUrl(..)")
    }
}

impl Certificates {
    /// Whether there are none.
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
