//! Delay levels in any base and on any clock, as jobq declares them in base 16, with or without
//! a queue of the work queue's own behind them.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jobq_tests::raw::{Raw, headers, text};
use lapin::options::{
    BasicConsumeOptions, ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};

use crate::lateness::Lateness;

/// The longest wait, in units: 3,650 days of 100 ms.
const HORIZON: u64 = 3_153_600_000;
/// How long a message stays in the queue behind the levels, in milliseconds of no clock.
const DUE: u64 = 10;
/// How many publishes may be unconfirmed.
const WINDOW: usize = 1_000;
/// How long nothing may come out before something is wrong.
const STALLED: Duration = Duration::from_secs(240);

/// What can be set side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) radix: u64,
    /// Whether what comes out of the levels passes a queue of the work queue's own, as in jobq.
    pub(crate) own: bool,
}

/// The levels of one shape.
#[derive(Debug)]
pub(crate) struct Levels<'r> {
    raw: &'r Raw,
    shape: Shape,
    /// How many units pass in a second.
    clock: u64,
    name: String,
    /// How many queues keep messages waiting.
    pub(crate) queues: usize,
}

impl<'r> Levels<'r> {
    /// Declares them, lowest first, and the queue that they lead to.
    pub(crate) async fn declare(raw: &'r Raw, shape: Shape, clock: u64) -> anyhow::Result<Self> {
        let radix = shape.radix;
        let name = format!("{radix}.{}.{clock}", shape.own);
        let mut levels = Self { raw, shape, clock, name, queues: 0 };
        let mut next = levels.exchange("out").await?;
        let mut end = levels.queue("work", []).await?;
        if shape.own {
            let back = levels.exchange("back").await?;
            levels.bind(&back, &end, "#").await?;
            end = levels.waiting("own", &back, DUE).await?;
        }
        levels.bind(&next, &end, &format!("{}q.work", "*.".repeat(levels.count()))).await?;
        for (level, above) in (0..levels.count()).rev().enumerate() {
            let exchange = levels.exchange(&level.to_string()).await?;
            let any = "*.".repeat(above);
            levels.pass(&exchange, &next, &format!("{any}0.#")).await?;
            let place = radix.pow(u32::try_from(level)?);
            for digit in 1..=(radix - 1).min(HORIZON / place) {
                let ttl = (digit * place * 1_000).div_ceil(clock);
                let queue = levels.waiting(&format!("{level}.{digit}"), &next, ttl).await?;
                levels.bind(&exchange, &queue, &format!("{any}{digit}.#")).await?;
            }
            next = exchange;
        }
        Ok(levels)
    }

    /// Has one message wait for each of these waits in units, `pace` apart or as fast as it
    /// goes, and gives how late they came out after the time that their digits say.
    pub(crate) async fn pass_through(
        &self,
        waits: Vec<u64>,
        pace: Duration,
    ) -> anyhow::Result<Lateness> {
        let begin = Instant::now();
        let published = stream::iter(&waits)
            .then(async |units| {
                if !pace.is_zero() {
                    tokio::time::sleep(pace).await;
                }
                *units
            })
            .map(|units| self.publish(units, begin))
            .buffer_unordered(WINDOW)
            .map(anyhow::Ok)
            .try_collect::<()>();
        let (lateness, ()) = tokio::try_join!(self.receive(waits.len(), begin), published)?;
        Ok(lateness)
    }

    async fn publish(&self, units: u64, begin: Instant) {
        let digits = (0..self.count()).rev().map(|level| {
            let place = self.shape.radix.pow(u32::try_from(level).unwrap_or_default());
            format!("{}.", units / place % self.shape.radix)
        });
        let key = digits.collect::<String>() + "q.work";
        let exchange = format!("{}.{}", self.name, units.ilog(self.shape.radix));
        let micros = begin.elapsed().as_micros() + u128::from(units * 1_000_000 / self.clock);
        // As long as a small job, in which a number of so many digits is fine.
        let body = format!("{micros:0100}");
        let properties = BasicProperties::default().with_delivery_mode(2);
        self.raw.publish(&exchange, &key, properties, body.as_bytes()).await;
    }

    async fn receive(&self, count: usize, begin: Instant) -> anyhow::Result<Lateness> {
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let work = format!("{}.work", self.name);
        let consuming = self.raw.channel.basic_consume(
            work.as_str().into(),
            work.as_str().into(),
            options,
            FieldTable::default(),
        );
        let mut consumer = consuming.await?;
        let mut lateness = Lateness::new();
        for _ in 0..count {
            let message = tokio::time::timeout(STALLED, consumer.next()).await?;
            let message = message.context("the consumer ended")??;
            let due = Duration::from_micros(std::str::from_utf8(&message.data)?.parse()?);
            let now = begin.elapsed();
            lateness.record(now.checked_sub(due).context("a message came early")?);
        }
        Ok(lateness)
    }

    /// How many digits the longest wait has.
    fn count(&self) -> usize {
        HORIZON.ilog(self.shape.radix) as usize + 1
    }

    async fn exchange(&self, name: &str) -> anyhow::Result<String> {
        let name = format!("{}.{name}", self.name);
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let channel = &self.raw.channel;
        let arguments = FieldTable::default();
        channel
            .exchange_declare(name.as_str().into(), ExchangeKind::Topic, options, arguments)
            .await?;
        Ok(name)
    }

    /// A queue that keeps messages for so many milliseconds.
    async fn waiting(&mut self, name: &str, next: &str, ttl: u64) -> anyhow::Result<String> {
        self.queues += 1;
        let arguments = [
            ("x-dead-letter-exchange", text(next)),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-overflow", text("reject-publish")),
            ("x-message-ttl", AMQPValue::LongLongInt(i64::try_from(ttl)?)),
        ];
        self.queue(name, arguments).await
    }

    async fn queue<const N: usize>(
        &self,
        name: &str,
        arguments: [(&'static str, AMQPValue); N],
    ) -> anyhow::Result<String> {
        let name = format!("{}.{name}", self.name);
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let quorum = [("x-queue-type", text("quorum"))];
        let arguments = headers(arguments.into_iter().chain(quorum));
        self.raw.channel.queue_declare(name.as_str().into(), options, arguments).await?;
        Ok(name)
    }

    async fn bind(&self, exchange: &str, queue: &str, key: &str) -> anyhow::Result<()> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        let channel = &self.raw.channel;
        channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await?;
        Ok(())
    }

    async fn pass(&self, from: &str, to: &str, key: &str) -> anyhow::Result<()> {
        let (options, arguments) = (ExchangeBindOptions::default(), FieldTable::default());
        let channel = &self.raw.channel;
        channel.exchange_bind(to.into(), from.into(), key.into(), options, arguments).await?;
        Ok(())
    }
}

/// How many queues a wait from 1 to `units` passes through, on average.
pub(crate) fn mean_hops(shape: Shape, units: u64) -> f64 {
    let radix = shape.radix;
    let hops = |mut wait: u64| {
        let mut hops = u32::from(shape.own);
        while wait > 0 {
            hops += u32::from(!wait.is_multiple_of(radix));
            wait /= radix;
        }
        f64::from(hops)
    };
    let count = u32::try_from(units).map_or(f64::MAX, f64::from);
    (1..=units).map(hops).sum::<f64>() / count
}
