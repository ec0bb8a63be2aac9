//! Calls of a coprocessor endpoint on all regions of a range of rows.

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::{EndpointCall, Pauses, Table};
use crate::{
    error::{Effect, Error, ErrorKind, Result},
    model::{BytesBinary, IntoBytes, RegionInfo},
};

/// The answer of one region to a [call on a range](Table::call_endpoint_on_range).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionAnswer {
    /// The region that was called.
    pub region: RegionInfo,
    /// Its serialized answer, or why there is none.
    pub answer: Result<Bytes>,
}

impl Table {
    /// Calls a coprocessor endpoint on each region that has rows from the call's row to before
    /// `stop_row`, on up to `regions_at_once` of them at the same time, at least one. An empty row
    /// stands for the beginning or the end of the table.
    ///
    /// Returns one answer for each region, in the order of their keys. Together the regions cover the
    /// whole range, and no two of them have a row in common. Moved regions are called at their new
    /// server. A region that is split before it was called is replaced by its daughters. Where a
    /// region was called and then merged with one that was not, an
    /// [idempotent](EndpointCall::idempotent) call is made on the merged region, whose answer
    /// replaces the earlier one; any other call is not made again, and the merged region's answer is
    /// an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the regions of the range cannot be found within the operation timeout. If
    /// its [outcome is unknown](Error::is_outcome_unknown), some regions were called already.
    /// A region's own failure is its answer; see [`call_endpoint`](Self::call_endpoint).
    pub async fn call_endpoint_on_range(
        &self,
        call: &EndpointCall,
        stop_row: impl IntoBytes,
        regions_at_once: usize,
    ) -> Result<Vec<RegionAnswer>> {
        let mut covered = Covered {
            start: call.row.clone(),
            stop: stop_row.into_bytes(),
            answers: Vec::new(),
        };
        covered.check().map_err(|error| self.in_range_call(error))?;
        let deadline = self.deadline();
        let mut pauses = Pauses::polling();
        loop {
            let regions = self
                .regions(&covered, deadline)
                .await
                .map_err(|error| error.with_effect(covered.effect(call)))?;
            let open = covered.open_regions(regions, call.idempotent);
            let calls = open.into_iter().map(async |region| {
                let answer = self.call_endpoint_on(&region, call, deadline).await;
                RegionAnswer { region, answer }
            });
            let answers: Vec<_> = stream::iter(calls)
                .buffer_unordered(regions_at_once.max(1))
                .collect()
                .await;
            covered.add(answers);
            let Some(row) = covered.gap() else {
                return Ok(covered.answers);
            };
            if !pauses.wait_before(deadline).await {
                let error = Error::new(
                    ErrorKind::DeadlineExceeded,
                    "no region of a row was found in time",
                );
                let error = error.with_effect(covered.effect(call)).at_row(&BytesBinary(&row));
                return Err(self.in_range_call(error));
            }
        }
    }

    async fn regions(&self, range: &Covered, deadline: Instant) -> Result<Vec<RegionInfo>> {
        let cluster = &self.connection.shared.cluster;
        let regions = cluster.regions_in(&self.name, &range.start, &range.stop, deadline);
        let regions = regions.await?;
        Ok(regions.into_iter().map(|found| found.region).collect())
    }

    fn in_range_call(&self, error: Error) -> Error {
        error.at_operation("endpoint call").at_table(&self.name)
    }
}

/// A range of rows, and the answers of regions for parts of it.
struct Covered {
    start: Bytes,
    /// The first row behind the range; empty for the end of the table.
    stop: Bytes,
    /// Answers of regions without common rows, in the order of their keys.
    answers: Vec<RegionAnswer>,
}

impl Covered {
    fn check(&self) -> Result<()> {
        if self.stop.is_empty() || self.start < self.stop {
            Ok(())
        } else {
            Err(Error::invalid(format!(
                "the stop row {} is not behind the start row {}",
                BytesBinary(&self.stop),
                BytesBinary(&self.start)
            )))
        }
    }

    /// Returns the effect of the calls so far.
    fn effect(&self, call: &EndpointCall) -> Effect {
        if self.answers.is_empty() || call.idempotent {
            Effect::None
        } else {
            Effect::Unknown
        }
    }

    /// Returns the regions of the range that are to be called. Answers of regions that one of them
    /// was merged from are removed if the call may be repeated; otherwise that region's answer is an
    /// error.
    fn open_regions(&mut self, regions: Vec<RegionInfo>, is_repeatable: bool) -> Vec<RegionInfo> {
        let mut open = Vec::new();
        for region in regions {
            let (start, stop) = self.clip(&region);
            if is_before(&stop, &start) || self.gap_between(&start, &stop).is_none() {
                continue;
            }
            let before = self.answers.len();
            self.answers.retain(|answer| !answer.region.overlaps(&region));
            if self.answers.len() == before || is_repeatable {
                open.push(region);
                continue;
            }
            let what = "the region was merged from one that was called already, and others that were not";
            let error = Error::new(ErrorKind::RegionNotFound, what).with_effect(Effect::Unknown);
            let answer =
                Err(error.with_hint("repeat the call for the rows of that region if it may run twice"));
            self.add(vec![RegionAnswer { region, answer }]);
        }
        open
    }

    /// Adds answers, but not those of regions that were gone before they were called.
    fn add(&mut self, answers: Vec<RegionAnswer>) {
        let is_gone = |answer: &RegionAnswer| {
            let error = answer.answer.as_ref().err();
            error.is_some_and(|error| {
                error.kind() == ErrorKind::RegionNotFound && error.effect() == Effect::None
            })
        };
        self.answers
            .extend(answers.into_iter().filter(|answer| !is_gone(answer)));
        self.answers
            .sort_by(|one, other| one.region.start_key.cmp(&other.region.start_key));
    }

    /// Returns the part of a region that is in the range.
    fn clip(&self, region: &RegionInfo) -> (Bytes, Bytes) {
        let start = self.start.clone().max(region.start_key.clone());
        let stop = match (self.stop.is_empty(), region.end_key.is_empty()) {
            (true, _) => region.end_key.clone(),
            (_, true) => self.stop.clone(),
            _ => self.stop.clone().min(region.end_key.clone()),
        };
        (start, stop)
    }

    /// Returns the first row of the range without an answer.
    fn gap(&self) -> Option<Bytes> {
        self.gap_between(&self.start, &self.stop)
    }

    fn gap_between(&self, start: &Bytes, stop: &Bytes) -> Option<Bytes> {
        let mut row = start.clone();
        for RegionAnswer { region, .. } in &self.answers {
            if region.contains(&row) {
                if region.end_key.is_empty() {
                    return None;
                }
                row = region.end_key.clone();
            }
        }
        (!is_before(stop, &row)).then_some(row)
    }
}

/// Returns whether a range that ends before this row has no rows from another one on.
fn is_before(stop: &Bytes, row: &Bytes) -> bool {
    !stop.is_empty() && stop <= row
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn region(range: &str) -> RegionInfo {
        let (start, end) = range.split_once('-').unwrap();
        RegionInfo {
            table: "t".parse().unwrap(),
            start_key: Bytes::copy_from_slice(start.as_bytes()),
            end_key: Bytes::copy_from_slice(end.as_bytes()),
            name: Bytes::copy_from_slice(range.as_bytes()),
            ..RegionInfo::meta()
        }
    }

    fn answered(range: &str) -> RegionAnswer {
        RegionAnswer {
            region: region(range),
            answer: Ok(Bytes::new()),
        }
    }

    #[rstest]
    #[case::all("", "", &[], &["-b", "b-d", "d-"], None)]
    #[case::a_part("b1", "d", &[], &["b-d"], None)]
    #[case::to_a_row("b", "d1", &[], &["b-d", "d-"], None)]
    #[case::hole("", "", &["-b", "d-"], &["b-d"], None)]
    #[case::split_after_its_call("", "d", &["-c", "c-e"], &[], None)]
    #[case::merged_before_its_call("", "", &["-b"], &["b-d", "d-"], None)]
    #[case::merged_after_a_call("", "", &["-b", "b-c", "d-"], &["b-d"], Some("b-d"))]
    fn regions_without_an_answer_are_called(
        #[case] start: &'static str,
        #[case] stop: &'static str,
        #[case] answers: &[&str],
        #[case] expected: &[&str],
        #[case] refused: Option<&str>,
    ) {
        let regions = || ["-b", "b-d", "d-"].map(region).to_vec();
        let covered = || Covered {
            start: start.into(),
            stop: stop.into(),
            answers: answers.iter().map(|range| answered(range)).collect(),
        };
        let name = |region: &RegionInfo| String::from_utf8(region.name.to_vec()).unwrap();
        let mut repeatable = covered();
        let open: Vec<_> = repeatable
            .open_regions(regions(), true)
            .iter()
            .map(name)
            .collect();
        assert_eq!(open, expected);
        repeatable.add(expected.iter().map(|range| answered(range)).collect());
        assert_eq!(repeatable.gap(), None);
        for pair in repeatable.answers.windows(2) {
            assert!(!pair[0].region.overlaps(&pair[1].region), "{pair:?}");
        }
        let mut once = covered();
        let called = once.open_regions(regions(), false);
        let errors: Vec<_> = once
            .answers
            .iter()
            .filter(|answer| answer.answer.is_err())
            .collect();
        assert_eq!(
            errors.first().map(|answer| name(&answer.region)).as_deref(),
            refused
        );
        assert_eq!(called.len() + errors.len(), expected.len());
    }

    #[test]
    fn regions_that_are_gone_leave_a_gap() {
        let gone = Error::new(ErrorKind::RegionNotFound, "gone");
        let failed = Error::new(ErrorKind::Server, "failed");
        let mut covered = Covered {
            start: Bytes::new(),
            stop: Bytes::new(),
            answers: Vec::new(),
        };
        covered.add(vec![
            RegionAnswer {
                answer: Err(failed),
                ..answered("-b")
            },
            RegionAnswer {
                answer: Err(gone),
                ..answered("b-")
            },
        ]);
        assert_eq!(covered.gap().as_deref(), Some(&b"b"[..]));
        covered.add(vec![answered("b-")]);
        assert_eq!(covered.gap(), None);
        assert!(covered.answers[0].answer.is_err());
    }
}
