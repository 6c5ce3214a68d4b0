use super::*;
use speech::answer::Sentence;

fn event(content: Content) -> Event {
    Event { number: 1, turn: "7".to_owned(), content }
}

fn sentence(number: usize, text: &str, has_audio: bool) -> Event {
    event(Content::Sentence(Sentence { number, text: text.to_owned(), has_audio, ..Sentence::default() }))
}

fn audio(sentence: usize, bytes: &[u8], end: bool) -> Event {
    event(Content::Audio { sentence, format: "audio/wav", data: STANDARD.encode(bytes), end })
}

fn texts(messages: &[Value]) -> Vec<(&str, bool)> {
    messages
        .iter()
        .map(|message| (message["display_text"]["text"].as_str().unwrap_or("-"), message["audio"].is_string()))
        .collect()
}

#[test]
fn each_sentence_is_one_message_with_its_whole_audio_in_order() {
    let mut vtuber = Vtuber::new("one".to_owned());
    vtuber.messages(&event(Content::Accepted));
    assert_eq!(vtuber.messages(&sentence(0, "One.", true)), [Value::Null; 0]);
    // Code is silent, and waits for the sentence before it.
    assert_eq!(vtuber.messages(&sentence(1, "`two`", false)), [Value::Null; 0]);
    assert_eq!(vtuber.messages(&audio(0, b"RI", false)), [Value::Null; 0]);
    assert_eq!(vtuber.messages(&audio(0, b"FF", false)), [Value::Null; 0]);
    let told = vtuber.messages(&audio(0, b"", true));
    assert_eq!(texts(&told), [("One.", true), ("`two`", false)]);
    assert_eq!(told[0]["audio"], STANDARD.encode("RIFF"));
    // A sentence that failed is text, also if it had some audio.
    vtuber.messages(&sentence(2, "Three.", true));
    vtuber.messages(&audio(2, b"RIFF", false));
    let failed = event(Content::Error { sentence: Some(2), why: "no voice".to_owned() });
    assert_eq!(texts(&vtuber.messages(&failed)), [("Three.", false)]);
    // Over a limit, everything is text.
    vtuber.messages(&sentence(3, "Four.", true));
    vtuber.messages(&sentence(4, "Five.", true));
    let told = vtuber.messages(&event(Content::TextOnly { why: "no more".to_owned() }));
    assert_eq!(texts(&told), [("Four.", false), ("Five.", false), ("-", false)]);
    let told = vtuber.messages(&event(Content::Done { unanswered: None }));
    let kinds: Vec<&str> = told.iter().filter_map(|message| message["type"].as_str()).collect();
    assert_eq!(kinds, ["backend-synth-complete", "force-new-message", "control"]);
}

#[test]
fn the_heard_text_of_an_interruption_names_its_last_sentence() {
    let mut vtuber = Vtuber::new("one".to_owned());
    assert!(vtuber.read(r#"{"type": "interrupt-signal", "text": ""}"#).unwrap().is_empty());
    vtuber.messages(&event(Content::Accepted));
    for (number, text) in [(0, "One is first."), (1, " Two is second."), (2, " Three.")] {
        vtuber.messages(&sentence(number, text, true));
    }
    for (heard, to) in
        [("", None), ("One", None), ("One is first.", Some(0)), ("One is first.Two is second.Th", Some(1))]
    {
        let steps = vtuber.read(&json!({"type": "interrupt-signal", "text": heard}).to_string()).unwrap();
        let [Step::Request(Request::Interrupt { spoken_to, turn })] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((*spoken_to, turn.as_deref()), (to, Some("7")), "{heard}");
    }
    // The rest is not sent.
    vtuber.messages(&event(Content::Interrupted { spoken_to: None }));
    assert_eq!(vtuber.messages(&audio(0, b"RIFF", true)), [Value::Null; 0]);
}

#[test]
fn samples_begin_a_stream_and_unknown_messages_are_refused() {
    let mut vtuber = Vtuber::new("one".to_owned());
    let data = r#"{"type": "mic-audio-data", "audio": [0.5, -0.5]}"#;
    let steps = vtuber.read(data).unwrap();
    assert!(
        matches!(&steps[..], [Step::Request(Request::Listen { hands_free: false }), Step::Samples(bytes)] if bytes.len() == 4)
    );
    assert!(matches!(&vtuber.read(data).unwrap()[..], [Step::Samples(_)]));
    // The socket refused samples.
    vtuber.stream_ended();
    assert!(matches!(&vtuber.read(data).unwrap()[..], [Step::Request(Request::Listen { .. }), Step::Samples(_)]));
    assert!(matches!(&vtuber.read(r#"{"type": "mic-audio-end"}"#).unwrap()[..], [Step::Request(Request::ListenEnd)]));
    for hostile in
        ["[]", "{", r#"{"type": 7}"#, r#"{"type": "switch-config"}"#, r#"{"type": "mic-audio-data", "audio": "x"}"#]
    {
        assert!(vtuber.read(hostile).is_err(), "{hostile}");
    }
}
