//! The number of values in JSON, known before it is parsed: a parsed value takes hundreds of bytes where its text takes
//! two, so a bound of the bytes alone does not bound the memory.

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
}
