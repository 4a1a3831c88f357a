use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jobq::admin::Admin;
use jobq::rabbitmq::{Difference, Pruned, Topology, TopologyDiff};

use crate::end::{End, Ended, Problem, checked};
use crate::options::Options;
use crate::output::Output;
use crate::output::confirm::confirm;
use crate::output::table::visible;

/// Compare RabbitMQ with the declarations of programs, and apply them
///
/// A program writes its declarations into a file as JSON: `serde_json::to_writer(file,
/// &pool.topology()?)`. Pass the files of all programs of the namespace.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print what would be declared, without connecting to a broker
    Plan(Files),
    /// Compare the broker with the files; exit with 1 if something differs or is unknown
    ///
    /// Bindings are unknown without `--management`.
    Diff(Files),
    /// Declare everything in the files
    Apply(Files),
    /// Delete queues of the namespace that are in none of the files, if empty and unused
    ///
    /// Requires `--management`.
    Prune {
        #[command(flatten)]
        files: Files,
        /// Only show which queues would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

/// The files with the declarations of programs.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// JSON files with declarations
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) async fn run(command: Command, options: &Options, output: Output) -> Ended {
    match command {
        Command::Plan(files) => plan(&files.read()?, output),
        Command::Diff(files) => diff(&files.read()?, options, output).await,
        Command::Apply(files) => apply(&files.read()?, options, output).await,
        Command::Prune { files, dry_run } => prune(&files.read()?, dry_run, options, output).await,
    }
}

impl Files {
    /// All their declarations together.
    fn read(&self) -> Result<Topology, Problem> {
        let mut all = Topology::default();
        for path in &self.files {
            all.add(read(path)?);
        }
        Ok(all)
    }
}

/// The declarations in a file.
pub(super) fn read(path: &Path) -> Result<Topology, Problem> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::Usage(format!("cannot read the file {file}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Problem::Usage(format!(
            "the file {file} does not contain declarations: {error}; a program writes them with \
             `serde_json::to_writer(file, &pool.topology()?)`"
        ))
    })
}

fn plan(topology: &Topology, output: Output) -> Ended {
    output.answer(topology, || topology.to_string())?;
    Ok(End::Done)
}

async fn diff(topology: &Topology, options: &Options, output: Output) -> Ended {
    let admin = admin(options).await?;
    let diff = admin.topology(topology).await?;
    let end = if diff.is_same() { End::Done } else { End::No };
    checked(end, output.answer(&diff, || report(&diff)))
}

/// The differences, one a line.
fn report(diff: &TopologyDiff) -> String {
    let line = |what: &str, difference: &Difference| {
        let Difference { about, why, .. } = difference;
        format!("{what}: {}: {}\n", visible(about), visible(why))
    };
    let missing = diff.missing.iter().map(|about| format!("missing: {}\n", visible(about)));
    let different = diff.different.iter().map(|found| line("different", found));
    let unknown = diff.unknown.iter().map(|found| line("unknown", found));
    let text: String = missing.chain(different).chain(unknown).collect();
    if text.is_empty() { "all is as declared\n".to_owned() } else { text }
}

async fn apply(topology: &Topology, options: &Options, output: Output) -> Ended {
    let admin = admin(options).await?;
    let applied = admin.apply_topology(topology).await?;
    let text = if applied.created { "declared what was missing" } else { "all was there" };
    output.answer(&applied, || text.to_owned())?;
    Ok(End::Done)
}

async fn prune(topology: &Topology, dry_run: bool, options: &Options, output: Output) -> Ended {
    let admin = admin(options).await?;
    if !dry_run && !options.yes {
        let planned = admin.prune_topology(topology, true).await?;
        let names = planned.deleted.join(", ");
        if planned.deleted.is_empty() {
            return told(&planned, dry_run, output);
        }
        if !confirm(options.yes, &format!("delete the queues {names}"))? {
            output.note("nothing was deleted");
            return Ok(End::Partly);
        }
    }
    told(&admin.prune_topology(topology, dry_run).await?, dry_run, output)
}

fn told(pruned: &Pruned, dry_run: bool, output: Output) -> Ended {
    let end = match (pruned.failed.is_empty(), pruned.deleted.is_empty()) {
        (true, _) => End::Done,
        (false, true) => End::Refused,
        (false, false) => End::Partly,
    };
    if output.is_json() {
        output.document(pruned)?;
        return Ok(end);
    }
    let verb = if dry_run { "would delete" } else { "deleted" };
    for queue in &pruned.deleted {
        output.line(&format!("{verb} queue {}", visible(queue)))?;
    }
    for Difference { about, why, .. } in &pruned.kept {
        output.line(&format!("kept {}: {}", visible(about), visible(why)))?;
    }
    for Difference { about, why, .. } in &pruned.failed {
        output.error(&format!("could not delete {}: {}", visible(about), visible(why)));
    }
    if pruned.deleted.is_empty() && pruned.kept.is_empty() && pruned.failed.is_empty() {
        output.line("no queue is left over")?;
    }
    Ok(end)
}

async fn admin(options: &Options) -> Result<Admin, Problem> {
    let client = options.client().await?;
    Ok(options.admin(&client))
}
