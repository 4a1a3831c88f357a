//! An identity provider: a key that signs tokens, and a broker that trusts it.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey};
use serde_json::{Value, json};

/// A key that signs tokens, which a broker with the files of [`files`](Self::files) accepts.
#[allow(missing_debug_implementations)] // it has a key
pub struct Issuer(KeyPair);

impl Issuer {
    /// One with a new key.
    ///
    /// # Panics
    ///
    /// Never: a key can be made.
    #[must_use]
    pub fn new() -> Self {
        Self(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key can be made"))
    }

    /// The files of a broker in this folder that trusts it, and has users of its own, too.
    #[must_use]
    pub fn files(&self, folder: &Path) -> Vec<(&'static str, String)> {
        let key = "issuer.pem";
        let path = folder.join(key);
        let settings = format!(
            "auth_backends.1 = rabbit_auth_backend_oauth2\n\
             auth_backends.2 = rabbit_auth_backend_internal\n\
             auth_oauth2.resource_server_id = rabbitmq\n\
             auth_oauth2.default_key = issuer\n\
             auth_oauth2.signing_keys.issuer = {}\n",
            path.display()
        );
        vec![(key, self.0.public_key_pem()), ("rabbitmq.conf", settings)]
    }

    /// A token with these scopes, such as `write:*/*/*`, that is valid for so long.
    ///
    /// # Panics
    ///
    /// Never: the clock is later than 1970, and the key can sign.
    #[must_use]
    pub fn token(&self, scopes: &[&str], valid_for: Duration) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        let scopes: Vec<_> = scopes.iter().map(|scope| format!("rabbitmq.{scope}")).collect();
        let header = json!({ "alg": "ES256", "kid": "issuer", "typ": "JWT" });
        let claims = json!({
            "sub": "shop",
            "aud": ["rabbitmq"],
            "exp": (now + valid_for).as_secs(),
            "scope": scopes.join(" "),
        });
        let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = self.0.sign(signed.as_bytes()).expect("the key can sign");
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(fixed(&signature)))
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

/// How often clients opened one of the two connections that they keep, by a broker's log.
#[must_use]
pub fn lasting_connections(log: &str) -> usize {
    let lasting = |line: &&str| line.ends_with("(publishing)") || line.ends_with("(consuming)");
    log.lines().filter(|line| line.contains("client-provided name")).filter(lasting).count()
}

/// The two numbers of a signature in 32 bytes each, as a token has them, from its DER form.
fn fixed(der: &[u8]) -> Vec<u8> {
    // A sequence of two integers, all shorter than 128 bytes.
    let mut rest = der.get(2..).unwrap_or_default();
    let mut fixed = Vec::new();
    while let [2, length, tail @ ..] = rest {
        let (number, next) = tail.split_at(usize::from(*length));
        let digits = number.strip_prefix(&[0]).unwrap_or(number);
        fixed.extend(vec![0; 32 - digits.len()]);
        fixed.extend(digits);
        rest = next;
    }
    fixed
}
