use clap::Args;
use jobq::JobId;
use serde::Serialize;

use super::enqueue::{Message, payload};
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;

/// Publish an event to the jobs subscribed to its topic
///
/// Prints the id of the jobs made from the event.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Topic, such as user.created
    topic: String,
    /// Fail if no job subscribes to the topic
    #[arg(long, conflicts_with_all = ["delay", "at"])]
    mandatory: bool,
    #[command(flatten)]
    message: Message,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    #[derive(Serialize)]
    struct Published<'a> {
        id: JobId,
        topic: &'a str,
    }

    let Arguments { topic, mandatory, message } = arguments;
    let payload = payload(&message.payload)?;
    let client = options.enqueuing_client().await?;
    let mut event = client.publish(&topic, &payload);
    if let Some(delay) = message.delay {
        event = event.delay(delay);
    }
    if let Some(time) = message.at {
        event = event.at(time);
    }
    if let Some(limit) = message.expires_in {
        event = event.expires_in(limit);
    }
    if let Some(id) = message.id {
        event = event.id(id);
    }
    if mandatory {
        event = event.mandatory();
    }
    for (name, value) in message.headers {
        event = event.header(&name, value);
    }
    let id = event.await?;
    if output.is_json() {
        output.document(Published { id, topic: &topic })?;
    } else {
        output.line(&id.to_string())?;
    }
    Ok(End::Done)
}
