//! TLS: certificates, and advice for handshake errors.

use std::time::Duration;

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, RootCertStore};

use super::address::Address;
use crate::engine::{Certificates, ClientCertificate, Pem};
use crate::error::{Error, ErrorKind, Result};

/// The certificates for encrypted connections.
#[derive(Debug, Default)]
pub(crate) struct Tls(Certificates);

impl Tls {
    /// Reads the certificates, so that errors are found before anything is sent. Root certificates
    /// add to the system's.
    pub(crate) fn new(certificates: &Certificates, address: &Address) -> Result<Self> {
        if !address.is_tls() && !certificates.is_empty() {
            return Err(Error::invalid(
                "certificates were given for an `amqp://` URL, which is not encrypted: use \
                 `amqps://` and the broker's TLS port (5671 by default), or remove them",
            ));
        }
        let tls = Self(certificates.clone());
        tls.config()?;
        Ok(tls)
    }

    /// The certificates in `lapin`'s form. Files are read anew, since they may have been renewed.
    pub(crate) fn config(&self) -> Result<OwnedTLSConfig> {
        let Certificates { roots, client } = &self.0;
        let mut trusted = RootCertStore::empty();
        // PEM may have comments in any encoding outside of its certificates.
        let mut text = Vec::new();
        for pem in roots {
            let read = pem.read()?;
            for certificate in chain(ROOT, pem, &read)? {
                trusted.add(certificate).map_err(|error| {
                    unusable(ROOT, pem, "a certificate that cannot be used").with_source(error)
                })?;
            }
            text.push(String::from_utf8_lossy(&read).into_owned());
        }
        let cert_chain = (!text.is_empty()).then(|| text.join("\n"));
        let identity = client.as_ref().map(identity).transpose()?;
        Ok(OwnedTLSConfig { identity, cert_chain })
    }

    pub(crate) fn has_client_certificate(&self) -> bool {
        self.0.client.is_some()
    }
}

const ROOT: &str = ".root_certificate";
const CLIENT: &str = ".client_certificate";

fn chain(option: &str, pem: &Pem, read: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(read).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => {
            let problem = format!(
                "{} bytes without a certificate in PEM format (-----BEGIN CERTIFICATE-----); \
                 convert DER with `openssl x509 -inform der`",
                read.len()
            );
            Err(unusable(option, pem, &problem))
        }
    }
}

fn identity(
    ClientCertificate { chain: certificates, key }: &ClientCertificate,
) -> Result<OwnedIdentity> {
    let read = certificates.read()?;
    chain(CLIENT, certificates, &read)?;
    let secret = key.read()?;
    // The error has no cause: it may contain a part of the key.
    PrivateKeyDer::from_pem_slice(&secret).map_err(|_| {
        unusable(
            CLIENT,
            key,
            "no private key in PEM format (-----BEGIN PRIVATE KEY-----); decrypt an encrypted key \
             with `openssl pkey`, and extract one from PKCS#12 with `openssl pkcs12 -nocerts \
             -nodes`",
        )
    })?;
    Ok(OwnedIdentity::PKCS8 { pem: read.into_owned(), key: secret.into_owned() })
}

/// The error for what the option was given or the file has. A file may be replaced.
fn unusable(option: &str, pem: &Pem, problem: &str) -> Error {
    match pem {
        Pem::Text(_) => Error::invalid(format!(
            "{option} was given {problem}; pass the contents of the file, not its path"
        )),
        Pem::File(path) => {
            Error::new(ErrorKind::Refused, format!("the file {} has {problem}", path.display()))
        }
    }
}

/// The TLS error, if there is one.
pub(crate) fn cause(error: &lapin::Error) -> Option<&rustls::Error> {
    match error.kind() {
        lapin::ErrorKind::IOError(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The meaning of a failed handshake with a host, and advice.
pub(crate) fn explain(
    error: &rustls::Error,
    host: &str,
    has_certificate: bool,
) -> (ErrorKind, String) {
    use rustls::Error as Tls;
    let kind = match error {
        Tls::AlertReceived(alert) if is_of_certificates(*alert) => ErrorKind::Refused,
        Tls::InconsistentKeys(_) => ErrorKind::Invalid,
        _ => ErrorKind::Connection,
    };
    let advice = match error {
        Tls::InvalidCertificate(found) => distrust(found, host),
        Tls::AlertReceived(alert) if is_of_certificates(*alert) && has_certificate => {
            "the broker refuses this client's certificate: check that the broker trusts the CA \
             that issued it (`ssl_options.cacertfile`), and that it has not expired"
                .to_owned()
        }
        Tls::AlertReceived(alert) if is_of_certificates(*alert) => {
            "the broker requires a client certificate (`ssl_options.fail_if_no_peer_cert`): \
             provide one with `.client_certificate(chain, key)`"
                .to_owned()
        }
        Tls::InvalidMessage(_) => {
            "the port does not speak TLS: use `amqp://`, or the broker's TLS port (5671 by default)"
                .to_owned()
        }
        Tls::InconsistentKeys(_) => {
            "the client's key does not match its certificate; the first certificate of the chain \
             must be the client's own"
                .to_owned()
        }
        _ => {
            "check the TLS versions and ciphers that the broker accepts (`ssl_options`)".to_owned()
        }
    };
    (kind, advice)
}

/// Whether the alert concerns the receiver's certificate. Before TLS 1.3 a missing one is a failed
/// handshake.
fn is_of_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

/// The reason for which the broker's certificate is not trusted.
fn distrust(found: &CertificateError, host: &str) -> String {
    match found {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of `{host}` was issued by an untrusted CA: add that CA's certificate \
             with `.root_certificate(pem)`, or install it on this system"
        ),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<_> = presented.iter().map(|name| plain_name(name)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!(
                "expected a certificate for `{host}`, found one for {names}: connect by a name in \
                 the certificate, or give the broker one for `{host}` (as a subject alternative \
                 name)"
            )
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            let ago = crate::period::format(Duration::from_secs(ago));
            format!(
                "the certificate of `{host}` expired {ago} ago: renew it on the broker, or correct \
                 this machine's clock"
            )
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let ahead = not_before.as_secs().saturating_sub(time.as_secs());
            let ahead = crate::period::format(Duration::from_secs(ahead));
            format!("the certificate of `{host}` becomes valid in {ahead}: check both clocks")
        }
        _ => format!("check the certificate of `{host}`"),
    }
}

/// `DnsName("mq")` is `mq`.
fn plain_name(shown: &str) -> String {
    let inner = shown.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    format!("`{}`", inner.unwrap_or(shown).trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{Error as Failed, InconsistentKeys, InvalidMessage};

    use super::*;

    #[test]
    fn handshake_errors_are_explained() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expected = ServerName::try_from("mq").unwrap();
        let presented = vec!["DnsName(\"a\")".to_owned(), "IpAddress(192.0.2.1)".to_owned()];
        let name = CertificateError::NotValidForNameContext { expected, presented };
        let expired = CertificateError::ExpiredContext { time: at(90_000), not_after: at(0) };
        let early = CertificateError::NotValidYetContext { time: at(0), not_before: at(60) };
        let missing = || Failed::AlertReceived(AlertDescription::CertificateRequired);
        let table = [
            (
                Failed::from(name),
                false,
                ErrorKind::Connection,
                "for `mq`, found one for `a`, `192.0.2.1`: connect",
            ),
            (expired.into(), false, ErrorKind::Connection, "expired 1d1h ago"),
            (early.into(), false, ErrorKind::Connection, "becomes valid in 1m"),
            (
                CertificateError::UnknownIssuer.into(),
                false,
                ErrorKind::Connection,
                ".root_certificate",
            ),
            (CertificateError::Revoked.into(), false, ErrorKind::Connection, "certificate of `mq`"),
            (missing(), false, ErrorKind::Refused, "requires a client certificate"),
            (missing(), true, ErrorKind::Refused, "refuses this client's certificate"),
            (
                Failed::AlertReceived(AlertDescription::ProtocolVersion),
                true,
                ErrorKind::Connection,
                "TLS versions",
            ),
            (
                InvalidMessage::InvalidContentType.into(),
                false,
                ErrorKind::Connection,
                "does not speak TLS",
            ),
            (
                InconsistentKeys::KeyMismatch.into(),
                true,
                ErrorKind::Invalid,
                "does not match its certificate",
            ),
        ];
        for (error, has_certificate, kind, said) in table {
            let (found, advice) = explain(&error, "mq", has_certificate);
            assert_eq!(found, kind, "{error:?}");
            assert!(advice.contains(said), "{said}: {advice}");
        }
    }
}
