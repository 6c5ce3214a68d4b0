use proptest::prelude::*;

use super::*;

/// Returns the parts of an answer that arrives in one piece.
fn parts(answer: &str) -> Vec<Part> {
    let mut sentences = Sentences::new();
    let mut parts = sentences.push(answer);
    parts.extend(sentences.flush());
    parts
}

fn spoken(answer: &str) -> Vec<String> {
    parts(answer).into_iter().map(|part| part.speech).filter(|speech| !speech.is_empty()).collect()
}

#[test]
fn the_first_clause_comes_early_and_then_whole_sentences() {
    let mut sentences = Sentences::new();
    assert_eq!(sentences.push("Well, "), [part("Well,".to_owned(), false, false)]);
    assert_eq!(
        sentences.push("let me see, it is 1,000 to one. And"),
        [part(" let me see, it is 1,000 to one.".to_owned(), false, false)]
    );
    assert_eq!(sentences.pending(), " And");
    assert_eq!(sentences.flush()[0].speech, "And");
}

#[test]
fn abbreviations_decimals_addresses_and_quotations_stay_whole() {
    for (answer, expected) in [
        (
            "Dr. Smith e.g. met J. K. Rowling vs. 3.5 others at example.org/a.b?c=1! Then he left.",
            vec!["Dr. Smith e.g. met J. K. Rowling vs. 3.5 others at example.org/a.b?c=1!", "Then he left."],
        ),
        ("See https://a.example/x?y=1&z=2. Good.", vec!["See a.example.", "Good."]),
        ("She said \"Stop. Do not go.\" and ran. He went.", vec!["She said \"Stop. Do not go.\" and ran.", "He went."]),
        ("It is “so. And so.” Fine.", vec!["It is “so. And so.”", "Fine."]),
        (
            "Das ist z. B. am 3. Mai so. Das gilt bzw. Nr. 5 auch. „Ja. Gut.“ Ende.",
            vec!["Das ist z. B. am 3. Mai so.", "Das gilt bzw. Nr. 5 auch.", "„Ja. Gut.“", "Ende."],
        ),
        (
            "La Sra. Pérez vive en la pág. 3. ¿Dónde? ¡Aquí!",
            vec!["La Sra. Pérez vive en la pág. 3.", "¿Dónde?", "¡Aquí!"],
        ),
        ("今日は。元気ですか？はい", vec!["今日は。", "元気ですか？", "はい"]),
        ("यह है। वह है।", vec!["यह है।", "वह है।"]),
        ("Wait... what?! Yes.", vec!["Wait... what?!", "Yes."]),
        ("**Done.** Next one.", vec!["Done.", "Next one."]),
        ("1. First thing\n2. Second thing\n", vec!["1. First thing", "2. Second thing"]),
        ("He left in 2024. Then nothing.", vec!["He left in 2024.", "Then nothing."]),
    ] {
        assert_eq!(spoken(answer), expected, "{answer}");
    }
}

#[test]
fn code_thoughts_and_calls_of_tools_are_displayed_and_never_spoken() {
    for (answer, expected) in [
        ("Look:\n```py\nprint('hi. there')\n```\nSo it is.", vec!["Look:", "So it is."]),
        ("<think>Hm. <think>deep</think> So.</think>Hello there. <b>You</b>.", vec!["Hello there.", "You."]),
        ("Sure.<tool_call>{\"name\": \"x\"}</tool_call> Done.", vec!["Sure.", "Done."]),
        ("{\"name\": \"roll\", \"arguments\": {\"a\": \"} x. Y\"}}\nRolled it.", vec!["Rolled it."]),
        ("Ok.\n{ \"never\": \"closed. Or so.", vec!["Ok."]),
        ("<think>never closed. Really.", vec![]),
        ("Use `a. B` now. It works.", vec!["Use now.", "It works."]),
        ("Run `cargo test` now. It works.", vec!["Run cargo test now.", "It works."]),
        ("... !! 🎉\n---\nYes.", vec!["Yes."]),
        ("a < bc. And {c} too.", vec!["a < bc.", "And c too."]),
    ] {
        assert_eq!(spoken(answer), expected, "{answer}");
    }
}

#[test]
fn calls_in_the_notations_of_models_are_never_spoken() {
    const CALL: &str = r#"{"name": "roll", "arguments": {"notation": "2d6. Now", "a": ["]}", 1]}}"#;
    for notation in [
        format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>roll\n{CALL}<｜tool▁call▁end｜>"),
        format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>roll {CALL}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        "<function_calls><invoke name=\"roll\"><parameter name=\"a\">2d6. Now</parameter></invoke></function_calls>"
            .to_owned(),
        "<x:function_calls>\n<x:invoke name=\"roll\">Words. More.</x:invoke>\n</x:function_calls>".to_owned(),
        format!("<invoke name=\"{}\">Words. More.</invoke>", "a_tool_with_a_long_name".repeat(4)),
        format!("[TOOL_CALLS][{CALL}, {CALL}]\n"),
        format!("[TOOL_CALLS]roll[ARGS]{CALL}\n"),
        format!("<|python_tag|>{CALL}<|eom_id|>"),
        CALL.to_owned(),
        "{ \"tool\": \"roll\", \"say\": \"One. Two.\" }".to_owned(),
        format!("[{CALL},\n {CALL}]"),
    ] {
        for (before, after) in [("", ""), ("I will: ", " Rolled it."), ("Sure.\n", "\nRolled it.")] {
            let expected = [before.trim(), after.trim()].concat();
            assert_eq!(spoken(&format!("{before}{notation}{after}")).concat(), expected, "{notation}");
        }
    }
    // Words in brackets are words.
    assert_eq!(spoken("See [TOOLS] and {c} and [TOOL_CALLS. Good."), ["See TOOLS and c and TOOL CALLS.", "Good."]);
}

#[test]
fn what_is_to_be_spoken_and_emotions_are_data() {
    let parts = parts("Shown [joy] text. <speak>Said aloud.</speak> More.");
    let told: Vec<_> = parts.iter().map(|part| (part.speech.as_str(), part.speaks, part.emotions.len())).collect();
    assert_eq!(told, [("Shown text.", false, 1), ("Said aloud.", true, 0), ("More.", false, 0)]);
}

#[test]
fn a_long_text_without_an_end_is_cut_at_spaces_and_else_between_graphemes() {
    let words = parts(&"word ".repeat(400));
    assert!(words.len() > 3 && words.iter().all(|part| part.display.len() <= PART_MAX && part.display.ends_with(' ')));
    let joined = parts(&"e\u{301}".repeat(800));
    assert!(joined.len() > 3 && joined.iter().all(|part| !part.display.starts_with('\u{301}')));
}

#[test]
fn hostile_text_costs_no_more_than_its_length() {
    cost::grows_linearly(
        4 * 1024,
        |size| {
            let one = size / 12;
            ["[", ". A", "\"", "{\n", "<a", "`", "。", "](", "\u{301}", "<think></think", "[TOOL_C", "`a"]
                .map(|text| text.repeat(one / text.len()))
                .concat()
        },
        |text| {
            let mut sentences = Sentences::new();
            drop((sentences.push(&text), sentences.flush()));
        },
    );
}

fn answers() -> impl Strategy<Value = String> {
    "([a-c .,!?\n]|Dr\\. |\"|`|```\n|\\[TOOL_CALLS\\]|\\[|<think>|</think>|<speak>|</speak>|\\{\"a\": |\\}|\\[joy\\]|<|e\u{301}|👩\u{200d}👩|。|“|”|https://a\\.b/c ){0,80}"
}

proptest! {
    #[test]
    fn the_displays_are_the_answer_and_no_cut_of_the_deltas_changes_a_part(
        answer in answers(), cuts in proptest::collection::vec(1_usize..9, 1..40)
    ) {
        let mut sentences = Sentences::new();
        let (mut cut, mut rest, mut sizes) = (Vec::new(), answer.as_str(), cuts.iter().cycle());
        while !rest.is_empty() {
            let mut at = (*sizes.next().unwrap()).min(rest.len());
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            cut.extend(sentences.push(&rest[..at]));
            rest = &rest[at..];
        }
        cut.extend(sentences.flush());
        let displays: String = cut.iter().map(|part| part.display.as_str()).collect();
        prop_assert_eq!(&displays, &answer);
        prop_assert_eq!(cut, parts(&answer));
    }

    #[test]
    fn any_text_is_displayed_and_held_back_within_its_bound(answer in any::<String>(), many in 1_usize..400) {
        let mut sentences = Sentences::new();
        let mut displays = String::new();
        for _ in 0..many {
            displays.extend(sentences.push(&answer).into_iter().map(|part| part.display));
            prop_assert!(sentences.pending().len() <= BLOCK_MAX + 4);
        }
        displays.extend(sentences.flush().into_iter().map(|part| part.display));
        prop_assert_eq!(displays, answer.repeat(many));
    }

    #[test]
    fn thoughts_are_never_spoken(before in "[a-c. ]{0,20}", thought in "[x-z. \n`\"{}]{0,60}", after in "[a-c. ]{0,20}") {
        let said = spoken(&format!("{before}<think>{thought}</think>{after}")).concat();
        prop_assert!(!said.contains(['x', 'y', 'z', '<', '>']), "{}", said);
    }
}

#[test]
fn text_that_follows_a_flush_is_read_whatever_was_open() {
    for open in [
        "Hi <",
        "Hi [TOOL",
        "[TOOL_CALLS][{",
        "Hi `",
        "Hi ``",
        "{\"a",
        "Hi `code",
        "```\ncode",
        "<think>a",
        "\"quoted",
        "Wait.",
        "a, ",
    ] {
        let mut sentences = Sentences::new();
        let mut parts = sentences.push(open);
        parts.extend(sentences.flush());
        parts.extend(sentences.push("b` c> d} e.\nAnd more. "));
        parts.extend(sentences.flush());
        let displayed: String = parts.into_iter().map(|part| part.display).collect();
        assert_eq!(displayed, format!("{open}b` c> d}} e.\nAnd more. "));
    }
}
