//! The number of values in JSON, known before it is parsed: a parsed value takes hundreds of bytes where its text takes
//! two, so a bound of the bytes alone does not bound the memory.

use serde::Deserialize;
use serde_json::error::Category;

/// The reason why the answer of a service is not used, as a sentence about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unparsed {
    /// It has more bytes than this.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    /// It has more values than permitted.
    #[error("its answer has too many values")]
    TooMany,
    /// It is not JSON.
    #[error("its answer is not JSON")]
    NotJson,
    /// It is JSON of another form.
    #[error("its answer is not as documented")]
    OtherForm,
}

impl From<Unparsed> for String {
    fn from(why: Unparsed) -> Self {
        why.to_string()
    }
}

/// Parses the answer of a service, unless it has more than `most` values.
///
/// # Errors
/// The reason why it is not used.
pub fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8], most: usize) -> Result<T, Unparsed> {
    if count(json) > most {
        return Err(Unparsed::TooMany);
    }
    serde_json::from_slice(json).map_err(|error| match error.classify() {
        Category::Data => Unparsed::OtherForm,
        Category::Io | Category::Syntax | Category::Eof => Unparsed::NotJson,
    })
}

/// Returns at least the number of values in JSON, in linear time and without memory: each but the first follows a comma
/// or an open bracket, directly or after its name.
#[must_use]
pub fn count(json: &[u8]) -> usize {
    let (mut values, mut in_text, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_separators_in_texts_do_not_count() {
        assert_eq!(count(br#"{"a,:[{": "b\\\",["}"#), 2);
        assert_eq!(count(b"[[0], {}, 1]"), 6);
    }

    #[test]
    fn an_answer_that_is_not_used_says_why() {
        let read = |json: &str| parsed::<Vec<u8>>(json.as_bytes(), 3);
        assert_eq!(read("[1, 2]"), Ok(vec![1, 2]));
        assert_eq!(read("[1, 2, 3, 4]"), Err(Unparsed::TooMany));
        assert_eq!(
            (read("<html>"), read("[1"), read("{}")),
            (Err(Unparsed::NotJson), Err(Unparsed::NotJson), Err(Unparsed::OtherForm))
        );
    }
}
