use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::EngineExt as _;
use super::bench::{Bench, DEADLINE, eventually, soon};
use crate::engine::{
    Answers, Ask, Consume, Consumer, Controlled, Engine, Figure, Membership, PoolId, PoolQueue,
    PoolReport, Question, QueueName, Reply, WatchedOutcome,
};
use crate::guard::lock;
use crate::job::{FailedReason, from_millis};

/// A pool without a worker, which keeps what it is asked.
#[derive(Debug)]
pub(super) struct Member {
    id: PoolId,
    state: Mutex<State>,
    /// What an answer waits for, if it does.
    gate: Option<Mutex<Receiver<()>>>,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<PoolQueue>,
    heard: Vec<Question>,
    panics: bool,
}

impl Member {
    /// A pool that works on these queues.
    pub(super) fn new(queues: &[&str]) -> Arc<Self> {
        Arc::new(Self::of(queues, None))
    }

    /// A pool that works on these queues of the first engine, which it has joined.
    pub(super) async fn joined(bench: &Bench, queues: &[&str]) -> (Arc<Self>, Membership) {
        for queue in queues {
            bench.declare(queue, &[]).await;
        }
        let pool = Self::new(queues);
        let member = pool.join(bench.engine()).await;
        (pool, member)
    }

    /// A pool that answers when the sender is dropped.
    pub(super) fn slow(queues: &[&str]) -> (Arc<Self>, Sender<()>) {
        let (sender, receiver) = channel();
        (Arc::new(Self::of(queues, Some(Mutex::new(receiver)))), sender)
    }

    /// A pool that panics at each question.
    pub(super) fn panicking(queues: &[&str]) -> Arc<Self> {
        let pool = Self::of(queues, None);
        lock(&pool.state).panics = true;
        Arc::new(pool)
    }

    fn of(queues: &[&str], gate: Option<Mutex<Receiver<()>>>) -> Self {
        let queues = queues.iter().map(|queue| PoolQueue::new(*queue, 1)).collect();
        let state = State { queues, ..State::default() };
        Self { id: PoolId::new(), state: Mutex::new(state), gate }
    }

    pub(super) fn id(&self) -> PoolId {
        self.id
    }

    pub(super) async fn join(self: &Arc<Self>, engine: &dyn Engine) -> Membership {
        let joining = engine.admin().join(Arc::clone(self) as Arc<dyn Controlled>);
        soon("a pool to join", joining).await.expect("joins")
    }

    /// Consumes a queue, and reports the names of the consumer.
    pub(super) async fn consume(&self, engine: &dyn Engine, queue: &str, most: u16) -> Consumer {
        self.start(engine, Consume::new(name(queue), most)).await
    }

    /// [`consume`](Self::consume) for the solo jobs.
    pub(super) async fn consume_solo(&self, engine: &dyn Engine, queue: &str) -> Consumer {
        self.start(engine, Consume::solo(name(queue))).await
    }

    async fn start(&self, engine: &dyn Engine, what: Consume) -> Consumer {
        let queue = what.queue;
        let consuming = engine.consume(what.pool(Some(self.id)));
        let consumer = soon("a consumer", consuming).await.expect("consumes");
        let mut state = lock(&self.state);
        let report = state.queues.iter_mut().find(|report| report.queue == queue.as_str());
        report.expect("a queue of the pool").consumers.extend(consumer.names());
        drop(state);
        consumer
    }

    /// Changes the report of all queues.
    pub(super) fn report_all(&self, change: impl FnMut(&mut PoolQueue)) {
        lock(&self.state).queues.iter_mut().for_each(change);
    }

    pub(super) fn report(&self) -> PoolReport {
        let queues = lock(&self.state).queues.clone();
        PoolReport::new(self.id, "here".into(), from_millis(1_700_000_000_123), queues)
    }

    /// What it was asked since the last call.
    pub(super) fn heard(&self) -> Vec<Question> {
        std::mem::take(&mut lock(&self.state).heard)
    }

    /// Its answer to a question.
    pub(super) fn reply(&self, question: &Question) -> Reply {
        match question {
            Question::Report => Reply::Report(self.report()),
            Question::Watch { jobs } => {
                let outcome = |failed| {
                    move |job: &crate::engine::Watched| WatchedOutcome::new(job.clone(), failed)
                };
                let failed = jobs.iter().map(outcome(Some(FailedReason::Exhausted)));
                Reply::Outcomes { jobs: failed.chain(jobs.iter().map(outcome(None))).collect() }
            }
            Question::Quiet | Question::Clock { .. } | Question::Slots { .. } => Reply::Accepted,
            Question::Stop => Reply::Refused { why: "it is \"busy\"".into() },
            Question::Cancel { .. } => Reply::Cancelled(crate::engine::Cancel::AskedBlocking),
            Question::Schedules { .. } => {
                let queues = [("mail".to_owned(), serde_json::json!({"schedules": []}))];
                Reply::Schedules { queues: queues.into() }
            }
        }
    }
}

impl Controlled for Member {
    fn id(&self) -> PoolId {
        self.id
    }

    fn queues(&self) -> Vec<String> {
        lock(&self.state).queues.iter().map(|queue| queue.queue.clone()).collect()
    }

    fn answer(&self, question: &Question) -> Reply {
        let mut state = lock(&self.state);
        state.heard.push(question.clone());
        let panics = state.panics;
        drop(state);
        assert!(!panics, "a pool that panics at each question");
        if let Some(gate) = &self.gate {
            let gate = lock(gate);
            let _ = gate.recv_timeout(DEADLINE);
        }
        self.reply(question)
    }
}

fn name(queue: &str) -> QueueName {
    QueueName::new(queue).expect("a name")
}

/// Asks pools.
pub(super) async fn ask(engine: &dyn Engine, ask: Ask) -> Answers {
    soon("answers", engine.admin().ask(ask)).await.expect("asks")
}

/// Asks all pools for their reports.
pub(super) async fn ask_all(engine: &dyn Engine, queues: &[&str], patience: Duration) -> Answers {
    let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
    ask(engine, Ask::all(Question::Report, queues, patience)).await
}

/// How many consumers of a queue are unaccounted for.
pub(super) fn unaccounted(answers: &Answers, queue: &str) -> Figure<u32> {
    answers.unaccounted.get(queue).expect("the queue was asked about").clone()
}

/// The patience with pools that do not answer.
pub(super) const SHORT: Duration = Duration::from_millis(500);

/// Waits until so many consumers of the queue `mail` belong to no pool that answers.
pub(super) async fn strange_consumers(engine: &dyn Engine, expected: u32) {
    eventually("consumers of no pool", Some(expected), || async {
        let answers = ask_all(engine, &["mail"], SHORT).await;
        unaccounted(&answers, "mail").known().copied()
    })
    .await;
}
