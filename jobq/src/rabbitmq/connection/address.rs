//! The URL of a broker, with one node or several.

use std::fmt;
use std::time::Duration;

use jobq_names::setting::is_unseen;

use lapin::uri::{AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};

use crate::error::{Error, Result};

/// Seconds without a heartbeat after which a connection is closed, unless the URL states it.
const HEARTBEAT: u16 = 20;
/// In milliseconds. A day is effectively no limit for one try.
const LONGEST_CONNECTION_TIMEOUT: u64 = 24 * 60 * 60 * 1_000;
/// The longest frame in bytes, unless the URL states it: RabbitMQ's default. `lapin` allocates its
/// two buffers of 32 frames each when it connects. If it learns the length only from the broker, it
/// allocates them again and writes to all of them: 8 MiB of resident memory. A broker without a
/// limit would make it ask for 128 GiB.
pub(crate) const LONGEST_FRAME: u32 = 128 * 1024;
/// The longest frame that a URL may state. Longer ones only waste memory, 64 times their length
/// on each connection.
const LARGEST_FRAME: u32 = 1024 * 1024;
/// The fewest channels on a connection. A client that only enqueues publishes on one, uses up to
/// four for messages that may be refused, and opens others for queries.
pub(crate) const FEWEST_CHANNELS: u16 = 16;
/// The query parameters that a URL may have.
const PARAMETERS: [&str; 5] =
    ["heartbeat", "connection_timeout", "frame_max", "channel_max", "auth_mechanism"];

/// The address of the broker. It is displayed without the password.
#[derive(Clone)]
pub(crate) struct Address {
    /// One URL for each node, at least one. They differ in host and port only.
    nodes: Vec<AMQPUri>,
    /// Whether the URL has a user, a password, or both.
    has_user: bool,
}

impl Address {
    /// Parses a URL. Errors do not show it. Each node gets a share of the timeout, unless the URL
    /// states one.
    pub(crate) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let invalid = |problem: &str| {
            Error::invalid(format!(
                "the broker's URL {problem}; use a URL such as \
                 amqp://user:password@host:5672/vhost, with several nodes of one cluster as \
                 host1:5672,host2:5672"
            ))
        };
        // URL parsers drop tabs and line breaks, so these could hide a part of the URL.
        if let Some(unseen) = url.chars().find(|c| is_unseen(*c)) {
            return Err(invalid(&format!(
                "contains an invisible character ({}): remove it, or percent-encode it",
                unseen.escape_unicode()
            )));
        }
        let Some((scheme @ ("amqp" | "amqps"), rest)) = url.split_once("://") else {
            return Err(invalid("does not begin with amqp:// or amqps://"));
        };
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // The `@` may be that of the user, after a password with such a character, which would then
        // be taken for a host or a vhost and be shown.
        if rest.contains('@') {
            return Err(invalid(
                "has an `@` after its first `/`, `?` or `#`: in a password, write these as %2F, \
                 %3F and %23, and in a vhost, write an `@` as %40",
            ));
        }
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let name = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_owned();
        let known = |name: String| name.is_empty() || PARAMETERS.contains(&name.as_str());
        if !query.split('&').map(name).all(known) {
            return Err(invalid(
                "has an unknown parameter (jobq supports heartbeat, connection_timeout, frame_max, \
                 channel_max and auth_mechanism; give certificates to the client's builder)",
            ));
        }
        let hosts = authority.rsplit('@').next().unwrap_or_default();
        let user = authority.strip_suffix(hosts).unwrap_or_default();
        let count = u32::try_from(hosts.split(',').count()).unwrap_or(u32::MAX);
        let node = |host: &str| {
            if let Some(flaw) = flaw(host) {
                return Err(invalid(flaw));
            }
            let url = format!("{scheme}://{user}{host}{rest}");
            // The cause may contain the URL, and with it the password.
            let mut uri: AMQPUri = url.parse().map_err(|_| invalid("cannot be parsed"))?;
            let user = &uri.authority.userinfo;
            let texts = [&user.username, &user.password, &uri.vhost];
            if let Some(control) =
                texts.iter().flat_map(|text| text.chars()).find(|c| c.is_control())
            {
                return Err(invalid(&format!(
                    "contains a control character ({}) in its user, password or vhost: remove it",
                    control.escape_unicode()
                )));
            }
            if uri.vhost.len() > 255 {
                return Err(invalid("has a vhost of more than 255 bytes"));
            }
            let query = &mut uri.query;
            query.heartbeat.get_or_insert(HEARTBEAT);
            match query.frame_max {
                // None, or left to the broker.
                None | Some(0) => query.frame_max = Some(LONGEST_FRAME),
                Some(LONGEST_FRAME..=LARGEST_FRAME) => {}
                Some(_) => return Err(invalid(&frame_range())),
            }
            if matches!(query.channel_max, Some(1..FEWEST_CHANNELS)) {
                return Err(invalid(&format!(
                    "has a channel_max below {FEWEST_CHANNELS}: {CHANNELS}"
                )));
            }
            let share = (timeout / count).as_millis().max(1);
            let share = u64::try_from(share).unwrap_or(u64::MAX);
            let stated = query.connection_timeout.get_or_insert(share);
            *stated = (*stated).min(LONGEST_CONNECTION_TIMEOUT);
            if query.connection_timeout == Some(0) {
                return Err(invalid(
                    "has a connection_timeout of zero: every attempt to connect would fail",
                ));
            }
            Ok(uri)
        };
        let nodes = hosts.split(',').map(node).collect::<Result<_>>()?;
        Ok(Self { nodes, has_user: !user.is_empty() })
    }

    /// The address for credentials from elsewhere, without the user of the URL.
    pub(crate) fn without_user(mut self) -> Result<Self> {
        let mechanism = self.nodes[0].query.auth_mechanism.unwrap_or_default();
        let twice = if self.has_user {
            "has a user"
        } else if mechanism != SASLMechanism::Plain {
            "has an auth_mechanism other than PLAIN"
        } else {
            for node in &mut self.nodes {
                node.authority.userinfo =
                    AMQPUserInfo { username: String::new(), password: String::new() };
            }
            return Ok(self);
        };
        Err(Error::invalid(format!(
            "the broker's URL {twice}, and `ClientBuilder::credentials` is called: remove one of them"
        )))
    }

    /// The number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Each node once, with its number, starting with this one and wrapping around.
    pub(crate) fn nodes_from(&self, first: usize) -> impl Iterator<Item = (usize, &AMQPUri)> {
        let count = self.nodes.len();
        self.nodes.iter().enumerate().cycle().skip(first % count).take(count)
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        self.nodes[0].scheme == AMQPScheme::AMQPS
    }

    pub(crate) fn vhost(&self) -> &str {
        &self.nodes[0].vhost
    }

    #[cfg(feature = "management")]
    pub(crate) fn password(&self) -> &str {
        &self.nodes[0].authority.userinfo.password
    }

    /// Empty if the credentials are not those of the URL.
    pub(crate) fn user(&self) -> &str {
        &self.nodes[0].authority.userinfo.username
    }
}

/// The number of channels that jobq needs.
pub(crate) const CHANNELS: &str = "a client needs 16 channels to enqueue, and two more for each \
     queue of its pool, or six if its jobs have priorities";

fn frame_range() -> String {
    format!(
        "has a frame_max outside the range {LONGEST_FRAME} to {LARGEST_FRAME}: the headers of a \
         job must fit in one frame, and each connection has 64 buffers of that size"
    )
}

/// The defect of a host and its port.
fn flaw(host: &str) -> Option<&'static str> {
    if host.contains(['[', ']']) {
        return Some("has an IPv6 address, which is not supported: use a host name");
    }
    let (name, port) = host.split_once(':').unwrap_or((host, "1"));
    let in_a_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() {
        return Some("has an empty host");
    }
    // This includes the `%` of a user and a password that were encoded together with their `@`.
    if !name.chars().all(in_a_name) {
        return Some("has a host with an invalid character");
    }
    let number = port.parse().is_ok_and(|port: u16| port > 0);
    (!number).then_some("has a port that is not a number from 1 to 65535")
}

/// The name of a node in messages.
pub(crate) fn host_and_port(node: &AMQPUri) -> String {
    format!("{}:{}", node.authority.host, node.authority.port)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.nodes.iter().map(host_and_port).collect();
        let (user, hosts, vhost) = (self.user(), hosts.join(","), self.vhost());
        write!(f, "{}://", self.nodes[0].scheme)?;
        if !user.is_empty() {
            write!(f, "{user}:***@")?;
        }
        f.write_str(&hosts)?;
        if vhost == "/" { Ok(()) } else { write!(f, "/{vhost}") }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
