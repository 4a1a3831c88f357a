//! The URL of a broker.

use std::fmt;
use std::time::Duration;

use lapin::uri::AMQPUri;

use crate::error::{Error, Result};

/// Seconds without a sign of life after which a connection is given up, where the URL
/// does not state it.
const HEARTBEAT: u16 = 20;

/// Where the broker is. It shows itself without the password.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) uri: AMQPUri,
}

impl Address {
    /// Reads a URL. What is wrong with it is said without showing it.
    pub(crate) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let invalid = |problem: &str| {
            Error::invalid(format!(
                "the broker's URL {problem}; write for example amqp://user:password@host:5672/vhost"
            ))
        };
        let host = url.split("://").nth(1).unwrap_or_default();
        let host = host.split(['/', '?']).next().unwrap_or_default();
        if host.rsplit('@').next().is_some_and(|host| host.starts_with('[')) {
            return Err(invalid("has an IPv6 address, which is not supported: use a host name"));
        }
        // The reason may hold the URL, and with it the password.
        let mut uri: AMQPUri = url.parse().map_err(|_| invalid("cannot be read"))?;
        if uri.vhost.len() > 255 {
            return Err(invalid("has a vhost of more than 255 bytes"));
        }
        let query = &mut uri.query;
        query.heartbeat.get_or_insert(HEARTBEAT);
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        query.connection_timeout.get_or_insert(millis);
        Ok(Self { uri })
    }

    pub(crate) fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    pub(crate) fn user(&self) -> &str {
        &self.uri.authority.userinfo.username
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let (user, host) = (&authority.userinfo.username, &authority.host);
        write!(f, "{scheme}://{user}:***@{host}:{}", authority.port)?;
        if vhost == "/" { Ok(()) } else { write!(f, "/{vhost}") }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn shows_itself_without_the_password() {
        let table = [
            ("amqp://localhost", "amqp://guest:***@localhost:5672"),
            ("amqps://ann:geheim@mq/shop", "amqps://ann:***@mq:5671/shop"),
            ("amqp://ann:geheim@127.0.0.1:5673/%2f", "amqp://ann:***@127.0.0.1:5673"),
            ("amqp://ann:geheim@mq/", "amqp://ann:***@mq:5672/"),
        ];
        for (url, shown) in table {
            let address = Address::parse(url, SECOND).unwrap();
            assert_eq!(address.to_string(), shown, "{url}");
            assert!(!format!("{address:?}").contains("geheim"));
        }
    }

    #[test]
    fn has_a_heartbeat_and_a_timeout() {
        let query = |url| Address::parse(url, SECOND).unwrap().uri.query;
        let unstated = query("amqp://localhost");
        assert_eq!((unstated.heartbeat, unstated.connection_timeout), (Some(20), Some(1_000)));
        let stated = query("amqp://localhost?heartbeat=7&connection_timeout=9");
        assert_eq!((stated.heartbeat, stated.connection_timeout), (Some(7), Some(9)));
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        let long = format!("amqp://ann:geheim@mq/{}", "v".repeat(256));
        for url in [
            "amqp:geheim",
            "amqp://ann:geheim@host:port",
            "http://ann:geheim@host",
            "amqp://ann:geheim@[::1]:5672",
            "amqp://h?heartbeat=geheim",
            "geheim",
            &long,
        ] {
            let error = Address::parse(url, SECOND).unwrap_err();
            assert!(error.is_invalid(), "{url}");
            assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        }
    }
}
