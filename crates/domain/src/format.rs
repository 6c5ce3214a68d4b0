//! The format of the stored data: a program uses no data that only a later version understands.
//!
//! The store holds one record with two numbers: the format of its data, and the oldest format whose programs still read
//! it. A change that earlier programs would misread raises both; a change that they read with loss raises the first.

use serde::{Deserialize, Serialize};

/// The format that this version writes.
pub const OURS: Format = Format { format: 1, read_by: 1, partial: false };

/// The record of a store while a copy is put into it. No version reads such data, so an interrupted copy is not taken for
/// all data.
pub const PARTIAL: Format = Format { format: OURS.format, read_by: u32::MAX, partial: true };

/// The record of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// The format of the data.
    pub format: u32,
    /// The oldest format whose programs read it.
    pub read_by: u32,
    /// True while a copy is put into the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// Returns true if the record must be written because the data has an earlier format, or none yet. `None` is a store
/// without a record.
///
/// # Errors
/// A sentence, if this version does not read the data, or the data is a part of a copy.
pub fn examine(record: Option<&str>) -> Result<bool, String> {
    let Some(record) = record else { return Ok(true) };
    match serde_json::from_str::<Format>(record) {
        Ok(Format { partial: true, .. }) => Err(INTERRUPTED.to_owned()),
        Ok(format) if format.read_by > OURS.format => Err(refused(&format!("has format {}", format.format))),
        Ok(format) => Ok(format.format < OURS.format),
        Err(_) => Err(refused("has a format record that this version cannot read")),
    }
}

const INTERRUPTED: &str = "the store has only a part of a copy, because staffai restore or staffai migrate is at work or \
                           was interrupted; stop it, empty the store (or delete staffai.redb and staffai.wal), and \
                           repeat the command";

fn refused(what: &str) -> String {
    format!(
        "the stored data {what}, and staffai {} reads formats up to {}; nothing was changed. Install the version that wrote \
         it, or restore a backup of an earlier version into an empty store",
        env!("CARGO_PKG_VERSION"),
        OURS.format
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_only_a_later_version_reads_is_refused() {
        for later in [r#"{"format":3,"read_by":2}"#, "words", "", r#"{"format":"x"}"#] {
            let mistake = examine(Some(later)).unwrap_err();
            assert!(mistake.contains("nothing was changed. Install the version that wrote it"), "{later}: {mistake}");
        }
        assert_eq!(examine(Some(r#"{"format":2,"read_by":1,"more":true}"#)), Ok(false));
        assert_eq!((examine(None), examine(Some(r#"{"format":0,"read_by":0}"#))), (Ok(true), Ok(true)));
        let ours = serde_json::to_string(&OURS).unwrap();
        assert_eq!((ours.as_str(), examine(Some(&ours))), (r#"{"format":1,"read_by":1}"#, Ok(false)));
    }

    #[test]
    fn a_part_of_a_copy_is_refused_by_each_version() {
        let partial = serde_json::to_string(&PARTIAL).unwrap();
        assert!(examine(Some(&partial)).unwrap_err().contains("repeat the command"));
        // Versions without that field compare the numbers.
        assert!(partial.starts_with(r#"{"format":1,"read_by":4294967295"#), "{partial}");
    }
}
