//! Sizes, shares, keys and times for people.

use std::time::{SystemTime, UNIX_EPOCH};

use hbase_provision::{NextSplit, RegionSkew, SkewReport, SplitPoint};
use hbase_txn::{
    Partition,
    client::{BytesBinary, RegionInfo},
};
use jiff::Timestamp;

/// The maximum length of a key; a longer one loses its middle.
const MAX_KEY: usize = 64;
/// The length of the end that is kept, in which keys with a common prefix differ.
const KEY_END: usize = 24;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `1,234,567`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].into_iter().peekable();
    // Includes sizes that would be rounded to 1024.0.
    while size >= 1_023.95 && units.len() > 1 {
        units.next();
        size /= 1_024.0;
    }
    let unit = units.next().unwrap_or_default();
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{size:.1} {unit}"),
    }
}

/// Formats a difference with its sign.
pub(super) fn signed(difference: i64, text: impl Fn(u64) -> String) -> String {
    let size = text(difference.unsigned_abs());
    match difference {
        0 => "±0".to_owned(),
        1.. => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

/// `12.3 %` of the whole.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        _ => match part as f64 * 100.0 / whole as f64 {
            small if part > 0 && small < 0.05 => "< 0.1 %".to_owned(),
            large if part < whole && large >= 99.95 => "> 99.9 %".to_owned(),
            percent => format!("{percent:.1} %"),
        },
    }
}

/// `1 row`, `2,000 rows`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", number(count))
}

/// Removes the middle of a text that may be as long as a row key.
pub(super) fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_KEY {
        return text.to_owned();
    }
    let begin = text.chars().take(MAX_KEY - KEY_END);
    let end = text.chars().skip(length - KEY_END);
    begin.chain(['…']).chain(end).collect()
}

pub(super) fn key(key: &[u8]) -> String {
    short(&BytesBinary(key).to_string())
}

/// Formats a partition by its prefix.
pub(super) fn partition(partition: &Partition) -> String {
    let prefix = key(partition.prefix());
    if partition.is_lone_row() {
        format!("{prefix} (a row of its own)")
    } else {
        prefix
    }
}

/// Formats a region by its range.
pub(super) fn range(region: &RegionInfo) -> String {
    between(&region.start_key, &region.end_key)
}

/// Formats the range between two boundaries of regions.
pub(super) fn between(start: &[u8], end: &[u8]) -> String {
    let edge = |edge: &[u8], none: &str| {
        if edge.is_empty() {
            none.to_owned()
        } else {
            key(edge)
        }
    };
    format!("[{}, {})", edge(start, "-∞"), edge(end, "∞"))
}

/// Describes where HBase could split a region next, or why it can't.
pub(super) fn next_split(region: &RegionSkew) -> String {
    let by_hand = || match &region.best_split {
        Some(best) => format!("manually at {}: {}", key(&best.key), parts(best)),
        None => "not manually either".to_owned(),
    };
    match &region.next_split {
        NextSplit::NoRows => "no rows".to_owned(),
        NextSplit::OnePartition => "no split: one partition".to_owned(),
        NextSplit::FirstPartition => {
            format!(
                "no split by HBase: the middle lies in the first partition; {}",
                by_hand()
            )
        }
        NextSplit::At(point) => {
            let place = format!("next split at {}: {}", key(&point.key), parts(point));
            match &region.best_split {
                Some(best) if is_much_better(best, point) => format!("{place}; better {}", by_hand()),
                _ => place,
            }
        }
        _ => by_hand(),
    }
}

/// Formats the shares of both halves.
pub(super) fn parts(point: &SplitPoint) -> String {
    let whole = point.before + point.after;
    format!("{} | {}", share(point.before, whole), share(point.after, whole))
}

/// Whether the smaller half would be more than twice as large.
fn is_much_better(best: &SplitPoint, point: &SplitPoint) -> bool {
    let smaller = |point: &SplitPoint| point.before.min(point.after);
    smaller(best) > 2 * smaller(point)
}

/// Describes how much was read.
pub(super) fn reading(report: &SkewReport) -> String {
    if report.is_sampled() {
        format!(
            "estimated from a sample of {} of the rows; the size is right within {}, 19 times of 20",
            percent(report.fraction),
            bytes(report.margin_bytes)
        )
    } else {
        "all rows were read".to_owned()
    }
}

pub(super) fn percent(fraction: f64) -> String {
    match fraction * 100.0 {
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Formats a time in the past, such as `5 s ago`.
pub(super) fn ago(seconds: u64) -> String {
    match seconds {
        ..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ => match seconds / DAY {
            1 => "a day ago".to_owned(),
            days => format!("{} days ago", number(days)),
        },
    }
}

/// Formats a time in seconds since 1970: `2026-11-22 14:05 UTC`.
pub(super) fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment
        .unwrap_or(Timestamp::MAX)
        .strftime("%Y-%m-%d %H:%M UTC")
        .to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0 B")]
    #[case(1_023, "1023 B")]
    #[case(1_024, "1.0 KiB")]
    #[case(1_048_575, "1.0 MiB")]
    #[case(5 << 30, "5.0 GiB")]
    #[case(u64::MAX, "16384.0 PiB")]
    fn sizes(#[case] size: u64, #[case] text: &str) {
        assert_eq!(bytes(size), text);
    }

    #[rstest]
    #[case(7, "7")]
    #[case(1_000, "1,000")]
    #[case(123_456, "123,456")]
    #[case(1_234_567, "1,234,567")]
    fn numbers(#[case] of: u64, #[case] text: &str) {
        assert_eq!(number(of), text);
    }

    #[rstest]
    #[case(0, "1970-01-01 00:00 UTC")]
    #[case(951_782_399, "2000-02-28 23:59 UTC")]
    #[case(951_782_400, "2000-02-29 00:00 UTC")]
    #[case(1_735_689_599, "2024-12-31 23:59 UTC")]
    #[case(4_107_542_400, "2100-03-01 00:00 UTC")]
    fn moments(#[case] seconds: u64, #[case] text: &str) {
        assert_eq!(moment(seconds), text);
    }

    #[rstest]
    #[case(0, "0.0 %")]
    #[case(1, "< 0.1 %")]
    #[case(10, "0.1 %")]
    #[case(9_999, "> 99.9 %")]
    #[case(10_000, "100.0 %")]
    fn shares(#[case] part: u64, #[case] text: &str) {
        assert_eq!(share(part, 10_000), text);
    }

    #[test]
    fn differences_have_a_sign_and_long_keys_an_end() {
        assert_eq!(signed(-2_048, bytes), "−2.0 KiB");
        assert_eq!(signed(3, number), "+3");
        assert_eq!(key(&[b'x'; 30_000]).chars().count(), MAX_KEY + 1);
        let long = format!("{}7", "customer-".repeat(10));
        assert_eq!(
            short(&long),
            "customer-customer-customer-customer-cust…omer-customer-customer-7"
        );
    }
}
