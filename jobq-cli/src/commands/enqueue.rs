use std::io::Read as _;
use std::time::{Duration, SystemTime};

use clap::Args;
use jobq::admin::{Queues, State};
use jobq::{Client, EnqueueNamed, JobId};
use serde_json::json;
use serde_json::value::RawValue;

use crate::end::{End, Ended, Problem};
use crate::options::{Options, period, with};
use crate::output::Output;

/// Enqueue a job
///
/// Declares the queue if it does not exist. Prints the id of the job, and a note if no pool works
/// on the queue.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the job
    name: String,
    /// Name of the queue. Defaults to the name of the job
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    message: Message,
}

/// The options of a job or an event.
#[derive(Debug, Args)]
pub(super) struct Message {
    /// Payload as JSON; `-` reads it from standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) payload: String,
    /// Delay before the first attempt
    #[arg(long, value_name = "DURATION", value_parser = period, conflicts_with = "at")]
    pub(super) delay: Option<Duration>,
    /// Due time of the first attempt, such as 2030-01-01T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339_weak)]
    pub(super) at: Option<SystemTime>,
    /// Maximum time from the due time to the start of an attempt
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub(super) expires_in: Option<Duration>,
    /// Header. Can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    /// Id. Defaults to a new one
    #[arg(long)]
    pub(super) id: Option<JobId>,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let Arguments { name, queue, message } = arguments;
    let payload = payload(&message.payload)?;
    let queue = queue.unwrap_or_else(|| name.clone());
    let client = options.enqueuing_client().await?;
    let mut job = client.enqueue_named(&name, &queue, &payload);
    job = with(job, message.delay, EnqueueNamed::delay);
    job = with(job, message.at, EnqueueNamed::at);
    job = with(job, message.expires_in, EnqueueNamed::expires_in);
    job = with(job, message.id, EnqueueNamed::id);
    for (name, value) in message.headers {
        job = job.header(&name, value);
    }
    let id = job.await?;
    output.answer(json!({"id": id, "job": name, "queue": queue}), || id.to_string())?;
    if is_unattended(&client, &queue).await {
        output.note(&format!(
            "no pool works on queue `{queue}`: the job waits there until one starts; `jobq queues` \
             lists the known queues"
        ));
    }
    Ok(End::Done)
}

/// Whether certainly no pool works on a queue. A user who may only enqueue may not ask.
async fn is_unattended(client: &Client, queue: &str) -> bool {
    let overview = client.admin().overview(Queues::one(queue)).await;
    overview.is_ok_and(|overview| overview.queues.iter().any(|it| it.state == State::Unattended))
}

/// The payload of an argument, with its numbers as they were written.
pub(super) fn payload(argument: &str) -> Result<Box<RawValue>, Problem> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).map_err(|error| {
            Problem::Usage(format!("cannot read the payload from standard input: {error}"))
        })?;
    }
    serde_json::from_str(&text).map_err(|error| {
        Problem::Usage(format!(
            "the payload is not valid JSON: {error}; write, for example, --payload '{{\"user_id\": \
             7}}'"
        ))
    })
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_keeps_its_numbers() {
        let text = r#"{"n": 12345678901234567890123, "x": 1.10}"#;
        assert_eq!(payload(text).unwrap().get(), text);
        assert!(payload("{").unwrap_err().to_string().starts_with("the payload is not valid JSON"));
    }

    #[test]
    fn a_header_has_a_name_and_a_value() {
        assert_eq!(header("tenant=a=b").unwrap(), ("tenant".into(), "a=b".into()));
        assert!(header("tenant").is_err());
    }
}
