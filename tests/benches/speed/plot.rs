//! Costs as lines in an SVG.

use anyhow::anyhow;
use plotters::prelude::*;

use jobq_tests::measured::table::number;

/// One line: a figure for each label of the axis.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

const SIZE: (u32, u32) = (760, 420);
const FONT: &str = "sans-serif";

/// Draws lines over an axis with these labels, all the same way apart. The figures are
/// microseconds a job, by powers of ten.
pub(crate) fn svg(
    title: &str,
    axis: &str,
    labels: &[String],
    lines: &[Line],
) -> anyhow::Result<String> {
    let mut text = String::new();
    draw(&mut text, title, axis, labels, lines).map_err(|error| anyhow!("{title}: {error}"))?;
    Ok(text)
}

fn draw(
    text: &mut String,
    title: &str,
    axis: &str,
    labels: &[String],
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let all = || lines.iter().flat_map(|line| line.values.iter().copied());
    let floor = 10_f64.powf(all().fold(f64::INFINITY, f64::min).log10().floor());
    let highest = all().fold(10.0 * floor, f64::max);
    // The names of the lines are above them.
    let ceiling = highest * (highest / floor).powf(0.4);
    #[allow(clippy::cast_precision_loss)] // a few
    let last = (labels.len() - 1).max(1) as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 18))
        .margin(12)
        // Half of the last label.
        .margin_right(40)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..last, (floor..ceiling).log_scale())?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few
    let label = |at: &f64| {
        let whole = (at - at.round()).abs() < 1e-6;
        whole.then(|| labels.get(at.round() as usize).cloned()).flatten().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(220, 220, 220))
        .label_style((FONT, 13))
        .x_labels(labels.len())
        .x_label_formatter(&label)
        .y_label_formatter(&|figure| number(*figure, usize::from(*figure < 1.0)))
        .x_desc(axis)
        .y_desc("µs a job")
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        #[allow(clippy::cast_precision_loss)] // a few
        let points = || line.values.iter().enumerate().map(|(at, value)| (at as f64, *value));
        chart
            .draw_series(LineSeries::new(points(), color.stroke_width(2)))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 13))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}
