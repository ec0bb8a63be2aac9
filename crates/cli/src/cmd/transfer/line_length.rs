//! The length of the lines of an export, which an import must be able to read.

use hbase_txn::client::BytesBinary;

use crate::exit::Failure;

/// Refuses a line that is too long to be imported.
pub(super) fn check_length(row: &[u8], length: usize, longest: usize) -> Result<(), Failure> {
    if length <= longest {
        Ok(())
    } else {
        Err(Failure::Refused(format!(
            "cannot export row {}: a line of it would have {length} bytes, and an import reads at most {longest}",
            BytesBinary(row)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_that_an_import_would_not_read_is_refused() {
        check_length(b"r", 64, 64).unwrap();
        let refusal = check_length(b"r\xff", 65, 64).unwrap_err().to_string();
        let why =
            "cannot export row r\\xFF: a line of it would have 65 bytes, and an import reads at most 64";
        assert_eq!(refusal, why);
    }
}
