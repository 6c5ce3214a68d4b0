use proptest::prelude::*;

use super::*;
use crate::outgoing::Card;
use crate::split::is_blank;

const DOOR: Capabilities =
    Capabilities { cards: 2, files: 2, file_bytes: 1_000, buttons: 3, ..Capabilities::text_only(100) };

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn code(language: &str, text: &str) -> Part {
    Part::Code { language: language.to_owned(), stem: "code".to_owned(), text: text.to_owned() }
}

fn file(name: &str, bytes: usize) -> Part {
    Part::File(File::new(name, "image/png", vec![0; bytes]))
}

fn card(title: &str) -> Part {
    Part::Card(Card { title: Some(title.to_owned()), ..Card::default() })
}

/// Summarizes the posts: text, titles of cards, names of files.
fn shown(parts: &[Part], door: &Capabilities) -> Vec<String> {
    let short = |piece: Piece| {
        let cards = piece.cards.iter().map(|card| format!("[{}]", card.title.clone().unwrap_or_default()));
        let files = piece.files.iter().map(|file| format!("<{}>", file.name));
        let extras: String = cards.chain(files).collect();
        format!("{}{extras}", piece.text)
    };
    lay_out(parts, door).into_iter().map(short).collect()
}

#[test]
fn words_and_what_goes_with_them_are_one_post() {
    assert_eq!(shown(&[text("Look:"), code("py", "print(1)")], &DOOR), ["Look:\n```py\nprint(1)\n```"]);
    assert_eq!(shown(&[text("Look:"), file("a.png", 9), card("A")], &DOOR), ["Look:[A]<a.png>"]);
    assert_eq!(shown(&[file("a.png", 9)], &DOOR), ["<a.png>"]);
    assert_eq!(shown(&[text(" \n")], &DOOR), [] as [&str; 0]);
}

#[test]
fn an_answer_is_one_text_for_readers_without_messages() {
    assert_eq!(as_text(&[text("Look:"), code("py", "print(1)")], 100), "Look:\n```py\nprint(1)\n```");
    assert_eq!(as_text(&[text("one"), text(&"w".repeat(100))], 100), format!("one\n{}", "w".repeat(100)));
    assert_eq!(as_text(&[], 100), "");
}

#[test]
fn code_is_a_block_of_its_own_message_or_a_file() {
    let words = "w".repeat(60);
    assert_eq!(shown(&[text(&words), code("", &"x".repeat(60))], &DOOR).len(), 2);
    assert_eq!(shown(&[text(&words), code("rust", &"x".repeat(101))], &DOOR), [format!("{words}<code.rs>")]);
    // One more character would not fit with the fences.
    assert_eq!(shown(&[code("", &"x".repeat(92))], &DOOR).len(), 1);
    assert_eq!(shown(&[code("", &"x".repeat(93))], &DOOR), ["<code.txt>"]);
    let without_files = Capabilities::text_only(100);
    assert_eq!(shown(&[code("", &"x\n".repeat(150))], &without_files).len(), 4);
}

#[test]
fn a_text_that_would_bury_the_channel_is_a_file_behind_its_beginning() {
    let door = Capabilities { file_bytes: 2_000, ..DOOR };
    let long = "word ".repeat(10 * 20);
    assert_eq!(shown(&[text(long.trim())], &door).len(), 10);
    let longer = format!("{long}{}", "word ".repeat(20));
    let pieces = lay_out(&[text(&longer), card("A")], &door);
    assert_eq!((pieces.len(), pieces[0].cards.len()), (1, 1));
    assert_eq!(pieces[0].text, split(&longer, 100)[0]);
    assert_eq!((pieces[0].files[0].name.as_str(), &*pieces[0].files[0].bytes), ("answer.txt", longer.as_bytes()));
}

#[test]
fn no_answer_fills_more_than_ten_messages() {
    let formula = Part::Formula { formula: "x+".repeat(30_000) };
    let long = "word ".repeat(1_000);
    let tables = [vec![formula.clone()], vec![text(&long)], vec![text(&long), code("py", &long), formula.clone()]];
    for parts in tables {
        // The second door takes files, but not of this length.
        for door in [Capabilities::text_only(100), DOOR] {
            let pieces = lay_out(&parts, &door);
            assert_eq!(pieces.len(), ANSWER_MESSAGES_MAX);
            assert!(pieces[9].text.ends_with(CUT), "{:?}", pieces[9]);
        }
    }
    let large = Capabilities { file_bytes: 100_000, ..DOOR };
    assert_eq!(shown(&[formula], &large), ["<formula.tex>"]);
    let cards: Vec<Part> = (0..40).map(|number| card(&number.to_string())).collect();
    assert_eq!(lay_out(&cards, &DOOR).len(), ANSWER_MESSAGES_MAX);
}

#[test]
fn what_is_not_shown_costs_nothing() {
    let long = |size: usize| [text(&"word ".repeat(size))];
    cost::stays_flat(1_000, long, |parts| drop(lay_out(&parts, &Capabilities::text_only(100))));
}

#[test]
fn files_and_cards_go_with_the_last_words_and_overflow_into_further_posts() {
    let long = "word ".repeat(30);
    let pieces = lay_out(&[text(&long), file("a.png", 9)], &DOOR);
    assert_eq!(pieces.iter().map(|piece| piece.files.len()).collect::<Vec<_>>(), [0, 1]);
    let many =
        [text("Hi"), file("1", 600), file("2", 600), file("3", 100), file("4", 100), card("A"), card("B"), card("C")];
    assert_eq!(shown(&many, &DOOR), ["Hi[A][B]", "[C]<1>", "<2><3>", "<4>"]);
}

#[test]
fn what_a_door_cannot_show_is_told() {
    let parts =
        [text("Hi"), Part::Formula { formula: "x^2".to_owned() }, card("Link"), file("a.png", 9), file("b.png", 1_001)];
    let told = "(file a.png, 9 bytes: it cannot be shown here)";
    let large = "(file b.png, 1001 bytes: it cannot be shown here)";
    let text_only = Capabilities::text_only(1_000);
    assert_eq!(shown(&parts, &text_only), [format!("Hi\n```latex\nx^2\n```\n\n**Link**\n\n{told}\n\n{large}")]);
    assert_eq!(
        shown(&parts, &Capabilities { text_limit: 1_000, ..DOOR }),
        [format!("Hi\n```latex\nx^2\n```\n\n{large}[Link]<a.png>")]
    );
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[a-z .\n`]{0,300}".prop_map(|words| text(&words)),
        "[a-z \n`{]{0,300}".prop_map(|inside| code("rust", &inside)),
        "[a-z^{]{1,30}".prop_map(|formula| Part::Formula { formula }),
        "[a-z]{1,9}".prop_map(|title| card(&title)),
        (1..2_000_usize).prop_map(|bytes| file("f.bin", bytes)),
    ]
}

proptest! {
    #[test]
    fn pieces_keep_within_what_the_door_takes_and_are_never_empty(parts in proptest::collection::vec(any_part(), 0..8)) {
        for door in [DOOR, Capabilities::text_only(100)] {
            for piece in lay_out(&parts, &door) {
                prop_assert!(piece.text.chars().count() <= door.text_limit, "{piece:?}");
                prop_assert_eq!(piece.text.matches("```").count() % 2, 0, "{:?}", piece);
                prop_assert!(piece.cards.len() <= door.cards && piece.files.len() <= door.files);
                prop_assert!(piece.files.iter().map(|file| file.bytes.len()).sum::<usize>() <= door.file_bytes);
                prop_assert!(!piece.is_plain() || !is_blank(&piece.text));
            }
        }
    }

    #[test]
    fn no_part_is_lost(parts in proptest::collection::vec(any_part(), 0..3)) {
        let pieces = lay_out(&parts, &DOOR);
        let cards = parts.iter().filter(|part| matches!(part, Part::Card(_))).count();
        prop_assert_eq!(pieces.iter().map(|piece| piece.cards.len()).sum::<usize>(), cards);
        let visible = |text: &str| text.chars().filter(char::is_ascii_alphabetic).count();
        let told: usize = pieces.iter().map(|piece| visible(&piece.text)).sum();
        let words = parts.iter().map(|part| match part { Part::Text { text } => visible(text), _ => 0 }).sum::<usize>();
        prop_assert!(told >= words, "{told} of {words}");
    }
}
