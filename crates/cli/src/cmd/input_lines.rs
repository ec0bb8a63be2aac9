//! The lines of a file or of stdin, one at a time.

use std::{
    io::{self, SeekFrom},
    path::Path,
};

use tokio::{
    fs::File,
    io::{AsyncBufRead, AsyncBufReadExt, AsyncSeekExt, BufReader, stdin},
};

/// The number of bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// Lines, read on demand. Only one is held in memory.
pub(super) struct InputLines {
    source: Box<dyn AsyncBufRead + Send + Unpin>,
    name: String,
    number: u64,
    position: u64,
    longest: usize,
    /// The number of lines at the beginning that are not returned.
    skipped: u64,
}

/// A line and its number, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputLine {
    pub(super) number: u64,
    /// The position in the file behind the line.
    pub(super) end: u64,
    pub(super) text: Result<Vec<u8>, TooLong>,
}

/// A line that exceeds the maximum length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong {
    pub(super) longest: usize,
}

impl InputLines {
    /// The maximum length of a line in bytes.
    pub(super) const LONGEST: usize = 64 << 20;

    /// Opens a file, or stdin for `None` and `-`.
    pub(super) async fn open(path: Option<&Path>) -> io::Result<Self> {
        match path {
            Some(path) if path != Path::new("-") => {
                let in_context = |error| in_context(&path.display().to_string(), &error);
                let file = File::open(path).await.map_err(in_context)?;
                let source = BufReader::with_capacity(BUFFER, file);
                Ok(Self::new(source, path.display().to_string(), Self::LONGEST))
            }
            _ => {
                let source = BufReader::with_capacity(BUFFER, stdin());
                Ok(Self::new(source, "stdin".to_owned(), Self::LONGEST))
            }
        }
    }

    fn new(source: impl AsyncBufRead + Send + Unpin + 'static, name: String, longest: usize) -> Self {
        Self {
            source: Box::new(source),
            name,
            number: 0,
            position: 0,
            longest,
            skipped: 0,
        }
    }

    /// Leaves out so many lines at the beginning of the file, also if it is opened behind some of them. The
    /// others keep their numbers.
    pub(super) fn skip(self, lines: u64) -> Self {
        Self {
            skipped: lines,
            ..self
        }
    }

    /// Returns whether the file is compressed by gzip. Called before the first line is read.
    pub(super) async fn is_gzip(&mut self) -> io::Result<bool> {
        let beginning = self.source.fill_buf().await;
        let beginning = beginning.map_err(|error| in_context(&self.name, &error))?;
        // The magic number, and the only method (RFC 1952).
        Ok(self.position == 0 && beginning.starts_with(&[0x1f, 0x8b, 8]))
    }

    /// Opens a file behind the lines up to this number, which end at this position.
    pub(super) async fn open_at(path: &Path, number: u64, position: u64) -> io::Result<Self> {
        let in_context = |error| in_context(&path.display().to_string(), &error);
        let mut file = File::open(path).await.map_err(in_context)?;
        file.seek(SeekFrom::Start(position)).await.map_err(in_context)?;
        let source = BufReader::with_capacity(BUFFER, file);
        let lines = Self::new(source, path.display().to_string(), Self::LONGEST);
        Ok(Self {
            number,
            position,
            ..lines
        })
    }

    /// Returns the next line that is not blank, or `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<InputLine>> {
        while let Some(line) = self.next_or_blank().await? {
            match &line.text {
                Ok(text) if text.iter().all(u8::is_ascii_whitespace) => {}
                _ => return Ok(Some(line)),
            }
        }
        Ok(None)
    }

    /// Returns the next line, also a blank one, or `None` at the end.
    pub(super) async fn next_or_blank(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            let line = self.read().await;
            match line.map_err(|error| in_context(&self.name, &error))? {
                Some(line) if line.number <= self.skipped => {}
                line => return Ok(line),
            }
        }
    }

    async fn read(&mut self) -> io::Result<Option<InputLine>> {
        let (mut text, mut length) = (Vec::new(), 0);
        loop {
            let here = self.source.fill_buf().await?;
            let end = here.iter().position(|byte| *byte == b'\n');
            let part = &here[..end.unwrap_or(here.len())];
            length += part.len();
            if length <= self.longest {
                text.extend_from_slice(part);
            } else {
                // The rest of the line is skipped, and the memory is freed.
                text = Vec::new();
            }
            let (read, is_end) = (part.len() + usize::from(end.is_some()), here.is_empty());
            self.source.consume(read);
            self.position += read as u64;
            if is_end && length == 0 {
                return Ok(None);
            }
            if is_end || end.is_some() {
                self.number += 1;
                return Ok(Some(InputLine {
                    number: self.number,
                    end: self.position,
                    text: if length <= self.longest {
                        Ok(text)
                    } else {
                        Err(TooLong {
                            longest: self.longest,
                        })
                    },
                }));
            }
        }
    }
}

fn in_context(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("reading {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Reads the lines of a text that arrives in small pieces.
    async fn lines(text: &'static str) -> Vec<(u64, Option<String>)> {
        let source = BufReader::with_capacity(3, text.as_bytes());
        let mut lines = InputLines::new(source, "text".to_owned(), 8);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push((
                line.number,
                line.text.ok().map(|text| String::from_utf8(text).unwrap()),
            ));
        }
        found
    }

    #[rstest]
    #[case("", &[])]
    #[case("a", &[(1, Some("a"))])]
    #[case("a\nbcdef\n", &[(1, Some("a")), (2, Some("bcdef"))])]
    #[case("\n \t\r\n\na\n\nb", &[(4, Some("a")), (6, Some("b"))])]
    #[case("12345678\n123456789\nab", &[(1, Some("12345678")), (2, None), (3, Some("ab"))])]
    #[case("123456789", &[(1, None)])]
    #[tokio::test]
    async fn numbers_lines_skips_blank_ones_and_passes_long_ones_over(
        #[case] text: &'static str,
        #[case] expected: &[(u64, Option<&str>)],
    ) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(number, text)| (*number, text.map(str::to_owned)))
            .collect();
        assert_eq!(lines(text).await, expected);
    }

    #[tokio::test]
    async fn skipped_lines_are_counted_and_not_returned() {
        for (skipped, expected) in [(0, &[1, 2, 3][..]), (2, &[3]), (3, &[]), (9, &[])] {
            let source = BufReader::new("a\nb\nc".as_bytes());
            let mut lines = InputLines::new(source, "text".to_owned(), 8).skip(skipped);
            let mut numbers = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                numbers.push(line.number);
            }
            assert_eq!(numbers, expected);
        }
    }

    #[tokio::test]
    async fn reading_goes_on_behind_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "a\r\n\nbc\nd").unwrap();
        let mut lines = InputLines::open(Some(&path)).await.unwrap();
        let mut ends = Vec::new();
        while let Some(InputLine { number, end, .. }) = lines.next_or_blank().await.unwrap() {
            ends.push((number, end));
        }
        assert_eq!(ends, [(1, 3), (2, 4), (3, 7), (4, 8)]);
        for (number, end) in ends {
            let mut rest = InputLines::open_at(&path, number, end).await.unwrap();
            let next = rest.next().await.unwrap().map(|line| line.number);
            assert_eq!(next, [3, 3, 4].get(number as usize - 1).copied());
        }
    }
}
