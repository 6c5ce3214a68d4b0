use super::*;

fn outgoing(parts: Vec<Part>) -> Outgoing {
    Outgoing {
        place: Place::new(super::super::ids::Door::new("test"), "1"),
        reply_to: None,
        parts,
        apology: false,
        spent: None,
        private: false,
    }
}

fn card() -> Card {
    Card {
        title: Some("Weather".to_owned()),
        text: "Dry.".to_owned(),
        url: Some("https://example.org/w".to_owned()),
        image: Some("https://example.org/w.png".to_owned()),
        fields: vec![Field { name: "Wind".to_owned(), value: "calm".to_owned(), inline: true }],
        colour: Some(0x00_aa_ff),
    }
}

#[test]
fn every_part_can_be_told_in_text() {
    let file = |name: &str, mime: &str, bytes: &[u8]| Part::File(File::new(name, mime, bytes));
    let parts = vec![
        Part::Text { text: "Look:".to_owned() },
        Part::Code { language: "py".to_owned(), stem: "code".to_owned(), text: "print(1)".to_owned() },
        Part::Formula { formula: "x^2".to_owned() },
        Part::Card(card()),
        file("a.csv", "text/csv", b"1,2"),
        file("a.png", "image/png", b"\x89PNG"),
    ];
    insta::assert_snapshot!(outgoing(parts).text(), @r"
    Look:

    ```py
    print(1)
    ```

    ```latex
    x^2
    ```

    **Weather**
    Dry.
    Wind: calm
    https://example.org/w
    https://example.org/w.png

    ```
    1,2
    ```

    (file a.png, 4 bytes: it cannot be shown here)
    ");
}

#[test]
fn a_stored_answer_keeps_its_parts_and_an_older_one_is_still_read() {
    let file = File::new("a.bin", "application/octet-stream", [0, 159, 146, 150]);
    let kept = outgoing(vec![Part::Card(card()), Part::File(file)]);
    let json = serde_json::to_string(&kept).unwrap();
    assert!(json.contains(r#""bytes":"AJ+Slg==""#), "{json}");
    assert_eq!(serde_json::from_str::<Outgoing>(&json).unwrap(), kept);

    let older = r#"{"place":"test:1","reply_to":null,"parts":[{"part":"text","text":"hi"}]}"#;
    let text = outgoing(vec![Part::Text { text: "hi".to_owned() }]);
    assert_eq!(serde_json::from_str::<Outgoing>(older).unwrap(), text);
}
