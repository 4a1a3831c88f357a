//! A vhost of one test on the node that the tests share: its connections can be closed and its queues
//! listed without those of other tests.

use crate::broker::{Node, namespace, shared_with_ctl};

/// The vhost. It ends with its node.
#[derive(Debug)]
pub struct Vhost {
    node: &'static Node,
    name: String,
}

impl Vhost {
    /// A vhost for this test; `None`, said aloud, where the tests run on a broker that is not theirs to
    /// configure.
    pub async fn of(test: &str) -> Option<Self> {
        Some(Self::on(shared_with_ctl(test).await?).await)
    }

    /// A vhost on this node.
    pub async fn on(node: &'static Node) -> Self {
        let vhost = Self { node, name: namespace() };
        vhost.add().await;
        vhost
    }

    /// Adds it again, after [`delete`](Self::delete).
    pub async fn add(&self) {
        self.node.ctl(&["add_vhost", &self.name]).await;
        self.permit("guest", [".*"; 3]).await;
    }

    /// Deletes it.
    pub async fn delete(&self) {
        self.node.ctl(&["delete_vhost", &self.name]).await;
    }

    /// What a user may configure, write and read there.
    pub async fn permit(&self, user: &str, permissions: [&str; 3]) {
        let words = ["set_permissions", "-p", &self.name, user];
        self.node.ctl(&[&words[..], &permissions].concat()).await;
    }

    /// The node that it is on.
    #[must_use]
    pub fn node(&self) -> &'static Node {
        self.node
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/{}", self.node.url(), self.name)
    }

    /// Closes all connections to it.
    pub async fn close_connections(&self) {
        let words = ["close_all_connections", "--vhost", &self.name, "an operator's reasons"];
        self.node.ctl(&words).await;
    }

    /// What `rabbitmqctl` lists of it.
    pub async fn list(&self, what: &str, columns: &[&str]) -> String {
        self.node.ctl(&[&[what, "-p", &self.name], columns].concat()).await
    }
}
