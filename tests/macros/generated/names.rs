//! Names that the macros meet: the user's, and those that mean something else where they are.

use jobq::{BoxError, Job, State, job};
use serde_json::json;

use super::{is_job, is_run};

mod visibility {
    pub(crate) mod inner {
        /// Counts.
        #[jobq::job]
        pub(in super::super) async fn count(up_to: u32) -> Result<(), jobq::BoxError> {
            Err(up_to.to_string().into())
        }
    }

    pub(crate) fn within() -> inner::Count {
        inner::Count { up_to: 1 }
    }
}

#[test]
fn the_payload_is_as_visible_as_the_function() {
    let visibility::inner::Count { up_to } = visibility::within();
    assert_eq!(up_to, 1);
    assert_eq!(visibility::inner::Count::NAME, "count", "no module is in the name");
}

#[test]
fn raw_identifiers_lose_their_mark() {
    #[job]
    async fn r#match(r#in: u8, r#type: String) -> Result<(), BoxError> {
        drop((r#in, r#type));
        Ok(())
    }

    assert_eq!(Match::NAME, "match");
    let json = serde_json::to_value(Match { r#in: 1, r#type: "a".into() }).unwrap();
    assert_eq!(json, json!({ "in": 1, "type": "a" }));
}

#[test]
fn names_of_arguments_clash_with_nothing() {
    #[job]
    #[allow(clippy::too_many_arguments)]
    async fn call(
        self_: u8,
        scope: u8,
        needs: u8,
        state: u8,
        context: u8,
        payload: u8,
        call: u8,
        __scope: u8,
        __needs: u8,
        __argument_0: u8,
        __formatter: u8,
        f: u8,
        own: State<u8>,
    ) -> Result<u8, BoxError> {
        let sum = self_ + scope + needs + state + context + payload + call + f + *own;
        Ok(sum + __scope + __needs + __argument_0 + __formatter)
    }

    is_run::<Call>();
}

/// Everything that generated code could mean by accident means something else here.
#[allow(dead_code)]
mod shadowed {
    pub(crate) struct Result;
    pub(crate) struct Option;
    pub(crate) struct String;
    pub(crate) struct Vec;
    pub(crate) struct Box;
    pub(crate) struct Default;
    pub(crate) trait Clone {
        fn clone(&self) {}
    }
    impl<T> Clone for T {}
    pub(crate) trait Debug {}
    pub(crate) trait Send {}
    pub(crate) trait Sync {}
    pub(crate) trait Job {}
    pub(crate) trait Run {}
    pub(crate) trait Argument {
        fn take() {}
        fn need() {}
    }
    impl<T> Argument for T {}
    pub(crate) trait Serialize {}
    pub(crate) trait Deserialize {}
    pub(crate) trait From {}
    pub(crate) struct State;
    pub(crate) struct Duration;
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod serde {}
    pub(crate) mod jobq {}
    #[allow(non_snake_case, clippy::all)]
    pub(crate) fn Ok() {}
    #[allow(non_snake_case, clippy::all)]
    pub(crate) fn Err() {}
    #[allow(non_snake_case, clippy::all)]
    pub(crate) fn Some() {}
    #[allow(non_upper_case_globals)]
    pub(crate) const None: () = ();

    #[::jobq::job(delay = ["1s"], timeout = "1s", retries = 1)]
    pub(crate) async fn shade(
        number: ::core::primitive::u64,
        text: ::std::string::String,
        ctx: ::jobq::JobContext,
    ) -> ::core::result::Result<(), ::jobq::BoxError> {
        ::core::mem::drop((number, text, ctx));
        ::core::result::Result::Ok(())
    }

    #[::jobq::job(delay = exponential("1s"))]
    pub(crate) fn shade_slowly() -> ::core::result::Result<(), ::jobq::BoxError> {
        ::core::result::Result::Ok(())
    }

    #[derive(::serde::Serialize, ::serde::Deserialize, ::jobq::Job)]
    #[job(queue = "shade", delay = ["1s"], expires = "1s", concurrency = 2)]
    pub(crate) struct Shadow;
}

#[test]
fn shadowed_names_change_nothing() {
    let shade = shadowed::Shade { number: 1, text: "a".into() };
    assert_eq!(format!("{:?}", Clone::clone(&shade)), "Shade { number: 1, text: \"a\" }");
    is_run::<shadowed::ShadeSlowly>();
    is_job::<shadowed::Shadow>();
}

mod renamed {
    /// As if Cargo.toml had no `jobq`.
    mod jobq {}

    use renamed_jobq::{Job, job};

    pub(crate) mod reexport {
        pub(crate) use renamed_jobq::*;
    }

    #[job(crate = "renamed_jobq")]
    pub(crate) async fn plainly(a: u8) -> Result<(), String> {
        Err(a.to_string())
    }

    #[job(crate = "::renamed_jobq", delay = ["1s"])]
    pub(crate) async fn absolutely(ctx: renamed_jobq::JobContext) -> Result<(), String> {
        Err(ctx.queue().to_owned())
    }

    #[job(crate = "crate::names::renamed::reexport")]
    pub(crate) fn through_a_reexport() -> Result<(), String> {
        Ok(())
    }

    #[derive(serde::Serialize, serde::Deserialize, Job)]
    #[job(crate = "renamed_jobq")]
    pub(crate) struct Declared;
}

#[test]
fn the_crate_may_be_renamed() {
    is_run::<renamed::Plainly>();
    is_run::<renamed::Absolutely>();
    is_run::<renamed::ThroughAReexport>();
    is_job::<renamed::Declared>();
}
