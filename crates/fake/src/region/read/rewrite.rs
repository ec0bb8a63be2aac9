//! Which cells flushes and compactions keep.

use super::{
    matcher::{FamilyQuery, Matcher, Purpose, behind},
    step::Step,
};
use crate::{
    exception::Result,
    region::{
        entry::{CellKey, Entry},
        family::Family,
    },
};

/// Returns which cells of a family of a row are written to a new file.
pub(crate) fn kept(
    cells: &[(CellKey, Entry)],
    family: Family,
    now: u64,
    keep_markers: bool,
) -> Result<Vec<bool>> {
    let query = FamilyQuery {
        columns: Vec::new(),
        most_versions: family.versions,
        time_range: (0, u64::MAX),
        has_filter: false,
    };
    let mut matcher = Matcher::new(family, Purpose::Rewrite { keep_markers }, query, now);
    matcher.enter_row();
    let mut kept = vec![false; cells.len()];
    let mut at = 0;
    while let Some((key, entry)) = cells.get(at) {
        let step = matcher.step_without_filter(key, entry)?;
        kept[at] = matches!(
            step,
            Step::Include | Step::IncludeAndNextColumn | Step::IncludeAndNextRow
        );
        let next = match step {
            Step::IncludeAndNextColumn | Step::NextColumn if key.qualifier.is_empty() => Some(behind(key)),
            Step::IncludeAndNextColumn | Step::NextColumn => {
                Some(CellKey::last_of(key.family.clone(), key.qualifier.clone()))
            }
            Step::IncludeAndNextRow | Step::NextRow | Step::Done => break,
            Step::Include | Step::Skip | Step::Seek(_) => None,
        };
        at += 1;
        if let Some(next) = next {
            at += cells[at..].partition_point(|(key, _)| *key < next);
        }
    }
    Ok(kept)
}
