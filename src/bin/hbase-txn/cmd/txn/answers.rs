//! How transactions ended, told in the order of the lines.

use std::io;

use serde::Serialize;

use crate::{
    args::Format,
    exit::Exit,
    output::{self, Lines},
    progress::Progress,
};

/// How a transaction ended. The keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    pub(super) line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<String>,
    pub(super) outcome: &'static str,
    /// How many different rows the transaction has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Tells answers, and remembers the gravest.
#[derive(Debug)]
pub(super) struct Answers {
    lines: Lines,
    format: Format,
    progress: Option<Progress>,
    exit: Exit,
    committed: u64,
    /// Why answers can't be told any more, and how many were not.
    broken: Option<(io::Error, usize)>,
}

impl Answers {
    pub(super) fn new(format: Format) -> Self {
        Self {
            lines: Lines::new(),
            format,
            progress: Progress::beside_output(),
            exit: Exit::Done,
            committed: 0,
            broken: None,
        }
    }

    /// Tells an answer at once: who waits for it may be a program that sends the next line then. False when it can't
    /// be told.
    pub(super) fn tell(&mut self, answer: &Answer) -> bool {
        self.exit = self.exit.or_graver(answer.exit());
        self.committed += u64::from(answer.exit() == Exit::Done);
        if let Some(progress) = &self.progress {
            progress.step(&format!(
                "line {}, {} transactions committed",
                answer.line, self.committed
            ));
        }
        match &mut self.broken {
            Some((_, lost)) => *lost += 1,
            None => {
                if let Err(error) = write(&mut self.lines, answer, self.format) {
                    self.broken = Some((error, 1));
                }
            }
        }
        self.broken.is_none()
    }

    /// The lines can't be read on.
    pub(super) fn fail(&mut self, exit: Exit) {
        self.exit = self.exit.or_graver(exit);
    }

    /// How the command ends.
    pub(super) fn end(self) -> Exit {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        let Some((error, lost)) = self.broken else {
            return self.exit;
        };
        output::complain(&format!(
            "hbase-txn: stopped, because the answers can't be written: {error}; {} of transactions that had begun could \
             not be told",
            output::counted(lost, "answer")
        ));
        self.exit.or_graver(Exit::Failed)
    }
}

impl Answer {
    pub(super) fn refused(line: u64, prefix: Option<String>, rows: Option<usize>, error: String) -> Self {
        Self {
            line,
            prefix,
            outcome: "refused",
            rows,
            error: Some(error),
        }
    }

    fn exit(&self) -> Exit {
        match self.outcome {
            "committed" => Exit::Done,
            "unknown" => Exit::Unknown,
            _ => Exit::Failed,
        }
    }
}

fn write(lines: &mut Lines, answer: &Answer, format: Format) -> io::Result<()> {
    let Answer {
        line,
        prefix,
        outcome,
        rows,
        error,
    } = answer;
    if format == Format::Json {
        lines.json(answer)?;
    } else {
        let partition = prefix.as_ref().map(|prefix| format!("partition {prefix}, "));
        let rows = rows.map(|rows| format!("{}, ", output::counted(rows, "row")));
        let error = error.as_ref().map(|error| format!(": {error}"));
        let (partition, rows, error) = (
            partition.unwrap_or_default(),
            rows.unwrap_or_default(),
            error.unwrap_or_default(),
        );
        lines.line(format_args!("line {line}: {partition}{rows}{outcome}{error}"))?;
    }
    lines.flush()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn answer(outcome: &'static str) -> Answer {
        Answer {
            outcome,
            ..Answer::refused(1, None, None, "why".to_owned())
        }
    }

    #[rstest]
    #[case("committed", Exit::Done)]
    #[case("refused", Exit::Failed)]
    #[case("failed", Exit::Failed)]
    #[case("unknown", Exit::Unknown)]
    fn an_outcome_ends_the_command_so(#[case] outcome: &'static str, #[case] exit: Exit) {
        assert_eq!(answer(outcome).exit(), exit);
    }

    #[test]
    fn keys_that_say_nothing_are_left_out() {
        let json = serde_json::to_string(&answer("unknown")).unwrap();
        assert_eq!(json, r#"{"line":1,"outcome":"unknown","error":"why"}"#);
    }
}
