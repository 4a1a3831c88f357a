use clap::Args;
use jobq::{Doctor, Report};

use crate::end::{End, Ended, checked};
use crate::options::Options;
use crate::output::Output;

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
    let report = arguments.queues.into_iter().fold(client.doctor(), Doctor::queue).await?;
    checked(end(&report), output.answer(&report, || report.to_string()))
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
