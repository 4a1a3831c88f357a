use clap::Args;
use jobq::Report;

use crate::end::{End, Ended, checked};
use crate::options::Options;
use crate::output::Output;
use crate::output::table::visible_lines;

/// Find settings of the broker or the file that lose or stall jobs
///
/// Exits with 1 if a finding is an error.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to examine. With `--management`, all queues of the namespace are examined
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let mut doctor = client.doctor();
    for queue in arguments.queues {
        doctor = doctor.queue(queue);
    }
    let report = doctor.await?;
    let printed = if output.is_json() {
        output.document(&report)
    } else {
        output.print(&visible_lines(&report.to_string()))
    };
    checked(end(&report), printed)
}

fn end(report: &Report) -> End {
    if report.is_sound() { End::Done } else { End::No }
}

#[cfg(test)]
mod tests {
    use jobq::{Finding, FindingKind, Severity};

    use super::*;

    #[test]
    fn an_error_is_a_no() {
        let report = |severity| {
            let finding = Finding::new(FindingKind::Queue, severity, "queue");
            Report::new("RabbitMQ", None, vec![finding])
        };
        assert_eq!(end(&report(Severity::Warning)), End::Done);
        assert_eq!(end(&report(Severity::Error)), End::No);
    }
}
