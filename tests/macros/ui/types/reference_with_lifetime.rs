use jobq::{BoxError, job};

#[job]
async fn save<'a>(text: &'a str, more: std::borrow::Cow<'a, str>) -> Result<(), BoxError> {
    Err(format!("{text}{more}").into())
}

fn main() {
    let _ = Save { text: String::new(), more: String::new() };
}
