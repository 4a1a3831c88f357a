//! Asking pools, until their answers account for all consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Control;
use super::calls::Response;
use super::queue::publish;
use super::wire::{ALL, Message, address_key, pool_key};
use crate::engine::{Answers, Ask, Figure, PoolId, Question, Reply, clock_offset_ms};
use crate::error::{Error, Result};
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::topology::lookup::Figures;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::routing_key;

/// How long further answers are waited for after the question came back to its sender, and after
/// each answer: a pool whose queues are paused has no consumers that are to be accounted for.
const QUIET: Duration = Duration::from_millis(100);

/// How long after a count the consumers are counted again, if some belong to nobody who answered.
const RECOUNT: Duration = Duration::from_millis(200);

/// How long a question may take to come back to its sender. One that was waited for less tells
/// nothing.
const RETURN: Duration = Duration::from_millis(500);

/// An answer of a pool, with the numbers of its consumers by queue.
type Answered = BTreeMap<PoolId, (BTreeMap<String, u32>, Reply)>;

impl Control {
    /// Asks pools, and collects their answers. `lists` says whether a queue has another one for solo
    /// runs, and whether it has lanes of priorities, as far as that is known.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        ask: Ask,
        lists: impl Fn(&str) -> Option<(bool, bool)>,
    ) -> Result<Answers> {
        let Ask { question, pool, queues, patience, .. } = ask;
        let is_order = !matches!(
            question,
            Question::Report | Question::Watch { .. } | Question::Schedules { .. }
        );
        let question = serde_json::to_value(&question).map_err(|error| {
            Error::invalid("cannot serialize the query to the pools").with_source(error)
        })?;
        let mut call = self.calls.open();
        let number = call.number;
        let asking = async {
            if is_order {
                // During an alarm it would wait on the connection, and be carried out when nobody
                // expects it.
                self.fence().await?;
            }
            let queue = self.queue().await?;
            let reply_to = address_key(queue.address);
            let message = Message::Ask { number, reply_to, pool, question };
            let key = pool.map_or_else(|| ALL.to_owned(), pool_key);
            let asked = (self.broker.clock().now(), Instant::now());
            publish(&queue.up, &[(self.names().control(), key, &message)]).await?;
            Ok((queue, asked, message))
        };
        let (queue, asked, message) = self.broker.unless_blocked("asking pools", asking).await?;
        let own: Vec<_> = self.pools().keys().copied().collect();
        let deadline = Instant::now() + patience;
        let mut quiet = None;
        let (this, queues, lists) = (&**self, &queues, &lists);
        let count = move |pause| {
            let counting = async move {
                sleep(pause).await;
                this.consumers_of(queues, lists).await
            };
            timeout_at(deadline, counting)
        };
        let mut counting = std::pin::pin!(count(Duration::ZERO));
        let (mut consumers, mut answered) = (None, Answered::new());
        loop {
            let are_all_known = own.iter().all(|pool| answered.contains_key(pool))
                && consumers.as_ref().is_some_and(|consumers| {
                    unaccounted(consumers, &answered).values().all(|count| *count == 0)
                });
            let end = match (pool, quiet) {
                (Some(pool), _) if answered.contains_key(&pool) => break,
                (None, Some(quiet)) if are_all_known => deadline.min(quiet + QUIET),
                _ => deadline,
            };
            tokio::select! {
                response = call.next() => match response {
                    Response::Answer(pool, consumers, mut reply) => {
                        compare_clock(&mut reply, asked);
                        answered.insert(pool, (consumers, *reply));
                        quiet = quiet.map(|_| Instant::now());
                    }
                    Response::Asked => quiet = Some(Instant::now()),
                    Response::Echo | Response::Fence => {}
                },
                counted = &mut counting => {
                    counting.set(count(RECOUNT));
                    let Ok(counted) = counted else { continue };
                    // A consumer may have been cancelled since the count, or may have begun since the
                    // answer of its pool.
                    if pool.is_none() && !is_order && unaccounted(&counted, &answered).values().any(|count| *count != 0) {
                        let again = [(self.names().control(), ALL.to_owned(), &message)];
                        if let Ok(Err(error)) = timeout_at(deadline, publish(&queue.up, &again)).await {
                            tracing::debug!(%error, "could not repeat the question to pools");
                        }
                    }
                    consumers = Some(counted);
                }
                () = sleep_until(end) => break,
            }
        }
        if pool.is_none() && quiet.is_none() && patience >= RETURN {
            // Not even the question came back: somebody may have deleted the exchange.
            self.replace(&queue);
        }
        let consumers = consumers.unwrap_or_else(|| {
            not_counted(queues, "the broker did not count its consumers in time")
        });
        let unaccounted = unaccounted(&consumers, &answered);
        let replies = answered.into_iter().map(|(pool, (_, reply))| (pool, reply)).collect();
        let answers = Answers::new(replies, unaccounted);
        self.tell_clocks(&queue, answers.reports()).await;
        Ok(answers)
    }

    /// The numbers of the consumers of these queues; those of solo runs apart, since a broker may not
    /// count those that wait for their turn.
    async fn consumers_of(
        &self,
        queues: &[String],
        lists: impl Fn(&str) -> Option<(bool, bool)>,
    ) -> BTreeMap<String, Figure<u32>> {
        let counting = async {
            let up = self.broker.up().await?;
            let (names, mut counts) = (self.names(), BTreeMap::new());
            for queue in queues.iter().collect::<BTreeSet<_>>() {
                let work = self.consumers(&up, &names.work(queue)).await?;
                let (place, is_idle) = (names.solo(queue), work == 0);
                counts.insert(queue.clone(), work);
                let (has_solo, has_lanes) = lists(queue).unzip();
                let has_lanes = match has_lanes {
                    Some(listed) => Ok(listed || self.known.has_priorities(queue)),
                    None => self.known.finds_priorities(&up, queue, false).await,
                };
                for lane in routing_key::other_lanes(queue) {
                    let taken = match &has_lanes {
                        Ok(false) => continue,
                        Ok(true) => self.consumers(&up, &names.work(&lane)).await?,
                        Err(error) if error.is_connection() => return Err(error.clone()),
                        Err(error) => Figure::unknown(error.to_string()),
                    };
                    counts.insert(lane, taken);
                }
                // Only pools declare it, and looking for a missing one costs a channel number.
                let is_missing =
                    has_solo == Some(false) || self.known.missing_queues.was_missing(&place);
                if !(is_idle && is_missing) {
                    let solo = self.consumers(&up, &place).await?;
                    counts.insert(Names::solo_key(queue), solo);
                }
            }
            Ok(counts)
        };
        let counts: Result<_> = counting.await;
        counts.unwrap_or_else(|error| not_counted(queues, &error.to_string()))
    }

    /// The number of consumers of a queue of the broker.
    async fn consumers(&self, up: &ConnectionEpoch, place: &str) -> Result<Figure<u32>> {
        let figures = self.known.missing_queues.figures(up, place).await?;
        Ok(figures.map_or(Figure::Known(0), |read| read.map(|Figures { consumers, .. }| consumers)))
    }
}

/// Adds to a report how far its clock is ahead, after a question at this time.
fn compare_clock(reply: &mut Reply, (asked, start): (SystemTime, Instant)) {
    if let Reply::Report(report) = reply
        && let Some(theirs) = report.reported_at
    {
        report.clock_offset_ms = clock_offset_ms(asked, asked + start.elapsed(), theirs);
    }
}

fn not_counted(queues: &[String], why: &str) -> BTreeMap<String, Figure<u32>> {
    queues.iter().map(|queue| (queue.clone(), Figure::unknown(why.to_owned()))).collect()
}

/// For each queue, how many of its consumers belong to no pool that answered.
fn unaccounted(
    consumers: &BTreeMap<String, Figure<u32>>,
    answered: &Answered,
) -> BTreeMap<String, Figure<u32>> {
    let mut left = BTreeMap::new();
    for (key, count) in consumers {
        let theirs = answered.values().filter_map(|(consumers, _)| consumers.get(key));
        let sum = theirs.fold(0, |sum: u32, count| sum.saturating_add(*count));
        let (queue, _) = key.split_once('@').unwrap_or((key, ""));
        let known = left.remove(queue).unwrap_or(Figure::Known(0));
        let more = count.clone().map(|count| count.saturating_sub(sum));
        left.insert(queue.to_owned(), known.zip(more, |sum: u32, more| sum.saturating_add(more)));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_of_pools_that_answered_are_accounted_for() {
        let answer = |counts: &[(&str, u32)]| {
            let counts = counts.iter().map(|(queue, count)| ((*queue).to_owned(), *count));
            (PoolId::new(), (counts.collect(), Reply::Accepted))
        };
        let answers = [
            answer(&[("mail", 2), ("mail@solo", 1), ("other", 0)]),
            answer(&[("mail", 1), ("mail@solo", 1), ("new", 9)]),
        ];
        let unknown = Figure::unknown("no leader");
        for (queue, count, answers, expected) in [
            ("mail", Figure::Known(3), &answers[..], Figure::Known(0)),
            ("mail", Figure::Known(4), &answers[..], Figure::Known(1)),
            ("mail", Figure::Known(4), &answers[..1], Figure::Known(2)),
            ("mail", Figure::Known(4), &[], Figure::Known(4)),
            // A consumer that has ended since it was reported.
            ("mail", Figure::Known(1), &answers[..], Figure::Known(0)),
            ("other", Figure::Known(0), &answers[..], Figure::Known(0)),
            ("nobody", Figure::Known(1), &answers[..], Figure::Known(1)),
            ("mail", unknown.clone(), &answers[..], unknown),
        ] {
            // One of two solo consumers waits for its turn, and is not counted.
            let alone = u32::from(queue == "mail" && !answers.is_empty());
            let consumers =
                [(queue.to_owned(), count), (Names::solo_key(queue), Figure::Known(alone))].into();
            let left = unaccounted(&consumers, &answers.iter().cloned().collect());
            assert_eq!(left, [(queue.to_owned(), expected)].into());
        }
    }
}
