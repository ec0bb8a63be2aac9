use proptest::{collection::vec, prelude::*};

use crate::wire::cell_block::*;

/// Row `r`, column `f:q`, timestamp 1, a put of `v`.
const CELL: &[u8] = b"\x00\x00\x00\x18\x00\x00\x00\x0f\x00\x00\x00\x01\
    \x00\x01r\x01fq\x00\x00\x00\x00\x00\x00\x00\x01\x04v";

fn decode(block: &[u8]) -> Result<Vec<Cell>, CellBlockError> {
    CellBlockDecoder::new(Bytes::copy_from_slice(block), Codec::KeyValue).collect()
}

fn decode_with_tags(block: &[u8]) -> Result<Vec<Cell>, CellBlockError> {
    CellBlockDecoder::new(Bytes::copy_from_slice(block), Codec::KeyValueWithTags).collect()
}

/// Returns [`CELL`] with these bytes after its value.
fn cell_and(behind: &[u8]) -> Vec<u8> {
    let mut block = CELL.to_vec();
    let len = u32::try_from(CELL.len() - 4 + behind.len()).unwrap();
    block[..4].copy_from_slice(&len.to_be_bytes());
    block.extend_from_slice(behind);
    block
}

fn tag(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(1 + value.len()).unwrap();
    [&len.to_be_bytes(), [kind].as_slice(), value].concat()
}

fn ttl(millis: i64) -> Vec<u8> {
    tag(8, &millis.to_be_bytes())
}

/// Returns [`CELL`] with these tags.
fn cell_with(tags: &[Vec<u8>]) -> Vec<u8> {
    let tags = tags.concat();
    let len = u16::try_from(tags.len()).unwrap();
    cell_and(&[&len.to_be_bytes(), tags.as_slice()].concat())
}

fn parts(cell: &Cell) -> CellRef<'_> {
    CellRef {
        row: &cell.row,
        family: &cell.family,
        qualifier: &cell.qualifier,
        timestamp: cell.timestamp,
        kind: cell.kind,
        value: &cell.value,
    }
}

#[test]
fn the_bytes_are_those_of_the_protocol() {
    let cell = CellRef {
        row: b"r",
        family: b"f",
        qualifier: b"q",
        timestamp: 1,
        kind: CellKind::Put,
        value: b"v",
    };
    let mut block = Vec::new();
    encode_cell(&mut block, &cell).unwrap();
    assert_eq!(block, CELL);
    let found = decode(&CELL.repeat(2)).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(parts(&found[1]), cell);
}

#[test]
fn the_parts_are_slices_of_the_block() {
    let block = Bytes::from_static(CELL);
    let cell = CellBlockDecoder::new(block, Codec::KeyValue)
        .next()
        .unwrap()
        .unwrap();
    for part in [&cell.row, &cell.family, &cell.qualifier, &cell.value] {
        assert!(CELL.as_ptr_range().contains(&part.as_ptr()));
    }
}

#[test]
fn an_empty_block_has_no_cells() {
    assert_eq!(decode(b""), Ok(Vec::new()));
    assert!(CellBlockDecoder::new(Bytes::new(), Codec::KeyValue).is_at_end());
}

#[test]
fn kinds_keep_their_codes() {
    for code in 0..=u8::MAX {
        assert_eq!(CellKind::from_code(code).code(), code);
    }
    assert_eq!(CellKind::from_code(12), CellKind::DeleteColumn);
    assert_eq!(CellKind::from_code(9), CellKind::Other(9));
}

#[test]
fn every_way_to_cut_a_block_short_is_an_error() {
    for len in 1..CELL.len() {
        assert_eq!(decode(&CELL[..len]), Err(CellBlockError::Truncated), "{len}");
    }
}

#[test]
fn the_block_ends_at_the_first_error() {
    let mut block = CELL.to_vec();
    block.extend_from_slice(b"\xff\xff\xff\xff");
    block.extend_from_slice(CELL);
    let mut cells = CellBlockDecoder::new(block.into(), Codec::KeyValue);
    assert!(cells.next().unwrap().is_ok());
    assert!(cells.next().unwrap().is_err());
    assert!(cells.next().is_none() && cells.is_at_end());
}

#[test]
fn hostile_lengths_are_refused_by_name() {
    for (at, bytes, wanted) in [
        (
            0,
            b"\xff\xff\xff\xff".as_slice(),
            "the whole of a cell has the negative length -1",
        ),
        (0, b"\x7f\xff\xff\xff", "the block ends in the middle of a cell"),
        (0, b"\x00\x00\x00\x00", "the block ends in the middle of a cell"),
        (
            4,
            b"\xff\xff\xff\xff",
            "the key of a cell has the negative length -1",
        ),
        (
            4,
            b"\x7f\xff\xff\xff\x7f\xff\xff\xff",
            "key and value are not the whole",
        ),
        (
            8,
            b"\x80\x00\x00\x00",
            "the value of a cell has the negative length -2147483648",
        ),
        (4, b"\x00\x00\x00\x00\x00\x00\x00\x10", "the key is too short"),
        (4, b"\x00\x00\x00\x0b\x00\x00\x00\x05", "the key is too short"),
        (12, b"\xff\xff", "the row of a cell has the negative length -1"),
        (12, b"\x00\x0e", "the row is longer than the key"),
        (12, b"\x00\x0d", "the key is too short"),
        (15, b"\x80", "the family of a cell has the negative length -128"),
        (15, b"\x0c", "the family is longer than the key"),
        (15, b"\x05", "the key is too short"),
    ] {
        let mut block = CELL.to_vec();
        block[at..at + bytes.len()].copy_from_slice(bytes);
        let found = decode(&block).unwrap_err().to_string();
        assert!(found.ends_with(wanted), "{at} {bytes:x?}: {found}");
    }
}

#[test]
fn tags_are_refused_because_they_were_not_asked_for() {
    let mut block = CELL.to_vec();
    block[3] += 5;
    block.extend_from_slice(b"\x00\x03\x01ab");
    assert!(matches!(
        decode(&block),
        Err(CellBlockError::Contradiction { .. })
    ));
}

#[test]
fn the_first_ttl_says_when_a_cell_expires() {
    let (acl, text) = (tag(1, b"acl"), tag(7, b""));
    for (block, wanted) in [
        (CELL.to_vec(), None),
        (cell_with(&[]), None),
        (cell_with(&[acl.clone(), text.clone()]), None),
        (cell_with(&[ttl(3_000)]), Some(3_001)),
        (cell_with(&[acl, ttl(5), text, ttl(9)]), Some(6)),
        (cell_with(&[ttl(i64::MAX)]), Some(i64::MAX as u64 + 1)),
        (cell_with(&[ttl(-1)]), Some(1)),
        (cell_with(&[ttl(i64::MIN)]), Some(1)),
    ] {
        // The cell after it is found, whatever the tags of the first one were.
        let cells = decode_with_tags(&[&block, CELL].concat()).unwrap();
        let found: Vec<_> = cells.iter().map(Cell::expires_at).collect();
        assert_eq!(found, [wanted, None], "{block:x?}");
        assert!(cells.iter().all(|cell| parts(cell) == parts(&cells[1])));
    }
}

#[test]
fn acl_or_visibility_expression_of_a_cell_is_noticed() {
    for (tags, wanted) in [
        (vec![], false),
        (vec![ttl(5), tag(4, b"\x01"), tag(5, b""), tag(9, b"")], false),
        (vec![tag(1, b"acl")], true),
        (vec![ttl(5), tag(2, b"\x00\x01")], true),
        (vec![tag(7, b"secret"), ttl(5)], true),
    ] {
        let cells = decode_with_tags(&[&cell_with(&tags), CELL].concat()).unwrap();
        let found: Vec<_> = cells.iter().map(Cell::has_access_rules).collect();
        assert_eq!(found, [wanted, false], "{tags:x?}");
    }
}

#[test]
fn a_time_of_expiry_that_is_too_far_away_is_the_last_one() {
    let mut block = cell_with(&[ttl(i64::MAX)]);
    block[4 + 8 + 6..][..8].fill(0xff);
    assert_eq!(decode_with_tags(&block).unwrap()[0].expires_at(), Some(u64::MAX));
}

#[test]
fn tags_whose_lengths_do_not_fit_are_refused_by_name() {
    for (behind, wanted) in [
        (b"\x00".as_slice(), "key, value and tags are not the whole"),
        (b"\x00\x00\x00", "key, value and tags are not the whole"),
        (b"\x00\x04\x00\x01\x08", "key, value and tags are not the whole"),
        (b"\x00\x02\x00\x01\x08", "key, value and tags are not the whole"),
        (b"\x00\x01\x00", "a tag has no length"),
        (b"\x00\x02\x00\x00", "a tag has no type"),
        (b"\x00\x03\x00\x02\x08", "a tag is longer than the tags"),
        (b"\x00\x03\xff\xff\x08", "a tag is longer than the tags"),
        (b"\x00\x04\x00\x01\x01\x00", "a tag has no length"),
        (b"\x00\x03\x00\x01\x08", "a TTL is not eight bytes long"),
    ] {
        let found = decode_with_tags(&cell_and(behind)).unwrap_err().to_string();
        assert!(found.ends_with(wanted), "{behind:x?}: {found}");
    }
}

#[test]
fn oversized_cells_are_not_encoded() {
    let (row, family) = (vec![0; 32_768], [0; 128]);
    let cell = CellRef {
        row: &row[1..],
        family: &family[1..],
        qualifier: b"",
        timestamp: 0,
        kind: CellKind::Put,
        value: b"",
    };
    let mut block = Vec::new();
    encode_cell(&mut block, &cell).unwrap();
    let len = block.len();
    for (part, cell) in [
        ("row", CellRef { row: &row, ..cell }),
        (
            "family",
            CellRef {
                family: &family,
                ..cell
            },
        ),
    ] {
        match encode_cell(&mut block, &cell) {
            Err(CellBlockError::TooLong { part: found, .. }) => assert_eq!(found, part),
            other => panic!("{other:?}"),
        }
        assert_eq!(block.len(), len);
    }
}

fn cell() -> impl Strategy<Value = Cell> {
    let bytes = |most| vec(any::<u8>(), 0..most).prop_map(Bytes::from);
    (
        bytes(50),
        bytes(10),
        bytes(50),
        any::<u64>(),
        any::<u8>(),
        bytes(200),
    )
        .prop_map(|(row, family, qualifier, timestamp, kind, value)| {
            Cell::new(
                row,
                family,
                qualifier,
                timestamp,
                CellKind::from_code(kind),
                value,
            )
        })
}

proptest! {
    #[test]
    fn cells_come_back(cells in vec(cell(), 0..10)) {
        let mut block = Vec::new();
        for cell in &cells {
            encode_cell(&mut block, &parts(cell)).unwrap();
        }
        prop_assert_eq!(decode(&block).unwrap(), cells);
    }

    #[test]
    fn a_ttl_is_found_among_tags(
        before in vec((any::<u8>().prop_filter("a TTL", |kind| *kind != 8), vec(any::<u8>(), 0..40)), 0..6),
        millis in proptest::option::of(any::<i64>()),
        after in vec((any::<u8>().prop_filter("a TTL", |kind| *kind != 8), vec(any::<u8>(), 0..40)), 0..6),
    ) {
        let others = |tags: Vec<(u8, Vec<u8>)>| tags.into_iter().map(|(kind, value)| tag(kind, &value));
        let tags: Vec<_> = others(before).chain(millis.map(ttl)).chain(others(after)).collect();
        let cells = decode_with_tags(&cell_with(&tags)).unwrap();
        let wanted = millis.map(|millis| 1_u64.saturating_add_signed(millis).max(1));
        prop_assert_eq!(cells[0].expires_at(), wanted);
    }

    #[test]
    fn arbitrary_tags_are_read_or_refused(behind in vec(any::<u8>(), 0..60)) {
        if let Ok(cells) = decode_with_tags(&cell_and(&behind)) {
            prop_assert_eq!(cells.len(), 1);
        }
        let len = u16::try_from(behind.len()).unwrap().to_be_bytes();
        if let Ok(cells) = decode_with_tags(&cell_and(&[len.as_slice(), &behind].concat())) {
            prop_assert_eq!(cells.len(), 1);
        }
    }

    #[test]
    fn a_cell_with_a_few_bytes_changed_is_read_or_refused(at in 0..CELL.len(), bytes in vec(any::<u8>(), 1..8)) {
        let mut block = CELL.to_vec();
        for (place, byte) in block[at..].iter_mut().zip(bytes) {
            *place = byte;
        }
        if let Ok(cells) = decode(&block) {
            prop_assert_eq!(cells.len(), 1);
        }
    }
}
