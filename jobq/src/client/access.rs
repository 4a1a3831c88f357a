//! The access of a client to its broker: certificates, credentials, and the management API.

use std::path::PathBuf;

use super::ClientBuilder;
use crate::credentials::{Credentials, CredentialsSource};
#[cfg(feature = "management")]
use crate::engine::ManagementUrl;
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

    /// Sets the source of the credentials for the broker, in place of a user and a password in the
    /// URL: OAuth 2.0 tokens, or users and passwords that a vault rotates. A closure that returns a
    /// future of a [`Secret`](crate::Secret) is a source; see [`Credentials`].
    ///
    /// jobq asks the source before it opens a connection, unless less than two thirds of the
    /// [validity](crate::Secret::expires_in) of the last answer have passed, and when these have passed.
    /// All connections share the answer. An open connection continues with new credentials of the
    /// same user (`connection.update_secret`). For another user, a new connection replaces it. If
    /// the source fails at a renewal, jobq asks it again after one second, later every 10 seconds.
    /// The pool's [health](crate::PoolHealth::credentials) has the error and the remaining time.
    ///
    /// The [management API](Self::management) gets the same credentials, unless its URL has a user.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use jobq::{Client, Secret};
    ///
    /// # use jobq::BoxError;
    /// # async fn fetch() -> Result<(String, u64), BoxError> { Ok(("token".into(), 300)) }
    /// # async fn example() -> jobq::Result<()> {
    /// let client = Client::builder("amqps://mq.example.com")
    ///     .credentials(|| async {
    ///         let (token, seconds) = fetch().await?;
    ///         Ok(Secret::token(token).expires_in(Duration::from_secs(seconds)))
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`connect`](Self::connect) fails for a URL with a user or a password, and for a `sqlite:`
    /// URL.
    pub fn credentials(mut self, source: impl Credentials) -> Self {
        self.options.credentials = Some(CredentialsSource::new(source));
        self
    }

    /// Sets the URL of the broker's management API, such as `http://localhost:15672` (with TLS
    /// `https://...:15671`), for information that AMQP does not have. Pools read the policies of
    /// their queues from it when they start; the [`doctor`](crate::Client::doctor) reads policies,
    /// bindings and nodes.
    ///
    /// A policy is set on the broker, outside of the program. One that limits the length of a work
    /// queue or the lifetime of its jobs loses jobs or stalls them. With this URL a pool refuses to
    /// start on such a queue, with an error that names the policy; without it the policy is not
    /// noticed. If the API does not answer, the pool logs a warning and starts.
    ///
    /// The user and the password are those of the broker's URL, unless this URL has others
    /// (`http://ann:secret@host:15672`). They are sent in plain text if the scheme is `http`. The
    /// user needs the tag `monitoring`, or `management` for policies only. An `https` URL is
    /// verified with the certificates of this builder. Without this call, and without
    /// `JOBQ_MANAGEMENT_URL` in [`from_env`](Self::from_env), the API is not used.
    ///
    /// ```no_run
    /// # use jobq::Client;
    /// # async fn example() -> jobq::Result<()> {
    /// let client = Client::builder("amqp://ann:secret@mq.example.com")
    ///     .management("https://mq.example.com:15671")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "management")]
    pub fn management(mut self, url: impl Into<String>) -> Self {
        self.options.management = Some(ManagementUrl(url.into()));
        self
    }
}
