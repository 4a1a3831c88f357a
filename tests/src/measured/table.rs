//! Figures as people read them.

/// The middle one, and in brackets the lowest and the highest, with so many decimals.
pub fn spread(mut figures: Vec<f64>, decimals: usize) -> String {
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    let [middle, least, most] =
        [median(figures), least, most].map(|figure| number(figure, decimals));
    format!("{middle} ({least} to {most})")
}

/// The middle one, of an even number the lower one of two.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() - 1) / 2]
}

/// A number with its thousands set apart.
#[must_use]
pub fn number(figure: f64, decimals: usize) -> String {
    let text = format!("{figure:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A row of a Markdown table.
pub fn row<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<_> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// The first two lines of a Markdown table.
#[must_use]
pub fn head(titles: &[&str]) -> String {
    format!("{}\n|{}", row(titles), "---|".repeat(titles.len()))
}
