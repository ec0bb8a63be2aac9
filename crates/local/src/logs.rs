//! The logs of a cluster's processes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    diagnose::log_of,
    layout::{Layout, storage},
    state::State,
};
use crate::Result;

/// The maximum size of the end of a log that is read.
const MAX_END: u64 = 1 << 20;

/// The log of a process of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessLog {
    /// The name of the process, as in [`ClusterStatus::pids`](crate::ClusterStatus::pids).
    pub process: String,
    /// The file. That of the previous start is beside it, as `PROCESS.previous.log`.
    pub path: PathBuf,
    /// Its last lines, the last one at the end; none if the process was never started.
    pub lines: Vec<String>,
}

/// Reads the last lines of the logs of all processes, at most this many of each.
pub(super) fn last_lines(layout: &Layout, state: &State, most: usize) -> Result<Vec<ProcessLog>> {
    let logs = state.roles().into_iter().map(|role| {
        let path = log_of(layout, role);
        let end = end_of(&path)?;
        let mut lines: Vec<String> = end.lines().rev().take(most).map(str::to_owned).collect();
        lines.reverse();
        Ok(ProcessLog {
            process: role.to_string(),
            path,
            lines,
        })
    });
    logs.collect()
}

/// Reads the last whole lines of a log, up to 1 MiB. The end of a missing one is empty.
pub(super) fn end_of(path: &Path) -> Result<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(MAX_END);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.take(MAX_END).read_to_end(&mut end)?;
        if start > 0 {
            let cut = end.iter().position(|byte| *byte == b'\n');
            end.drain(..cut.map_or(0, |at| at + 1));
        }
        Ok(end)
    };
    match read() {
        Ok(end) => Ok(String::from_utf8_lossy(&end).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(storage("can't read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{HBaseVersion, Home, Shape};

    #[test]
    fn last_lines_are_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        layout.create().unwrap();
        let state = State::new(HBaseVersion::default(), Shape::Distributed { region_servers: 1 });
        let log = layout.logs().join("master.log");
        let lines = (0..100_000).map(|line| format!("line {line} of a long log\n"));
        fs::write(&log, lines.collect::<String>()).unwrap();
        assert!(fs::metadata(&log).unwrap().len() > MAX_END);

        let logs = last_lines(&layout, &state, 2).unwrap();
        let master = logs.iter().find(|log| log.process == "master").unwrap();
        assert_eq!(master.path, log);
        assert_eq!(
            master.lines,
            ["line 99998 of a long log", "line 99999 of a long log"]
        );
        let other = logs.iter().find(|log| log.process == "region-server-1").unwrap();
        assert!(other.lines.is_empty());
        let all = last_lines(&layout, &state, usize::MAX).unwrap();
        let master = all.iter().find(|log| log.process == "master").unwrap();
        assert!(master.lines[0].starts_with("line ") && master.lines.len() > 10_000);
    }
}
