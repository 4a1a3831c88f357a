//! Metrics as Prometheus reads them.

use std::collections::BTreeMap;

/// The samples of one scrape, by series: `jobq_running{queue=mail}`, without quotes.
#[derive(Debug)]
pub struct Scraped(BTreeMap<String, String>);

impl Scraped {
    /// Reads the text format.
    ///
    /// # Panics
    ///
    /// If it is not that.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            (series.replace('"', ""), value.to_owned())
        };
        Self(samples.map(sample).collect())
    }

    /// The value of a counter, a gauge or the count of a histogram; 0 if there is none.
    ///
    /// # Panics
    ///
    /// If it is no whole number.
    #[must_use]
    pub fn count(&self, series: &str) -> u64 {
        self.0.get(series).map_or(0, |value| value.parse().expect("it counts"))
    }

    /// The sum of a histogram, in seconds; 0 if there is none.
    ///
    /// # Panics
    ///
    /// If it is no number.
    #[must_use]
    pub fn seconds(&self, series: &str) -> f64 {
        self.0.get(series).map_or(0.0, |value| value.parse().expect("it is a number"))
    }

    /// All that is not 0, but for sums of durations and their buckets.
    #[must_use]
    pub fn figures(&self) -> Vec<String> {
        let is_figure = |series: &str| {
            let name = series.split('{').next().unwrap_or_default();
            !name.ends_with("_sum") && !name.ends_with("_bucket")
        };
        let counted = self.0.iter().filter(|(series, value)| *value != "0" && is_figure(series));
        counted.map(|(series, value)| format!("{series} {value}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_all_but_sums_and_buckets() {
        let text = "# TYPE a counter\na{queue=\"mail\"} 2\na{queue=\"shop\"} 0\n\n\
                    b_bucket{le=\"+Inf\"} 1\nb_sum 0.25\nb_count 1\n";
        let scraped = Scraped::read(text);
        assert_eq!(scraped.figures(), ["a{queue=mail} 2", "b_count 1"]);
        assert!(scraped.seconds("b_sum") > 0.2);
        assert_eq!((scraped.count("b_count"), scraped.count("a{queue=hail}")), (1, 0));
    }
}
