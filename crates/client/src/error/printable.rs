//! Text of peers, for terminals and logs.

use std::fmt::{self, Write};

/// Displays a text without its control characters, which are escaped as in Rust (`\u{1b}`, `\n`).
///
/// Names and messages come from servers, other users and files. On a terminal, a control character
/// in them could hide or forge what is printed; in a log, begin another line. The messages of errors
/// are displayed like this.
///
/// # Example
///
/// ```
/// use hbase_client::Printable;
///
/// assert_eq!(Printable("\x1b[2Jé\n").to_string(), r"\u{1b}[2Jé\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// A writer that escapes control characters: C0, DEL and C1.
struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, control)) = rest.char_indices().find(|(_, c)| c.is_control()) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", control.escape_debug())?;
            rest = &rest[at + control.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::{Error, ErrorKind, RemoteException};

    #[test]
    fn error_of_several_faults_has_a_line_for_each() {
        let error = Error::invalid_lines(&["a:1: \x1b".into(), "a:2: b\nc".into()]);
        assert_eq!(error.to_string(), "a:1: \\u{1b}\na:2: b\\nc");
    }

    proptest! {
        #[test]
        fn no_control_character_is_printed_and_nothing_else_changes(text in any::<String>()) {
            let printed = Printable(&text).to_string();
            prop_assert!(!printed.chars().any(char::is_control), "{printed:?}");
            let is_plain = !text.chars().any(char::is_control);
            prop_assert_eq!(printed == text, is_plain);
        }

        /// Whatever a peer puts into an answer or a name.
        #[test]
        fn error_controls_no_terminal(parts in proptest::collection::vec("(?s)[\\x00-\\x1f\\x7f-\\u{9f}a.:]{0,20}", 9)) {
            let part = |at: usize| parts[at].clone();
            let remote = RemoteException { class: part(0), message: part(1), trace: part(2) };
            let error = Error::new(ErrorKind::Server, part(3))
                .at_operation(part(4))
                .at_table(&part(5))
                .at_row(&part(6))
                .at_server(&part(7))
                .at_stage(part(8))
                .with_remote(remote.clone())
                .with_hint(part(3));
            let of_source = Error::new(ErrorKind::Server, "x").with_source(part(1));
            for text in [error.to_string(), format!("{error:?}"), format!("{error:#?}"), remote.to_string(), of_source.to_string()] {
                let other = text.chars().find(|c| c.is_control() && *c != '\n');
                prop_assert_eq!(other, None, "{:?}", text);
                // Only the structure that `{:#?}` shows has lines.
                let is_one_line = !text.contains('\n') || text.starts_with("Error {\n");
                prop_assert!(is_one_line, "{:?}", text);
            }
        }
    }
}
