use super::*;

fn parts(kind: ReplyKind, response: &str, data: &str) -> Vec<Part> {
    to_parts(&Reply { kind, response: response.to_owned(), data: data.to_owned() })
}

/// Returns the parts in short form.
fn shown(kind: ReplyKind, response: &str, data: &str) -> String {
    let short = |part: Part| match part {
        Part::Text { text } => format!("text: {text}"),
        Part::Code { language, stem, text } => format!("{stem} in {language:?}: {text}"),
        Part::Formula { formula } => format!("formula: {formula}"),
        Part::Card(card) => {
            format!("card: {:?} {} to {:?} image {:?}", card.title, card.text, card.url, card.image)
        }
        Part::File(file) => format!("file: {}", file.name),
        Part::Buttons { buttons } => format!("buttons: {}", buttons.len()),
        Part::Calls { calls } => format!("calls: {}", calls.len()),
    };
    parts(kind, response, data).into_iter().map(short).collect::<Vec<_>>().join("\n")
}

#[test]
fn text_is_its_words() {
    insta::assert_snapshot!(shown(ReplyKind::Text, "Hi", "unused"), @"text: Hi");
    insta::assert_snapshot!(shown(ReplyKind::Text, "", "only data"), @"text: only data");
    insta::assert_snapshot!(shown(ReplyKind::Text, "", r#"{"a":1}"#), @r#"
    text: ```json
    {"a":1}
    ```
    "#);
}

#[test]
fn links_become_cards() {
    assert_eq!(
        shown(ReplyKind::Url, "Here", "https://example.com/a"),
        "text: Here\ncard: Some(\"example.com\") https://example.com/a to Some(\"https://example.com/a\") image None"
    );
    assert_eq!(
        shown(ReplyKind::Url, "", "http://u:p@example.com:81/a.PNG?x=1"),
        "card: Some(\"example.com\") http://u:p@example.com:81/a.PNG?x=1 to Some(\"http://u:p@example.com:81/a.PNG?x=1\") image Some(\"http://u:p@example.com:81/a.PNG?x=1\")"
    );
    assert_eq!(
        shown(ReplyKind::Url, "Here", r#"{"url":"<https://example.com>"}"#),
        "text: Here\ncard: Some(\"example.com\") https://example.com to Some(\"https://example.com\") image None"
    );
    assert_eq!(
        shown(ReplyKind::Gif, "Here", "https://example.com/a.gif"),
        "text: Here\ncard: None  to None image Some(\"https://example.com/a.gif\")"
    );
    assert_eq!(
        shown(ReplyKind::Gif, "Here", "https://example.com/view/cat-1"),
        "text: Here\ncard: Some(\"example.com\")  to Some(\"https://example.com/view/cat-1\") image Some(\"https://example.com/view/cat-1\")"
    );
}

#[test]
fn what_is_no_link_is_words() {
    for data in [
        "javascript:alert(1)",
        "data:image/gif;base64,AAAA",
        "file:///etc/passwd",
        "ftp://example.com/a.gif",
        "https://",
        "https:///x",
        "https://a b",
        "https://exa\"mple.com",
        "https://example.com/\u{202e}gif.exe\n",
        "discord://x",
        "see https://example.com",
    ] {
        for kind in [ReplyKind::Url, ReplyKind::Gif] {
            if data.contains('\u{202e}') {
                continue;
            }
            assert_eq!(shown(kind, "Here", data), "text: Here", "{data}");
        }
    }
    assert_eq!(shown(ReplyKind::Url, "Here", "example.com/a"), "text: Here\ntext: example.com/a");
    assert_eq!(shown(ReplyKind::Gif, "", "a cat"), "text: a cat");
}

#[test]
fn formulas_are_freed_of_their_delimiters() {
    for data in ["x^2", "$x^2$", "$$x^2$$", "\\[ x^2 \\]", "\\(x^2\\)", "```latex\nx^2\n```", r#"{"content":"$x^2$"}"#]
    {
        assert_eq!(shown(ReplyKind::Latex, "Square", data), "text: Square\nformula: x^2", "{data}");
        assert_eq!(shown(ReplyKind::Latex, "x^2", data), "formula: x^2", "{data}");
    }
    assert_eq!(shown(ReplyKind::Latex, "$x^2$", ""), "formula: x^2");
    assert_eq!(shown(ReplyKind::Latex, "$a$ and $b$", ""), "text: $a$ and $b$");
    assert_eq!(shown(ReplyKind::Latex, "", "a $5 note"), "formula: a $5 note");
}

#[test]
fn code_comes_as_text_or_as_json() {
    assert_eq!(
        shown(ReplyKind::Code, "Run", r#"{"language":"python","content":"print(1)"}"#),
        "text: Run\ncode in \"python\": print(1)"
    );
    assert_eq!(shown(ReplyKind::Code, "Run", "```sh\nls\n```"), "text: Run\ncode in \"sh\": ls");
    assert_eq!(
        shown(ReplyKind::Code, "Run", "fn main() {\n    println!(\"1\");\n}"),
        "text: Run\ncode in \"rust\": fn main() {\n    println!(\"1\");\n}"
    );
    assert_eq!(
        shown(ReplyKind::Code, "Run", r#"{"language":"python","content":"print(1)","output":1}"#),
        "text: Run\ncode in \"python\": print(1)\noutput in \"\": 1"
    );
    assert_eq!(
        shown(ReplyKind::Output, "", r#"{"language":"python","content":"print(1)","output":"1"}"#),
        "code in \"python\": print(1)\noutput in \"\": 1"
    );
    assert_eq!(shown(ReplyKind::Output, "It printed", "total 4"), "text: It printed\noutput in \"\": total 4");
    assert_eq!(
        shown(ReplyKind::Output, "It printed", r#"{"content":"total 4"}"#),
        "text: It printed\noutput in \"\": total 4"
    );
    assert_eq!(
        shown(ReplyKind::Code, "Settings", r#"{"port": 80}"#),
        "text: Settings\ncode in \"json\": {\"port\": 80}"
    );
    assert_eq!(
        shown(ReplyKind::Code, "Run", r#"{"language":"a\n```evil","content":"y"}"#),
        "text: Run\ncode in \"a\\n```evil\": y"
    );
}

#[test]
fn nothing_is_said_twice() {
    assert_eq!(shown(ReplyKind::Code, "```sh\nls\n```", "ls"), "text: ```sh\nls\n```");
    assert_eq!(shown(ReplyKind::Output, "4", "4"), "output in \"\": 4");
    assert_eq!(shown(ReplyKind::Output, "It is 4.", "4"), "text: It is 4.\noutput in \"\": 4");
}
