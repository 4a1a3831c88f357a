//! Small line charts, as SVG by attributes and classes. Pure.

use std::fmt::Write as _;

use askama::Template;

use crate::show::count;

const WIDTH: usize = 120;
const HEIGHT: usize = 24;

/// A small line chart.
#[derive(Debug, Template)]
#[template(
    ext = "html",
    source = r#"<svg class="spark{{ class }}" viewBox="0 0 120 24" preserveAspectRatio="none" role="img" aria-label="{{ label }}"><line x1="0" y1="23.5" x2="120" y2="23.5"/>{% for line in lines %}<polyline points="{{ line }}"/>{% endfor %}</svg>{% if !class.is_empty() %}<small>at most {{ most }}</small>{% endif %}"#
)]
pub(crate) struct Spark {
    class: &'static str,
    label: String,
    most: String,
    lines: Vec<String>,
}

impl Spark {
    /// A chart with room for so many points, of which the last is at the right edge. A gap is where
    /// a figure was unknown.
    pub(crate) fn new(what: &str, span: &str, points: &[Option<u32>], room: usize) -> Self {
        let known = || points.iter().flatten().copied();
        let most = known().max().unwrap_or(0);
        let label = match (points.iter().flatten().next(), known().last()) {
            (Some(first), Some(last)) => format!(
                "{what} in the last {span}: from {} to {}, at most {}",
                count((*first).into()),
                count(last.into()),
                count(most.into())
            ),
            _ => format!("{what} in the last {span}: unknown"),
        };
        let lines = lines(points, room, most.max(1));
        Self { class: "", label, most: count(most.into()), lines }
    }

    /// As wide as the page.
    pub(crate) fn wide(mut self) -> Self {
        self.class = " chart";
        self
    }
}

fn lines(points: &[Option<u32>], room: usize, most: u32) -> Vec<String> {
    let points = &points[points.len().saturating_sub(room)..];
    let first = room - points.len();
    let mut lines = Vec::new();
    let mut line = String::new();
    for (index, point) in points.iter().enumerate() {
        let Some(value) = point else {
            lines.extend((!line.is_empty()).then(|| std::mem::take(&mut line)));
            continue;
        };
        let x = (first + index) * WIDTH / (room - 1).max(1);
        let drawn = u64::from(*value) * (HEIGHT as u64 - 2) * 10 / u64::from(most);
        let y = (HEIGHT as u64 - 1) * 10 - drawn;
        if line.is_empty() && !matches!(points.get(index + 1), Some(Some(_))) {
            // A line of one point would not be seen.
            let _ = write!(line, "{},{}.{} ", x.saturating_sub(1), y / 10, y % 10);
        }
        let space = if line.is_empty() || line.ends_with(' ') { "" } else { " " };
        let _ = write!(line, "{space}{x},{}.{}", y / 10, y % 10);
    }
    lines.extend((!line.is_empty()).then_some(line));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_ends_at_the_right_and_has_gaps() {
        let draw = |points: &[Option<u32>], room| lines(points, room, 4);
        assert_eq!(draw(&[Some(0), Some(4)], 3), ["60,23.0 120,1.0"]);
        assert_eq!(draw(&[Some(0), None, Some(2)], 3), ["0,23.0 0,23.0", "119,12.0 120,12.0"]);
        assert_eq!(draw(&[Some(9), Some(0), Some(4)], 2), ["0,23.0 120,1.0"]);
        assert!(draw(&[], 3).is_empty() && draw(&[None], 3).is_empty());
        let label = Spark::new("Ready", "five minutes", &[Some(3), None, Some(1_000)], 9).label;
        assert_eq!(label, "Ready in the last five minutes: from 3 to 1,000, at most 1,000");
    }
}
