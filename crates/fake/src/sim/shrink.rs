//! The faults that a failure needs.

use std::collections::BTreeSet;

use super::{Run, plan::FaultId};

/// The runs that a reduction may take.
const MOST_RUNS: usize = 300;

/// Removes faults while runs without them still fail: first large parts, then single ones. Returns
/// the faults that are left, and the run with them; the run of all faults if it does not fail again.
pub(super) fn shrink(
    faults: BTreeSet<FaultId>,
    run: &dyn Fn(BTreeSet<FaultId>) -> Run,
) -> (BTreeSet<FaultId>, Run) {
    let mut left: Vec<FaultId> = faults.into_iter().collect();
    let mut failed = run(left.iter().copied().collect());
    let mut runs = 1;
    let mut part = left.len().div_ceil(2);
    while failed.failure.is_some() && part > 0 {
        let before = left.len();
        let mut start = 0;
        while start < left.len() && runs < MOST_RUNS {
            let end = (start + part).min(left.len());
            let fewer: Vec<FaultId> = [&left[..start], &left[end..]].concat();
            let attempt = run(fewer.iter().copied().collect());
            runs += 1;
            if attempt.failure.is_some() {
                // Faults that did not happen in this run are not needed either.
                let happened: BTreeSet<FaultId> = attempt.faults.iter().map(|fault| fault.id).collect();
                left = fewer
                    .into_iter()
                    .filter(|fault| happened.contains(fault))
                    .collect();
                failed = attempt;
            } else {
                start = end;
            }
        }
        part = match part {
            _ if runs >= MOST_RUNS => 0,
            1 if left.len() == before => 0,
            1 => 1,
            _ => part / 2,
        };
    }
    (left.into_iter().collect(), failed)
}
