//! TLS by rustls, with the certificates of the system.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// The settings of an encrypted connection. The variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name other
/// certificates than those of the system.
pub(crate) fn config() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::warn!(%error, "a certificate of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the protocols of rustls")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
