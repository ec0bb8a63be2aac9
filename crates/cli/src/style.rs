//! Colours and weights of text for people.

use std::{
    env,
    io::{self, IsTerminal},
    sync::OnceLock,
};

use clap::{
    ValueEnum,
    builder::styling::{AnsiColor, Style},
};
use hbase_txn::client::Printable;

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The meaning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The head of a table.
    Heading,
    /// An error, a problem, a loss.
    Bad,
    /// A note, a change.
    Notice,
    /// An addition, a problem that is gone.
    Good,
}

/// The stream to which text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    Stderr,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the choice of the command line, once.
pub(crate) fn choose(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Returns the text with the style of its meaning, if text is coloured there.
pub(crate) fn paint(target: Target, meaning: Meaning, text: &str) -> String {
    if is_colored(target) {
        let style = meaning.style();
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// The sequences that [`paint`] writes: bold, red, green, yellow, and the end of each.
const SEQUENCES: [&str; 5] = ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];

/// Returns a line without control characters, except colours if text is coloured there.
pub(crate) fn printable(target: Target, text: &str) -> String {
    if is_colored(target) {
        printable_between(&SEQUENCES, text)
    } else {
        Printable(text).to_string()
    }
}

fn printable_between(sequences: &[&str], text: &str) -> String {
    let (mut printed, mut rest) = (String::with_capacity(text.len()), text);
    loop {
        let found = sequences
            .iter()
            .filter_map(|sequence| Some((rest.find(sequence)?, *sequence)));
        let Some((at, sequence)) = found.min() else {
            break printed + &Printable(rest).to_string();
        };
        printed += &Printable(&rest[..at]).to_string();
        printed += sequence;
        rest = &rest[at + sequence.len()..];
    }
}

fn is_colored(target: Target) -> bool {
    let choice = CHOICE.get().copied().unwrap_or_default();
    let is_terminal = match target {
        Target::Stdout => io::stdout().is_terminal(),
        Target::Stderr => io::stderr().is_terminal(),
    };
    decide(choice, is_terminal, |name| {
        let value = env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    })
}

/// Decides by the conventions of no-color.org and bixense.com/clicolors.
fn decide(choice: ColorChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR") => false,
        ColorChoice::Auto if variable("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColorChoice::Auto => {
            let is_off = variable("CLICOLOR").is_some_and(|value| value == "0");
            is_terminal && !is_off && variable("TERM").is_none_or(|name| name != "dumb")
        }
    }
}

impl Meaning {
    fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Notice => AnsiColor::Yellow.on_default(),
            Self::Good => AnsiColor::Green.on_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[test]
    fn colours_are_the_only_sequences_that_are_printed() {
        for meaning in [Meaning::Heading, Meaning::Bad, Meaning::Notice, Meaning::Good] {
            let style = meaning.style();
            for sequence in [format!("{style}"), format!("{style:#}")] {
                assert!(SEQUENCES.contains(&&*sequence), "{sequence:?}");
            }
        }
        let painted = "\x1b[1mtable\x1b[0m\x1b[2J\x1b[31";
        assert_eq!(
            printable_between(&SEQUENCES, painted),
            "\x1b[1mtable\x1b[0m\\u{1b}[2J\\u{1b}[31"
        );
    }

    proptest! {
        #[test]
        fn nothing_else_controls_a_terminal(parts in proptest::collection::vec("(?s)[\\x00-\\x1f\\x7f-\u{9f}m\\[013]{0,6}", 0..6)) {
            let mut printed = printable_between(&SEQUENCES, &parts.concat());
            for sequence in SEQUENCES {
                printed = printed.replace(sequence, "");
            }
            prop_assert!(!printed.chars().any(char::is_control), "{printed:?}");
        }
    }

    #[rstest]
    #[case(ColorChoice::Auto, true, &[], true)]
    #[case(ColorChoice::Auto, false, &[], false)]
    #[case(ColorChoice::Auto, true, &[("NO_COLOR", "1")], false)]
    #[case(ColorChoice::Auto, true, &[("NO_COLOR", "")], true)]
    #[case(ColorChoice::Auto, true, &[("CLICOLOR", "0")], false)]
    #[case(ColorChoice::Auto, true, &[("CLICOLOR", "1")], true)]
    #[case(ColorChoice::Auto, true, &[("TERM", "dumb")], false)]
    #[case(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "1")], true)]
    #[case(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "0")], false)]
    #[case(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false)]
    #[case(ColorChoice::Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")], true)]
    #[case(ColorChoice::Never, true, &[("CLICOLOR_FORCE", "1")], false)]
    fn environment_decides_unless_the_option_does(
        #[case] choice: ColorChoice,
        #[case] is_terminal: bool,
        #[case] variables: &[(&str, &str)],
        #[case] expected: bool,
    ) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(decide(choice, is_terminal, variable), expected);
    }
}
