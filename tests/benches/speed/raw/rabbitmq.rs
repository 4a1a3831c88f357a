//! Plain `lapin`: pipelined publisher confirms, a task a job, acknowledgements with
//! `multiple`, and a retry by time to live and dead-lettering.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jobq_tests::raw::Raw;
use lapin::Channel;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
};
use lapin::types::FieldTable;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::case::Case;
use crate::gauge::Gauge;
use crate::jobs::{Done, Work, pace};
use crate::sample::Sample;
use crate::scenario::{CALLERS, PREFETCH, Scenario, WINDOW};

use super::message::{Form, QUEUE};

/// How many finished jobs are looked at before they are acknowledged.
const BATCH: usize = 64;

pub(crate) async fn run(case: &Case, url: &str) -> anyhow::Result<Sample> {
    let Case { scenario, jobs, .. } = *case;
    // One connection to publish, and one to consume.
    let out = connect(url).await;
    let form = Form::of(case.side);
    form.declare(&out).await?;
    let publisher = Publisher { channel: Arc::new(out.channel.clone()), form };
    let done = Done::new(case);
    let measured = match scenario {
        Scenario::Enqueue => {
            let gauge = Gauge::start()?;
            publisher.by_callers(&done, jobs).await?;
            gauge.read(jobs)?
        }
        Scenario::EnqueueAll => {
            let gauge = Gauge::start()?;
            publisher.pipelined(&done, jobs).await?;
            gauge.read(jobs)?
        }
        Scenario::Drain | Scenario::Retry => {
            let worker = Worker::start(url, &done, case).await?;
            let sample = done.gauge().await?;
            worker.stop();
            sample
        }
        Scenario::Both => {
            let worker = Worker::start(url, &done, case).await?;
            let gauge = Gauge::start()?;
            publisher.by_callers(&done, jobs).await?;
            done.all().await;
            let sample = gauge.read(jobs)?;
            worker.stop();
            sample
        }
        Scenario::Latency => {
            let worker = Worker::start(url, &done, case).await?;
            let (gauge, begin) = (Gauge::start()?, Instant::now());
            for number in 0..jobs {
                pace(begin, number).await;
                let (publisher, job) = (publisher.clone(), done.job());
                tokio::spawn(async move { publisher.publish(&job).await.expect("confirmed") });
            }
            done.all().await;
            let sample = Sample { latency: done.latency(), ..gauge.read(jobs)? };
            worker.stop();
            sample
        }
    };
    Ok(measured)
}

/// A connection that states the longest frame, without which `lapin` has 8 MiB more resident.
async fn connect(url: &str) -> Raw {
    Raw::connect(&format!("{url}?frame_max=131072")).await
}

#[derive(Debug, Clone)]
struct Publisher {
    channel: Arc<Channel>,
    form: Form,
}

impl Publisher {
    /// Publishes a job and waits until the broker has confirmed it.
    async fn publish(&self, job: &Work) -> anyhow::Result<()> {
        let (exchange, properties) = (self.form.exchange().into(), self.form.properties());
        let (options, body) = (BasicPublishOptions::default(), serde_json::to_vec(job)?);
        let sent =
            self.channel.basic_publish(exchange, self.form.key(), options, &body, properties);
        let confirm = sent.await?.await?;
        ensure!(confirm.is_ack(), "{confirm:?}");
        Ok(())
    }

    async fn pipelined(&self, done: &Arc<Done>, jobs: u32) -> anyhow::Result<()> {
        stream::iter(0..jobs)
            .map(|_| async { self.publish(&done.job()).await })
            .buffer_unordered(WINDOW)
            .try_for_each(async |()| Ok(()))
            .await
    }

    async fn by_callers(&self, done: &Arc<Done>, jobs: u32) -> anyhow::Result<()> {
        let callers = u32::try_from(CALLERS)?;
        let calling = (0..callers).map(|caller| {
            let (publisher, done) = (self.clone(), Arc::clone(done));
            let share = jobs / callers + u32::from(caller < jobs % callers);
            tokio::spawn(async move {
                for _ in 0..share {
                    publisher.publish(&done.job()).await?;
                }
                anyhow::Ok(())
            })
        });
        for caller in calling.collect::<Vec<_>>() {
            caller.await??;
        }
        Ok(())
    }
}

/// How a job ended.
enum Ended {
    Well(u64),
    Badly(u64),
}

/// Runs the jobs of the queue.
struct Worker {
    _raw: Raw,
    task: JoinHandle<()>,
}

impl Worker {
    async fn start(url: &str, done: &Arc<Done>, case: &Case) -> anyhow::Result<Self> {
        let raw = connect(url).await;
        let task = work(&raw, done, case).await?;
        Ok(Self { _raw: raw, task })
    }

    fn stop(self) {
        self.task.abort();
    }
}

/// Runs the jobs that come on a connection until it is aborted.
async fn work(raw: &Raw, done: &Arc<Done>, case: &Case) -> anyhow::Result<JoinHandle<()>> {
    let scenario = case.scenario;
    let channel = Arc::new(raw.channel.clone());
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    // Each message has the tag, and one that the broker makes up is long.
    let mut consumer = channel.basic_consume(QUEUE.into(), "1".into(), options, none).await?;
    let (ended, ends) = mpsc::unbounded_channel();
    let settling = tokio::spawn(settle(channel, ends));
    let done = Arc::clone(done);
    Ok(tokio::spawn(async move {
        while let Some(Ok(message)) = consumer.next().await {
            let (ended, done) = (ended.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let first = message.properties.headers().as_ref();
                let first = first.is_none_or(|headers| !headers.contains_key("x-death"));
                let job: Work = serde_json::from_slice(&message.data).expect("it is a job");
                let end = if scenario == Scenario::Retry && first {
                    Ended::Badly(message.delivery_tag)
                } else {
                    done.ran(job.at);
                    Ended::Well(message.delivery_tag)
                };
                let _ = ended.send(end);
            });
        }
        drop(ended);
        let _ = settling.await;
    }))
}

/// Acknowledges all up to the first one that still runs with one frame, and rejects at once.
async fn settle(channel: Arc<Channel>, mut ends: mpsc::UnboundedReceiver<Ended>) {
    let (mut settled, mut ahead) = (0, BTreeSet::new());
    let mut batch = Vec::with_capacity(BATCH);
    while ends.recv_many(&mut batch, BATCH).await > 0 {
        let before = settled;
        let mut rejecting = Vec::new();
        let mut acknowledge = false;
        for end in batch.drain(..) {
            let tag = match end {
                Ended::Well(tag) => {
                    acknowledge = true;
                    tag
                }
                Ended::Badly(tag) => {
                    let options = BasicNackOptions { multiple: false, requeue: false };
                    rejecting.push(channel.basic_nack(tag, options));
                    tag
                }
            };
            ahead.insert(tag);
        }
        futures_util::future::join_all(rejecting).await;
        while ahead.remove(&(settled + 1)) {
            settled += 1;
        }
        if acknowledge && settled > before {
            let options = BasicAckOptions { multiple: true };
            let _ = channel.basic_ack(settled, options).await;
        }
    }
}
