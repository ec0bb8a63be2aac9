use std::time::Duration;

use rstest::rstest;

use crate::{error::ErrorKind, model::mutation::*};

fn put() -> Put {
    Put::new("r").cell("f", "q", "v")
}

#[rstest]
#[case(Put::new("").cell("f", "q", "v"), "empty row key")]
#[case(Put::new(vec![b'x'; 32_768]).cell("f", "q", "v"), "32768 bytes")]
#[case(Put::new("r"), "without cells")]
#[case(Put::new("r").cell("", "q", "v"), "empty column family")]
#[case(Put::new("r").cell(vec![b'f'; 128], "q", "v"), "128 bytes")]
#[case(Put::new("r").cell("f", "q", vec![0; (10 << 20) - 26]), "10485761 bytes is over the limit")]
#[case(put().ttl(Duration::from_micros(900)), "whole millisecond")]
#[case(put().attribute("_ttl", "soon"), "whole millisecond")]
#[case(put().ttl(Duration::from_millis(i64::MAX as u64)), "146 million years")]
#[case(put().ttl(Duration::MAX), "146 million years")]
#[case(put().timestamp(u64::MAX), "out of range")]
#[case(Put::new("r").cell_at("f", "q", i64::MAX as u64, "v"), "out of range")]
#[case(Delete::new("r").attribute("_ttl", "12345678"), "can't have a TTL")]
#[case(Delete::new(""), "empty row key")]
#[case(Delete::new("r").column("", "q"), "empty column family")]
fn refuses_before_sending(#[case] mutation: impl Into<Mutation>, #[case] why: &str) {
    let error = mutation.into().check(&Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(why), "{error}");
    assert!(
        error.to_string().len() < 600,
        "a huge row must not flood the message"
    );
}

#[rstest]
#[case(put())]
#[case(Put::new(vec![b'x'; 32_767]).cell("f", "", ""))]
#[case(put().ttl(Duration::from_millis(1)))]
#[case(Put::new("r").cell("f", "q", vec![0; (10 << 20) - 27]))]
#[case(Delete::new("r"))]
#[case(Delete::new("r").family("f").column("f", "q").version("f", "q", 0))]
fn accepts_what_hbase_accepts(#[case] mutation: impl Into<Mutation>) {
    mutation.into().check(&Limits::default()).unwrap();
}

#[test]
fn a_second_attribute_of_one_name_replaces_the_first() {
    let put = put().ttl(Duration::from_secs(1)).ttl(Duration::from_secs(2));
    assert_eq!(
        put.attributes,
        [("_ttl".to_owned(), Bytes::copy_from_slice(&2_000u64.to_be_bytes()))]
    );
}

#[test]
fn the_size_counts_all_keys_and_values() {
    let put = Put::new("row").cell("f", "qual", "value");
    assert_eq!(Mutation::from(put).size(), 3 + 1 + 4 + 5);
    let delete = Delete::new("row")
        .family("f")
        .column("f", "qual")
        .version("f", "q", 7);
    assert_eq!(Mutation::from(delete).size(), 3 + 1 + 1 + 4 + 1 + 1);
}

#[test]
fn debug_text_of_a_cell_shows_the_length_of_its_value() {
    let put = Put::new("r")
        .cell("f", "q", "secret")
        .cell_at("f", "q", 7, "secret");
    assert_eq!(format!("{:?}", put.cells), "[f:q (6 bytes), f:q @7 (6 bytes)]");
}

#[test]
fn visibility_is_one_attribute_of_every_mutation() {
    let mutations: [Mutation; 4] = [
        Put::new("r")
            .cell("f", "q", "v")
            .cell_visibility("a")
            .cell_visibility("b|c")
            .into(),
        Delete::new("r").cell_visibility("b|c").into(),
        Append::new("r").cell("f", "q", "v").cell_visibility("b|c").into(),
        Increment::new("r")
            .column("f", "q", 1)
            .cell_visibility("b|c")
            .into(),
    ];
    for mutation in mutations {
        // Field 1 of `CellVisibility`, a string of three bytes.
        assert_eq!(
            mutation.attributes(),
            [("VISIBILITY".to_owned(), Bytes::from("\n\x03b|c"))]
        );
    }
}
