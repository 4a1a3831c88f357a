//! One exchange, queue or binding, as values that are compared, stored and printed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// An exchange, a queue or a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Declaration {
    /// A durable exchange.
    Exchange { name: String, kind: ExchangeType, alternate: Option<String> },
    /// A durable quorum queue.
    Queue { name: String, arguments: Arguments },
    /// A binding of a queue to an exchange, by the routing key; without one for every message.
    Binding {
        exchange: String,
        queue: String,
        // A file must have it, even without a value.
        #[serde(deserialize_with = "Option::deserialize")]
        key: Option<String>,
    },
    /// A binding of an exchange to another one, by the routing key.
    ExchangeBinding { from: String, to: String, key: String },
}

/// The type of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExchangeType {
    Direct,
    Fanout,
    Topic,
}

/// The arguments of a queue, by name.
pub(crate) type Arguments = BTreeMap<Cow<'static, str>, Argument>;

/// The value of a queue's argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Argument {
    Number(i64),
    Text(String),
    Truth(bool),
}

impl Declaration {
    /// Whether it is an exchange or a queue, not a binding.
    pub(crate) fn is_place(&self) -> bool {
        matches!(self, Self::Exchange { .. } | Self::Queue { .. })
    }

    /// The name of the exchange or queue, or the binding's destination.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Exchange { name, .. } | Self::Queue { name, .. } => name,
            Self::Binding { queue: to, .. } | Self::ExchangeBinding { to, .. } => to,
        }
    }

    /// Its kind and name, for error messages.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Exchange { name, .. } => format!("exchange `{name}`"),
            Self::Queue { name, .. } => format!("queue `{name}`"),
            Self::Binding { exchange: from, queue: to, .. }
            | Self::ExchangeBinding { from, to, .. } => {
                format!("the binding of `{to}` to exchange `{from}`")
            }
        }
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange { name, kind, alternate } => {
                write!(f, "exchange {name} {kind}")?;
                match alternate {
                    Some(alternate) => write!(f, " alternate-exchange={alternate}"),
                    None => Ok(()),
                }
            }
            Self::Queue { name, arguments } => {
                write!(f, "queue {name}")?;
                arguments.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
            }
            Self::Binding { exchange: from, queue: to, key: None } => {
                write!(f, "binding {from} -> {to}")
            }
            Self::Binding { exchange: from, queue: to, key: Some(key) }
            | Self::ExchangeBinding { from, to, key } => {
                write!(f, "binding {from} -> {to} key={key}")
            }
        }
    }
}

impl fmt::Display for ExchangeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        })
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Truth(truth) => truth.fmt(f),
        }
    }
}
