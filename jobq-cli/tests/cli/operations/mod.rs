//! `docs/operations.md`: its commands run, in their order, and print what the page says.

mod page;
mod shop;

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use jobq_tests::broker::shared_with_management;
use jobq_tests::test_store::{Store, soon, until};
use tokio::process::Command;

use self::page::{Part, Step, masked, parts};
use self::shop::Shop;

/// Commands that are not run again until they print what is expected, since they change something
/// each time.
const ONCE: [&str; 4] = ["jobq failed retry", "jobq failed discard", "jobq cancel", "jobq resume"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_holds_on_a_file() {
    the_page_holds(&Store::sqlite().await, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_holds_on_rabbitmq() {
    let test = "the_page_holds_on_rabbitmq";
    let Some((node, management)) = shared_with_management(test).await else { return };
    the_page_holds(&Store::on_broker(node.url()), Some(management)).await;
}

async fn the_page_holds(store: &Store, management: Option<&str>) {
    let shop = Shop::open(store).await;
    let mut terminal = Terminal { store, management, ids: HashMap::new() };
    for part in parts(&page::text()) {
        match part {
            Part::Meanwhile(direction) => shop.direct(&direction),
            Part::Step(step) => terminal.run(&step).await,
        }
    }
    shop.close().await;
}

/// Runs the commands of the page.
#[derive(Debug)]
struct Terminal<'s> {
    store: &'s Store,
    management: Option<&'s str>,
    /// The ids of this run, by those of the page.
    ids: HashMap<String, String>,
}

impl Terminal<'_> {
    /// Runs a command, which must print what the page says.
    async fn run(&mut self, step: &Step) {
        let mut command = step.command.clone();
        for (of_page, of_run) in &self.ids {
            command = command.replace(of_page, of_run);
        }
        let expected =
            if self.store.is_file() { page::of_file(&step.output) } else { step.output.clone() };
        let expected = masked(&expected);
        // The report of the page has run for hours, and that of the test may be too young.
        let of_young_job = expected.replace(" stuck\n", " consumed\n");
        let is_repeated = !ONCE.iter().any(|once| command.starts_with(once));
        let output = until(&format!("the output of `{command}`"), async || {
            let output = self.output(&command).await;
            let found = masked(&output);
            if found == expected || found == of_young_job {
                return Some(output);
            }
            eprintln!("$ {command}\n{output}\nas compared:\n{found}\nexpected:\n{expected}");
            assert!(is_repeated, "`{command}` prints something else");
            None
        })
        .await;
        let ids = page::ids(&step.output).zip(page::ids(&output));
        self.ids.extend(ids.map(|(of_page, of_run)| (of_page.to_owned(), of_run.to_owned())));
    }

    /// What a command prints, on both its outputs.
    async fn output(&self, command: &str) -> String {
        let namespace = &self.store.namespace;
        let jobq = format!("jobq() {{ command jobq --namespace {namespace} \"$@\"; }}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1; {jobq}; {command}")]).env("PATH", path());
        shell.env("JOBQ_URL", &self.store.url).env("USER", "ann").env_remove("NO_COLOR");
        // The page leaves out the lines of the log.
        shell.env("JOBQ_LOG", "off");
        shell.env("JOBQ_MANAGEMENT_URL", self.management.unwrap_or_default());
        shell.stdin(Stdio::null()).kill_on_drop(true);
        let output = soon("the end of the command", shell.output()).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Where programs are, the tested command before all others.
fn path() -> OsString {
    let folder = Path::new(env!("CARGO_BIN_EXE_jobq")).parent().unwrap().to_owned();
    let others = env::var_os("PATH").unwrap_or_default();
    env::join_paths([folder].into_iter().chain(env::split_paths(&others))).unwrap()
}
