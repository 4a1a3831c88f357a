//! In which lives of the connection or the lease the attempts in hand were delivered. Pure.

/// How many attempts in hand were delivered in each life.
#[derive(Debug, Default)]
pub(super) struct Lives(Vec<(u64, usize)>);

impl Lives {
    /// One more of this life is in hand.
    pub(super) fn begin(&mut self, life: u64) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == life) {
            *count += 1;
        } else {
            self.0.retain(|(_, count)| *count > 0);
            self.0.push((life, 1));
        }
    }

    /// One of this life is not in hand any more.
    pub(super) fn end(&mut self, life: u64) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == life) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether any of another life is in hand.
    pub(super) fn has_other(&self, life: u64) -> bool {
        self.0.iter().any(|(known, count)| *known != life && *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_another_one_for_as_long_as_an_attempt_of_it_is_in_hand() {
        let mut lives = Lives::default();
        assert!(!lives.has_other(1));
        lives.begin(1);
        lives.begin(1);
        assert!(!lives.has_other(1) && lives.has_other(2));
        lives.begin(2);
        lives.end(1);
        assert!(lives.has_other(1) && lives.has_other(2));
        lives.end(1);
        assert!(lives.has_other(1) && !lives.has_other(2));
        lives.end(2);
        assert!(!lives.has_other(1));
        lives.begin(3);
        assert_eq!(lives.0, [(3, 1)], "lives that have ended are forgotten");
    }
}
