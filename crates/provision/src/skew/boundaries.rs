//! The positions of partitions in a region.

use bytes::Bytes;

use super::report::{NextSplit, SplitPoint};

/// The maximum number of positions that are kept.
const MOST: usize = 512;

/// The first keys of partitions, with their positions in bytes from the region's first row, without
/// the first partition. If there are too many, those close to the previous one are dropped.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    places: Vec<(Bytes, u64)>,
    /// The minimum distance between two positions.
    gap: u64,
}

impl Boundaries {
    /// Adds a partition after all others.
    pub(super) fn push(&mut self, key: &Bytes, at: u64) {
        let last = self.places.last().map(|(_, last)| *last);
        if last.is_some_and(|last| at - last < self.gap) {
            return;
        }
        self.places.push((key.clone(), at));
        while self.places.len() > MOST {
            self.gap = (self.gap * 2).max(1);
            let gap = self.gap;
            // Keeps the first position, which is the end of the first partition and decides whether
            // HBase can split.
            let mut last = None;
            self.places.retain(|(_, at)| {
                let keep = last.is_none_or(|last| at - last >= gap);
                if keep {
                    last = Some(*at);
                }
                keep
            });
        }
    }

    /// Returns the result of an automatic split and the best split point, for this total size.
    pub(super) fn split(&self, total: u64) -> (NextSplit, Option<SplitPoint>) {
        let point = |(key, before): &(Bytes, u64)| SplitPoint {
            key: key.clone(),
            before: *before,
            after: total.saturating_sub(*before),
        };
        let middle = total / 2;
        let best = self.places.iter().min_by_key(|(_, at)| at.abs_diff(middle));
        let before_middle = self.places.iter().rfind(|(_, at)| *at <= middle);
        let next = match (total, best, before_middle) {
            (0, ..) => NextSplit::NoRows,
            (_, None, _) => NextSplit::OnePartition,
            (_, Some(_), None) => NextSplit::FirstPartition,
            (_, _, Some(place)) => NextSplit::At(point(place)),
        };
        (next, best.map(point))
    }

    /// Returns up to `most` positions, spread over the region.
    pub(super) fn some(&self, most: usize) -> Vec<u64> {
        let step = self.places.len().div_ceil(most).max(1);
        self.places.iter().step_by(step).map(|(_, at)| *at).collect()
    }

    /// Scales all positions.
    pub(super) fn scaled(mut self, scale: impl Fn(u64) -> u64) -> Self {
        for (_, at) in &mut self.places {
            *at = scale(*at);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundaries(places: &[(&'static str, u64)]) -> Boundaries {
        let mut boundaries = Boundaries::default();
        for (key, at) in places {
            boundaries.push(&Bytes::from(*key), *at);
        }
        boundaries
    }

    fn point(key: &'static str, before: u64, after: u64) -> SplitPoint {
        SplitPoint {
            key: key.into(),
            before,
            after,
        }
    }

    #[test]
    fn hbase_goes_back_to_where_the_partition_in_the_middle_begins() {
        let (next, best) = boundaries(&[("b", 10), ("c", 45), ("d", 52)]).split(100);
        assert_eq!(next, NextSplit::At(point("c", 45, 55)));
        assert_eq!(best, Some(point("d", 52, 48)));
    }

    #[test]
    fn middle_in_the_first_partition_allows_only_a_manual_split() {
        let (next, best) = boundaries(&[("b", 80), ("c", 90)]).split(100);
        assert_eq!(next, NextSplit::FirstPartition);
        assert_eq!(best, Some(point("b", 80, 20)));
    }

    #[test]
    fn one_partition_and_none() {
        assert_eq!(boundaries(&[]).split(100), (NextSplit::OnePartition, None));
        assert_eq!(boundaries(&[]).split(0), (NextSplit::NoRows, None));
    }

    #[test]
    fn of_many_some_are_kept_and_the_best_place_is_nearly_as_good() {
        let mut boundaries = Boundaries::default();
        let (all, giant) = (100_000, 7_000);
        for at in 1..all {
            // A partition in the middle is as large as thousands of others.
            let jump = if at > all / 2 { giant } else { 0 };
            boundaries.push(&Bytes::from(format!("{at:06}")), at + jump);
        }
        assert!((MOST / 4..=MOST).contains(&boundaries.places.len()));
        assert_eq!(boundaries.places[0].1, 1);
        let total = all + giant;
        let (next, best) = boundaries.split(total);
        let NextSplit::At(next) = next else {
            panic!("{next:?}")
        };
        assert!(next.before.abs_diff(all / 2) < total / 100, "{next:?}");
        assert!(best.unwrap().before.abs_diff(total / 2) <= giant / 2 + total / 100);
        assert!(boundaries.some(64).len() <= 64);
    }
}
