//! Credentials that change: tokens that expire, users and passwords that are rotated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jobq::{BoxError, Client, ClientBuilder, Credentials, ErrorKind, Secret};
use jobq_tests::broker::Broker;
use jobq_tests::issuer::{Issuer, lasting_connections};
use jobq_tests::test_store::{DEADLINE, Scripted, Step, Store, TestStore, until};

use crate::permissions::{declared, each_set_lets_through};

/// All that jobq may do.
const ALL: [&str; 3] = ["configure:*/*", "write:*/*/*", "read:*/*/*"];

/// A broker that trusts an issuer of tokens, with the management API and its URL.
async fn trusting(test: &str) -> Option<(Broker, Arc<Issuer>, String)> {
    let (issuer, port) = (Arc::new(Issuer::new()), jobq_tests::port::free_port());
    let trusted = Arc::clone(&issuer);
    let broker = Broker::with_files(test, move |folder| {
        let mut files = trusted.files(folder);
        let listens = format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n");
        files.push(("rabbitmq.conf", listens));
        files.push(("plugins", "[rabbitmq_auth_backend_oauth2,rabbitmq_management].".into()));
        files
    })
    .await?;
    Some((broker, issuer, format!("http://127.0.0.1:{port}")))
}

fn builder(store: &Store) -> ClientBuilder {
    Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE)
}

/// A source that counts how often it was asked, and fails while it shall.
#[derive(Clone)]
struct Source(Arc<State>);

struct State {
    issue: Box<dyn Fn(usize) -> Secret + Send + Sync>,
    asked: AtomicUsize,
    fails: AtomicBool,
}

impl Source {
    /// One that returns these credentials, by the number of the question.
    fn new(issue: impl Fn(usize) -> Secret + Send + Sync + 'static) -> Self {
        let (asked, fails) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self(Arc::new(State { issue: Box::new(issue), asked, fails }))
    }

    /// One of tokens.
    fn of_tokens(issuer: &Arc<Issuer>, seconds: u64) -> Self {
        let (issuer, valid_for) = (Arc::clone(issuer), Duration::from_secs(seconds));
        Self::new(move |_| Secret::token(issuer.token(&ALL, valid_for)).expires_in(valid_for))
    }

    fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    fn fails(&self, fails: bool) {
        self.0.fails.store(fails, Ordering::SeqCst);
    }
}

impl Credentials for Source {
    async fn secret(&self) -> Result<Secret, BoxError> {
        let State { issue, asked, fails } = &*self.0;
        let number = asked.fetch_add(1, Ordering::SeqCst);
        if fails.load(Ordering::SeqCst) {
            Err("the vault is sealed".into())
        } else {
            Ok(issue(number))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_renewed_on_open_connections() {
    let test = "tokens_are_renewed_on_open_connections";
    let Some((broker, issuer, _)) = trusting(test).await else { return };
    let mut test = TestStore::on(Store::on_broker(broker.url())).await;
    // Renewed after 8 s.
    let source = Source::of_tokens(&issuer, 12);
    let client = builder(&test.store).credentials(source.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    let asked = source.asked();
    while source.asked() < asked + 2 {
        let job = Scripted { steps: vec![Step::Succeed] };
        let id = client.enqueue(job).await.unwrap();
        let run = test.run().await;
        assert_eq!((run.id, run.attempt, test.end().await), (id, 1, id));
        assert!(pool.health().is_consuming() && pool.health().credentials.is_none());
    }
    // That of the test, and two of the client.
    assert_eq!(lasting_connections(&broker.log()), 3, "none was replaced");
    // A short program may have a token in its URL, as the password of any user.
    let token = issuer.token(&ALL, Duration::from_secs(60));
    let url = format!("amqp://token:{token}@{}", broker.host());
    let by_url = Client::builder(&url).namespace(&test.store.namespace).connect().await.unwrap();
    by_url.counts("scripted").await.unwrap();
    by_url.close().await;
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_fails_is_told_and_asked_again() {
    let test = "a_source_that_fails_is_told_and_asked_again";
    let Some((broker, issuer, _)) = trusting(test).await else { return };
    let mut test = TestStore::on(Store::on_broker(broker.url())).await;
    let source = Source::of_tokens(&issuer, 6);
    let client = builder(&test.store).credentials(source.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    source.fails(true);
    let trouble = async |part: &str| {
        until(part, async || {
            let error = pool.health().credentials?.to_string();
            assert!(error.contains("the vault is sealed"), "{error}");
            error.contains(part).then_some(())
        })
        .await;
    };
    trouble("the ones in use expire in").await;
    trouble("the ones in use expired").await;
    source.fails(false);
    until("no trouble", async || pool.health().credentials.is_none().then_some(())).await;
    // 3.10 and 4.0 keep the connections, and 4.3 has closed them.
    until("a queue that is consumed", async || pool.health().is_consuming().then_some(())).await;
    let id = client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
    assert_eq!(test.end().await, id);
    pool.shutdown().await.unwrap();
}

/// The broker closes a connection whose renewed token it refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_refused_is_followed_by_another_question() {
    let test = "a_renewal_that_is_refused_is_followed_by_another_question";
    let Some((broker, issuer, _)) = trusting(test).await else { return };
    let mut test = TestStore::on(Store::on_broker(broker.url())).await;
    let (foreign, valid_for) = (Issuer::new(), Duration::from_secs(6));
    let source = Source::new(move |number| {
        let issuer = if number == 1 { &foreign } else { &*issuer };
        Secret::token(issuer.token(&ALL, valid_for)).expires_in(valid_for)
    });
    let client = builder(&test.store).credentials(source.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    let during = client.enqueue(Scripted { steps: vec![Step::Wait] }).await.unwrap();
    assert_eq!(test.run().await.id, during);
    until("the question after the refusal", async || (source.asked() > 2).then_some(())).await;
    test.go();
    assert_eq!(test.end().await, during);
    let after = client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
    assert_eq!(test.end().await, after);
    assert_eq!(test.run().await.id, after, "nothing ran twice");
    pool.shutdown().await.unwrap();
}

/// As a vault does, which deletes the user when its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_gets_connections_of_its_own() {
    let Some(broker) = Broker::to_kill("another_user_gets_connections_of_its_own").await else {
        return;
    };
    for user in ["shop-0", "shop-1"] {
        broker.ctl(&["add_user", user, "secret"]).await;
        broker.ctl(&["set_permissions", user, ".*", ".*", ".*"]).await;
    }
    let mut test = TestStore::on(Store::on_broker(broker.url())).await;
    let source = Source::new(|number| {
        let secret = Secret::password(format!("shop-{}", number.min(1)), "secret");
        secret.expires_in(Duration::from_secs(if number == 0 { 12 } else { 600 }))
    });
    let client = builder(&test.store).credentials(source.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    let during = client.enqueue(Scripted { steps: vec![Step::Wait] }).await.unwrap();
    assert_eq!(test.run().await.id, during);
    let users = async || broker.ctl(&["list_connections", "user", "--silent"]).await;
    until("the new user alone", async || {
        let users = users().await;
        let count = |user| users.lines().filter(|line| *line == user).count();
        (count("shop-0") == 0 && count("shop-1") == 2).then_some(())
    })
    .await;
    broker.ctl(&["delete_user", "shop-0"]).await;
    test.go();
    assert_eq!(test.end().await, during, "the attempt goes on");
    let after = client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
    assert_eq!(test.end().await, after);
    assert_eq!(test.run().await.id, after, "nothing ran twice");
    assert_eq!(source.asked(), 2);
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_was_changed_is_asked_for() {
    let Some(broker) = Broker::to_kill("a_password_that_was_changed_is_asked_for").await else {
        return;
    };
    broker.ctl(&["add_user", "shop", "old"]).await;
    broker.ctl(&["set_permissions", "shop", ".*", ".*", ".*"]).await;
    let mut test = TestStore::on(Store::on_broker(broker.url())).await;
    let (is_new, hour) = (Arc::new(AtomicBool::new(false)), Duration::from_secs(3_600));
    let changed = Arc::clone(&is_new);
    let source = Source::new(move |_| {
        let password = if changed.load(Ordering::SeqCst) { "new" } else { "old" };
        Secret::password("shop", password).expires_in(hour)
    });
    let client = builder(&test.store).credentials(source.clone()).connect().await.unwrap();
    let pool = test.pool_of(&client).spawn().await.unwrap();
    broker.ctl(&["change_password", "shop", "new"]).await;
    broker.ctl(&["close_all_user_connections", "shop", "a test"]).await;
    // The refused credentials are not used again.
    until("another question", async || (source.asked() > 1).then_some(())).await;
    is_new.store(true, Ordering::SeqCst);
    let id = client.enqueue(Scripted { steps: vec![Step::Succeed] }).await.unwrap();
    assert_eq!(test.end().await, id);
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_management_api_gets_the_token() {
    let test = "the_management_api_gets_the_token";
    let Some((broker, issuer, management)) = trusting(test).await else { return };
    let mut test = declared(Store::on_broker(broker.url())).await;
    for (scopes, is_seen) in [(&ALL[..], false), (&[&ALL[..], &["tag:monitoring"]].concat(), true)]
    {
        let (issuer, hour) = (Arc::clone(&issuer), Duration::from_secs(3_600));
        let scopes: Vec<_> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let source = Source::new(move |_| {
            let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
            Secret::token(issuer.token(&scopes, hour)).expires_in(hour)
        });
        let client = builder(&test.store).management(&management).credentials(source);
        let client = client.connect().await.unwrap();
        let report = client.doctor().await.unwrap().to_string();
        assert_eq!(!report.contains("refused the token"), is_seen, "{report}");
    }
    test.enqueue([Step::Succeed]).await;
    let pool = test.pool().spawn().await.unwrap();
    test.end().await;
    pool.shutdown().await.unwrap();
}

/// The scopes of `docs/deploying.md` for a namespace.
fn scopes(namespace: &str) -> [(&'static str, Vec<String>); 3] {
    let uuid = "*-*-*-*-*";
    let own = format!("configure:*/{namespace}.control.{uuid}");
    let enqueues = ["", ".retry", ".events", ".level.*"];
    let enqueues = enqueues.map(|name| format!("write:*/{namespace}{name}/*")).to_vec();
    let read = [format!("read:*/{namespace}*/*")];
    let works = [":*", ".control", &format!(".control.{uuid}"), ".paused"];
    let works = works.map(|name| format!("write:*/{namespace}{name}/*")).to_vec();
    let works = [enqueues.clone(), works, read.to_vec(), vec![own.clone()]].concat();
    let operates = [
        format!("configure:*/{namespace}:*@paused"),
        format!("configure:*/{namespace}:*@failed.lock"),
        format!("write:*/{namespace}*/*"),
    ];
    let operates = [operates.to_vec(), read.to_vec(), vec![own]].concat();
    [("enqueue", enqueues), ("work", works), ("operate", operates)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_set_of_scopes_lets_through_what_it_is_for() {
    let test = "each_set_of_scopes_lets_through_what_it_is_for";
    let Some((broker, issuer, _)) = trusting(test).await else { return };
    let test = declared(Store::on_broker(broker.url())).await;
    let mut users = Vec::new();
    for (set, scopes) in scopes(&test.store.namespace) {
        let (issuer, hour) = (Arc::clone(&issuer), Duration::from_secs(3_600));
        let source = Source::new(move |_| {
            let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
            Secret::token(issuer.token(&scopes, hour)).expires_in(hour)
        });
        users.push((set, builder(&test.store).credentials(source).connect().await.unwrap()));
    }
    each_set_lets_through(test, users).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_cannot_be_used_are_explained() {
    let test = "credentials_that_cannot_be_used_are_explained";
    let Some((broker, issuer, _)) = trusting(test).await else { return };
    let url = broker.url();
    let (foreign, hour) = (Issuer::new(), Duration::from_secs(3_600));
    let of_another = foreign.token(&ALL, hour);
    let expired = issuer.token(&ALL, Duration::ZERO);
    let elsewhere = issuer.token(&["write:shop/*/*"], hour);
    let token = |token: &str| {
        let token = token.to_owned();
        Source::new(move |_| Secret::token(token.clone()))
    };
    let sealed = token("");
    sealed.fails(true);
    let with_user = format!("amqp://ann:geheim@{}", broker.host());
    let external = format!("{url}?auth_mechanism=EXTERNAL");
    let table = [
        (&url, token(&of_another), ErrorKind::Refused, "the broker refuses the token"),
        (&url, token(&expired), ErrorKind::Refused, "the broker refuses the token"),
        (&url, token(&elsewhere), ErrorKind::Refused, "the token has no scope for it"),
        (&url, sealed, ErrorKind::Connection, "the vault is sealed"),
        (&with_user, token("x"), ErrorKind::Invalid, "URL has a user, and"),
        (&external, token("x"), ErrorKind::Invalid, "auth_mechanism other than PLAIN"),
    ];
    for (url, source, kind, said) in table {
        let error = Client::builder(url).credentials(source).connect().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
    }
    let file = Client::builder("sqlite::memory:").credentials(token("x")).connect().await;
    assert_eq!(file.unwrap_err().kind(), ErrorKind::Unsupported);
}
