use std::time::Duration;

use bytes::Bytes;
use hbase_txn::client::{Append, Cell, CellKind, Comparison, Delete, Increment, Mutation, Put, Row};
use rstest::rstest;

use super::*;

fn parse(text: &str) -> Result<Transaction, String> {
    Transaction::parse(7, text.as_bytes())
}

fn mutations(text: &str) -> Vec<Mutation> {
    let line = format!(r#"{{"mutations":[{text}]}}"#);
    let transaction = parse(&line).unwrap();
    transaction
        .mutations
        .into_iter()
        .map(|line| line.mutation)
        .collect()
}

fn cell() -> Put {
    Put::new("r").cell("f", "q", "v")
}

#[rstest]
#[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v"}"#, cell())]
#[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v","ttl_ms":1000}"#, cell().ttl(Duration::from_secs(1)))]
#[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v","timestamp":5}"#, cell().timestamp(5))]
#[case(r#"{"value":"","qualifier":"","family":"f","row":"é","op":"put"}"#, Put::new("é").cell("f", "", ""))]
#[case(r#"{"op":"put","row":"\\x00\\xfF","family":"f","qualifier":"q","value":"\\x5c"}"#, Put::new(&b"\0\xff"[..]).cell("f", "q", "\\"))]
#[case(r#"{"op":"delete","row":"r"}"#, Delete::new("r"))]
#[case(r#"{"op":"delete","row":"r","family":"f"}"#, Delete::new("r").family("f"))]
#[case(r#"{"op":"delete","row":"r","family":"f","qualifier":"q"}"#, Delete::new("r").column("f", "q"))]
#[case(r#"{"op":"delete","row":"r","timestamp":9}"#, Delete::new("r").timestamp(9))]
#[case(r#"{"op":"increment","row":"r","family":"f","qualifier":"q","amount":-5}"#, Increment::new("r").column("f", "q", -5))]
#[case(r#"{"op":"increment","row":"r","family":"f","qualifier":"q","amount":9223372036854775807,"ttl_ms":7}"#, Increment::new("r").column("f", "q", i64::MAX).ttl(Duration::from_millis(7)))]
#[case(r#"{"op":"append","row":"r","family":"f","qualifier":"q","value":"\\x00v"}"#, Append::new("r").cell("f", "q", "\0v"))]
#[case(r#"{"op":"append","row":"r","family":"f","qualifier":"q","value":"v","ttl_ms":7}"#, Append::new("r").cell("f", "q", "v").ttl(Duration::from_millis(7)))]
fn reads_mutations(#[case] text: &str, #[case] mutation: impl Into<Mutation>) {
    assert_eq!(mutations(text), [mutation.into()]);
}

#[test]
fn knows_the_prefix_and_the_deletes_that_the_server_stamps() {
    let line = r#"{"prefix":"xx\\x00","mutations":[{"op":"delete","row":"a"},{"op":"delete","row":"b","timestamp":1}]}"#;
    let transaction = parse(line).unwrap();
    assert_eq!(transaction.prefix.unwrap(), "xx\0");
    let now: Vec<bool> = transaction
        .mutations
        .iter()
        .map(|line| line.deletes_now)
        .collect();
    assert_eq!(now, [true, false]);
    assert!(
        parse(r#"{"mutations":[{"op":"delete","row":"a"}]}"#)
            .unwrap()
            .prefix
            .is_none()
    );
}

#[rstest]
#[case("absent", None, Condition::absent("r", "f", "q"))]
#[case("present", None, Condition::present("r", "f", "q"))]
#[case("begins_with", Some("v"), Condition::begins_with("r", "f", "q", "v"))]
#[case("equal", Some("v"), Condition::equal("r", "f", "q", "v"))]
#[case("not_equal", Some("v"), Condition::not_equal("r", "f", "q", "v"))]
#[case("less", Some("v"), Condition::compare("r", "f", "q", Comparison::Less, "v"))]
#[case(
    "less_or_equal",
    Some("v"),
    Condition::compare("r", "f", "q", Comparison::LessOrEqual, "v")
)]
#[case(
    "greater",
    Some("v"),
    Condition::compare("r", "f", "q", Comparison::Greater, "v")
)]
#[case(
    "greater_or_equal",
    Some("v"),
    Condition::compare("r", "f", "q", Comparison::GreaterOrEqual, "v")
)]
fn reads_conditions_with_and_without_a_label(
    #[case] op: &str,
    #[case] value: Option<&str>,
    #[case] condition: Condition,
) {
    let value = value.map_or(String::new(), |value| format!(r#","value":"{value}""#));
    let condition_with = |label: &str| {
        let line = format!(
            r#"{{"conditions":[{{"op":"{op}"{label},"row":"r","family":"f","qualifier":"q"{value}}}]}}"#
        );
        parse(&line).unwrap().conditions.remove(0)
    };
    assert_eq!(condition_with(""), condition);
    // A label is text, not bytes: its backslashes are literal.
    assert_eq!(condition_with(r#","label":"a\\b""#), condition.label(r"a\b"));
}

#[rstest]
#[case(r#""value":5"#, Some(Put::new("r").cell("f", "q", 5i64)))]
#[case(r#""value":true"#, Some(Put::new("r").cell("f", "q", true)))]
#[case(r#""value_type":"toShort","value":-2"#, Some(Put::new("r").cell("f", "q", -2i16)))]
#[case(r#""value":"9223372036854775807","value_type":"toLong""#, Some(Put::new("r").cell("f", "q", i64::MAX)))]
#[case(r#""value":1,"value_type":"toDouble""#, Some(Put::new("r").cell("f", "q", 1f64)))]
#[case(r#""value":1.5"#, None)]
#[case(r#""value":9223372036854775808"#, None)]
#[case(r#""value":null"#, None)]
#[case(r#""value":[5]"#, None)]
#[case(r#""value":5,"value_type":"toBoolean""#, None)]
#[case(r#""value":5,"value_type":"long""#, None)]
#[case(r#""value_type":"toLong""#, None)]
fn a_value_may_be_a_number_or_a_boolean(#[case] keys: &str, #[case] expected: Option<Put>) {
    let line = format!(r#"{{"mutations":[{{"op":"put","row":"r","family":"f","qualifier":"q",{keys}}}]}}"#);
    let read = parse(&line)
        .ok()
        .map(|mut line| line.mutations.remove(0).mutation);
    assert_eq!(read, expected.map(Into::into), "{line}");
}

#[test]
fn numbers_are_compared_as_signed_numbers() {
    let condition = |op: &str, value: &str| {
        let line = format!(
            r#"{{"conditions":[{{"op":"{op}","row":"r","family":"f","qualifier":"q","value":{value}}}]}}"#
        );
        parse(&line).map(|mut line| line.conditions.remove(0))
    };
    let cell = |value: i64| {
        let key = Bytes::from_static(b"r");
        let value = value.to_be_bytes().to_vec().into();
        Row::new(
            key.clone(),
            vec![Cell::new(key, "f".into(), "q".into(), 1, CellKind::Put, value)],
        )
    };
    let less = condition("less", "5").unwrap();
    assert_eq!(less.label_text(), "r f:q < 5");
    assert!(less.holds(Some(&cell(-7))) && !less.holds(Some(&cell(5))) && !less.holds(None));
    let equal = condition("equal", "-5").unwrap();
    assert!(equal.holds(Some(&cell(-5))) && !equal.holds(Some(&cell(5))));
    for (op, value) in [
        ("begins_with", "5"),
        ("less", "true"),
        (r"less", r#"1,"value_type":"toInt""#),
    ] {
        condition(op, value).unwrap_err();
    }
}

#[test]
fn an_id_is_bytes_and_keeps_a_line_whole() {
    let transaction = parse(r#"{"id":"a\\x00","mutations":[{"op":"delete","row":"r"}]}"#).unwrap();
    assert_eq!(transaction.id.as_ref().unwrap().as_bytes(), b"a\0");
    assert!(transaction.is_whole());
    let plain = parse(r#"{"mutations":[{"op":"delete","row":"r"}]}"#).unwrap();
    assert!(!plain.is_whole() && plain.id.is_none());
}

#[rstest]
// Not JSON, or not a JSON object of this format.
#[case("", 1, "the JSON object is not complete")]
#[case("no", 2, "not a JSON object")]
#[case("not json", 2, "not a JSON object")]
#[case("put xxx", 1, "not a JSON object")]
#[case("5", 1, "not a JSON object")]
#[case("[]", 1, "not a JSON object")]
#[case(r#"["xxx"]"#, 1, "not a JSON object")]
#[case("\u{feff}{}", 1, "a byte order mark")]
#[case(r#"{"mutations":[]} {}"#, 18, "there is text after")]
#[case(r#"{"mutations":[{"op":"put"#, 24, "the JSON object is not complete")]
#[case(r#"{"mutations":[["put","r"]]}"#, 14, "not a JSON object")]
#[case(r#"{"mutations":{}}"#, 13, "`mutations` is not an array")]
#[case(r#"{"conditions":5}"#, 15, "`conditions` is not an array")]
#[case(r#"{"conditions":[["absent"]]}"#, 15, "not a JSON object")]
#[case(r"{}", 2, "neither mutations nor conditions")]
#[case(r#"{"mutations":[]}"#, 16, "neither mutations nor conditions")]
#[case(
    r#"{"id":"7","conditions":[],"mutations":[]}"#,
    41,
    "neither mutations nor conditions"
)]
// Keys.
#[case(r#"{"prefix":"a","mutation":[]}"#, 24, "unknown field `mutation`")]
#[case(r#"{"prefix":"a","prefix":"b"}"#, 22, "duplicate field `prefix`")]
#[case(r#"{"prefix":5}"#, 11, "expected a string for `prefix`")]
#[case(r#"{"mutations":[{"op":"put","rows":"r"}]}"#, 32, "unknown field `rows`")]
#[case(r#"{"conditions":[{"op":"absent","col":"r"}]}"#, 35, "unknown field `col`")]
#[case(
    r#"{"mutations":[{"op":"upsert","row":"r"}]}"#,
    28,
    "`op`: there is no `upsert`; there are `put`, `delete`, `increment`, `append`"
)]
#[case(
    r#"{"conditions":[{"op":"like","row":"r"}]}"#,
    27,
    "`op`: there is no `like`; there are `absent`, `present`, `begins_with`, `equal`, `not_equal`, `less`, `less_or_equal`, `greater`, `greater_or_equal`"
)]
#[case(r#"{"mutations":[{"op":5}]}"#, 21, "expected a string for `op`")]
#[case(r#"{"mutations":[{"op":{"put":null}}]}"#, 20, "expected a string for `op`")]
// Ids.
#[case(r#"{"id":""}"#, 8, "`id`: an empty transaction id")]
#[case(
    r#"{"id":"12345678901234567890123456789012345678901234567890123456789012345"}"#,
    73,
    "`id`: a transaction id of 65 bytes"
)]
#[case(r#"{"id":7}"#, 7, "expected a string for `id`")]
// Conditions.
#[case(r#"{"conditions":[{"row":"r"}]}"#, 26, "missing field `op`")]
#[case(r#"{"conditions":[{"op":"absent"}]}"#, 30, "missing field `row`")]
#[case(
    r#"{"conditions":[{"op":"absent","row":"r"}]}"#,
    40,
    "a condition needs `family`"
)]
#[case(
    r#"{"conditions":[{"op":"absent","row":"r","family":"f"}]}"#,
    53,
    "a condition needs `qualifier`"
)]
#[case(
    r#"{"conditions":[{"op":"equal","row":"r","family":"f","qualifier":"q"}]}"#,
    68,
    "a condition that compares needs `value`"
)]
#[case(
    r#"{"conditions":[{"op":"absent","row":"r","family":"f","qualifier":"q","value":"v"}]}"#,
    81,
    "a condition `absent` or `present` has no `value`"
)]
#[case(
    r#"{"conditions":[{"op":"present","row":"r","family":"f","qualifier":"q","value":""}]}"#,
    81,
    "a condition `absent` or `present` has no `value`"
)]
#[case(
    r#"{"conditions":[{"op":"absent","label":7}]}"#,
    39,
    "expected a string for `label`"
)]
// Increments and appends.
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","family":"f","qualifier":"q"}]}"#,
    71,
    "an increment needs `amount`"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","family":"f","amount":1}]}"#,
    66,
    "an increment needs `qualifier`"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","value":"1"}]}"#,
    54,
    "an increment has no `value`, but `amount`"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","amount":1,"timestamp":5}]}"#,
    67,
    "an increment can't have `timestamp`"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","amount":1.5}]}"#,
    55,
    "amount is 1.5; it must be"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","amount":9223372036854775808}]}"#,
    71,
    "amount is 9223372036854775808; it must be"
)]
#[case(
    r#"{"mutations":[{"op":"increment","row":"r","amount":"1"}]}"#,
    55,
    r#"amount is "1"; it must be"#
)]
#[case(
    r#"{"mutations":[{"op":"append","row":"r","family":"f","qualifier":"q"}]}"#,
    68,
    "an append needs `value`"
)]
#[case(
    r#"{"mutations":[{"op":"append","row":"r","value":"v"}]}"#,
    51,
    "an append needs `family`"
)]
#[case(
    r#"{"mutations":[{"op":"append","row":"r","timestamp":1}]}"#,
    53,
    "an append can't have `timestamp`"
)]
#[case(
    r#"{"mutations":[{"op":"append","row":"r","amount":1}]}"#,
    50,
    "`amount` is for increments"
)]
// Values.
#[case(r#"{"mutations":[{"op":"delete"}]}"#, 29, "missing field `row`")]
#[case(r#"{"mutations":[{"row":"r"}]}"#, 25, "missing field `op`")]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","qualifier":"q","value":""}]}"#,
    63,
    "a put needs `family`"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","family":"f","value":""}]}"#,
    60,
    "a put needs `qualifier`"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","family":"f","qualifier":"q"}]}"#,
    65,
    "a put needs `value`"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","ttl_ms":-1}]}"#,
    48,
    "ttl_ms is -1; it must be"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","timestamp":1.5}]}"#,
    52,
    "timestamp is 1.5; it must be"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","timestamp":"5"}]}"#,
    52,
    r#"timestamp is "5"; it must be"#
)]
#[case(
    r#"{"mutations":[{"op":"delete","row":"r","amount":1}]}"#,
    50,
    "`amount` is for increments"
)]
#[case(
    r#"{"mutations":[{"op":"delete","row":"r","value":""}]}"#,
    50,
    "a delete has no `value`"
)]
#[case(r#"{"mutations":[{"op":"delete","row":"r","ttl_ms":1}]}"#, 50, "come back")]
#[case(
    r#"{"mutations":[{"op":"delete","row":"r","qualifier":"q"}]}"#,
    55,
    "needs `family`"
)]
// Escapes. In the first case JSON itself refuses the backslash: an escape of ours needs two in
// JSON.
#[case(r#"{"prefix":"\x00"}"#, 13, r#"is spelt "\\xNN" in JSON"#)]
#[case(r#"{"prefix":"a\\n"}"#, 16, "`prefix`: a stray backslash at column 2")]
#[case(
    r#"{"mutations":[{"op":"put","row":"\\xG0"}]}"#,
    39,
    "`row`: a stray backslash at column 1"
)]
#[case(
    r#"{"mutations":[{"op":"put","row":"r","value":"\\"}]}"#,
    49,
    "`value`: a stray backslash at column 1"
)]
fn refuses_a_line_and_says_where(#[case] text: &str, #[case] column: usize, #[case] why: &str) {
    let refusal = parse(text).unwrap_err();
    assert!(
        refusal.starts_with(&format!("line 7, column {column}: ")) && refusal.contains(why),
        "{refusal}"
    );
}

#[test]
fn bytes_that_are_no_utf8_are_refused() {
    let refusal = Transaction::parse(1, b"{\"prefix\":\"\xff\"}").unwrap_err();
    assert!(refusal.starts_with("line 1, column 1"), "{refusal}");
}

#[test]
fn a_refusal_stays_short_whatever_the_line_holds() {
    let long = "x".repeat(1 << 20);
    for line in [
        format!(r#"{{"prefix":"{long}\\"}}"#),
        format!(r#"{{"{long}":1}}"#),
    ] {
        assert!(parse(&line).unwrap_err().len() < 1_000);
    }
}
