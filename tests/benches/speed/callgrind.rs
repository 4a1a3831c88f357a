//! Reads what callgrind writes: how many instructions a process executed, and who called
//! the allocator how often.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;

/// What one process did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) instructions: u64,
    /// Calls that ask for memory, by the function that makes them.
    pub(crate) allocations: BTreeMap<String, u64>,
}

/// The functions that give memory: the C library's, and Rust's that call them. Calls from
/// one of these to another one are the same allocation.
const ALLOCATORS: [&str; 14] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "reallocarray",
    "_int_realloc",
];

/// Reads the file of one process.
///
/// `fn=` begins the costs of a function; in these, `cfn=` names a function that it calls and
/// the `calls=` after it how often. A name is written in full once, with a number that stands
/// for it from then on.
pub(crate) fn parse(text: &str) -> anyhow::Result<Profile> {
    let mut profile = Profile::default();
    let mut names = HashMap::new();
    let (mut caller, mut function) = (String::new(), String::new());
    let mut total = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            caller = full(name, &mut names)?;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            function = full(name, &mut names)?;
        } else if let Some(calls) = line.strip_prefix("calls=") {
            if allocates(&function) && !allocates(&caller) {
                let calls = calls.split(' ').next().unwrap_or_default();
                let calls: u64 = calls.parse().with_context(|| format!("`{line}`"))?;
                *profile.allocations.entry(caller.clone()).or_default() += calls;
            }
        } else if let Some(sum) = line.strip_prefix("totals: ") {
            total = Some(sum.trim().parse().with_context(|| format!("`{line}`"))?);
        }
    }
    profile.instructions = total.context("callgrind's file has no line `totals:`: it was cut")?;
    Ok(profile)
}

/// The name that `(7) name` or, later, `(7)` stands for.
fn full(text: &str, names: &mut HashMap<String, String>) -> anyhow::Result<String> {
    let Some((number, name)) = text.split_once(')') else {
        return Ok(text.to_owned());
    };
    if name.is_empty() {
        let name = names.get(number).with_context(|| format!("callgrind's `{text}` is no name"))?;
        return Ok(name.clone());
    }
    let name = plain(name.trim());
    names.insert(number.to_owned(), name.clone());
    Ok(name)
}

/// Without the depth of a recursion (`'2`) and the hash of a symbol.
fn plain(name: &str) -> String {
    let name = match name.rsplit_once('\'') {
        Some((name, depth)) if depth.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name.to_owned(),
        _ => name.to_owned(),
    }
}

fn allocates(function: &str) -> bool {
    let name = function.rsplit("::").next().unwrap_or(function);
    ALLOCATORS.contains(&name)
}
