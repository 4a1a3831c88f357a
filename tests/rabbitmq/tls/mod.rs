//! Encrypted connections: brokers with certificates of a private CA.

use std::time::{Duration, Instant};

use jobq::engine::conformance::soon;
use jobq::{
    BoxError, Client, ClientBuilder, Error, ErrorKind, Finding, FindingKind, WorkerPool, job,
};
use jobq_tests::authority::{Authority, Issued};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use jobq_tests::port::free_port;
use jobq_tests::test_store::until;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Longer than any answer about certificates takes, and much shorter than the timeout.
const AT_ONCE: Duration = Duration::from_secs(15);
/// Beside it the broker asks for no certificate of the client.
const ASKS_FOR_NONE: &str = "ssl_options.verify = verify_none\n";
const DEMANDS_ONE: &str =
    "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n";

/// A broker with a TLS port.
struct Secured {
    broker: Broker,
    port: u16,
}

impl Secured {
    /// A broker that shows this certificate, and trusts the CA for those of clients.
    async fn start(test: &str, ca: &Authority, own: Issued, options: &str) -> Option<Self> {
        Self::start_with(test, ca, own, options, "[].", "").await
    }

    /// The same with the management API at this port, which asks for the client's certificate too.
    async fn managed(test: &str, ca: &Authority, own: Issued, api: u16) -> Option<Self> {
        let listens = format!(
            "management.ssl.ip = 127.0.0.1\n\
             management.ssl.port = {api}\n\
             management.ssl.verify = verify_peer\n\
             management.ssl.fail_if_no_peer_cert = true\n"
        );
        let plugins = "[rabbitmq_management].";
        Self::start_with(test, ca, own, &(listens + DEMANDS_ONE), plugins, "management.ssl").await
    }

    /// `also` is a further part of the broker that has the same certificates.
    async fn start_with(
        test: &str,
        ca: &Authority,
        own: Issued,
        options: &str,
        plugins: &'static str,
        also: &'static str,
    ) -> Option<Self> {
        let (ca, options, port) = (ca.certificate(), options.to_owned(), free_port());
        let broker = Broker::with_files(test, move |dir| {
            let dir = dir.display();
            let files = |part: &str| {
                format!(
                    "{part}.cacertfile = {dir}/ca.pem\n\
                     {part}.certfile = {dir}/broker.pem\n\
                     {part}.keyfile = {dir}/broker.key\n"
                )
            };
            let parts = ["ssl_options", also].into_iter().filter(|part| !part.is_empty());
            let files: String = parts.map(files).collect();
            let conf = format!("listeners.ssl.1 = 127.0.0.1:{port}\n{files}{options}");
            vec![
                ("rabbitmq.conf", conf),
                ("plugins", plugins.to_owned()),
                ("ca.pem", ca),
                ("broker.pem", own.certificate),
                ("broker.key", own.key),
            ]
        });
        let broker = broker.await?;
        // It opens its ports one after the other.
        let opened = async || TcpStream::connect(("127.0.0.1", port)).await.ok();
        drop(until("the TLS port", opened).await);
        Some(Self { broker, port })
    }

    fn url(&self, host: &str) -> String {
        format!("amqps://{host}:{}", self.port)
    }
}

/// The error of a client that cannot connect, which it says at once.
async fn refused(client: ClientBuilder) -> Error {
    let start = Instant::now();
    let error = client.connect().await.expect_err("it cannot connect");
    assert!(start.elapsed() < AT_ONCE, "after {:?}: {error:?}", start.elapsed());
    println!("{error:?}");
    error
}

fn assert_says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    for part in parts {
        assert!(error.to_string().contains(part), "`{part}` in {error:?}");
    }
}

#[job]
async fn greet(
    name: String,
    told: jobq::State<mpsc::UnboundedSender<String>>,
) -> Result<(), BoxError> {
    told.send(name)?;
    Ok(())
}

/// Runs jobs, before and after the broker closed all connections.
async fn works(client: &Client, broker: &Broker) {
    let (told, mut heard) = mpsc::unbounded_channel::<String>();
    let pool = WorkerPool::new(client).state(told).register::<Greet>();
    let pool = pool.spawn().await.expect("the pool starts");
    for name in ["ann", "bob"] {
        // It may be refused while the client finds out that its connection was closed.
        let enqueue = || client.enqueue(Greet { name: name.to_owned() });
        until("a job to be accepted", async || enqueue().await.ok()).await;
        while soon("a job to run", heard.recv()).await.expect("the pool runs") != name {}
        broker.ctl(&["close_all_connections", "an operator's reasons"]).await;
    }
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_ca_is_trusted_where_it_is_given() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let own = ours.broker(&["127.0.0.1", "mq.test"]);
    let test = "a_private_ca_is_trusted_where_it_is_given";
    let Some(node) = Secured::start(test, &ours, own, ASKS_FOR_NONE).await else {
        return;
    };
    let client = |host: &str| Client::builder(node.url(host));

    let trusting = client("127.0.0.1").root_certificate(theirs.certificate());
    let trusting = trusting.root_certificate(ours.certificate()).connect().await;
    works(&trusting.expect("it trusts the CA"), &node.broker).await;

    let both = theirs.certificate() + &ours.certificate();
    client("127.0.0.1").root_certificate(both).connect().await.expect("several in one text");

    let error = refused(client("ann:geheim@127.0.0.1")).await;
    let shown = format!("amqps://ann:***@127.0.0.1:{}", node.port);
    let said = [&shown, "UnknownIssuer", "`127.0.0.1`", ".root_certificate(pem)"];
    assert_says(&error, ErrorKind::Connection, &said);
    let error = refused(client("127.0.0.1").root_certificate(theirs.certificate())).await;
    assert_says(&error, ErrorKind::Connection, &["UnknownIssuer", ".root_certificate(pem)"]);

    let error = refused(client("localhost").root_certificate(ours.certificate())).await;
    let said = ["expected a certificate for `localhost`", "`mq.test`", "127.0.0.1"];
    assert_says(&error, ErrorKind::Connection, &said);

    let plain = node.broker.url().replace("amqp://", "amqps://");
    let error = refused(Client::builder(plain)).await;
    assert_says(&error, ErrorKind::Connection, &["does not speak TLS", "amqp://"]);
    let error = refused(Client::builder(node.url("127.0.0.1").replace("amqps:", "amqp:"))).await;
    assert_says(&error, ErrorKind::Connection, &["amqps://"]);

    // The client's certificate does no harm where none is asked for.
    let Issued { certificate, key } = ours.client();
    let known = client("127.0.0.1").root_certificate(ours.certificate());
    known.client_certificate(certificate, key).connect().await.expect("nobody asks for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate() {
    let test = "a_client_shows_its_certificate";
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let before_1_3 = format!("{DEMANDS_ONE}ssl_options.versions.1 = tlsv1.2\n");
    let start = |options| {
        let own = ours.broker(&["127.0.0.1"]);
        Secured::start(test, &ours, own, options)
    };
    let (newer, older) = tokio::join!(start(DEMANDS_ONE), start(&before_1_3));
    let (Some(newer), Some(older)) = (newer, older) else {
        return;
    };
    for node in [newer, older] {
        let client = || Client::builder(node.url("127.0.0.1")).root_certificate(ours.certificate());
        let with = |Issued { certificate, key }| client().client_certificate(certificate, key);
        let known = with(ours.client()).connect().await.expect("the broker knows it");
        works(&known, &node.broker).await;

        let error = refused(client()).await;
        let said =
            ["requires a client certificate", ".client_certificate(chain, key)", "127.0.0.1"];
        assert_says(&error, ErrorKind::Refused, &said);
        let error = refused(with(theirs.client())).await;
        assert_says(&error, ErrorKind::Refused, &["refuses this client's certificate"]);

        let mixed = Issued { key: ours.client().key, ..ours.client() };
        let error = refused(with(mixed)).await;
        assert_says(&error, ErrorKind::Invalid, &["does not match its certificate"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_told_from_others() {
    let ca = Authority::new("ours");
    let own = ca.expired_broker(&["127.0.0.1"]);
    let test = "an_expired_certificate_is_told_from_others";
    let Some(node) = Secured::start(test, &ca, own, ASKS_FOR_NONE).await else {
        return;
    };
    let client = Client::builder(node.url("127.0.0.1")).root_certificate(ca.certificate());
    let error = refused(client).await;
    assert_says(&error, ErrorKind::Connection, &["`127.0.0.1` expired", "d", "ago", "renew it"]);
}

/// The files of a client: the CA of the broker, and the client's certificate with its key.
struct Files(Directory);

impl Files {
    fn write(&self, ca: &Authority, Issued { certificate, key }: Issued) {
        let files = [("ca.pem", ca.certificate()), ("own.pem", certificate), ("own.key", key)];
        for (name, content) in files {
            std::fs::write(self.0.file(name), content).expect("the folder can be written");
        }
    }

    fn of(&self, client: ClientBuilder) -> ClientBuilder {
        let [ca, own, key] = ["ca.pem", "own.pem", "own.key"].map(|name| self.0.file(name));
        client.root_certificate_file(ca).client_certificate_files(own, key)
    }
}

/// What an enqueue says while there is no connection.
async fn no_connection(client: &Client, said: &[&str]) {
    let told = async || {
        let error = client.enqueue(Greet { name: "eve".to_owned() }).await.err()?;
        println!("{error}");
        said.iter().all(|part| error.to_string().contains(part)).then_some(())
    };
    until("the reason why there is no connection", told).await;
}

/// Waits until the management API answers: the doctor reads it.
async fn answers(client: &Client) {
    until("the management API", async || {
        let report = client.doctor().await.ok()?;
        println!("{report}");
        let is_unchecked = |found: &Finding| found.kind() == FindingKind::Unchecked;
        (!report.findings().iter().any(is_unchecked)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_are_read_at_the_next_connection() {
    let test = "renewed_certificates_are_read_at_the_next_connection";
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (api, own) = (free_port(), old.broker(&["127.0.0.1"]));
    let Some(Secured { broker, port }) = Secured::managed(test, &old, own, api).await else {
        return;
    };
    let files = Files(Directory::new());
    files.write(&old, old.client());
    let builder = files.of(Client::builder(format!("amqps://127.0.0.1:{port}")));
    let builder = builder.management(format!("https://127.0.0.1:{api}"));
    let client = builder.timeout(Duration::from_secs(2)).connect().await.expect("it connects");
    works(&client, &broker).await;
    answers(&client).await;

    // The broker comes back with certificates of a new CA, and trusts that alone.
    broker.stop();
    let Issued { certificate, key } = new.broker(&["127.0.0.1"]);
    for (name, content) in
        [("ca.pem", new.certificate()), ("broker.pem", certificate), ("broker.key", key)]
    {
        broker.replace(name, &content);
    }
    broker.restart().await;
    no_connection(&client, &["127.0.0.1", "UnknownIssuer", ".root_certificate(pem)"]).await;

    let ca = files.0.file("ca.pem");
    std::fs::remove_file(&ca).expect("the file is there");
    no_connection(&client, &["cannot read", &ca.display().to_string()]).await;

    files.write(&new, new.client());
    let enqueue = || client.enqueue(Greet { name: "eve".to_owned() });
    until("a connection", async || enqueue().await.ok()).await;
    works(&client, &broker).await;
    answers(&client).await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused() {
    let ca = Authority::new("ours");
    let (root, Issued { certificate, key }) = (ca.certificate(), ca.client());
    let tls = || Client::builder("amqps://127.0.0.1:1");
    let folder = Directory::new();
    let file = |name: &str, content: &str| {
        let path = folder.file(name);
        std::fs::write(&path, content).expect("the folder can be written");
        path
    };
    let (empty, own, secret_file) =
        (file("empty.pem", ""), file("own.pem", &certificate), file("own.key", &key));
    let table = [
        (tls().root_certificate_file("no/such.pem"), ErrorKind::Refused, "no/such.pem: "),
        (tls().root_certificate_file(&empty), ErrorKind::Refused, "empty.pem has 0 bytes without"),
        (tls().root_certificate_file(&secret_file), ErrorKind::Refused, "own.key has"),
        (
            tls().client_certificate_files(&own, &empty),
            ErrorKind::Refused,
            "empty.pem has no private key",
        ),
        (tls().client_certificate_files(&own, "gone.key"), ErrorKind::Refused, "gone.key: "),
        (tls().root_certificate("/etc/ca.pem"), ErrorKind::Invalid, ".root_certificate"),
        (tls().root_certificate(key.as_str()), ErrorKind::Invalid, ".root_certificate"),
        (tls().client_certificate("", key.as_str()), ErrorKind::Invalid, ".client_certificate"),
        (tls().client_certificate(certificate.as_str(), ""), ErrorKind::Invalid, "PRIVATE"),
        (
            tls().client_certificate(certificate.as_str(), certificate.as_str()),
            ErrorKind::Invalid,
            "PRIVATE",
        ),
        (
            Client::builder("amqp://127.0.0.1:1").root_certificate(root.as_str()),
            ErrorKind::Invalid,
            "amqps://",
        ),
        (
            Client::builder("amqp://127.0.0.1:1").client_certificate(certificate, key.as_str()),
            ErrorKind::Invalid,
            "amqps://",
        ),
        (
            Client::builder("sqlite::memory:").root_certificate(root),
            ErrorKind::Unsupported,
            "amqps://",
        ),
    ];
    let secret = key.lines().nth(1).expect("a line of the key");
    for (client, kind, said) in table {
        let error = refused(client).await;
        assert_says(&error, kind, &[said]);
        assert!(!format!("{error:?}").contains(secret), "{error:?}");
    }
}
