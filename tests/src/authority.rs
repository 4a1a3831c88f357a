//! A private CA and the certificates that it issues.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A CA that nobody trusts but those who are given its certificate.
#[allow(missing_debug_implementations)] // it has a key
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key as PEM texts.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // it has a key
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    ///
    /// Never: its parameters are sound.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA can be made"))
    }

    /// Its own certificate.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a broker with these names and addresses.
    #[must_use]
    pub fn broker(&self, names: &[&str]) -> Issued {
        let mut params = named("broker", names);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    /// The same, expired since 2021.
    #[must_use]
    pub fn expired_broker(&self, names: &[&str]) -> Issued {
        let mut params = named("broker", names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.issue(&params)
    }

    /// A certificate for a client.
    #[must_use]
    pub fn client(&self) -> Issued {
        let mut params = named("worker", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate can be issued");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn named(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("these are names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
