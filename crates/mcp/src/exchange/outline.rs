//! The members of a message of which only head and tail are kept. Only those of the message itself count: its content
//! comes from a server, which may quote any id.

use rmcp::model::RequestId;

/// The members of a message, as far as its kept bytes show them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// The id, a number, which some servers return as text.
    pub id: Option<RequestId>,
    /// True for a request or a notification.
    pub has_method: bool,
}

impl Outline {
    /// Reads the head from its start and the tail from its end, each in linear time.
    pub(super) fn of(head: &[u8], tail: &[u8]) -> Self {
        let mut outline = Self::default();
        outline.read_head(head);
        outline.read_tail(tail);
        outline
    }

    fn read_head(&mut self, head: &[u8]) {
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(byte) = head.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let Some(end) = string_end(head, at + 1) else { return };
                    if depth == 1 {
                        self.member(&head[at + 1..end], &head[end + 1..]);
                    }
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn read_tail(&mut self, tail: &[u8]) {
        let (mut depth, mut end) = (0_usize, tail.len());
        while let Some(at) = end.checked_sub(1) {
            end = at;
            match tail[at] {
                b'}' | b']' => depth += 1,
                b'{' | b'[' => depth = depth.saturating_sub(1),
                b'"' => {
                    let Some(start) = string_start(tail, at) else { return };
                    if depth == 1 {
                        self.member(&tail[start + 1..at], &tail[at + 1..]);
                    }
                    end = start;
                }
                _ => {}
            }
        }
    }

    /// Reads a member from its name and the bytes after it. A text without a colon after it is a value.
    fn member(&mut self, name: &[u8], rest: &[u8]) {
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { return };
        match name {
            b"id" => self.id = self.id.take().or_else(|| number(value.trim_ascii_start())),
            b"method" => self.has_method = true,
            _ => {}
        }
    }
}

/// Returns the index of the quote that ends the text beginning at `from`.
fn string_end(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Returns the index of the quote that begins the text ending with the quote at `end`, if the bytes hold it.
fn string_start(bytes: &[u8], mut end: usize) -> Option<usize> {
    loop {
        let at = memchr::memrchr(b'"', &bytes[..end])?;
        let escapes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes == at {
            // The bytes before may hold further escapes.
            return None;
        }
        if escapes % 2 == 0 {
            return Some(at);
        }
        end = at;
    }
}

/// Reads a whole number; none if the bytes may end within it.
fn number(value: &[u8]) -> Option<RequestId> {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == value.len() {
        return None;
    }
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok().map(RequestId::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_of_the_message_itself_count() {
        const THIRD: Option<RequestId> = Some(RequestId::Number(3));
        let cases = [
            (r#"{"jsonrpc":"2.0","id":3,"result":{"id":4"#, "", THIRD),
            (r#" { "id" : "3" , "result":{"#, "", THIRD),
            (r#"{"result":{"content":[{"id":4,"text":"\"id\":5"#, r#"x"}]},"id":3}"#, THIRD),
            (r#"{"result":{"id":4"#, r#""records":[{"id":4},{"id":5}]},"jsonrpc":"2.0","id":3}"#, THIRD),
            (
                r#"{"result":{"text":"id"#,
                r#"\\","text":"\"}]},\"id\":4"},"id": 3 , "x":1}
"#,
                THIRD,
            ),
            (r#"{"result":{"id":4"#, r#"},"id":4}],"text":"{"},"note":"id","id":3}"#, THIRD),
            (r#"{"result":{"id":4"#, r#"[{"id":4},{"id":5}]}}"#, None),
            (r#"[{"id":4},{"id":5"#, r#"{"id":6}]"#, None),
            (r#"{"id":1"#, "", None),
            (r#"{"id":null,"x":"#, r#""id":4"#, None),
        ];
        for (head, tail, expected) in cases {
            assert_eq!(Outline::of(head.as_bytes(), tail.as_bytes()).id, expected, "{head} {tail}");
        }
    }

    #[test]
    fn requests_and_notifications_are_told_from_answers() {
        let has = |head: &str, tail: &str| Outline::of(head.as_bytes(), tail.as_bytes()).has_method;
        assert!(has(r#"{"id":3,"method":"sampling/createMessage","params":{"#, ""));
        assert!(has(r#"{"params":{"data":"x"#, r#"x"},"method":"notifications/message"}"#));
        assert!(!has(r#"{"id":3,"result":{"method":"GET","#, r#""method":"GET"}}"#));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(head: Vec<u8>, tail: Vec<u8>) {
            let _ = Outline::of(&head, &tail);
        }
    }
}
