//! The number of sub-messages of an answer, counted before memory is spent on them.
//!
//! A sub-message can have two bytes, and the decoder turns it into a struct of up to 192 bytes: 256
//! MiB would become 24 GiB. Cells in a block need no such count: the shortest has 24 bytes, and
//! becomes one of 152.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The number of sub-messages that an answer of any length may have.
const FREE: usize = 2 << 20;
/// The number of bytes that each further sub-message requires. A cell has more.
const BYTES: usize = 16;

/// The fields of a message whose own sub-messages are counted too, by field number.
struct CountedFields(&'static [(u32, Self)]);

const PLAIN: CountedFields = CountedFields(&[]);
const GET: CountedFields = CountedFields(&[(1, PLAIN)]);
const SCAN: CountedFields = CountedFields(&[(5, PLAIN), (10, PLAIN)]);
const RESULT_OR_EXCEPTION: CountedFields = CountedFields(&[(2, PLAIN)]);
const MULTI: CountedFields = CountedFields(&[(1, CountedFields(&[(1, RESULT_OR_EXCEPTION)])), (3, PLAIN)]);
const TABLE_DESCRIPTORS: CountedFields = CountedFields(&[(1, CountedFields(&[(3, PLAIN)]))]);
const PROCEDURES: CountedFields = CountedFields(&[(1, PLAIN)]);
const LOCKS: CountedFields = CountedFields(&[(1, CountedFields(&[(4, PLAIN), (6, PLAIN)]))]);
const NAMESPACES: CountedFields = CountedFields(&[(1, PLAIN)]);
const REPLICATION_PEERS: CountedFields =
    CountedFields(&[(1, CountedFields(&[(3, CountedFields(&[(5, PLAIN), (9, PLAIN)]))]))]);
const CLUSTER_STATUS: CountedFields =
    CountedFields(&[(1, CountedFields(&[(2, CountedFields(&[(2, PLAIN)]))]))]);

/// The reason why an answer is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has more than {0} parts, which is more than its length allows")]
pub(crate) struct TooManyParts(usize);

/// Rejects the answer of a method if decoding it would take far more memory than its length: more
/// than some 400 MiB, and twelve times its length. Leaves invalid messages to the decoder.
pub(crate) fn check(method: &str, answer: &[u8]) -> Result<(), TooManyParts> {
    let limit = FREE + answer.len() / BYTES;
    // Each part has a tag and a length of its own.
    if answer.len() / 2 <= limit {
        return Ok(());
    }
    let fields = match method {
        "Get" | "Mutate" => &GET,
        "Scan" => &SCAN,
        // The answers of the service of labels are those of region actions, too.
        "Multi" | "addLabels" | "setAuths" | "clearAuths" => &MULTI,
        "GetTableDescriptors" => &TABLE_DESCRIPTORS,
        "GetClusterStatus" => &CLUSTER_STATUS,
        "GetProcedures" => &PROCEDURES,
        "GetLocks" => &LOCKS,
        "ListReplicationPeers" => &REPLICATION_PEERS,
        "GetNamespaceDescriptor" | "ListNamespaceDescriptors" => &NAMESPACES,
        _ => &PLAIN,
    };
    let mut left = limit;
    count(answer, fields, &mut left).ok_or(TooManyParts(limit))
}

/// Subtracts the number of a message's parts from the remaining number. Returns `None` if there are
/// too many.
fn count(mut message: &[u8], fields: &CountedFields, left: &mut usize) -> Option<()> {
    while let Some((tag, part)) = next_part(&mut message) {
        *left = left.checked_sub(1)?;
        let inner = fields.0.iter().find(|(inside, _)| *inside == tag);
        if let Some((_, inner)) = inner {
            count(part, inner, left)?;
        }
    }
    Some(())
}

/// Returns the next field that may be a sub-message, or `None` at the end, and where the decoder
/// will stop.
fn next_part<'a>(message: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    while !message.is_empty() {
        let (tag, kind) = decode_key(message).ok()?;
        if kind == WireType::LengthDelimited {
            let len = usize::try_from(decode_varint(message).ok()?).ok()?;
            let (part, rest) = message.split_at_checked(len)?;
            *message = rest;
            return Some((tag, part));
        }
        skip_field(kind, tag, message, DecodeContext::default()).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;
    use rstest::rstest;

    use super::*;
    use crate::wire::pb;

    /// Returns a field with this content.
    fn field(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut field = vec![tag << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut field);
        field.extend(content);
        field
    }

    /// Returns fields of two bytes each.
    fn tiny(tag: u8) -> Vec<u8> {
        [tag << 3 | 2, 0].repeat(3 << 20)
    }

    #[rstest]
    #[case::cells_of_a_get("Get", field(1, &tiny(1)))]
    #[case::results_of_a_scan("Scan", tiny(5))]
    #[case::cells_of_a_scan("Scan", field(5, &tiny(1)))]
    #[case::actions_of_a_multi("Multi", field(1, &tiny(1)))]
    #[case::cells_of_a_multi("Multi", field(1, &field(1, &field(2, &tiny(1)))))]
    #[case::load_after_a_multi("Multi", field(3, &tiny(2)))]
    #[case::metrics_of_a_scan("Scan", field(10, &tiny(1)))]
    #[case::states_of_a_procedure("GetProcedures", field(1, &tiny(15)))]
    #[case::waiting_for_a_lock("GetLocks", field(1, &tiny(6)))]
    #[case::states_of_the_owner_of_a_lock("GetLocks", field(1, &field(4, &tiny(15))))]
    #[case::settings_of_a_namespace("ListNamespaceDescriptors", field(1, &tiny(2)))]
    #[case::cells_of_an_increment("Mutate", field(1, &tiny(1)))]
    #[case::attributes_of_a_family("GetTableDescriptors", field(1, &field(3, &tiny(2))))]
    #[case::regions_of_a_server("GetClusterStatus", field(1, &field(2, &field(2, &tiny(5)))))]
    #[case::labels("addLabels", field(1, &tiny(1)))]
    #[case::settings_of_a_peer("ListReplicationPeers", field(1, &field(3, &tiny(4))))]
    #[case::families_of_a_peer("ListReplicationPeers", field(1, &field(3, &field(5, &tiny(2)))))]
    #[case::whatever_else("GetNamespaceDescriptor", tiny(1))]
    fn answer_of_tiny_parts_is_refused(#[case] method: &str, #[case] answer: Vec<u8>) {
        let limit = FREE + answer.len() / BYTES;
        assert_eq!(check(method, &answer), Err(TooManyParts(limit)));
    }

    #[test]
    fn small_results_of_many_actions_and_many_short_cells_pass() {
        let answer = pb::ResultOrException {
            index: Some(70_000),
            result: Some(pb::Result::default()),
            ..Default::default()
        };
        let answers = vec![answer; 1_000_000];
        let answer = pb::MultiResponse {
            region_action_result: vec![pb::RegionActionResult {
                result_or_exception: answers,
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(check("Multi", &answer.encode_to_vec()), Ok(()));
        let cell = pb::Cell {
            row: Some("r".into()),
            family: Some("f".into()),
            qualifier: Some(Bytes::new()),
            timestamp: Some(1_700_000_000_000),
            cell_type: Some(4),
            value: Some("v".into()),
            tags: None,
        };
        let cells = field(1, &cell.encode_to_vec()).repeat(3_000_000);
        assert_eq!(check("Get", &field(1, &cells)), Ok(()));
    }

    #[test]
    fn value_that_looks_like_tiny_parts_passes() {
        let cell = pb::Cell {
            value: Some(tiny(1).into()),
            ..Default::default()
        };
        let answer = field(1, &field(1, &cell.encode_to_vec()));
        assert_eq!(check("Get", &answer), Ok(()));
        assert_eq!(check("ExecService", &field(2, &tiny(1))), Ok(()));
    }

    #[test]
    fn invalid_messages_are_left_to_the_decoder() {
        for garbage in [&b"\xff"[..], b"\x0a\xff", b"\x0a\x05\x00", b"\x0b\x0a\x00"] {
            assert_eq!(check("Get", garbage), Ok(()));
        }
    }
}
