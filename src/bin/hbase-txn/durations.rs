//! Durations as people write them, `500ms`, `30s`, `5m`, `1h`, and as they are written out.

use std::time::Duration;

use crate::values::{Ranged, whole};

/// Reads a whole number with a unit. One below zero can be read, and is out of range.
pub(crate) fn parse(text: &str) -> Result<Ranged<Duration>, String> {
    let refusal = || "write a duration as 500ms, 30s, 5m or 1h".to_owned();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let of: fn(u64) -> Option<Duration> = match unit {
        "ms" => |number| Some(Duration::from_millis(number)),
        "s" => |number| Some(Duration::from_secs(number)),
        "m" => |number| number.checked_mul(60).map(Duration::from_secs),
        "h" => |number| number.checked_mul(3_600).map(Duration::from_secs),
        _ => return Err(refusal()),
    };
    let number = whole::<u64>(number).map_err(|_| refusal())?;
    Ok(Ranged::new(text, number.value().and_then(of)))
}

/// Writes a duration to the millisecond: `28.5s`.
pub(crate) fn shown(duration: Duration) -> String {
    match milliseconds(duration) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        milliseconds => format!("{:?}", Duration::from_millis(milliseconds)),
    }
}

/// Milliseconds, for JSON.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a duration of whole seconds, one at least.
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
    fn reads_a_number_with_a_unit(#[case] text: &str, #[case] milliseconds: u64) {
        let duration = Duration::from_millis(milliseconds);
        assert_eq!(parse(text), Ok(Ranged::new(text, Some(duration))));
    }

    #[rstest]
    #[case("-1s")]
    #[case("99999999999999999999s")]
    #[case("9999999999999999999h")]
    fn what_no_duration_can_be_is_out_of_range(#[case] text: &str) {
        assert_eq!(parse(text), Ok(Ranged::new(text, None)));
    }

    #[rstest]
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
    fn writes_a_duration(#[case] milliseconds: u64, #[case] text: &str) {
        assert_eq!(shown(Duration::from_millis(milliseconds)), text);
    }

    #[rstest]
    #[case("")]
    #[case("30")]
    #[case("s")]
    #[case("-s")]
    #[case("1.5s")]
    #[case("1 s")]
    #[case("1d")]
    fn refuses_the_rest(#[case] text: &str) {
        assert!(parse(text).is_err(), "{text:?}");
    }
}
