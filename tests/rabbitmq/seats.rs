//! Seats whose holders, connections and queues end in every way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobq::JobId;
use jobq::engine::conformance::{EngineExt as _, open, soon};
use jobq::engine::{Consumer, Engine, QueueSpec, Seat, SeatValue, Settlement};
use jobq_tests::broker::{Broker, namespace, shared};
use jobq_tests::jobs::{job, ready, with};
use jobq_tests::proxy::{Cut, Proxy, Toward};
use jobq_tests::raw::Raw;
use jobq_tests::vhost::Vhost;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

const QUEUE: &str = "mail";
/// How long the holder waits between two steps.
const STEP: Duration = Duration::from_millis(50);
/// How many steps there are before and after each disturbance.
const STEPS: u64 = 10;

async fn take(engine: &dyn Engine) -> Box<dyn Seat> {
    let seats = engine.seats().expect("it has seats");
    soon("a seat", seats.take(QUEUE)).await.expect("takes")
}

/// A process that wants the seat, and counts while it holds it: each number is a job.
struct Candidate {
    proxy: Proxy,
    engine: Arc<dyn Engine>,
    _counting: AbortOnDropHandle<()>,
}

impl Candidate {
    async fn start(index: usize, broker: &str, namespace: &str, holder: &Arc<AtomicUsize>) -> Self {
        let proxy = Proxy::to(broker).await;
        let url = format!("{}?heartbeat=1", proxy.url());
        let engine = open(&url, namespace).await.expect("opens");
        let counting = count(index, Arc::clone(&engine), Arc::clone(holder));
        let counting = AbortOnDropHandle::new(tokio::spawn(counting));
        Self { proxy, engine, _counting: counting }
    }
}

/// Counts up from what the last holder had. A seat whose queue was deleted may be new: then it goes on
/// from what it remembers.
async fn count(index: usize, engine: Arc<dyn Engine>, holder: Arc<AtomicUsize>) {
    let seats = engine.seats().expect("it has seats");
    let (mut last, mut has_lost): (u64, u64) = (0, 0);
    loop {
        let mut seat = match seats.take(QUEUE).await {
            Ok(seat) => seat,
            Err(error) if error.is_closed() => return,
            Err(error) => panic!("it takes no seat: {error:?}"),
        };
        let text = String::from_utf8(seat.value().position.clone()).expect("text");
        let position = text.parse().unwrap_or(0);
        // One step may have been confirmed without this process knowing it, and no write is undone but by
        // the deletion of the queue.
        assert!(position == 0 || position >= has_lost, "{position} after {has_lost}");
        last = last.max(position);
        holder.store(index, Ordering::Release);
        loop {
            tokio::time::sleep(STEP).await;
            let next = last + 1;
            let job = with(job(QUEUE), |job| {
                job.id = JobId::of_key(&next.to_string());
                job.payload = next.to_string().into_bytes();
            });
            match seat.advance(vec![job], next.to_string().into_bytes()).await {
                Ok(refused) => assert!(refused.is_empty(), "{refused:?}"),
                Err(error) => {
                    println!("{index} loses the seat at {next}: {error}");
                    has_lost = last;
                    break;
                }
            }
            last = next;
        }
    }
}

/// Has the broker end a channel whose consumer has held a message for so many milliseconds. Channels keep
/// the limit with which they were opened, so each candidate gets a new one.
async fn limit(broker: &Broker, candidates: &[Candidate], timeout: u32) {
    for (key, millis) in [("consumer_timeout", timeout), ("channel_tick_interval", 500)] {
        broker.ctl(&["eval", &format!("application:set_env(rabbit, {key}, {millis}).")]).await;
    }
    for candidate in candidates {
        candidate.proxy.cut(Cut::Reset).await;
    }
}

/// The numbers that came, and how often each.
struct Counted {
    consumer: Consumer,
    seen: BTreeMap<u64, usize>,
}

impl Counted {
    /// Waits until the count has gone on by so much.
    async fn go_on(&mut self, what: &str) {
        let until = self.highest() + STEPS;
        let began = Instant::now();
        while self.highest() < until {
            let delivery = soon(what, self.consumer.next()).await.expect("goes on");
            let delivery = delivery.expect("a job");
            let number = String::from_utf8_lossy(&delivery.envelope().payload).parse();
            *self.seen.entry(number.expect("a number")).or_default() += 1;
            let _ = delivery.settle(Settlement::Complete).await;
        }
        println!("{what}: goes on after {:?}", began.elapsed());
    }

    /// How many numbers came that had come before.
    fn repeated(&self) -> usize {
        self.seen.values().map(|count| count - 1).sum()
    }

    fn highest(&self) -> u64 {
        self.seen.last_key_value().map_or(0, |(number, _)| *number)
    }
}

/// No number is missing, whatever happens to the holder, its connection, its queue and the broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_missing_when_holders_end() {
    let test = "nothing_is_missing_when_holders_end";
    let Some(broker) = Broker::to_kill(test).await else {
        return;
    };
    let (namespace, holder) = (namespace(), Arc::new(AtomicUsize::new(usize::MAX)));
    let engine = open(&broker.url(), &namespace).await.expect("opens");
    ready(&*engine, QUEUE).await;
    let consumer = engine.consume_from(QUEUE, 100).await.expect("consumes");
    let mut counted = Counted { consumer, seen: BTreeMap::new() };
    let mut candidates = Vec::new();
    for index in 0..3 {
        candidates.push(Candidate::start(index, &broker.url(), &namespace, &holder).await);
    }
    counted.go_on("the first holder").await;
    let held = || holder.load(Ordering::Acquire);
    let seat = format!("{namespace}:{QUEUE}@seat");
    let mut ends = 1;

    for how in [Cut::Reset, Cut::End] {
        candidates[held()].proxy.cut(how).await;
        counted.go_on("a connection that was cut").await;
        ends += 1;
    }
    // It hears nothing, and is not heard: as a process that is stopped, or a cable that was pulled.
    let silent = held();
    for toward in [Toward::Broker, Toward::Client] {
        candidates[silent].proxy.freeze(toward);
    }
    // Numbers may wait in the queue. Nobody else would count without the seat.
    while held() == silent {
        counted.go_on("a holder that is silent").await;
    }
    candidates[silent].proxy.thaw();
    counted.go_on("the end of the silence").await;
    ends += 1;

    // Later versions heed the queue's own limit instead.
    if broker.ctl(&["version"]).await.trim().starts_with("3.10.") {
        limit(&broker, &candidates, 1_000).await;
        counted.go_on("connections with a limit").await;
        let late = held();
        while held() == late {
            counted.go_on("a channel that the broker closed").await;
            ends += 1;
        }
        let log = broker.log();
        assert!(log.contains("has timed out waiting for delivery acknowledgement"), "{log}");
        limit(&broker, &candidates, 1_800_000).await;
        counted.go_on("connections with the usual limit").await;
        ends += 3;
    }

    broker.ctl(&["purge_queue", &seat]).await;
    counted.go_on("a queue that was purged").await;
    // After it somebody may hold a new seat, and repeat steps, until that has the value of the old one.
    let repeated = counted.repeated();
    broker.ctl(&["delete_queue", &seat]).await;
    counted.go_on("a queue that was deleted").await;
    let by_deletion = counted.repeated() - repeated;
    ends += 1;

    // Deliveries that were not settled come again.
    let before: usize = counted.seen.values().sum();
    broker.kill();
    broker.restart().await;
    counted.go_on("a broker that was killed").await;
    let seen = counted.seen.values().sum::<usize>() - before;
    let redelivered = seen.saturating_sub(usize::try_from(STEPS).expect("few"));
    ends += 1;

    let closed = held();
    candidates[closed].engine.close().await;
    while held() == closed {
        counted.go_on("a holder that was closed").await;
    }
    counted.go_on("the next holder").await;
    ends += 1;

    let missing: Vec<_> =
        (1..=counted.highest()).filter(|n| !counted.seen.contains_key(n)).collect();
    assert_eq!(missing, [0; 0]);
    // A step is repeated if its holder ends between the job and the position. A job in flight is
    // delivered again when the broker dies.
    let again = counted.repeated() - by_deletion;
    println!("{} numbers, {ends} holders: {again} came again", counted.highest());
    println!("{by_deletion} came again after the deletion, {redelivered} after the kill");
    assert!(again <= ends + redelivered, "{again} came again");
    assert!(by_deletion <= usize::try_from(STEPS).expect("few"), "{by_deletion} by the deletion");
    for candidate in &candidates {
        candidate.engine.close().await;
    }
}

/// Of two hundred candidates, ten to an engine, each of twenty seats has one as its holder, until the last
/// engine ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_twenty_seats_has_one_of_two_hundred_holders() {
    const ENGINES: usize = 20;
    const CANDIDATES: usize = 10;
    let (url, namespace) = (shared().await, namespace());
    let queues: Vec<_> = (0..20).map(|number| format!("queue-{number}")).collect();
    let (tell, mut taken) = mpsc::unbounded_channel();
    let mut engines = Vec::new();
    for index in 0..ENGINES {
        let engine = open(&url, &namespace).await.expect("opens");
        let specs: Vec<_> = queues.iter().map(QueueSpec::new).collect();
        engine.declare(&specs).await.expect("declares");
        for queue in &queues {
            for _ in 0..CANDIDATES {
                let (engine, queue, tell) = (Arc::clone(&engine), queue.clone(), tell.clone());
                tokio::spawn(async move {
                    let seats = engine.seats().expect("it has seats");
                    match seats.take(&queue).await {
                        Ok(seat) => drop(tell.send((index, queue, seat))),
                        Err(error) => assert!(error.is_closed(), "{error:?}"),
                    }
                });
            }
        }
        engines.push(engine);
    }
    let mut held = BTreeMap::new();
    let mut ended = BTreeSet::new();
    while ended.len() < ENGINES {
        let began = Instant::now();
        let free = queues.len() - held.len();
        while held.len() < queues.len() {
            let (index, queue, seat) = soon("a holder", taken.recv()).await.expect("more engines");
            assert!(!ended.contains(&index), "engine {index} has ended");
            let before = held.insert(queue, (index, seat));
            assert!(before.is_none(), "two engines hold a seat: {before:?}");
        }
        println!("{free} seats taken after {:?}", began.elapsed());
        // Only holders can write.
        for (_, seat) in held.values_mut() {
            soon("a list", seat.write_list(b"held".to_vec())).await.expect("holds");
        }
        let last = held.values().next().expect("twenty").0;
        ended.insert(last);
        engines[last].close().await;
        held.retain(|_, (index, _)| *index != last);
    }
    assert!(taken.try_recv().is_err(), "another engine holds a seat");
}

/// Late messages of a holder that was cut off count less than those of a later one, and messages of
/// strangers count nothing.
#[tokio::test]
async fn late_writes_count_less() {
    let (url, namespace) = (shared().await, namespace());
    let engine = open(&url, &namespace).await.expect("opens");
    ready(&*engine, QUEUE).await;
    let mut seat = take(&*engine).await;
    soon("a list", seat.write_list(b"new".to_vec())).await.expect("writes");
    let raw = Raw::connect(&url).await;
    let late = |kind: &str, term: Option<i64>| {
        let mut headers = FieldTable::default();
        for name in ["jobq-term", "jobq-seq"] {
            if let Some(term) = term {
                headers.insert(name.into(), AMQPValue::LongLongInt(term));
            }
        }
        BasicProperties::default().with_type(kind.into()).with_headers(headers)
    };
    let (control, key) = (format!("{namespace}.control"), format!("seat:{QUEUE}"));
    for properties in [
        late("list", Some(1)),
        late("list", None),
        late("position", Some(-1)),
        late("mark", None),
        late("seed", None),
        late("anything", Some(99)),
    ] {
        raw.publish(&control, &key, properties, b"old").await;
    }
    // The holder reads them before its own.
    soon("a list", seat.write_list(b"newer".to_vec())).await.expect("writes");
    raw.publish(&control, &key, late("list", Some(1)), b"old").await;
    // Those that arrive at the next holder together with the value.
    drop(seat);
    let mut seat = take(&*engine).await;
    assert_eq!(*seat.value(), value("newer", ""));

    // A part of a later holder, who was the holder meanwhile.
    raw.publish(&control, &key, late("list", Some(99)), b"newest").await;
    let lost = soon("an end", seat.write_list(b"out of date".to_vec())).await;
    assert!(lost.is_err_and(|error| error.is_stale()));
    drop(seat);
    let seat = take(&*engine).await;
    assert_eq!(*seat.value(), value("newest", ""));
    soon("a seat to be left", seat.leave()).await;
    engine.close().await;
}

fn value(list: &str, position: &str) -> SeatValue {
    SeatValue { list: list.into(), position: position.into() }
}

/// More changes than a quorum queue gives a consumer without a prefetch reach the next holder, in their
/// order.
#[tokio::test]
async fn thousands_of_changes_reach_the_next_holder() {
    const CHANGES: usize = 2_500;
    let (url, namespace) = (shared().await, namespace());
    let engine = open(&url, &namespace).await.expect("opens");
    ready(&*engine, QUEUE).await;
    let seat = take(&*engine).await;
    let raw = Raw::connect(&url).await;
    let (control, key) = (format!("{namespace}.control"), format!("seat:{QUEUE}"));
    for number in 0..CHANGES {
        let properties = BasicProperties::default().with_type("change".into());
        raw.publish(&control, &key, properties, number.to_string().as_bytes()).await;
    }
    soon("a seat to be left", seat.leave()).await;
    let mut seat = take(&*engine).await;
    for number in 0..CHANGES {
        let change = soon("a change", seat.next_change()).await.expect("holds");
        assert_eq!(String::from_utf8_lossy(&change), number.to_string());
    }
    soon("a list", seat.write_list(b"all".to_vec())).await.expect("writes");
    soon("a seat to be left", seat.leave()).await;
    assert_eq!(*take(&*engine).await.value(), value("all", ""));
    engine.close().await;
}

/// A change finds a seat whose queue was deleted, without a pool that declares it again.
#[tokio::test]
async fn a_change_declares_a_deleted_seat_again() {
    let Some(vhost) = Vhost::of("a_change_declares_a_deleted_seat_again").await else {
        return;
    };
    let engine = open(&vhost.url(), "jobq").await.expect("opens");
    ready(&*engine, QUEUE).await;
    let seats = engine.seats().expect("it has seats");
    soon("a change", seats.change(QUEUE, b"lost".to_vec())).await.expect("changes");
    vhost.node().ctl(&["delete_queue", "-p", vhost.name(), "jobq:mail@seat"]).await;
    soon("a change", seats.change(QUEUE, b"kept".to_vec())).await.expect("changes");
    let mut seat = take(&*engine).await;
    assert_eq!(soon("a change", seat.next_change()).await.expect("holds"), b"kept");
    engine.close().await;
}
