use std::time::SystemTime;

use clap::Args;
use jobq::admin::text;
use jobq::{FailedJob, JobId};

use super::job;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::Output;
use crate::output::table::visible;
use crate::output::time::since;

/// Show a failed job with its headers, payload and error
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the queue
    queue: String,
    /// Id of the job
    id: JobId,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let job = client.failed(&arguments.queue).show(arguments.id).await?;
    output.answer(job::Document::from(&job), || text(&job, SystemTime::now()))?;
    Ok(End::Done)
}

/// The job for people: a line for each short field, then its headers, payload, error and backtrace.
fn text(job: &FailedJob, now: SystemTime) -> String {
    let time = |time| format!("{}, {} ago", text::time(time), since(time, now));
    let mut fields = vec![
        ("id", job.id().to_string()),
        ("job", job.name().to_owned()),
        ("queue", job.queue().to_owned()),
        ("reason", job.reason().to_string()),
        ("attempts", job.attempts().to_string()),
        ("failed", time(job.failed_at())),
        ("enqueued", time(job.enqueued_at())),
    ];
    fields.extend(job.topic().map(|topic| ("topic", topic.to_owned())));
    fields.extend(job.enqueued_by().map(|program| ("by", program.to_owned())));
    let line = |(name, value): &(&str, String)| format!("{name:<9} {}\n", visible(value));
    let mut text: String = fields.iter().map(line).collect();
    if !job.headers().is_empty() {
        text += "headers\n";
        for (name, value) in job.headers().iter() {
            text += &indented(&format!("{name}: {value}"));
        }
    }
    text += "payload\n";
    text += &indented(&match job.payload_text() {
        Some(payload) => payload.to_owned(),
        None => bytes(job),
    });
    text += "error\n";
    text += &indented(job.error());
    if let Some(backtrace) = job.backtrace() {
        text += "backtrace\n";
        text += &indented(backtrace);
    }
    text
}

/// What is said of a payload that is no text.
fn bytes(job: &FailedJob) -> String {
    let (size, kind) = (
        job.payload_bytes().len(),
        match job.content_encoding() {
            Some(encoding) => format!("with the content encoding `{encoding}`"),
            None => "that are no UTF-8".to_owned(),
        },
    );
    format!("({size} bytes {kind}; --json has them in base64)")
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["  ".to_owned(), visible(line), "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jobq::FailedReason;
    use jobq::engine::Envelope;

    use super::*;

    #[test]
    fn a_job_is_a_page_that_no_terminal_obeys() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        let mut envelope = Envelope::new("mail", b"{\"n\": 1.10}".to_vec());
        envelope.name = Some("greet".into());
        envelope.enqueued_at = SystemTime::UNIX_EPOCH;
        envelope.headers.set("tenant", "7").unwrap();
        let error = "no\x1b[2J\nbecause\n\nStack backtrace:\n0: main".to_owned();
        let job = FailedJob::new(envelope, 4, FailedReason::Exhausted, error, now);
        let expected = format!(
            "id        {}\njob       greet\nqueue     mail\nreason    exhausted\nattempts  4\n\
             failed    1970-01-01T00:01:00Z, 0s ago\nenqueued  1970-01-01T00:00:00Z, 1m ago\n\
             headers\n  tenant: 7\npayload\n  {{\"n\": 1.10}}\nerror\n  no\\u{{1b}}[2J\n  because\nbacktrace\n  0: main\n",
            job.id()
        );
        assert_eq!(text(&job, now), expected);
    }

    #[test]
    fn bytes_are_not_shown_as_text() {
        for (payload, encoding, said) in [
            (&b"\xffno"[..], None, "payload\n  (3 bytes that are no UTF-8; --json "),
            (b"{}", Some("gzip"), "payload\n  (2 bytes with the content encoding `gzip`; --json "),
        ] {
            let mut envelope = Envelope::new("mail", payload.to_vec());
            envelope.content_encoding = encoding.map(Into::into);
            let (reason, now) = (FailedReason::UnreadablePayload, SystemTime::UNIX_EPOCH);
            let shown = text(&FailedJob::new(envelope, 1, reason, String::new(), now), now);
            assert!(shown.contains(said) && !shown.contains('\u{fffd}'), "{shown}");
        }
    }
}
