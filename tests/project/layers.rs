//! The layers of jobq hold: what a module names stands in a layer below its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layer of a module, by its path below `jobq/src`. Engines are two, told apart by
/// their fraction, and so are the uses that may use one another.
fn layer(module: &str) -> Option<u8> {
    Some(match module {
        "error" | "finding" | "guard" | "job" | "outbox" | "retry" | "period" | "schedule"
        | "setting" => 0,
        "awaitable" | "background" | "clock" | "credentials" | "host" | "metrics" | "repeated"
        | "suspension" | "telemetry" | "traces" | "engine" => 10,
        "rabbitmq" => 20,
        "sqlite" => 21,
        "admin" => 30,
        "client" => 31,
        "moving" | "relay" => 32,
        "worker" => 33,
        "testing" => 34,
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
const ROOMS: [&str; 21] = [
    "values",
    "errors",
    "lapin",
    "connection",
    "topology",
    "message",
    "publish",
    "consume",
    "seat",
    "admin/admit",
    "admin/departing",
    "admin/waits",
    "admin/control",
    "admin/failed",
    "admin/roster",
    "admin/subscribers",
    "admin/doctor",
    "admin/figures",
    "admin/provision",
    "stray",
    // For fuzzing.
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

/// The files through which each job goes from its enqueue to its settlement. Those that only start,
/// stop and watch a pool are none of them.
const PATH: &[&str] = &[
    "client/enqueue.rs",
    "client/enqueue_all.rs",
    "client/enqueue_named.rs",
    "client/outgoing.rs",
    "client/publish.rs",
    "client/declare.rs",
    "job/codec.rs",
    "rabbitmq/consume/acks.rs",
    "rabbitmq/consume/context.rs",
    "rabbitmq/consume/delivery.rs",
    "rabbitmq/consume/feed.rs",
    "rabbitmq/consume/live.rs",
    "rabbitmq/consume/session.rs",
    "rabbitmq/consume/settle.rs",
    "rabbitmq/consume/subscription.rs",
    "rabbitmq/consume/valve.rs",
    "rabbitmq/consume/verification.rs",
    "rabbitmq/message/properties.rs",
    "rabbitmq/publish/batch.rs",
    "rabbitmq/publish/channel_end.rs",
    "rabbitmq/publish/confirm.rs",
    "rabbitmq/publish/enqueue.rs",
    "rabbitmq/publish/publisher.rs",
    "rabbitmq/publish/sender.rs",
    "rabbitmq/publish/size_limit.rs",
    "rabbitmq/topology/memory.rs",
    "rabbitmq/topology/destination.rs",
    "rabbitmq/topology/routing.rs",
    "worker/queue.rs",
    "worker/flow.rs",
    "worker/queue/attempts.rs",
    "worker/queue/consume.rs",
    "worker/queue/overdue.rs",
    "worker/book.rs",
    "worker/in_flight.rs",
    "worker/prefetch.rs",
    "worker/slot.rs",
    "worker/decision.rs",
    "worker/attempt.rs",
    "worker/layer.rs",
    "worker/run.rs",
];

/// Who watches or steers jobs: the path tells the observer, and knows none of them.
const WATCHERS: [&str; 6] =
    ["crate::admin", "crate::metrics", "crate::traces", "rabbitmq::admin", "control::", "doctor"];

#[test]
fn the_path_of_a_job_knows_nobody_who_watches_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src");
    for file in PATH {
        let text = fs::read_to_string(source.join(file)).expect("a file of the path can be read");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let named = WATCHERS.iter().find(|watcher| line.contains(**watcher));
            assert_eq!(named, None, "{file}: {line}");
        }
    }
}

#[test]
fn the_path_of_a_job_in_a_file_knows_nobody_who_watches_it() {
    let sqlite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src/sqlite");
    let mut seen = 0;
    for (module, code) in modules(&sqlite) {
        // The engine itself hands both out.
        if module.is_empty() || module[0] == "admin" {
            continue;
        }
        seen += 1;
        for line in code.lines() {
            let named = WATCHERS.iter().chain(&["admin::"]).find(|name| line.contains(**name));
            assert_eq!(named, None, "sqlite/{}: {line}", module.join("/"));
        }
    }
    assert!(seen > 15, "the sources were found");
}

/// The folders whose files stand in an order.
const ORDERED: [&str; 1] = ["sqlite"];

/// A `mod.rs` is a file as others: it names its children, so they name nothing that it defines. The
/// declaration `mod child;` names nothing.
#[test]
fn files_of_an_engine_stand_in_an_order() {
    for engine in ORDERED {
        let mut imports = imports(engine);
        // Without those that are at no circle's beginning or end, circles are left.
        loop {
            let before = imports.len();
            let left: BTreeSet<_> = imports.keys().cloned().collect();
            let imported: BTreeSet<_> = imports.values().flatten().cloned().collect();
            imports.retain(|module, named| {
                imported.contains(module) && named.iter().any(|named| left.contains(named))
            });
            if imports.len() == before {
                break;
            }
        }
        let circle: Vec<_> = imports.keys().map(|module| module.join("/")).collect();
        assert!(circle.is_empty(), "files of {engine} import each other: {circle:?}");
    }
}

/// A module and its parent may name each other.
#[test]
fn no_two_files_import_each_other() {
    let imports = imports("");
    let is_child = |module: &Module, of: &Module| module.starts_with(of);
    let both = |module: &Module, named: &Module| {
        imports.get(named).is_some_and(|named| named.contains(module))
            && !is_child(module, named)
            && !is_child(named, module)
    };
    let pairs: Vec<_> = imports
        .iter()
        .flat_map(|(module, named)| named.iter().map(move |named| (module, named)))
        .filter(|(module, named)| module < named && both(module, named))
        .map(|(module, named)| format!("{} and {}", module.join("/"), named.join("/")))
        .collect();
    assert!(pairs.is_empty(), "these files import each other: {pairs:#?}");
}

/// The files that each file of a folder of the crate imports; of the whole crate if it has no name.
fn imports(folder: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobq/src").join(folder);
    let modules = modules(&path);
    let imports: BTreeMap<_, BTreeSet<_>> = modules
        .iter()
        .map(|(module, code)| {
            let named = paths(code).into_iter().filter_map(|path| {
                let mut named = resolved(folder, module, &path, &modules)?;
                while !modules.contains_key(&named) {
                    named.pop()?;
                }
                Some(named)
            });
            (module.clone(), named.filter(|named| named != module).collect())
        })
        .collect();
    assert!(imports.values().flatten().count() > 50, "the imports were found");
    imports
}

/// A file, by its path below the folder without `mod` and `.rs`.
type Module = Vec<String>;

/// The code of the files of a folder, without comments and tests.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    for file in files(folder) {
        let path = file.strip_prefix(folder).expect("it is below").to_string_lossy();
        let Some(path) = path.strip_suffix(".rs").filter(|path| !path.ends_with("_tests")) else {
            continue;
        };
        let path = path.strip_suffix("mod").unwrap_or(path);
        let module = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
        let text = fs::read_to_string(&file).expect("a source can be read");
        let code = text.lines().map(str::trim).take_while(|line| *line != "mod tests {");
        let code = code.filter(|line| !line.starts_with("//")).map(|line| format!("\n{line}"));
        modules.insert(module.collect(), code.collect());
    }
    modules
}

/// The paths of a code, with those of `use` written out.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut paths = BTreeSet::new();
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for statement in code.split(';') {
        match statement.split_once("\nuse ") {
            Some((_, tree)) => write_out(&[], tree, &mut paths),
            None => paths.extend(
                statement
                    .split(|c| !is_of_path(c))
                    .filter(|path| path.contains("::"))
                    .map(|path| path.split("::").map(str::to_owned).collect()),
            ),
        }
    }
    paths
}

/// Writes a tree of `use` out, below this path.
fn write_out(below: &[String], tree: &str, paths: &mut BTreeSet<Vec<String>>) {
    let (path, group) = tree.split_once('{').unwrap_or((tree, ""));
    let path = path.split("::").map(|part| part.split(" as ").next().unwrap_or(part).trim());
    let path = path.filter(|part| !part.is_empty()).map(str::to_owned);
    let path: Vec<_> = below.iter().cloned().chain(path).collect();
    if group.is_empty() {
        paths.insert(path);
        return;
    }
    let (mut depth, mut part) = (0, String::new());
    for c in group.chars() {
        match c {
            ',' | '}' if depth == 0 => write_out(&path, &std::mem::take(&mut part), paths),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                part.push(c);
            }
        }
    }
}

/// The place that a path names in the folder of this module; `None` if it is outside.
fn resolved(
    engine: &str,
    module: &[String],
    path: &[String],
    modules: &BTreeMap<Module, String>,
) -> Option<Module> {
    let mut named = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            named.clear();
            rest = &path[1..];
            if !engine.is_empty() {
                rest = rest.strip_prefix(&[engine.to_owned()])?;
            }
            // `pub(in crate::engine)` names nothing.
            rest.first()?;
        }
        "self" | "super" => {}
        child => {
            named.push(child.to_owned());
            return modules.contains_key(&named).then_some(named);
        }
    }
    for part in rest {
        match part.as_str() {
            "self" => {}
            "super" => drop(named.pop()?),
            _ => named.push(part.clone()),
        }
    }
    Some(named)
}
