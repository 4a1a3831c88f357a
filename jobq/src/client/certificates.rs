//! The certificates of a client.

use std::path::PathBuf;

use super::ClientBuilder;
use crate::engine::{ClientCertificate, Pem};

impl ClientBuilder {
    /// Trusts the CAs in this PEM text in addition to those of the system. May be called several
    /// times. Without it an `amqps://` broker needs a certificate from a CA of the system.
    ///
    /// ```no_run
    /// # use jobq::Client;
    /// # async fn example() -> Result<(), jobq::BoxError> {
    /// let client = Client::builder("amqps://ann:secret@mq.example.com")
    ///     .root_certificate(std::fs::read("/etc/shop/ca.pem")?)
    ///     .client_certificate(
    ///         std::fs::read("/etc/shop/worker.pem")?,
    ///         std::fs::read("/etc/shop/worker.key")?,
    ///     )
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The broker's certificate must have the host of the URL among its subject alternative names;
    /// this check cannot be disabled. For a URL other than `amqps://`, connecting fails.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.options.certificates.roots.push(Pem::Text(pem.into()));
        self
    }

    /// [`root_certificate`](Self::root_certificate) from a file, which each connection reads anew:
    /// when the file was replaced, the next reconnection trusts the new CAs.
    pub fn root_certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.certificates.roots.push(Pem::file(path));
        self
    }

    /// Authenticates the client with this certificate if the broker requests one. The chain begins
    /// with the client's own certificate, followed by the intermediate ones; the key is PKCS#8,
    /// PKCS#1 or SEC1, not encrypted; both are PEM texts. The user is still that of the URL.
    ///
    /// Reconnections use the same certificate; for one that is renewed, name its files by
    /// [`client_certificate_files`](Self::client_certificate_files). For a URL other than
    /// `amqps://`, connecting fails.
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        let client =
            ClientCertificate { chain: Pem::Text(chain.into()), key: Pem::Text(key.into()) };
        self.options.certificates.client = Some(client);
        self
    }

    /// [`client_certificate`](Self::client_certificate) from two files, which each connection reads
    /// anew.
    ///
    /// ```no_run
    /// # use jobq::Client;
    /// # async fn example() -> jobq::Result<()> {
    /// let client = Client::builder("amqps://ann:secret@mq.example.com")
    ///     .root_certificate_file("/etc/shop/ca.pem")
    ///     .client_certificate_files("/etc/shop/worker.pem", "/etc/shop/worker.key")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Replace a file by renaming a new one, so that no connection reads half of it. While a file
    /// cannot be read or the key is not that of the certificate, there is no connection, and the
    /// errors of calls name the file; jobq goes on trying.
    pub fn client_certificate_files(
        mut self,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let client = ClientCertificate { chain: Pem::file(chain), key: Pem::file(key) };
        self.options.certificates.client = Some(client);
        self
    }
}
