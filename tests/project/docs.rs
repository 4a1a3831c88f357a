//! The README is short, the book names every page and example, links lead somewhere, the files that
//! the docs name exist, and programs in the docs are compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The README has fewer lines than this. What does not fit goes into the book, `docs/README.md`.
const README_LINES: usize = 250;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The text of a file, by its path below the root.
fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a folder below the root.
fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The Markdown files of a folder, by their paths below the root.
fn pages_in(folder: &str) -> impl Iterator<Item = PathBuf> {
    let paths = names(folder).into_iter().map(move |name| Path::new(folder).join(name));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

fn pages() -> Vec<PathBuf> {
    ["", "docs", "docs/decisions"].into_iter().flat_map(pages_in).collect()
}

/// The lines outside of code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links to files of the project.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    prose(page).flat_map(targets).filter(|target| !target.contains("://"))
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let anchors = headings.map(|heading| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(anchor.clone()).or_default();
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    });
    anchors.collect()
}

/// Whether the file of a link on this page exists, and has the heading that the link names.
fn leads_somewhere(page: &Path, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().unwrap();
    let path = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    root().join(&path).exists() && (anchor.is_empty() || anchors(&text(&path)).contains(anchor))
}

#[test]
fn the_readme_is_short() {
    let lines = text("README.md").lines().count();
    assert!(lines < README_LINES, "README.md has {lines} lines; move what it can lack to docs/");
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for link in links(&text(&page)) {
            seen += 1;
            if !leads_somewhere(&page, link) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links to nothing:\n{}", broken.join("\n"));
    assert!(seen > 100, "the pages were found");
}

/// The names of Rust files in a page, as their last folders and their name.
fn sources(page: &str) -> impl Iterator<Item = &str> {
    let is_source = |code: &&str| Path::new(code).extension().is_some_and(|kind| kind == "rs");
    page.split('`').skip(1).step_by(2).filter(is_source).filter(|code| !code.contains(' '))
}

#[test]
fn named_sources_exist() {
    let mut files = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let mut missing = Vec::new();
    for page in pages().iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = text(page);
        let named = sources(&text).filter(|name| !files.iter().any(|file| file.ends_with(name)));
        missing.extend(named.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(files.len() > 300, "the sources were found");
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_book_names_every_page() {
    let contents = text("docs/README.md");
    let named: BTreeSet<_> = links(&contents).collect();
    for page in pages_in("docs") {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || named.contains(name), "docs/README.md lacks {name}");
    }
}

#[test]
fn the_book_names_every_example() {
    let start = text("docs/start.md");
    for file in names("examples") {
        let example = file.strip_suffix(".rs").unwrap_or(&file);
        if example == "Cargo.toml" {
            continue;
        }
        assert!(start.contains(&format!("| `{example}` |")), "docs/start.md lacks {example}");
    }
}

#[test]
fn programs_in_the_docs_are_compiled() {
    let folders = names("").into_iter().map(PathBuf::from);
    let adapters = names("adapters").into_iter().map(|name| Path::new("adapters").join(name));
    let sources = folders.chain(adapters).map(|folder| folder.join("src/lib.rs"));
    let sources = sources.filter(|source| root().join(source).exists());
    let crates: Vec<_> = sources.map(text).collect();
    for page in pages() {
        let has_program = text(&page).lines().any(|line| line.starts_with("```rust"));
        let included = format!("../../{}\")", page.display());
        let is_compiled = crates.iter().any(|source| source.contains(&included));
        assert!(
            is_compiled || !has_program,
            "no crate compiles the programs in {}",
            page.display()
        );
    }
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# The `x-death` header, again\n## Why?\n```sh\n# no heading\n```\n## Why?\n";
    let expected = ["the-x-death-header-again", "why", "why-1"].map(str::to_owned);
    assert_eq!(anchors(page), BTreeSet::from(expected));
}

#[test]
fn the_page_on_traces_names_the_versions_that_are_tested() {
    let (page, manifest) = (text("docs/tracing.md"), text("Cargo.toml"));
    for name in ["opentelemetry", "opentelemetry_sdk", "tracing-opentelemetry"] {
        let after = |text: &str, prefix: String| -> String {
            let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
            line.and_then(|line| line.split('"').next()).expect("a version").to_owned()
        };
        let told = after(&page, format!("{name} = \""));
        let tested = after(&manifest, format!("{name} = {{ version = \""));
        assert!(tested.starts_with(&format!("{told}.")), "{name}: {told}, {tested}");
    }
}
