//! The layers of jobq hold: what a module names stands in a layer below its own.

use std::fs;
use std::path::{Path, PathBuf};

/// The layer of a module, by its path below `jobq/src`. Engines are two, told apart by
/// their fraction, and so are the uses that may use one another.
fn layer(module: &str) -> Option<u8> {
    Some(match module {
        "error" | "finding" | "guard" | "job" | "retry" | "period" | "setting" => 0,
        "awaitable" | "background" | "clock" | "host" | "metrics" | "suspension" | "telemetry"
        | "traces" | "engine" => 10,
        "rabbitmq" => 20,
        "sqlite" => 21,
        "admin" => 30,
        "client" => 31,
        "worker" => 32,
        "testing" => 33,
        "conformance" | "internals" => 40,
        _ => return None,
    })
}

/// What a module may name beside its own layer's and all lower layers' modules.
fn allowed(module: &str, named: &str) -> bool {
    let (Some(own), Some(other)) = (layer(module), layer(named)) else {
        return false;
    };
    let engines = |layer: u8| (20..30).contains(&layer);
    module == named
        || own / 10 == other / 10 && own < 20
        // A client shows the failed jobs; a worker gives its jobs its client.
        || own / 10 > other / 10
        || own > other && !engines(own)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the sources can be listed");
    let paths = entries.map(|entry| entry.expect("and each of them").path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.flat_map(below).collect()
}

/// `rabbitmq/topology/names.rs` is of the module `rabbitmq`, `job/id.rs` of `job`.
fn module(path: &str) -> &str {
    if path.starts_with("engine/conformance") {
        return "conformance";
    }
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').next().unwrap_or(path)
}

/// The rooms of `jobq/src/rabbitmq`, each above all that it may use. `mod.rs` is above them, and
/// `admin/mod.rs` above those of `admin`.
const ROOMS: [&str; 19] = [
    "values",
    "errors",
    "lapin",
    "connection",
    "topology",
    "message",
    "publish",
    "consume",
    "admin/waits",
    "admin/control",
    "admin/failed",
    "admin/counts",
    "admin/roster",
    "admin/subscribers",
    "admin/doctor",
    "admin/figures",
    "admin/provision",
    "stray",
    // For fuzzing and benchmarks.
    "invariants",
];

/// The room of a file or of what code names, by its path below `rabbitmq`.
fn room(path: &str) -> String {
    match path.split_once("admin/") {
        Some(("", below)) => format!("admin/{}", module(below)),
        _ => module(path).to_owned(),
    }
}

/// The words behind `before` in the code of a file, with their lines.
fn named<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = (String, &'t str)> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(move |line| {
        line.split(before).skip(1).map(move |rest| {
            (
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || ['_', '/'].contains(c))
                    .collect(),
                line,
            )
        })
    })
}

#[test]
fn rooms_of_rabbitmq_use_those_below() {
    let rooms = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src/rabbitmq");
    let level = |room: &str| ROOMS.iter().position(|other| *other == room);
    let mut seen = 0;
    for file in files(&rooms) {
        let path = file.strip_prefix(&rooms).expect("it is below").to_string_lossy();
        let Some(own) = level(&room(&path)) else {
            let above = ["mod.rs", "admin/mod.rs"];
            assert!(above.contains(&&*path), "{path} is in no room");
            continue;
        };
        let text = fs::read_to_string(&file).expect("a source can be read");
        let text = text.replace("crate::rabbitmq::admin::", "crate::rabbitmq::admin/");
        for (named, line) in named(&text, "crate::rabbitmq::") {
            let other = level(&named).unwrap_or_else(|| panic!("{path}: no room: {line}"));
            assert!(other <= own, "{path} uses a room above its own: {line}");
            seen += 1;
        }
    }
    assert!(seen > 50, "the sources were found");
}

#[test]
fn imports_point_downward() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src");
    let mut seen = 0;
    for file in files(&source) {
        let text = fs::read_to_string(&file).expect("a source can be read");
        let path = file.strip_prefix(&source).expect("it is below").to_string_lossy();
        let user = module(&path);
        if user == "lib" || layer(user).is_none() {
            assert!(path.ends_with(".sql") || user == "lib", "`{user}` is in no layer: {path}");
            continue;
        }
        for (name, line) in named(&text, "crate::") {
            if layer(&name).is_none() {
                continue; // a macro of the crate
            }
            seen += 1;
            assert!(allowed(user, &name), "{path}: `{user}` names `{name}`: {line}");
        }
    }
    assert!(seen > 50, "the sources were found");
}

/// The files through which each delivery of a worker goes. Those that only start, stop and watch a
/// pool are none of them.
const PATH: [&str; 13] = [
    "queue.rs",
    "flow.rs",
    "queue/attempts.rs",
    "queue/consume.rs",
    "queue/overdue.rs",
    "book.rs",
    "in_flight.rs",
    "prefetch.rs",
    "slot.rs",
    "decision.rs",
    "attempt.rs",
    "layer.rs",
    "run.rs",
];

/// Who watches or steers jobs: the path tells the observer, and knows none of them.
const WATCHERS: [&str; 5] =
    ["crate::admin", "crate::metrics", "crate::traces", "control::", "doctor"];

#[test]
fn the_path_of_a_job_knows_nobody_who_watches_it() {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src/worker");
    for file in PATH {
        let text = fs::read_to_string(worker.join(file)).expect("a file of the path can be read");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let named = WATCHERS.iter().find(|watcher| line.contains(**watcher));
            assert_eq!(named, None, "worker/{file}: {line}");
        }
    }
}
