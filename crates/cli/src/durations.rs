//! Durations in the notation of users, such as `500ms`, `1.5s`, `5m`, `1h` or `1d`, and their
//! output.

use std::time::Duration;

use jiff::{SpanRelativeTo, fmt::friendly::SpanParser};

use crate::values::Ranged;

/// Parses a duration in whole milliseconds. A negative duration parses and is out of range.
pub(crate) fn parse(text: &str) -> Result<Ranged<Duration>, String> {
    let refusal = || "write a duration as 500ms, 1.5s, 5m, 1h or 1d, in whole milliseconds".to_owned();
    let duration = SpanParser::new()
        .parse_span(text)
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .map_err(|_| refusal())?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(refusal());
    }
    Ok(Ranged::new(text, Duration::try_from(duration).ok()))
}

/// Formats a duration to the millisecond: `28.5s`.
pub(crate) fn shown(duration: Duration) -> String {
    match milliseconds(duration) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        milliseconds => format!("{:?}", Duration::from_millis(milliseconds)),
    }
}

/// Returns milliseconds, for JSON.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Parses a duration in whole seconds, at least one.
pub(crate) fn seconds(text: &str) -> Result<Ranged<u32>, String> {
    let whole = |duration: Duration| {
        let seconds = u32::try_from(duration.as_secs()).ok()?;
        (seconds > 0 && duration.subsec_nanos() == 0).then_some(seconds)
    };
    let seconds = parse(text)?.value().and_then(whole);
    Ok(Ranged::new(text, seconds))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("500ms", 500)]
    #[case("0s", 0)]
    #[case("30s", 30_000)]
    #[case("5m", 300_000)]
    #[case("1h", 3_600_000)]
    #[case("1.5s", 1_500)]
    #[case("1d", 86_400_000)]
    #[case("1h30m", 5_400_000)]
    fn reads_numbers_with_units(#[case] text: &str, #[case] milliseconds: u64) {
        let duration = Duration::from_millis(milliseconds);
        assert_eq!(parse(text), Ok(Ranged::new(text, Some(duration))));
    }

    #[test]
    fn a_negative_duration_is_out_of_range() {
        assert_eq!(parse("-1s"), Ok(Ranged::new("-1s", None)));
    }

    #[rstest]
    #[case("2d", Some(172_800))]
    #[case("24h", Some(86_400))]
    #[case("2000ms", Some(2))]
    #[case("0s", None)]
    #[case("1500ms", None)]
    #[case("2000000h", None)]
    fn seconds_are_whole_and_not_none(#[case] text: &str, #[case] expected: Option<u32>) {
        assert_eq!(seconds(text), Ok(Ranged::new(text, expected)));
    }

    #[rstest]
    #[case(0, "0s")]
    #[case(345, "345ms")]
    #[case(28_500, "28.5s")]
    #[case(2_592_000_000, "2592000s")]
    fn reads_what_it_writes(#[case] milliseconds: u64, #[case] text: &str) {
        let duration = Duration::from_millis(milliseconds);
        assert_eq!(shown(duration), text);
        assert_eq!(parse(text), Ok(Ranged::new(text, Some(duration))));
    }

    #[rstest]
    #[case("")]
    #[case("30")]
    #[case("s")]
    #[case("-s")]
    #[case("soon")]
    #[case("1mo")]
    #[case("1.2345s")]
    #[case("10us")]
    #[case("99999999999999999999s")]
    fn refuses_the_rest(#[case] text: &str) {
        assert!(parse(text).is_err(), "{text:?}");
    }
}
