//! Connections without encryption, if the feature `tls` is off.

use lapin::tcp::OwnedTLSConfig;

use super::address::Address;
use crate::engine::Certificates;
use crate::error::{Error, ErrorKind, Result};

/// No certificates.
#[derive(Debug, Default)]
pub(crate) struct Tls;

impl Tls {
    /// Refuses options that need encryption.
    pub(crate) fn new(certificates: &Certificates, address: &Address) -> Result<Self> {
        if address.is_tls() || !certificates.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "`amqps://` and certificates need jobq's feature `tls`, which this program was \
                 built without; enable it in Cargo.toml",
            ));
        }
        Ok(Self)
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // the variant with TLS needs both
    pub(crate) fn config(&self) -> Result<OwnedTLSConfig> {
        Ok(OwnedTLSConfig::default())
    }

    #[allow(clippy::unused_self)] // the variant with TLS uses it
    pub(crate) fn has_client_certificate(&self) -> bool {
        false
    }
}

/// An error that does not occur.
#[derive(Debug)]
pub(crate) enum Never {}

impl std::fmt::Display for Never {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

pub(crate) fn cause(_: &lapin::Error) -> Option<&Never> {
    None
}

pub(crate) fn explain(error: &Never, _: &str, _: bool) -> (ErrorKind, String) {
    match *error {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::Pem;

    #[test]
    fn encryption_needs_the_feature() {
        let address = |url| Address::parse(url, Duration::from_secs(1)).unwrap();
        let (plain, encrypted) = (address("amqp://localhost"), address("amqps://localhost"));
        let roots = vec![Pem::Text(b"pem".to_vec())];
        let roots = Certificates { roots, ..Certificates::default() };
        assert!(Tls::new(&Certificates::default(), &plain).is_ok());
        for (certificates, address) in [(&Certificates::default(), &encrypted), (&roots, &plain)] {
            let error = Tls::new(certificates, address).unwrap_err();
            assert!(error.is_unsupported() && error.to_string().contains("`tls`"), "{error}");
        }
    }
}
