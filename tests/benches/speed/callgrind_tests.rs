//! Callgrind's files are read as callgrind writes them.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "callgrind.rs"]
mod callgrind;

use self::callgrind::{Profile, parse};

const FILE: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
events: Ir

ob=(1) /tmp/speed
fl=(1) ???
fn=(1) jobq::wire::decode::h0123456789abcdef
0 12
cfn=(2) __rustc::__rust_alloc
calls=3 0
0 30
cob=(2) /usr/lib/libc.so.6
cfi=(2) ???
cfn=(3) realloc
calls=2 0
0 20

fn=(2)
0 3
cfn=(4) malloc
calls=3 0
0 27

fn=(5) sqlite3MemMalloc
0 5
cfn=(4)
calls=7 0
0 60

fn=(6) jobq::wire::decode::h0123456789abcdef'2
0 1
cfn=(4)
calls=1 0
0 9
cfn=(7) free
calls=9 0
0 9

totals: 1234
";

#[test]
fn allocations_count_once_for_whoever_asks() {
    // Not those from `__rust_alloc` to `malloc`, nor `free`; a recursion is the same function.
    let allocations = [("jobq::wire::decode", 6), ("sqlite3MemMalloc", 7)];
    let allocations = allocations.map(|(name, calls)| (name.to_owned(), calls)).into();
    assert_eq!(parse(FILE).unwrap(), Profile { instructions: 1_234, allocations });
}

#[test]
fn a_file_that_was_cut_is_an_error() {
    let (cut, _) = FILE.split_once("totals").unwrap();
    assert!(parse(cut).unwrap_err().to_string().contains("it was cut"));
    let unknown = parse("fn=(9)\ntotals: 1\n").unwrap_err();
    assert!(unknown.to_string().contains("`(9)` is no name"), "{unknown}");
}
