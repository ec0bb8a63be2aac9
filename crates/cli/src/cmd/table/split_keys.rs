//! A file with the split keys of a new table.

use std::{collections::BTreeSet, fs::File, io::Read, path::Path};

use bytes::Bytes;
use hbase_txn::{PartitionRule, client::BytesBinary};

use crate::{exit::Failure, output, values};

/// The maximum size of a file in bytes.
const MAX_SIZE: usize = 16 << 20;
/// The maximum number of keys.
const MAX_KEYS: usize = 65_535;

/// Reads the keys of a file, one a line; blank lines are skipped. Refuses keys that split a partition of the rule.
pub(super) fn read(path: &Path, rule: &PartitionRule) -> Result<Vec<Bytes>, Failure> {
    let name = path.display();
    let refused = |why: &str| Failure::Refused(format!("reading {name}: {why}"));
    let mut contents = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE as u64 + 1).read_to_end(&mut contents));
    read.map_err(|error| refused(&output::plain(&error)))?;
    if contents.len() > MAX_SIZE {
        return Err(refused(&format!("it is larger than {MAX_SIZE} bytes")));
    }
    let (mut keys, mut wrong) = (BTreeSet::new(), Vec::new());
    for (number, line) in (1..).zip(contents.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        match key(line, rule) {
            Ok(_) if keys.len() == MAX_KEYS => {
                return Err(refused(&format!("it has more than {MAX_KEYS} keys")));
            }
            Ok(key) if keys.contains(&key) => {
                wrong.push(format!(
                    "{name}:{number}: split key {} is given twice",
                    BytesBinary(&key)
                ));
            }
            Ok(key) => drop(keys.insert(key)),
            Err(why) => wrong.push(format!("{name}:{number}: {why}")),
        }
    }
    if wrong.is_empty() {
        Ok(keys.into_iter().collect())
    } else {
        Err(Failure::Refused(wrong.join("\n")))
    }
}

fn key(line: &[u8], rule: &PartitionRule) -> Result<Bytes, String> {
    let text =
        std::str::from_utf8(line).map_err(|_| r"bytes that are not UTF-8; write them as \xNN".to_owned())?;
    let key = values::bytes(text).map_err(|error| error.to_string())?;
    rule.check_boundary(&key).map_err(|error| error.to_string())?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read_text(text: &[u8]) -> Result<Vec<Bytes>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("splits");
        fs::write(&path, text).unwrap();
        read(&path, &PartitionRule::prefix_length(3).unwrap()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn each_line_is_a_key() {
        let keys = read_text(b"a\r\n\nc\nb\\x00\\xFF").unwrap();
        assert_eq!(keys, [&b"a"[..], b"b\0\xff", b"c"]);
        assert_eq!(read_text(b"").unwrap(), [&b""[..]; 0]);
    }

    #[test]
    fn all_wrong_lines_are_listed_with_their_numbers() {
        let refusal = read_text(b"b\na\nxxxm\n\xff\nb\n\\n\n").unwrap_err();
        let expected = [
            ("3", "split key xxxm cuts partition xxx in two"),
            ("4", "bytes that are not UTF-8"),
            ("5", "split key b is given twice"),
            ("6", "a stray backslash"),
        ];
        let lines: Vec<_> = refusal.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{refusal}");
        for (line, (number, why)) in lines.into_iter().zip(expected) {
            assert!(
                line.contains(&format!("splits:{number}: ")) && line.contains(why),
                "{line}"
            );
        }
    }

    #[test]
    fn size_and_number_of_keys_are_bounded() {
        let keys = (0..=MAX_KEYS).map(|key| format!("\\x{:02X}\\x{:02X}\n", key >> 8, key & 0xff));
        let refusal = read_text(keys.collect::<String>().as_bytes()).unwrap_err();
        assert!(refusal.contains("more than 65535 keys"), "{refusal}");
        let refusal = read_text(&vec![b'\n'; MAX_SIZE + 1]).unwrap_err();
        assert!(refusal.contains("larger than"), "{refusal}");
    }
}
