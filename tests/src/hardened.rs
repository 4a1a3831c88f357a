//! A broker that is as strict as RabbitMQ can be: no classic queues, TLS alone, users with few
//! permissions, and timestamps that the broker sets.

use serde_json::json;

use crate::authority::Authority;
use crate::broker::{Broker, blocking, is_at_least, unique};
use crate::node::Node;
use crate::place::Place;
use crate::raw::Raw;
use crate::test_store::Store;

/// The first version that can be without classic queues.
const FIRST: (u32, u32) = (4, 2);
/// The user who declares.
const DECLARES: &str = "declares";
/// The password of each user.
pub const PASSWORD: &str = "secret";
/// The namespaces of tests, in patterns of permissions: the longest that matches, and no other.
pub const NAMESPACES: &str = "(?>t[0-9a-f-]{1,28})";

/// The strict broker.
#[derive(Debug)]
pub struct Hardened {
    broker: Broker,
    authority: String,
}

impl Hardened {
    /// Starts one with these users beside that of [`store`](Self::store), each with the permissions
    /// to configure, to write and to read; `None`, said aloud, where the tests run on a version that
    /// has classic queues in any case.
    pub async fn start(test: &str, users: &[(&str, [String; 3])]) -> Option<Self> {
        if !is_at_least(FIRST, test) {
            return None;
        }
        let declares = ["configure", "write", "read"].map(|_| format!("^{NAMESPACES}"));
        let users: Vec<_> = users.iter().cloned().chain([(DECLARES, declares)]).collect();
        let definitions = json!({
            "vhosts": [{ "name": "/" }],
            "users": users.iter().map(|(name, _)| {
                json!({ "name": name, "password": PASSWORD, "tags": [] })
            }).collect::<Vec<_>>(),
            "permissions": users.iter().map(|(user, [configure, write, read])| json!({
                "user": user, "vhost": "/", "configure": configure, "write": write, "read": read,
            })).collect::<Vec<_>>(),
        });
        let authority = Authority::new("ours");
        let own = authority.broker(&["127.0.0.1"]);
        let mut node = Node::new(&unique(), Place::default(), None);
        node.is_encrypted = true;
        let (dir, port) = (node.dir.display(), node.port);
        let conf = format!(
            "listeners.tcp = none\n\
             listeners.ssl.1 = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {dir}/ca.pem\n\
             ssl_options.certfile = {dir}/broker.pem\n\
             ssl_options.keyfile = {dir}/broker.key\n\
             ssl_options.verify = verify_none\n\
             queue_types.classic.enabled = false\n\
             default_queue_type = quorum\n\
             message_interceptors.incoming.set_header_timestamp.overwrite = true\n\
             load_definitions = {dir}/definitions.json\n"
        );
        let files = vec![
            ("rabbitmq.conf", conf),
            ("definitions.json", definitions.to_string()),
            ("ca.pem", authority.certificate()),
            ("broker.pem", own.certificate),
            ("broker.key", own.key),
        ];
        let broker = blocking(move || Broker::of_node(node, files)).await;
        Some(Self { broker, authority: authority.certificate() })
    }

    /// A namespace of its own, for a user who may declare.
    #[must_use]
    pub fn store(&self) -> Store {
        let url = self.broker.url().replace("://", &format!("://{DECLARES}:{PASSWORD}@"));
        Store::on_encrypted_broker(url, self.authority.clone())
    }

    /// A connection of another client, as the user who declares.
    pub async fn raw(&self, store: &Store) -> Raw {
        Raw::connect_trusting(&store.url, Some(self.authority.clone())).await
    }

    /// The broker.
    #[must_use]
    pub fn broker(&self) -> &Broker {
        &self.broker
    }
}
