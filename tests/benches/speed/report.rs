//! The page on performance: everything is measured, and nothing in it written by hand but the
//! explanations.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::options::Options;
use crate::process::Store;
use crate::scenario::Engine;
use crate::{goal, growth, instructions, pairs};

/// What stays; `{{word}}` stands for what is measured.
const TEMPLATE: &str = include_str!("report.md");

pub(crate) async fn run(mut options: Options) -> anyhow::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = repository.join("docs").display().to_string();
    let to = options.take("--to", &docs, str::parse::<PathBuf>)?;
    let newer = options.take("--newer", "", pairs::root)?;
    let (pairs, growth) = (pairs::Plan::take(&mut options)?, growth::Plan::take(&mut options)?);
    options.finish()?;
    let conditions = conditions(&repository).await?;
    let extent = format!("{}; {growth}.", pairs.extent);

    let counted = instructions::measure(true).await?;
    let paired = pairs::measure(&pairs).await?;
    let newer = match newer {
        Some(root) => on_another(&pairs.on(root.clone()), root).await?,
        None => "Not measured this time: `--newer <root>` names where one is installed.".to_owned(),
    };
    let grown = growth::measure(&growth).await?;

    let plots = to.join("performance");
    fs::create_dir_all(&plots)?;
    let mut growths = String::new();
    for found in &grown {
        fs::write(plots.join(found.file()), found.plot()?)?;
        let _ = writeln!(growths, "{}\n![](performance/{})\n", found.table(), found.file());
    }
    let goals: Vec<_> =
        pairs::goals(&paired).into_iter().chain(instructions::goals(&counted)).collect();
    let page = fill(&[
        ("conditions", &conditions),
        ("extent", &extent),
        ("goals", &goal::table(&goals)),
        ("pairs", &pairs::table(&paired)),
        ("newer", &newer),
        ("bare", &pairs::bare_table(&paired)),
        ("instructions", &instructions::table(&counted)),
        ("allocations", &instructions::callers(&counted)),
        ("growth", &growths),
    ])?;
    fs::write(to.join("performance.md"), page)?;
    println!("{} is written", to.join("performance.md").display());
    Ok(())
}

/// The pairs on another RabbitMQ.
async fn on_another(plan: &pairs::Plan, root: PathBuf) -> anyhow::Result<String> {
    let name = Store::start_in(Engine::RabbitMq, Some(root)).await.name().await;
    let found = pairs::measure(plan).await?;
    let (goals, table) = (goal::table(&pairs::goals(&found)), pairs::table(&found));
    let bare = pairs::bare_table(&found);
    Ok(format!("This is {name}.\n\n{goals}\n{table}\n{bare}"))
}

/// The template with what was measured.
fn fill(parts: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut page = TEMPLATE.to_owned();
    for (name, text) in parts {
        let place = format!("{{{{{name}}}}}");
        ensure!(page.contains(&place), "report.md has no {place}");
        page = page.replace(&place, text.trim_end());
    }
    Ok(page)
}

/// On what it is measured.
async fn conditions(repository: &Path) -> anyhow::Result<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        said(command.arg("-C").arg(repository).args(arguments))
    };
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { ", with changes" };
    let cores = std::thread::available_parallelism()?;
    let lines = [
        ("Commit", format!("{}{changed}", git(&["log", "-1", "--format=%h of %cs"])?)),
        ("Measured on", said(Command::new("date").args(["-u", "+%Y-%m-%d"]))?),
        ("Processor", format!("{}, {cores} threads", proc_line("cpuinfo", "model name")?)),
        ("Memory", proc_line("meminfo", "MemTotal")?),
        ("Kernel", said(Command::new("uname").args(["-sr"]))?),
        ("Compiler", said(Command::new("rustc").arg("--version"))?),
        ("Broker", Store::start(Engine::RabbitMq).await.name().await),
        ("File", Store::start(Engine::Sqlite).await.name().await),
        ("Load before", fs::read_to_string("/proc/loadavg")?),
    ];
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in lines {
        let _ = writeln!(text, "| {name} | {} |", value.trim());
    }
    Ok(text)
}

/// What a program prints.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The value of the first line of that name.
fn proc_line(file: &str, name: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(Path::new("/proc").join(file))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    Ok(value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned()))
}
