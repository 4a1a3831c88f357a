mod troubles;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::Args;
use jobq::Client;
use jobq::admin::{Figure, Overview, Passage, QueueOverview, Queues};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::sleep;

use self::troubles::{Change, Troubles, signs};
use super::LEVELS;
use super::queues::selection;
use crate::end::{End, Ended, Problem};
use crate::options::Options;
use crate::output::Output;
use crate::signals;

/// The age up to which a sample is shared: many scrapers cost the broker no more than one.
const FRESH: Duration = Duration::from_secs(1);

/// The pause between two looks while nobody scrapes, for the log.
const UNWATCHED: Duration = Duration::from_secs(10);

/// The head of the metric that says whether the broker or the file answered.
const UP: &str = "# HELP jobq_up Whether the broker or the file answered.\n# TYPE jobq_up gauge\n";

/// The metrics of jobs that wait in the broker, as the programs have them: 1 from this trouble on.
const WAITS: [(&str, Passage, &str); 2] = [
    ("jobq_waits_late", Passage::Late, "1 while probes of jobs that wait in the broker are late."),
    (
        "jobq_waits_stuck",
        Passage::Stuck,
        "1 while jobs that wait in the broker do not come through.",
    ),
];

/// Serve queue metrics to Prometheus, at /metrics
///
/// Unknown figures are left out. `jobq_up` is 1, and `jobq_overview_complete` is 0 if there may be
/// other, unlisted queues. While no figure is known, such as without a broker, the response has
/// status 503, and `jobq_up` is 0.
///
/// The log on standard error says when a queue gets into trouble: its jobs wait and none can start,
/// or jobs waiting in RabbitMQ do not come through. It does so even while nobody scrapes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to report; all known queues by default
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Address and port to listen on. Anyone with access to it can see the figures
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9187")]
    listen: SocketAddr,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let address = arguments.listen;
    let unusable = |error| {
        Problem::Refused(format!(
            "cannot listen on {address}: {error}; choose another port with `--listen`"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let queues = selection(arguments.queues);
    let sampler = Arc::new(Sampler { client, queues, seen: Mutex::default() });
    tokio::spawn(look(Arc::clone(&sampler)));
    let router = Router::new().route("/metrics", get(metrics)).with_state(sampler);
    output.note(&format!("listening on http://{address}/metrics"));
    jobq_dashboard::serve(listener, router, signals::stop()).await.map_err(unusable)?;
    Ok(End::Done)
}

/// Looks again and again, for the log.
async fn look(sampler: Arc<Sampler>) {
    loop {
        let _ = sampler.text().await;
        sleep(UNWATCHED).await;
    }
}

/// Takes one sample at a time, which all that ask meanwhile share.
struct Sampler {
    client: Client,
    queues: Queues,
    seen: Mutex<Seen>,
}

/// The figures of the last look, and the troubles that were logged.
#[derive(Default)]
struct Seen {
    /// The last sample, or why there is none.
    sample: Option<(Instant, Result<String, String>)>,
    troubles: Troubles,
}

impl Sampler {
    async fn text(&self) -> Result<String, String> {
        let mut seen = self.seen.lock().await;
        if let Some((_, read)) = seen.sample.as_ref().filter(|(taken, _)| taken.elapsed() < FRESH) {
            return read.clone();
        }
        let read = self.client.admin().overview(self.queues.clone()).await;
        let read = read.map_err(|error| error.to_string());
        let read = read.and_then(|overview| match nothing_known(&overview) {
            Some(why) => Err(why),
            None => Ok(overview),
        });
        seen.tell(&read);
        let read = read.map(|overview| text(&overview));
        seen.sample = Some((Instant::now(), read.clone()));
        read
    }
}

impl Seen {
    /// Logs what has changed since the last look.
    fn tell(&mut self, read: &Result<Overview, String>) {
        let was_down = matches!(self.sample, Some((_, Err(_))));
        match read {
            Err(error) if !was_down => tracing::error!(error, "metrics unavailable"),
            Ok(_) if was_down => tracing::info!("metrics available again"),
            _ => {}
        }
        let changes = read.iter().flat_map(|overview| self.troubles.look(signs(overview)));
        for Change { queue, trouble, is_over } in changes {
            if is_over {
                tracing::info!(queue, trouble, "queue trouble resolved");
            } else {
                tracing::warn!(queue, trouble, "queue in trouble");
            }
        }
    }
}

async fn metrics(State(sampler): State<Arc<Sampler>>) -> Response {
    let (status, text) = match sampler.text().await {
        Ok(text) => (StatusCode::OK, text),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, down(&why)),
    };
    (status, [(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The answer while nothing is known.
fn down(why: &str) -> String {
    format!("# {}\n{UP}jobq_up 0\n", why.replace('\n', " "))
}

/// The reason for which no figure of any queue is known, if that is so.
fn nothing_known(overview: &Overview) -> Option<String> {
    let known = |queue: &QueueOverview| {
        let jobs = [&queue.ready, &queue.waiting, &queue.failed, &queue.in_flight];
        queue.pools.known().is_some() || jobs.iter().any(|jobs| jobs.known().is_some())
    };
    let first = overview.queues.first()?;
    if overview.queues.iter().any(known) { None } else { first.ready.why().map(str::to_owned) }
}

/// The figures in the text format of Prometheus. Names of queues need no escapes.
fn text(overview: &Overview) -> String {
    let mut text = format!("{UP}jobq_up 1\n");
    text += "# HELP jobq_overview_complete Whether there are certainly no queues beside these.\n\
             # TYPE jobq_overview_complete gauge\n";
    add(&mut text, "jobq_overview_complete", &Figure::Known(u8::from(overview.complete)));
    text += "# HELP jobq_queue_jobs Jobs of a queue by state.\n# TYPE jobq_queue_jobs gauge\n";
    for queue in &overview.queues {
        let states = [
            ("ready", &queue.ready),
            ("waiting", &queue.waiting),
            ("in_flight", &queue.in_flight),
            ("failed", &queue.failed),
        ];
        for (state, figure) in states {
            let name = format!("jobq_queue_jobs{{queue=\"{}\",state=\"{state}\"}}", queue.queue);
            add(&mut text, &name, figure);
        }
    }
    text += "# HELP jobq_queue_ahead Jobs in flight that wait for a slot of their pool.\n\
             # TYPE jobq_queue_ahead gauge\n";
    for queue in &overview.queues {
        add(&mut text, &format!("jobq_queue_ahead{{queue=\"{}\"}}", queue.queue), &queue.ahead);
    }
    text += "# HELP jobq_queue_state The state of a queue: 1 for the one it is in.\n\
             # TYPE jobq_queue_state gauge\n";
    for QueueOverview { queue, state, .. } in &overview.queues {
        let name = format!("jobq_queue_state{{queue=\"{queue}\",state=\"{}\"}}", state.as_str());
        add(&mut text, &name, &Figure::Known(1));
    }
    let waits = overview.queues.iter().map(|queue| (&*queue.queue, &queue.waits));
    let waits: Vec<_> = waits.chain([(LEVELS, &overview.levels)]).collect();
    for (metric, least, help) in WAITS {
        // As below.
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge");
        for (queue, waits) in &waits {
            if let Figure::Known(Some(waits)) = waits {
                let figure = Figure::Known(u8::from(*waits >= least));
                add(&mut text, &format!("{metric}{{queue=\"{queue}\"}}"), &figure);
            }
        }
    }
    text += "# HELP jobq_level_jobs Jobs in the delay levels, of all queues.\n\
             # TYPE jobq_level_jobs gauge\n";
    add(&mut text, "jobq_level_jobs", &overview.in_levels);
    text += "# HELP jobq_pools Worker pools of a queue.\n# TYPE jobq_pools gauge\n";
    for queue in &overview.queues {
        add(&mut text, &format!("jobq_pools{{queue=\"{}\"}}", queue.queue), &queue.pools);
    }
    text
}

/// Adds a line, unless the figure is unknown.
fn add<T: ToString>(text: &mut String, name: &str, figure: &Figure<T>) {
    if let Some(figure) = figure.known() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} {}", figure.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_figure_is_left_out() {
        let mut text = String::new();
        add(&mut text, "a{queue=\"mail\"}", &Figure::Known(3_u64));
        add(&mut text, "b", &Figure::<u64>::unknown("no leader"));
        assert_eq!(text, "a{queue=\"mail\"} 3\n");
    }
}
