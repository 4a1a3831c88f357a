use clap::Args;
use jobq::Publish;
use serde_json::json;

use super::enqueue::{Message, payload};
use crate::end::{End, Ended};
use crate::options::{Options, with};
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
    let Arguments { topic, mandatory, message } = arguments;
    let payload = payload(&message.payload)?;
    let client = options.enqueuing_client().await?;
    let mut event = client.publish(&topic, &payload);
    event = with(event, message.delay, Publish::delay);
    event = with(event, message.at, Publish::at);
    event = with(event, message.expires_in, Publish::expires_in);
    event = with(event, message.id, Publish::id);
    if mandatory {
        event = event.mandatory();
    }
    for (name, value) in message.headers {
        event = event.header(&name, value);
    }
    let id = event.await?;
    output.answer(json!({"id": id, "topic": topic}), || id.to_string())?;
    Ok(End::Done)
}
