//! `${name}` in a value: another property, or a variable of the environment, as Hadoop's
//! `Configuration.substituteVars` has it.

use crate::error::{Error, Result};

/// As many as Hadoop replaces in one value.
const MAX_REPLACED: usize = 20;
/// No value that a person meant is longer.
const MAX_LENGTH: usize = 1 << 20;

/// Replaces variables in a value, by what is found under their names. One that is not found stays
/// as it is, and those behind it; a value that contains the variable it stands for leaves all as it
/// was.
///
/// # Errors
///
/// For more than 20 replacements, which only properties that name each other in a circle need.
pub(super) fn expand(
    value: &str,
    property: impl Fn(&str) -> Option<String>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<String> {
    let mut expanded = value.to_owned();
    for _ in 0..MAX_REPLACED {
        let Some((start, end)) = innermost(&expanded) else {
            return Ok(expanded);
        };
        let name = &expanded[start + 2..end - 1];
        let found = match name.strip_prefix("env.") {
            Some(variable) if !variable.is_empty() => of_environment(variable, &environment),
            _ => of_system(name, &environment),
        };
        let Some(found) = found.or_else(|| property(name)) else {
            return Ok(expanded);
        };
        if found.contains(&expanded[start..end]) {
            return Ok(value.to_owned());
        }
        expanded.replace_range(start..end, &found);
        if expanded.len() > MAX_LENGTH {
            return Err(refuse(value, "it becomes too long"));
        }
    }
    match innermost(&expanded) {
        None => Ok(expanded),
        Some(_) => Err(refuse(
            value,
            "it names others more than 20 times, in a circle perhaps",
        )),
    }
}

fn refuse(value: &str, why: &str) -> Error {
    let shown: String = value.chars().take(64).collect();
    Error::invalid_config(format!("can't replace the variables in {shown:?}: {why}"))
}

/// Where the first variable is that has no other inside it, its braces included.
fn innermost(text: &str) -> Option<(usize, usize)> {
    let mut start = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'$' if text[at..].starts_with("${") => start = Some(at),
            b'$' | b' ' => start = None,
            b'}' => match start {
                Some(start) if at > start + 2 => return Some((start, at + 1)),
                _ => start = None,
            },
            _ => {}
        }
    }
    None
}

/// `NAME`, `NAME-default` where it is not set, `NAME:-default` where it is not set or empty.
fn of_environment(variable: &str, environment: impl Fn(&str) -> Option<String>) -> Option<String> {
    let of_default = variable.find(":-");
    match (of_default, variable.find('-')) {
        (Some(colon), Some(dash)) if colon < dash => environment(&variable[..colon])
            .filter(|value| !value.is_empty())
            .or_else(|| Some(variable[colon + 2..].to_owned())),
        (_, Some(dash)) => environment(&variable[..dash]).or_else(|| Some(variable[dash + 1..].to_owned())),
        _ => environment(variable),
    }
}

/// Those of Java's own properties that configuration files use.
fn of_system(name: &str, environment: impl Fn(&str) -> Option<String>) -> Option<String> {
    match name {
        "user.name" => environment("USER"),
        "user.home" => environment("HOME"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn expanded(value: &str) -> Result<String> {
        let property = |name: &str| {
            let value = match name {
                "a" => "1",
                "b" => "${a}${a}",
                "c1" => "nested",
                "self" => "x${self}",
                "circle" => "${ring}",
                "ring" => "${circle}",
                "long" => return Some("x".repeat(1 << 16)),
                _ => return None,
            };
            Some(value.to_owned())
        };
        let environment = |name: &str| {
            let value = match name {
                "SET" => "set",
                "EMPTY" => "",
                "USER" => "me",
                _ => return None,
            };
            Some(value.to_owned())
        };
        expand(value, property, environment)
    }

    #[rstest]
    #[case("plain $ {a} ${} $a", "plain $ {a} ${} $a")]
    #[case("${a}-${b}", "1-11")]
    #[case("${c${a}}", "nested")]
    #[case("${not.there}/${a}", "${not.there}/${a}")]
    #[case("${self}", "${self}")]
    #[case("${env.SET}${env.UNSET}", "set${env.UNSET}")]
    #[case("${env.SET-x}/${env.UNSET-x-y}/${env.EMPTY-x}", "set/x-y/")]
    #[case("${env.SET:-x}/${env.UNSET:-x}/${env.EMPTY:-x}", "set/x/x")]
    #[case("${env.UNSET:-${a}}", "1")]
    #[case("${env.}", "${env.}")]
    #[case("${user.name}", "me")]
    fn variables_are_replaced_as_in_hadoop(#[case] value: &str, #[case] expected: &str) {
        assert_eq!(expanded(value).unwrap(), expected);
    }

    #[test]
    fn circles_and_endless_values_are_refused() {
        let error = expanded("${circle}").unwrap_err().to_string();
        assert!(
            error.contains("${circle}") && error.contains("20 times"),
            "{error}"
        );
        let error = expanded(&"${long}".repeat(18)).unwrap_err().to_string();
        assert!(error.contains("too long") && error.len() < 300, "{error}");
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(value in "[$ {}a-cé:.\\-]{0,40}|(\\$\\{env\\.[A-Z:\\-é]{0,6}\\}){0,4}") {
            let _ = expanded(&value);
        }
    }
}
