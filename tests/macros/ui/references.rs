use jobq::{BoxError, job};

#[job]
async fn cow_borrowed(value: std::borrow::Cow<'_, str>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn impl_trait(value: impl Into<String> + Send) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_deep_inside(
    value: std::collections::HashMap<String, (u8, [&[u8]; 2])>,
) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_inside(value: Option<&str>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_mutable(value: &mut Vec<u8>) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_static(value: &'static str) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_to_path(value: &std::path::Path) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_to_slice(value: &[u8]) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_to_state(total: &jobq::State<u8>) -> Result<(), BoxError> {
    Err(total.to_string().into())
}

#[job]
async fn reference_to_text(value: &str) -> Result<(), BoxError> {
    drop(value);
    Ok(())
}

#[job]
async fn reference_with_lifetime<'a>(
    text: &'a str,
    more: std::borrow::Cow<'a, str>,
) -> Result<(), BoxError> {
    Err(format!("{text}{more}").into())
}

// The types are there all the same.
#[allow(unused_imports)]
mod made {
    use super::{
        ReferenceInside, ReferenceMutable, ReferenceStatic, ReferenceToPath, ReferenceToSlice,
        ReferenceToText, ReferenceWithLifetime,
    };
}

fn main() {
    let _ = |value| CowBorrowed { value };
    let _ = |value| ImplTrait { value };
    let _ = |value| ReferenceDeepInside { value };
}
