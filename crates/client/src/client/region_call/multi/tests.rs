use rstest::rstest;

use crate::{
    client::region_call::multi::*,
    error::ErrorKind,
    model::{Append, CellKind, Increment, Put},
    wire::cell_block::{CellRef, Codec, encode_cell},
};

fn put(row: &'static str) -> Mutation {
    Put::new(row).cell("f", "q", "v").into()
}

fn conditional() -> RegionAction {
    RegionAction::Conditional {
        mutations: vec![put("a")],
        condition: pb::Condition::default(),
    }
}

/// A get, a conditional put, a get: a fence.
fn fence() -> Vec<RegionAction> {
    vec![
        RegionAction::Get(Get::new("a")),
        conditional(),
        RegionAction::Get(Get::new("a")),
    ]
}

fn part(index: u32, result: Option<pb::Result>) -> pb::ResultOrException {
    pb::ResultOrException {
        index: Some(index),
        result,
        ..Default::default()
    }
}

fn answered(parts: Vec<pb::ResultOrException>) -> pb::RegionActionResult {
    pb::RegionActionResult {
        result_or_exception: parts,
        ..Default::default()
    }
}

fn inline(row: &'static str, value: &'static str) -> pb::Result {
    pb::Result {
        cell: vec![pb::Cell {
            row: Some(row.into()),
            value: Some(value.into()),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn in_block(cells: i32) -> pb::Result {
    pb::Result {
        associated_cell_count: Some(cells),
        ..Default::default()
    }
}

fn got(result: pb::Result) -> pb::RegionActionResult {
    answered(vec![part(0, Some(result))])
}

fn processed(processed: bool) -> pb::RegionActionResult {
    pb::RegionActionResult {
        processed: Some(processed),
        ..answered(vec![part(0, None)])
    }
}

fn exception(class: &str) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: format!("org.apache.hadoop.hbase.{class}"),
        value: Some(Bytes::from(format!(
            "org.apache.hadoop.hbase.{class}: why\n\tat x"
        ))),
    }
}

/// The result of a failed region action.
fn failed(class: &str) -> pb::RegionActionResult {
    pb::RegionActionResult {
        exception: Some(exception(class)),
        ..Default::default()
    }
}

/// The result of a region action whose only action failed.
fn got_exception(class: &str) -> pb::RegionActionResult {
    answered(vec![pb::ResultOrException {
        index: Some(0),
        exception: Some(exception(class)),
        ..Default::default()
    }])
}

fn block(values: &[&str]) -> Bytes {
    let mut block = Vec::new();
    for value in values {
        let cell = CellRef {
            row: b"a",
            family: b"f",
            qualifier: b"q",
            timestamp: 1,
            kind: CellKind::Put,
            value: value.as_bytes(),
        };
        encode_cell(&mut block, &cell).unwrap();
    }
    block.into()
}

fn read_all(
    actions: &[RegionAction],
    results: Vec<pb::RegionActionResult>,
    block: Bytes,
) -> Result<Vec<ActionAnswer>, CallError> {
    let answer = pb::MultiResponse {
        region_action_result: results,
        ..Default::default()
    };
    read(actions, answer, CellBlockDecoder::new(block, Codec::KeyValue))
}

fn values(answers: &[ActionAnswer]) -> Vec<String> {
    let text = |cell: &Cell| String::from_utf8_lossy(&cell.value).into_owned();
    answers
        .iter()
        .flat_map(|answer| match answer {
            ActionAnswer::Row(row) => row.iter().flat_map(Row::cells).map(text).collect::<Vec<_>>(),
            ActionAnswer::Applied(cells) | ActionAnswer::Processed { cells, .. } => {
                cells.iter().map(text).collect()
            }
        })
        .collect()
}

#[test]
fn answers_keep_the_order_of_actions_with_cells_from_both_places() {
    let results = vec![
        got(in_block(2)),
        pb::RegionActionResult {
            processed: Some(true),
            ..answered(vec![part(0, Some(inline("a", "inline")))])
        },
        got(in_block(1)),
    ];
    let answers = read_all(&fence(), results, block(&["one", "two", "three"])).unwrap();
    assert_eq!(values(&answers), ["one", "two", "inline", "three"]);
    assert!(matches!(
        answers[..],
        [
            ActionAnswer::Row(Some(_)),
            ActionAnswer::Processed { processed: true, .. },
            ActionAnswer::Row(Some(_))
        ]
    ));
}

#[test]
fn answers_have_the_metrics_of_their_results() {
    let metrics = |bytes| {
        Some(pb::QueryMetrics {
            block_bytes_scanned: Some(bytes),
        })
    };
    let read = pb::Result {
        metrics: metrics(7),
        ..inline("a", "v")
    };
    let condition = pb::ResultOrException {
        metrics: metrics(9),
        ..part(0, None)
    };
    let results = vec![
        got(read),
        pb::RegionActionResult {
            processed: Some(true),
            ..answered(vec![condition])
        },
        got(inline("a", "v")),
    ];
    let answers = read_all(&fence(), results, Bytes::new()).unwrap();
    let reported = answers.iter().map(|answer| match answer {
        ActionAnswer::Row(row) => row.as_ref().and_then(Row::query_metrics),
        ActionAnswer::Applied(_) => None,
        ActionAnswer::Processed { metrics, .. } => *metrics,
    });
    let reported = reported.map(|metrics| metrics.map(|metrics| metrics.block_bytes_scanned));
    assert_eq!(reported.collect::<Vec<_>>(), [Some(7), Some(9), None]);
}

#[test]
fn empty_row_and_false_condition_are_answers() {
    let results = vec![
        got(pb::Result::default()),
        processed(false),
        got(pb::Result::default()),
    ];
    let nothing = ActionAnswer::Row(None);
    let refused = ActionAnswer::Processed {
        processed: false,
        cells: Vec::new(),
        metrics: None,
    };
    assert_eq!(
        read_all(&fence(), results, Bytes::new()).unwrap(),
        [nothing.clone(), refused, nothing]
    );
}

#[test]
fn the_merged_cells_of_atomic_mutations_may_be_of_several_rows() {
    let actions = [RegionAction::Atomic(vec![
        Increment::new("b").column("f", "q", 1).into(),
        Append::new("a").cell("f", "q", "x").into(),
    ])];
    let mut merged = inline("a", "x");
    merged.cell.extend(inline("b", "1").cell);
    let results = vec![answered(vec![
        part(0, Some(merged)),
        part(1, Some(pb::Result::default())),
    ])];
    let answers = read_all(&actions, results, Bytes::new()).unwrap();
    assert_eq!(values(&answers), ["x", "1"]);
}

#[rstest]
#[case::too_few(vec![got(inline("a", "")), processed(true)])]
#[case::none(vec![])]
#[case::too_many(vec![got(inline("a", "")), processed(true), got(inline("a", "")), got(inline("a", ""))])]
#[case::a_get_without_answer(vec![answered(vec![]), processed(true), got(inline("a", ""))])]
#[case::a_get_without_result(vec![answered(vec![part(0, None)]), processed(true), got(inline("a", ""))])]
#[case::no_word_on_the_condition(vec![got(inline("a", "")), answered(vec![part(0, None)]), got(inline("a", ""))])]
#[case::an_index_too_large(vec![answered(vec![part(1, Some(inline("a", "")))]), processed(true), got(inline("a", ""))])]
#[case::no_index(vec![
    answered(vec![pb::ResultOrException { result: Some(inline("a", "")), ..Default::default() }]),
    processed(true),
    got(inline("a", "")),
])]
#[case::an_index_twice(vec![
    answered(vec![part(0, Some(inline("a", ""))), part(0, Some(inline("a", "")))]),
    processed(true),
    got(inline("a", "")),
])]
#[case::fewer_cells_than_announced(vec![got(in_block(1)), processed(true), got(in_block(1))])]
#[case::a_get_of_two_rows(vec![
    answered(vec![part(0, Some(pb::Result { cell: [inline("a", "").cell, inline("b", "").cell].concat(), ..Default::default() }))]),
    processed(true),
    got(inline("a", "")),
])]
fn an_answer_that_is_none_leaves_the_effect_unknown(#[case] results: Vec<pb::RegionActionResult>) {
    let error = read_all(&fence(), results, block(&["one"])).unwrap_err();
    assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
    assert_eq!(error.classify().effect, Effect::Unknown);
}

#[test]
fn atomic_mutations_are_not_believed_to_be_applied_in_part() {
    let actions = [RegionAction::Atomic(vec![put("a"), put("b")])];
    let missing = vec![answered(vec![part(0, None)])];
    let mut refused_in_part = got_exception("DoNotRetryIOException");
    refused_in_part.result_or_exception.push(part(1, None));
    let contradiction = vec![pb::RegionActionResult {
        processed: Some(false),
        ..answered(vec![part(0, None), part(1, None)])
    }];
    for results in [missing, vec![refused_in_part], contradiction] {
        let error = read_all(&actions, results, Bytes::new()).unwrap_err();
        assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
    }
}

const MOVED: &str = "exceptions.RegionMovedException";
const UNHEARD_OF: &str = "SomethingNobodyKnows";

#[rstest]
#[case::nothing_was_done(vec![failed(MOVED), failed(MOVED), failed(MOVED)], Recovery::Relocate, Effect::None)]
#[case::the_region_left_in_between(vec![got(inline("a", "")), failed(MOVED), failed(MOVED)], Recovery::Relocate, Effect::None)]
#[case::applied_and_not_read_back(vec![got(inline("a", "")), processed(true), failed(MOVED)], Recovery::Relocate, Effect::Unknown)]
#[case::refused_and_not_read_back(vec![got(inline("a", "")), processed(false), failed(MOVED)], Recovery::Relocate, Effect::None)]
#[case::too_much_to_read_back(
    vec![got(inline("a", "")), processed(true), got_exception("MultiActionResultTooLarge")],
    Recovery::Wait,
    Effect::Unknown
)]
#[case::read_failed_write_applied(vec![failed("RegionTooBusyException"), processed(true), got(inline("a", ""))], Recovery::Wait, Effect::Unknown)]
#[case::a_write_that_failed_strangely(vec![got(inline("a", "")), failed(UNHEARD_OF), got(inline("a", ""))], Recovery::RelocateOnUnknown, Effect::Unknown)]
#[case::a_write_that_failed_strangely_after_a_read_did(vec![failed(MOVED), failed(UNHEARD_OF), failed(MOVED)], Recovery::Relocate, Effect::Unknown)]
#[case::a_read_that_failed_strangely(vec![failed(UNHEARD_OF), failed(MOVED), failed(MOVED)], Recovery::RelocateOnUnknown, Effect::None)]
#[case::one_that_is_final(
    vec![failed(MOVED), failed("security.AccessDeniedException"), failed(MOVED)],
    Recovery::Fail,
    Effect::None
)]
fn a_failed_action_fails_the_call_with_what_all_of_it_left_behind(
    #[case] results: Vec<pb::RegionActionResult>,
    #[case] recovery: Recovery,
    #[case] effect: Effect,
) {
    let error = read_all(&fence(), results, Bytes::new()).unwrap_err();
    let classification = error.classify();
    assert_eq!(
        (classification.recovery, classification.effect),
        (recovery, effect),
        "{error:?}"
    );
    assert!(matches!(error, CallError::Action { .. }));
}

#[test]
fn the_exception_of_an_action_is_shown_to_the_user() {
    let results = vec![
        got(inline("a", "")),
        failed("security.AccessDeniedException"),
        failed(MOVED),
    ];
    let error = read_all(&fence(), results, Bytes::new())
        .unwrap_err()
        .into_error();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
    assert!(
        error.to_string().contains("AccessDeniedException: why"),
        "{error}"
    );
}

#[test]
fn mutations_are_grouped_by_row_and_durability_in_order() {
    let call = MultiCall {
        row: "a".into(),
        actions: vec![RegionAction::Atomic(vec![
            put("b"),
            Increment::new("a").column("f", "n", 1).into(),
            Append::new("b").cell("f", "x", "x").into(),
        ])],
        durability: Durability::SyncWal,
    };
    let message = call.message(&RegionInfo::meta()).encode_to_vec();
    let message = pb::MultiRequest::decode(&*message).unwrap();
    let actions = &message.region_action[0].action;
    let rows: Vec<_> = actions
        .iter()
        .map(|action| {
            let mutation = action.mutation.clone().unwrap();
            assert_eq!(mutation.durability(), pb::mutation_proto::Durability::SyncWal);
            (action.index(), mutation.row().to_vec(), mutation.mutate_type())
        })
        .collect();
    use pb::mutation_proto::MutationType;
    assert_eq!(
        rows,
        [
            (0, b"a".to_vec(), MutationType::Increment),
            (1, b"b".to_vec(), MutationType::Put),
            (2, b"b".to_vec(), MutationType::Append)
        ]
    );
    assert_eq!(message.region_action[0].atomic, Some(true));
}

/// Reads, changes and reads two rows.
fn two_fences() -> Vec<RegionAction> {
    let get = |row: &'static str| RegionAction::Get(Get::new(row));
    vec![get("a"), get("b"), conditional(), get("a"), get("b")]
}

fn got_both(one: pb::Result, other: pb::Result) -> pb::RegionActionResult {
    answered(vec![part(0, Some(one)), part(1, Some(other))])
}

#[test]
fn only_adjacent_gets_are_sent_together() {
    let call = MultiCall {
        row: "a".into(),
        actions: [two_fences(), vec![conditional(), conditional()]].concat(),
        durability: Durability::SyncWal,
    };
    let written = call.message(&RegionInfo::meta()).encode_to_vec();
    let message = pb::MultiRequest::decode(&*written).unwrap();
    assert_eq!(message.encode_to_vec(), written);
    let actions = message.region_action.iter();
    let sent: Vec<Vec<Option<u32>>> = actions
        .map(|sent| sent.action.iter().map(|action| action.index).collect())
        .collect();
    let (one, two) = (vec![Some(0)], vec![Some(0), Some(1)]);
    assert_eq!(sent, [two.clone(), one.clone(), two, one.clone(), one]);
}

#[test]
fn each_of_the_gets_that_were_sent_together_has_its_answer() {
    let results = vec![
        got_both(in_block(1), inline("b", "inline")),
        processed(true),
        // A server may answer in another order. The cells are in the order of the answers.
        answered(vec![
            part(1, Some(in_block(1))),
            part(0, Some(pb::Result::default())),
        ]),
    ];
    let answers = read_all(&two_fences(), results, block(&["one", "two"])).unwrap();
    assert_eq!(values(&answers), ["one", "inline", "two"]);
    assert!(matches!(
        answers[..],
        [
            ActionAnswer::Row(Some(_)),
            ActionAnswer::Row(Some(_)),
            ActionAnswer::Processed { processed: true, .. },
            ActionAnswer::Row(None),
            ActionAnswer::Row(Some(_))
        ]
    ));
}

#[test]
fn one_of_several_gets_that_fails_fails_the_call() {
    let mut failed_in_part = got_exception(MOVED);
    failed_in_part
        .result_or_exception
        .push(part(1, Some(inline("b", ""))));
    let both = || got_both(inline("a", ""), inline("b", ""));
    let results = vec![both(), processed(true), failed_in_part];
    let error = read_all(&two_fences(), results, Bytes::new()).unwrap_err();
    let classification = error.classify();
    assert_eq!(
        (classification.recovery, classification.effect),
        (Recovery::Relocate, Effect::Unknown)
    );

    let missing = vec![both(), processed(true), got(inline("a", ""))];
    let error = read_all(&two_fences(), missing, Bytes::new()).unwrap_err();
    assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
}
