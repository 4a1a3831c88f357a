//! What fuzzing found interesting, run again: see `docs/fuzzing.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jobq::internals::properties::ALL;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz().join(folder)).expect("the folder can be listed");
    let names = entries.map(|entry| entry.expect("and each entry").path());
    names
        .map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned())
        .collect()
}

#[test]
fn what_fuzzing_found_interesting_still_holds() {
    for (name, property) in ALL {
        let folder = fuzz().join("corpus").join(name);
        let mut files = 0;
        for entry in fs::read_dir(&folder).expect("each property has a corpus") {
            let path = entry.expect("it can be listed").path();
            let data = fs::read(&path).expect("and read");
            // The test prints this where the property panics.
            println!("{}", path.display());
            property(&data);
            files += 1;
        }
        assert!(files > 5, "the corpus of `{name}` has {files} files");
    }
}

#[test]
fn each_property_has_a_target_and_a_corpus() {
    let all: BTreeSet<_> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), all);
    assert_eq!(names("corpus"), all);
}
