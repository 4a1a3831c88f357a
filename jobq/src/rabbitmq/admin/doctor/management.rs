//! A client of the broker's management API.
//!
//! It is used only if the user gave its URL: a guessed URL might belong to somebody else, who would
//! receive the password.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use percent_encoding::percent_decode_str;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use url::Url;

use super::login::Login;
use crate::engine::{Certificates, EngineOptions, ManagementUrl};
use crate::error::{Error, Result};
use crate::guard::lock;
use crate::period;
use crate::rabbitmq::connection::address::Address;
use crate::rabbitmq::connection::identity::Identity;

/// The number of queues in a page.
const PAGE: u32 = 500;
const LARGEST_ANSWER: u64 = 64 * 1024 * 1024;
/// A broker that has just started may answer with the status 500 (measured on 4.3, for some 100 ms,
/// for its nodes), so requests are repeated, for 6 seconds in all.
const AGAIN: Duration = Duration::from_millis(200);
const TIMES: usize = 5;
/// The address of a management API.
#[derive(Clone)]
pub(crate) struct Management {
    url: Url,
    login: Login,
    pub(super) vhost: String,
    pub(super) timeout: Duration,
    certificates: Certificates,
    agent: Arc<Mutex<Option<Prepared>>>,
}

/// An agent, and the texts of the certificates that it has.
struct Prepared {
    texts: Vec<Vec<u8>>,
    agent: Agent,
}

impl fmt::Debug for Management {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Management").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    page_count: u32,
}

impl Management {
    /// Parses the URL. Without a user, that of the broker's URL is used.
    pub(crate) fn new(
        url: &ManagementUrl,
        address: &Address,
        identity: Option<Arc<Identity>>,
        options: &EngineOptions,
    ) -> Result<Self> {
        let invalid = |problem: &str| {
            Error::invalid(format!(
                "the URL of the management API {problem}; use a URL such as http://localhost:15672 \
                 or https://mq.example.com:15671"
            ))
        };
        // The cause may contain the URL, and with it the password.
        let mut url: Url = url.0.parse().map_err(|_| invalid("cannot be parsed"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("has none of the schemes http and https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid("has no host"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("has a query or fragment (`?` or `#`)"));
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = match identity {
            _ if !url.username().is_empty() => {
                Login::fixed(decoded(url.username()), &decoded(url.password().unwrap_or_default()))
            }
            Some(identity) => Login::Changing(identity),
            None => Login::fixed(address.user().to_owned(), address.password()),
        };
        let unchangeable = |()| invalid("cannot be parsed");
        url.set_username("").map_err(unchangeable)?;
        url.set_password(None).map_err(unchangeable)?;
        let certificates = match url.scheme() {
            "https" => options.certificates.clone(),
            _ => Certificates::default(),
        };
        let (vhost, timeout, agent) = (address.vhost().to_owned(), options.timeout, Arc::default());
        let management = Self { url, login, vhost, timeout, certificates, agent };
        management.agent()?;
        Ok(management)
    }

    /// An agent with the certificates that the files have now.
    fn agent(&self) -> Result<Agent> {
        let Certificates { roots, client } = &self.certificates;
        let all = roots.iter().chain(client.iter().flat_map(|client| [&client.chain, &client.key]));
        let texts = all.map(|pem| Ok(pem.read()?.into_owned())).collect::<Result<Vec<_>>>()?;
        let mut kept = lock(&self.agent);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.texts == texts) {
            return Ok(kept.agent.clone());
        }
        let config = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            // The password is sent only to the URL that was given.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent("jobq")
            .tls_config(tls(&self.certificates)?)
            .build();
        Ok(kept.insert(Prepared { texts, agent: config.new_agent() }).agent.clone())
    }

    /// The items of all pages.
    pub(super) async fn pages<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, String> {
        let size = PAGE.to_string();
        let (mut items, mut page) = (Vec::new(), 1);
        loop {
            let number = page.to_string();
            let of_page = [("page", number.as_str()), ("page_size", &size)];
            let found: Page<T> = self.get(path, &[&of_page, query].concat()).await?;
            items.extend(found.items);
            if page >= found.page_count {
                return Ok(items);
            }
            page += 1;
        }
    }

    /// The answer to a question, or the reason for which it is not given.
    pub(super) async fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, String> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("api").extend(path);
        }
        url.query_pairs_mut().extend_pairs(query);
        let waits = ExponentialBuilder::default().with_min_delay(AGAIN).with_max_times(TIMES);
        let mut waits = waits.build();
        let (user, authorization) = self.login.current().await?;
        let answer = loop {
            let answer = self.ask(url.clone(), authorization.clone()).await?;
            let (Ok((500.., _)), Some(wait)) = (&answer, waits.next()) else {
                break answer;
            };
            tokio::time::sleep(wait).await;
        };
        let url = &self.url;
        match answer {
            Ok((200, body)) => read(&body).map_err(|error| {
                format!(
                    "{url} did not answer like RabbitMQ's management API: {error}; check the URL"
                )
            }),
            Ok((401 | 403, _)) => Err(match user {
                Some(user) => format!(
                    "{url} refused user `{user}`: check the name and the password, and that the \
                     user has a tag (`rabbitmqctl set_user_tags {user} monitoring`)"
                ),
                None => format!(
                    "{url} refused the token: check that the broker accepts it, and that it has a \
                     scope with a tag, such as `rabbitmq.tag:monitoring`"
                ),
            }),
            Ok((status @ 500.., _)) => Err(format!(
                "{url} answered with status {status}: check the broker's log, and try again"
            )),
            Ok((status, _)) => Err(format!(
                "{url} answered with status {status}: check that it is the URL of this broker's \
                 management API, without `/api`"
            )),
            Err(ureq::Error::Timeout(_)) => {
                Err(format!("{url} did not answer within {}", period::format(self.timeout)))
            }
            Err(error) => Err(format!(
                "cannot reach {url}: {error}; check the host and the port (15672, or 15671 with \
                 TLS), and that the plugin is enabled (`rabbitmq-plugins enable \
                 rabbitmq_management`)"
            )),
        }
    }

    async fn ask(
        &self,
        url: Url,
        authorization: String,
    ) -> Result<Result<(u16, Vec<u8>), ureq::Error>, String> {
        let this = self.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let agent = this.agent().map_err(|error| error.to_string())?;
            let answer = call(&agent, &url, &authorization);
            if answer.is_err() {
                // The next one reads the certificates of the system anew as well.
                lock(&this.agent).take();
            }
            Ok(answer)
        });
        asking.await.map_err(|_| "this program is shutting down".to_owned())?
    }
}

/// Reads an answer by way of a [`Value`], which takes the last one of equal keys in an object. After
/// a partition RabbitMQ 4.0.5 sends such objects.
fn read<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::from_slice::<Value>(body)?)
}

/// The status and the body of the answer.
fn call(agent: &Agent, url: &Url, authorization: &str) -> Result<(u16, Vec<u8>), ureq::Error> {
    let mut response = agent.get(url.as_str()).header("authorization", authorization).call()?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(LARGEST_ANSWER);
    Ok((status, body.read_to_vec()?))
}

/// The same certificates as for AMQP.
fn tls(certificates: &Certificates) -> Result<TlsConfig> {
    let unreadable = |error| {
        Error::invalid("a certificate cannot be parsed; expected the PEM format").with_source(error)
    };
    let der = |certificate: &CertificateDer<'_>| Certificate::from_der(certificate).to_owned();
    let chain = |pem: &[u8]| -> Result<Vec<_>> {
        CertificateDer::pem_slice_iter(pem)
            .map(|found| found.map(|found| der(&found)).map_err(unreadable))
            .collect()
    };
    let mut roots: Vec<_> =
        rustls_native_certs::load_native_certs().certs.iter().map(der).collect();
    for pem in &certificates.roots {
        roots.extend(chain(&pem.read()?)?);
    }
    let client = match &certificates.client {
        None => None,
        Some(client) => {
            // The error has no cause: it may contain a part of the key.
            let key = PrivateKey::from_pem(&client.key.read()?).map_err(|_| {
                Error::invalid("the client's key cannot be parsed; expected the PEM format")
            })?;
            Some(ClientCert::new_with_certs(&chain(&client.chain.read()?)?, key))
        }
    };
    // As for AMQP connections: the program's provider, if it chose one.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rabbitmq::admin::doctor::facts::Queue;
    use crate::rabbitmq::admin::doctor::login::basic;

    fn management(url: &str) -> Result<Management> {
        let timeout = Duration::from_secs(1);
        let address = Address::parse("amqp://ann:sec%2Fret@localhost/a%2Fb", timeout).unwrap();
        let options = EngineOptions {
            namespace: "jobq".into(),
            connection_name: "test".into(),
            timeout,
            clock: crate::Clock::system(),
            certificates: Certificates::default(),
            credentials: None,
            management: None,
            keeps_schema: false,
            fail_fast_after: None,
            is_lazy: false,
        };
        Management::new(&ManagementUrl(url.to_owned()), &address, None, &options)
    }

    #[test]
    fn a_url_names_a_host_and_maybe_a_user() {
        let table = [
            ("http://localhost:15672", "http://localhost:15672/", ("ann", "sec/ret")),
            ("https://mq/rabbit/", "https://mq/rabbit/", ("ann", "sec/ret")),
            ("http://eve:p%40ss@mq:1", "http://mq:1/", ("eve", "p@ss")),
        ];
        for (url, shown, (user, password)) in table {
            let read = management(url).unwrap();
            let Login::Fixed { authorization, .. } = &read.login else { panic!("{url}") };
            assert_eq!(
                (read.url.as_str(), authorization),
                (shown, &basic(user, password)),
                "{url}"
            );
            assert_eq!(read.vhost, "a/b");
            assert!(!format!("{read:?}").contains("ret"), "{read:?}");
        }
    }

    /// RabbitMQ 4.0.5 answers so after a partition; which keys it repeats is not recorded.
    #[test]
    fn the_last_of_equal_keys_counts() {
        let body = br#"{"items": [{"name": "jobq:mail", "messages": 7, "consumers": 1,
            "messages": 9}], "page_count": 2, "page_count": 1}"#;
        let Page::<Queue> { items, page_count } = read(body).unwrap();
        assert_eq!(page_count, 1);
        let [queue] = &items[..] else { panic!("{items:?}") };
        assert_eq!(
            (&*queue.name, queue.messages, queue.consumers),
            ("jobq:mail", Some(9), Some(1))
        );
        assert!(read::<Page<Queue>>(b"<html>").is_err());
    }

    #[test]
    fn other_urls_are_explained_without_showing_them() {
        let table = [
            ("localhost:15672", "has none of the schemes"),
            ("amqp://eve:geheim@mq", "has none of the schemes"),
            ("http://eve:geheim@", "cannot be parsed"),
            ("http://eve:geheim@mq?x=y", "has a query or fragment"),
            ("geheim", "cannot be parsed"),
        ];
        for (url, expected) in table {
            let error = management(url).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
            assert!(!error.to_string().contains("geheim"), "{error}");
        }
    }
}
