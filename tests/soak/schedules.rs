//! Ten jobs are due each second, and the process that enqueues them is killed or stopped.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobq::{JobId, Missed};
use jobq_tests::both_engines;
use jobq_tests::files::Directory;
use jobq_tests::jobs::tick::Tick;
use jobq_tests::test_store::{Store, until};

use super::{PATIENCE, place, rounds};

both_engines!(
    no_time_is_missed_when_holders_die,
    no_time_is_missed_when_holders_are_stopped_and_go_on,
);

pub(super) const SCHEDULES: usize = 10;
const PROCESSES: usize = 3;
/// How far from a disturbance a job may come twice: the time until another process holds the schedules, or runs what the
/// dead one ran.
const AROUND: u64 = 40;

/// Nobody, where numbers of processes stand.
const NOBODY: usize = usize::MAX;

struct Worker {
    child: Child,
    number: usize,
}

impl Worker {
    fn start(store: &Store, file: &Path, number: usize, holder: &Arc<AtomicUsize>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["ticks", &store.url, &store.namespace])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, holder) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(holder));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if line.contains("schedules of the queue held") {
                    holder.store(number, Ordering::SeqCst);
                }
            }
        });
        Self { child, number }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The jobs that ran: those of each schedule and second, and by how much each was late.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) jobs: BTreeMap<(String, u64), Vec<JobId>>,
    /// By the second in which they were due, in milliseconds.
    pub(super) late: Vec<(u64, u64)>,
    pub(super) missed: u64,
}

impl Ran {
    pub(super) fn read(file: &Path) -> Self {
        let mut ran = Self::default();
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            let [schedule, due, id, late, missed] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let due = due.parse().unwrap();
            ran.jobs.entry((schedule.to_owned(), due)).or_default().push(id.parse().unwrap());
            ran.late.push((due, late.parse().unwrap()));
            ran.missed += missed.parse::<u64>().unwrap();
        }
        ran
    }

    /// Reads the file once each second of this range has a job of each schedule.
    pub(super) async fn complete(
        file: &Path,
        (from, to): (u64, u64),
        patience: Duration,
        what: &str,
    ) -> Self {
        let began = Instant::now();
        loop {
            let ran = Self::read(file);
            let lacking = ran.lacking(from, to);
            let Some(first) = lacking.first() else { return ran };
            let count = lacking.len();
            assert!(began.elapsed() < patience, "{what}: {count} times have no job: {first:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The milliseconds by which this share of the jobs was late at most.
    fn late(&self, hundredths: usize) -> u64 {
        let mut late: Vec<_> = self.late.iter().map(|(_, late)| *late).collect();
        late.sort_unstable();
        late[(late.len() - 1) * hundredths / 100]
    }

    /// The times that came more than once, each of which must have one id.
    pub(super) fn twice(&self) -> usize {
        for (time, ids) in &self.jobs {
            assert!(ids.iter().all(|id| *id == ids[0]), "{time:?}: {ids:?}");
        }
        self.jobs.values().filter(|ids| ids.len() > 1).count()
    }

    /// The seconds of this range for which a schedule has no job.
    fn lacking(&self, from: u64, to: u64) -> Vec<(String, u64)> {
        let keys =
            (0..SCHEDULES).flat_map(|number| (from..=to).map(move |due| (name(number), due)));
        keys.filter(|key| !self.jobs.contains_key(key)).collect()
    }
}

pub(super) fn name(number: usize) -> String {
    format!("tick-{number}")
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Processes that run and enqueue the jobs of ten schedules.
struct Processes {
    store: Store,
    _folder: Directory,
    file: PathBuf,
    /// The number of the process that enqueues.
    holder: Arc<AtomicUsize>,
    all: Vec<Worker>,
    from: u64,
    /// When processes were killed, stopped or continued.
    disturbed: Vec<u64>,
}

impl Processes {
    async fn start(store: Store) -> Self {
        let (folder, client) = (Directory::new(), store.client().await);
        let (file, holder) = (folder.file("ticks"), Arc::new(AtomicUsize::new(NOBODY)));
        for number in 0..SCHEDULES {
            let schedule = client.schedule(name(number), Tick {}).every("1s").missed(Missed::All);
            schedule.await.unwrap();
        }
        let from = now() + 1;
        let start = |number| Worker::start(&store, &file, number, &holder);
        let all = (0..PROCESSES).map(start).collect();
        Self { store, _folder: folder, file, holder, all, from, disturbed: Vec::new() }
    }

    /// The place of the process that enqueues, once it is not this one.
    async fn holder_beside(&self, other: usize) -> usize {
        until("a process that holds the schedules", async || {
            let holder = self.holder.load(Ordering::SeqCst);
            let place = self.all.iter().position(|worker| worker.number == holder);
            place.filter(|place| *place != other)
        })
        .await
    }

    /// Notes that something happens to a process now.
    fn disturb(&mut self) {
        self.disturbed.push(now());
    }

    /// Waits until each time up to now has its job, and checks that none was missed, and that what came
    /// twice has one id and came near a disturbance.
    async fn end(self, what: &str) {
        let ran = Ran::complete(&self.file, (self.from, now()), PATIENCE, what).await;
        println!(
            "{what}, {}: {} disturbances, {} times of schedules, {} twice; late by {} ms (median), {} ms (p99), \
             {} ms (max)",
            place(&self.store),
            self.disturbed.len(),
            ran.jobs.len(),
            ran.twice(),
            ran.late(50),
            ran.late(99),
            ran.late(100)
        );
        assert_eq!(ran.missed, 0);
        for ((schedule, due), ids) in &ran.jobs {
            let is_near = self.disturbed.iter().any(|at| at.abs_diff(*due) < AROUND);
            assert!(ids.len() == 1 || is_near, "{schedule} at {due} came {} times", ids.len());
        }
    }
}

async fn no_time_is_missed_when_holders_die(store: Store) {
    let mut processes = Processes::start(store).await;
    for number in PROCESSES..PROCESSES + rounds(12, 600) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let place = processes.holder_beside(NOBODY).await;
        processes.disturb();
        let next = Worker::start(&processes.store, &processes.file, number, &processes.holder);
        processes.all[place] = next;
    }
    processes.end("holders of schedules die").await;
}

async fn no_time_is_missed_when_holders_are_stopped_and_go_on(store: Store) {
    let mut processes = Processes::start(store).await;
    for _ in 0..rounds(1, 5) {
        let stopped = processes.holder_beside(NOBODY).await;
        processes.disturb();
        processes.all[stopped].signal("STOP");
        let next = processes.holder_beside(stopped).await;
        processes.disturb();
        processes.all[stopped].signal("CONT");
        // It enqueues nothing meanwhile that the other does.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(
            processes.holder_beside(NOBODY).await,
            next,
            "the one that went on is no holder"
        );
    }
    processes.end("holders of schedules are stopped and go on").await;
}
