//! `${name}` in a value: another property, or an environment variable, as in Hadoop's
//! `Configuration.substituteVars`.

use crate::error::{Error, Result};

/// The maximum number of replacements in one value, as in Hadoop.
const MAX_REPLACED: usize = 20;
/// The maximum length of a value, far beyond that of any real configuration.
const MAX_LENGTH: usize = 1 << 20;

/// Replaces the variables in a value by their definitions. If a variable is undefined, it and all
/// variables after it stay unchanged. If a definition contains its own variable, the value stays
/// unchanged.
///
/// # Errors
///
/// Returns an error if the value becomes longer than 1 MiB, or if variables are left after 20
/// replacements, for example because of a circular reference.
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

/// Returns the range of the first variable that contains no other variable, including its braces.
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

/// Expands `NAME`, `NAME-default` (if unset), and `NAME:-default` (if unset or empty).
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

/// Expands the Java system properties that configuration files use.
fn of_system(name: &str, environment: impl Fn(&str) -> Option<String>) -> Option<String> {
    match name {
        "user.name" => environment("USER").or_else(|| Some(super::user::name_of_user_id())),
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
