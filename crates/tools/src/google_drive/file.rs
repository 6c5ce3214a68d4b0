//! Files as Drive describes them, and search queries.

use serde::Deserialize;

use domain::clean::clean;

/// The fields that are requested for each file.
pub(super) const FIELDS: &str = "id,name,mimeType,modifiedTime,parents,trashed,webViewLink";

/// The media type of folders.
pub(super) const FOLDER: &str = "application/vnd.google-apps.folder";

/// The number of characters shown of a name.
const NAME_CHARS: usize = 200;

/// A file's description.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct File {
    pub id: String,
    pub name: String,
    /// The media type.
    #[serde(rename = "mimeType")]
    pub kind: String,
    pub modified_time: String,
    /// The identifiers of the folders that contain it.
    pub parents: Vec<String>,
    pub trashed: bool,
    pub web_view_link: String,
}

/// The way to a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    /// Drive converts a document of its own to this media type.
    Export(&'static str),
    /// Its content is text.
    Text,
    No,
}

impl File {
    pub(super) fn readable(&self) -> Readable {
        match self.kind.as_str() {
            "application/vnd.google-apps.document" | "application/vnd.google-apps.presentation" => {
                Readable::Export("text/plain")
            }
            "application/vnd.google-apps.spreadsheet" => Readable::Export("text/csv"),
            "application/json" | "application/xml" | "application/yaml" | "application/x-yaml" | "application/toml" => {
                Readable::Text
            }
            kind if kind.starts_with("text/") => Readable::Text,
            _ => Readable::No,
        }
    }

    /// Describes it in one line.
    pub(super) fn shown(&self) -> String {
        let name = clean(&self.name, NAME_CHARS).replace('\n', " ");
        let Self { id, kind, modified_time, web_view_link, .. } = self;
        format!("{name} ({kind}, {modified_time}) id {id} {web_view_link}").trim_end().to_owned()
    }
}

/// Returns the query for files with these words in the name or the content.
pub(super) fn query(words: &str, folder: Option<&str>) -> String {
    let mut terms = vec!["trashed = false".to_owned()];
    if !words.is_empty() {
        let words = quoted(words);
        terms.push(format!("(name contains {words} or fullText contains {words})"));
    }
    terms.extend(folder.map(|folder| format!("{} in parents", quoted(folder))));
    terms.join(" and ")
}

/// Quotes a value: Drive reads `\'` and `\\` inside of quotes.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Returns the number of the lock for a file.
pub(super) fn stripe(id: &str, stripes: usize) -> usize {
    id.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte))) % stripes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_inside_of_their_quotes() {
        assert_eq!(query("", None), "trashed = false");
        assert_eq!(
            query(r"a' or name contains 'b\", Some("F1")),
            r"trashed = false and (name contains 'a\' or name contains \'b\\' or fullText contains 'a\' or name contains \'b\\') and 'F1' in parents"
        );
    }
}
