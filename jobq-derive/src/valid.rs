//! The rules that need more than one token to judge: a function each.

mod event;
mod periodic;
mod policy;
mod subscriber;

use syn::visit::{self, Visit};
use syn::{
    Attribute, Data, GenericParam, Generics, Ident, Pat, PatIdent, ReturnType, Safety, Signature,
    Type, TypeParamBound, TypeTraitObject,
};

use crate::mistakes::Mistakes;
use crate::model::{FunctionJob, StructJob};
use crate::signature::{Argument, Role};
use crate::words;
pub(crate) use event::check as event;

pub(crate) fn function(job: &FunctionJob, mistakes: &mut Mistakes) {
    policy::check(&job.policy, mistakes);
    payload_has_a_name(job, mistakes);
    payload_is_no_argument(job, mistakes);
    one_job_attribute(job, mistakes);
    plain_function(job, mistakes);
    no_receiver(job, mistakes);
    no_self_type(job, mistakes);
    returns_something(job, mistakes);
    error_can_be_sent(job, mistakes);
    let mut borrows = false;
    for argument in &job.arguments.all {
        has_a_name(argument, mistakes);
        state_is_shared(argument, mistakes);
        borrows |= is_owned(argument, mistakes);
        serde_is_for_payload(argument, mistakes);
        always_there(argument, mistakes);
    }
    subscriber::check(job, mistakes);
    periodic::arguments(job, mistakes);
    no_generics(&job.function.signature.generics, borrows, mistakes);
}

pub(crate) fn structure(job: &StructJob, mistakes: &mut Mistakes) {
    policy::check(&job.policy, mistakes);
    is_struct(job, mistakes);
    no_generic_payload(&job.input.generics, mistakes);
}

// fn self_() without payload = "..."
fn payload_has_a_name(job: &FunctionJob, mistakes: &mut Mistakes) {
    if job.payload.is_none() {
        let function = &job.function.signature.ident;
        mistakes.at(
            function,
            format!("`{function}` yields no name for the payload type; write `payload = \"...\"`"),
        );
    }
}

// fn mailer(mailer: Mailer)
fn payload_is_no_argument(job: &FunctionJob, mistakes: &mut Mistakes) {
    let Some(payload) = &job.payload else { return };
    for argument in &job.arguments.all {
        if argument.is_called(payload) {
            mistakes.at(
                &argument.ty,
                format!(
                    "the payload type of this job is also called `{payload}`; rename it: \
                     `#[job(payload = \"...\")]`"
                ),
            );
        }
    }
}

// #[job] #[job(retries = 1)]
fn one_job_attribute(job: &FunctionJob, mistakes: &mut Mistakes) {
    let jobs = job.function.attributes.iter().filter(|attribute| is_job(attribute));
    mistakes.at_each(jobs, "`#[job]` is given twice; keep one, with all the keys");
}

pub(crate) fn is_job(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "job")
}

// unsafe fn, extern "C" fn, const fn, fn(...)
fn plain_function(job: &FunctionJob, mistakes: &mut Mistakes) {
    let Signature { safety, abi, constness, variadic, .. } = &job.function.signature;
    mistakes.at_each(
        matches!(safety, Safety::Unsafe(_)).then_some(safety),
        "a job function must be safe to call: remove `unsafe` and uphold its contract in the body",
    );
    mistakes.at_each(abi, "a job is a plain function: remove `extern`");
    mistakes.at_each(constness, "a job runs in a worker, never at compile time: remove `const`");
    mistakes.at_each(variadic, "a job takes a fixed number of arguments: use a `Vec<T>` instead");
}

// fn save(&self)
fn no_receiver(job: &FunctionJob, mistakes: &mut Mistakes) {
    mistakes.at_each(
        &job.arguments.receiver,
        "a job has no `self`: make it a free function and take shared values as `State<T>`",
    );
}

// fn save(post: Self) in an `impl`. Without the word, the macro cannot see where it is.
fn no_self_type(job: &FunctionJob, mistakes: &mut Mistakes) {
    if job.arguments.receiver.is_none() {
        mistakes.at_each(
            self_type(&job.function.signature),
            "a job is a free function: move it out of the `impl` and write the name of the type",
        );
    }
}

/// The first `Self` of a signature, which only a function in an `impl` can have.
pub(crate) fn self_type(signature: &Signature) -> Option<&Ident> {
    struct SelfType<'s>(Option<&'s Ident>);

    impl<'s> Visit<'s> for SelfType<'s> {
        fn visit_ident(&mut self, ident: &'s Ident) {
            if ident == "Self" {
                self.0.get_or_insert(ident);
            }
        }
    }

    let mut found = SelfType(None);
    found.visit_signature(signature);
    found.0
}

// async fn cleanup() { }
fn returns_something(job: &FunctionJob, mistakes: &mut Mistakes) {
    if matches!(job.function.signature.output, ReturnType::Default) {
        mistakes.at(
            &job.function.signature.ident,
            "a job must return a `Result`, for example `-> Result<(), jobq::BoxError>`",
        );
    }
}

// async fn cleanup() -> Result<(), Box<dyn Error>>
fn error_can_be_sent(job: &FunctionJob, mistakes: &mut Mistakes) {
    let ReturnType::Type(_, returned) = &job.function.signature.output else { return };
    for boxed in Unsent::in_type(returned) {
        mistakes.at(
            boxed,
            "the error of a job goes to another thread: write `jobq::BoxError`, or add `Send + \
             Sync` to the `dyn Error`",
        );
    }
}

/// The `dyn Error` in a type that are not `Send` and `Sync`.
struct Unsent<'t>(Vec<&'t TypeTraitObject>);

impl<'t> Unsent<'t> {
    fn in_type(ty: &'t Type) -> Vec<&'t TypeTraitObject> {
        let mut found = Self(Vec::new());
        found.visit_type(ty);
        found.0
    }
}

impl<'t> Visit<'t> for Unsent<'t> {
    fn visit_type_trait_object(&mut self, object: &'t TypeTraitObject) {
        let has = |name: &str| {
            object.bounds.iter().any(|bound| match bound {
                TypeParamBound::Trait(bound) => {
                    bound.path.segments.last().is_some_and(|last| last.ident == name)
                }
                _ => false,
            })
        };
        if has("Error") && !(has("Send") && has("Sync")) {
            self.0.push(object);
        }
        visit::visit_type_trait_object(self, object);
    }
}

// fn save((x, y): (u8, u8)), fn save(State(db): State<Db>)
fn has_a_name(argument: &Argument, mistakes: &mut Mistakes) {
    if argument.role == Role::Payload && argument.name().is_none() {
        mistakes.at(
            &argument.pattern,
            "an argument becomes a field of the payload and needs a name: name it here and \
             destructure it in the body",
        );
    } else if let Some(name) = argument.name_in_state() {
        mistakes.at(
            &argument.pattern,
            format!(
                "a state is used through its name: write `{name}: {}`",
                words::code(&argument.ty)
            ),
        );
    }
}

// fn save(mut db: State<Db>), fn save(mailer: State<dyn Mailer>)
fn state_is_shared(argument: &Argument, mistakes: &mut Mistakes) {
    let Some(state) = argument.state() else { return };
    if let Pat::Ident(PatIdent { mutability: Some(mutability), .. }) = &argument.pattern {
        mistakes.at(
            mutability,
            "all attempts share a state, so it cannot be changed: remove `mut`, and put what changes \
             into a `Mutex` or an atomic",
        );
    }
    if let Type::TraitObject(_) = state {
        let object = words::code(state);
        mistakes.at(
            &argument.ty,
            format!(
                "a state needs a size: write `State<Arc<{object}>>`, and give the pool an \
                 `Arc<{object}>` by `.state(..)`"
            ),
        );
    }
}

// fn save(text: &str). Says whether a lifetime of the function may be what is wrong.
fn is_owned(argument: &Argument, mistakes: &mut Mistakes) -> bool {
    let ty = &argument.ty;
    let found = match argument.role {
        Role::Payload => Found::in_type(ty),
        Role::Context => Found { borrowed: matches!(ty, Type::Reference(_)), open: false },
    };
    if argument.role == Role::Payload
        && let Some(given) = given_by_the_pool(ty)
    {
        mistakes.at(
            ty,
            format!(
                "the worker pool gives `{0}` itself, not inside another type: write `{0}`, or \
                 implement `FromAttempt` for a type of yours and write `#[context]` before the \
                 argument",
                words::code(given)
            ),
        );
    } else if found.borrowed && argument.owned_ends_in("Client") {
        mistakes.at(
            ty,
            "a job gets the client from its context: take `ctx: JobContext` and call \
             `ctx.client()`; a payload of your own with this name is taken by value",
        );
    } else if found.borrowed {
        let owned = words::code(&argument.owned);
        let reason = match argument.role {
            Role::Payload => "a job runs later and elsewhere, so its arguments cannot borrow",
            Role::Context => "the worker pool passes this argument by value",
        };
        mistakes.at(ty, format!("{reason}: write `{owned}`"));
    } else if found.open {
        mistakes.at(ty, "an argument needs one concrete type for a worker to read: name it");
    }
    found.borrowed
}

/// The first type of that kind.
struct Given<'t>(Option<&'t syn::TypePath>);

impl<'t> Visit<'t> for Given<'t> {
    fn visit_type_path(&mut self, path: &'t syn::TypePath) {
        let last = path.path.segments.last();
        let is_it = last.is_some_and(|last| match &last.arguments {
            syn::PathArguments::AngleBracketed(_) => last.ident == "State",
            _ => last.ident == "JobContext",
        });
        if is_it {
            self.0.get_or_insert(path);
        }
        visit::visit_type_path(self, path);
    }
}

/// The `State<..>` or `JobContext` inside an `Option`, `Arc`, `Box` or `Result`.
pub(crate) fn given_by_the_pool(ty: &Type) -> Option<&syn::TypePath> {
    let Type::Path(outer) = ty else { return None };
    let outer = &outer.path.segments.last()?.ident;
    if !["Option", "Arc", "Box", "Result"].iter().any(|word| outer == word) {
        return None;
    }

    let mut given = Given(None);
    given.visit_type(ty);
    given.0
}

/// What a type contains that no payload can.
pub(crate) struct Found {
    borrowed: bool,
    open: bool,
}

impl Found {
    pub(crate) fn in_type(ty: &Type) -> Self {
        let mut found = Self { borrowed: false, open: false };
        found.visit_type(ty);
        found
    }

    pub(crate) fn any(&self) -> bool {
        self.borrowed || self.open
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_type(&mut self, ty: &'ast Type) {
        match ty {
            Type::Reference(_) => self.borrowed = true,
            Type::ImplTrait(_) => self.open = true,
            _ => visit::visit_type(self, ty),
        }
    }

    fn visit_lifetime(&mut self, lifetime: &'ast syn::Lifetime) {
        self.borrowed |= lifetime.ident != "static";
    }
}

// fn save(#[serde(default)] mailer: State<Mailer>)
fn serde_is_for_payload(argument: &Argument, mistakes: &mut Mistakes) {
    if argument.role == Role::Context {
        mistakes.at_each(
            &argument.serde,
            "this argument comes from the worker pool and is never read from a payload: remove \
             `#[serde]`",
        );
    }
}

// fn save(#[cfg(unix)] mode: u32)
fn always_there(argument: &Argument, mistakes: &mut Mistakes) {
    let is_cfg = |attribute: &&Attribute| {
        ["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name))
    };
    mistakes.at_each(
        argument.others.iter().filter(is_cfg),
        "client and worker must agree on a job's arguments, so none of them can depend on a \
         `cfg`: take an `Option`, or put the `cfg` on the function",
    );
}

// fn save<T>(value: T)
fn no_generics(generics: &Generics, borrows: bool, mistakes: &mut Mistakes) {
    // Lifetimes go when what borrows goes, and that has been said.
    let lifetimes = generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)));
    if borrows && lifetimes {
        return;
    }
    if !generics.params.is_empty() {
        mistakes.at(
            &generics.params,
            "a job function cannot be generic, since its name stands for one payload: write \
             concrete types",
        );
    } else if let Some(clause) = &generics.where_clause {
        mistakes.at(clause, "a job function cannot have a `where` clause: remove it");
    }
}

// #[derive(Job)] enum
fn is_struct(job: &StructJob, mistakes: &mut Mistakes) {
    let advice = "cannot be a payload: derive `Job` for a struct";
    match &job.input.data {
        Data::Struct(_) => {}
        Data::Enum(data) => mistakes.at(data.enum_token, format!("an enum {advice} that holds it")),
        Data::Union(data) => mistakes.at(data.union_token, format!("a union {advice}")),
    }
}

// #[derive(Job)] struct Save<T>
fn no_generic_payload(generics: &Generics, mistakes: &mut Mistakes) {
    if !generics.params.is_empty()
        && generics.params.iter().all(|param| matches!(param, GenericParam::Lifetime(_)))
    {
        mistakes.at(
            &generics.params,
            "a job runs later and elsewhere, so its payload cannot borrow: remove the lifetime and \
             let the fields own their values, such as `String` instead of `&str`",
        );
        return;
    }
    if !generics.params.is_empty() {
        mistakes.at(
            &generics.params,
            "a payload cannot be generic, since the job's name stands for one type: write \
             concrete types",
        );
    }
}
