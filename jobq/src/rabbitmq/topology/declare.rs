//! Declaring one exchange, queue or binding.

use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongInt, ShortString};
use lapin::{Channel, ExchangeKind};

use super::plan::{Argument, Arguments, By, Declaration, ExchangeType};
use super::temporary::{QueueType, TemporaryQueue};
use crate::error::Result;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::values::short;

pub(crate) async fn declare(channel: &Channel, declaration: &Declaration) -> Result<()> {
    let done = match declaration {
        Declaration::Exchange { name, kind, alternate } => {
            let kind = match kind {
                ExchangeType::Direct => ExchangeKind::Direct,
                ExchangeType::Fanout => ExchangeKind::Fanout,
                ExchangeType::Topic => ExchangeKind::Topic,
            };
            let options =
                ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            if let Some(alternate) = alternate {
                arguments.insert(short("alternate-exchange")?, text(alternate));
            }
            channel.exchange_declare(short(name)?, kind, options, arguments).await
        }
        Declaration::Queue { name, arguments } => {
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let declared = channel.queue_declare(short(name)?, options, table(arguments)?).await;
            declared.map(|_| ())
        }
        Declaration::Binding { exchange, queue, by } => {
            let key = match by {
                By::All => ShortString::default(),
                By::Key(key) => short(key)?,
            };
            let (queue, exchange) = (short(queue)?, short(exchange)?);
            let (options, none) = (QueueBindOptions::default(), FieldTable::default());
            channel.queue_bind(queue, exchange, key, options, none).await
        }
        Declaration::ExchangeBinding { from, to, key } => {
            let (from, to, options) = (short(from)?, short(to)?, ExchangeBindOptions::default());
            channel.exchange_bind(to, from, short(key)?, options, FieldTable::default()).await
        }
    };
    done.map_err(|error| failure(&format!("declaring {declaration}"), error))
}

/// Declares a queue that ends with its client.
pub(crate) async fn declare_temporary(channel: &Channel, queue: &TemporaryQueue) -> Result<()> {
    let TemporaryQueue { name, kind, arguments } = queue;
    let options = match kind {
        QueueType::Classic => QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        },
        QueueType::Quorum => {
            QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
        }
    };
    let declared = channel.queue_declare(short(name)?, options, table(arguments)?).await;
    declared.map(|_| ()).map_err(|error| failure(&format!("declaring queue `{name}`"), error))
}

fn table(arguments: &Arguments) -> Result<FieldTable> {
    let mut table = FieldTable::default();
    for (key, value) in arguments {
        let value = match value {
            Argument::Text(value) => text(value),
            Argument::Truth(value) => AMQPValue::Boolean(*value),
            // The width does not matter to the broker.
            Argument::Number(number) => LongInt::try_from(*number)
                .map_or(AMQPValue::LongLongInt(*number), AMQPValue::LongInt),
        };
        table.insert(short(key.as_ref())?, value);
    }
    Ok(table)
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}
