//! Declaring exchanges, queues and bindings, and ending them.

use futures_util::stream::TryStreamExt as _;
use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, ExchangeUnbindOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongInt};
use lapin::{Channel, ExchangeKind};

use super::declaration::{Argument, Arguments, Declaration, ExchangeType};
use super::temporary::{QueueType, TemporaryQueue};
use crate::error::Result;
use crate::rabbitmq::connection::channel::{ask, ask_alone, pipelined};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::errors::failure;
use crate::rabbitmq::values::short;

/// Declares all of these in order, with many declarations in flight. There are hundreds of them, and
/// nothing is published after a lost connection until all are answered. `tell` is called for each
/// answer.
pub(crate) async fn declare_all<'d>(
    up: &ConnectionEpoch,
    declarations: impl IntoIterator<Item = &'d Declaration>,
    mut tell: impl FnMut(),
) -> Result<()> {
    let declarations: Vec<_> = declarations.into_iter().collect();
    let declaring = |channel: Channel| async move {
        let mut answers = pipelined(declarations.iter().map(|part| declare(&channel, part)));
        while answers.try_next().await?.is_some() {
            tell();
        }
        Ok(())
    };
    ask_alone(up, "declaring queues", declaring).await
}

/// Declares an exchange or a queue.
pub(crate) async fn declare_place(up: &ConnectionEpoch, place: &Declaration) -> Result<()> {
    let declaring = |channel: Channel| async move { declare(&channel, place).await };
    ask(up, "declaring a queue", declaring).await
}

/// Ends a binding.
pub(crate) async fn unbind(up: &ConnectionEpoch, binding: &Declaration) -> Result<()> {
    let doing = &format!("ending {binding}");
    let none = FieldTable::default();
    let unbinding = |channel: Channel| async move {
        match binding {
            Declaration::Binding { exchange, queue, key } => {
                let key = short(key.as_deref().unwrap_or_default())?;
                channel.queue_unbind(short(queue)?, short(exchange)?, key, none).await
            }
            Declaration::ExchangeBinding { from, to, key } => {
                let (from, to, options) =
                    (short(from)?, short(to)?, ExchangeUnbindOptions::default());
                channel.exchange_unbind(to, from, short(key)?, options, none).await
            }
            Declaration::Exchange { .. } | Declaration::Queue { .. } => Ok(()),
        }
        .map_err(|error| failure(doing, error))
    };
    ask_alone(up, doing, unbinding).await
}

/// Deletes a queue, and returns how many messages it had.
pub(crate) async fn delete(up: &ConnectionEpoch, queue: &str) -> Result<u32> {
    let doing = &format!("deleting `{queue}`");
    let deleting = |channel: Channel| async move {
        let deleted = channel.queue_delete(short(queue)?, QueueDeleteOptions::default()).await;
        deleted.map_err(|error| failure(doing, error))
    };
    ask(up, doing, deleting).await
}

async fn declare(channel: &Channel, declaration: &Declaration) -> Result<()> {
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
        Declaration::Binding { exchange, queue, key } => {
            let (queue, exchange) = (short(queue)?, short(exchange)?);
            let key = short(key.as_deref().unwrap_or_default())?;
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
