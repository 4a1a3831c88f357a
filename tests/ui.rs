//! What the macros refuse, with the errors that users see, and what they accept.
//!
//! The texts are those of one compiler, so the cases run where `JOBQ_UI` is set;
//! `JOBQ_UI=1 TRYBUILD=overwrite` writes them anew.

#[test]
fn each_mistake_is_one_error() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    for mistakes in [
        "attribute",
        "duration",
        "names",
        "signature",
        "types",
        "derive",
    ] {
        cases.compile_fail(format!("ui/{mistakes}/*.rs"));
    }
}
