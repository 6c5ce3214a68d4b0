use proptest::prelude::*;

use super::*;

fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_blank(&c.to_string())).collect()
}

#[test]
fn short_text_stays_whole_and_blank_text_has_no_parts() {
    assert_eq!(split("  hello\nthere ", 2000), ["hello\nthere"]);
    for blank in ["", " \n\t ", "\u{200b}\u{200b}", "\u{2060} \u{feff}", "\u{3164}"] {
        assert_eq!(split(blank, 10), [] as [&str; 0], "{blank:?}");
    }
}

#[test]
fn the_best_place_is_chosen() {
    assert_eq!(split("One two. Three four.\n\nFive six. Seven.", 30), ["One two. Three four.", "Five six. Seven."]);
    assert_eq!(split("One two three.\nFour five six seven", 20), ["One two three.", "Four five six seven"]);
    assert_eq!(split("One two. (Is it?) Three four five", 25), ["One two. (Is it?)", "Three four five"]);
    assert_eq!(split("one two three four", 9), ["one two", "three", "four"]);
    assert_eq!(
        split("a\n\nb c d e f g h i j k l m n", 20),
        ["a\n\nb c d e f g h i", "j k l m n"],
        "a break too early wastes room"
    );
    assert_eq!(split("これは文です。これも文です。", 10), ["これは文です。", "これも文です。"]);
}

#[test]
fn graphemes_stay_whole_unless_one_alone_is_too_long() {
    let family = "👨‍👩‍👧‍👦";
    assert_eq!(split(&family.repeat(3), 15), [family.repeat(2), family.to_owned()]);
    assert_eq!(split("e\u{301}e\u{301}", 3), ["e\u{301}", "e\u{301}"]);
    let tower = format!("z{}", "\u{301}".repeat(9));
    let parts = split(&tower, 4);
    assert_eq!(parts.iter().map(|part| part.chars().count()).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(parts.concat(), tower);
}

#[test]
fn a_cut_code_block_is_closed_and_reopened_with_its_language() {
    let text = "Look:\n```rust\nfn first() -> u8 {\n    17\n}\nfn second() {}\n```\nDone.";
    assert_eq!(
        split(text, 50),
        ["Look:\n```rust\nfn first() -> u8 {\n    17\n}\n```", "```rust\nfn second() {}\n```\nDone."]
    );
}

#[test]
fn a_cut_at_the_end_of_a_block_leaves_no_empty_block() {
    let code = "x".repeat(28);
    assert_eq!(
        split(&format!("```\n{code}\n```\nand more words here"), 40),
        [format!("```\n{code}\n```"), "and more words here".into()]
    );
    let text = format!("{}\n```py\nprint(1)\nprint(2)\n```", "w".repeat(30));
    assert_eq!(split(&text, 40), ["w".repeat(30), "```py\nprint(1)\nprint(2)\n```".into()]);
}

#[test]
fn the_first_parts_are_those_of_the_whole() {
    let text = "one two three. ".repeat(100);
    assert_eq!(split_at_most(&text, 40, 3), split(&text, 40)[..3]);
}

#[test]
fn a_block_that_was_never_closed_is_closed() {
    assert_eq!(split("see ```js\nlet a", 100), ["see ```js\nlet a\n```"]);
}

#[test]
fn below_the_smallest_limit_for_blocks_text_is_just_cut() {
    assert_eq!(split("```abc def```", 8), ["```abc", "def```"]);
    assert_eq!(split("abc", 0), ["a", "b", "c"]);
}

/// Generates text with all elements that affect cuts: words, stops, breaks, fences, wide graphemes, odd backticks.
fn awkward_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zA-Z]{1,12}",
        3 => Just(" ".to_owned()),
        1 => Just(". ".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("```rust\n".to_owned()),
        1 => Just("`".to_owned()),
        1 => Just("👨‍👩‍👧‍👦".to_owned()),
        1 => Just("e\u{301}\u{302}".to_owned()),
        1 => Just("\u{600}".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("    ".to_owned()),
        1 => ".",
    ];
    proptest::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parts_fit_are_visible_and_close_their_blocks(text in awkward_text(), limit in MIN_FENCED_LIMIT..160) {
        for part in split(&text, limit) {
            prop_assert!((1..=limit).contains(&part.chars().count()), "{part:?}");
            prop_assert!(!is_blank(&part));
            prop_assert_eq!(part.matches(FENCE).count() % 2, 0, "{:?}", part);
        }
    }

    #[test]
    fn a_text_with_plenty_of_room_is_split_as_one_with_just_enough(text in awkward_text()) {
        let enough = (text.chars().count() + CLOSING).max(MIN_FENCED_LIMIT);
        prop_assert_eq!(split(&text, enough), split(&text, 1_000_000));
    }

    #[test]
    fn joined_parts_equal_the_text(text in awkward_text(), limit in 1_usize..160) {
        // Each part is an opening, a slice of the text, and a closing. The slices are in order. The text between them
        // is blank, or the closing fence of a block that was closed already.
        let slices = slices(&text, limit, usize::MAX);
        let mut at = 0;
        let mut cut: Option<&Slice> = None;
        for slice in &slices {
            prop_assert!(slice.range.start >= at, "{slice:?} begins before {at}");
            let between = &text[at..slice.range.start];
            let closed_before = cut.is_some_and(|before| !before.closing.is_empty());
            let dropped = if closed_before { between.trim().strip_prefix(FENCE).unwrap_or(between) } else { between };
            prop_assert!(is_blank(dropped), "{dropped:?} is lost");
            // A block is reopened exactly if the part before had to close it and its own end did not follow.
            let goes_on = closed_before && !between.contains(FENCE);
            prop_assert_eq!(!slice.opening.is_empty(), goes_on, "{:?}", slice);
            at = slice.range.end;
            cut = Some(slice);
        }
        let rest = text[at..].trim();
        prop_assert!(is_blank(rest.strip_prefix(FENCE).unwrap_or(rest)), "{rest:?} is lost");
    }

    #[test]
    fn cuts_fall_between_graphemes(text in awkward_text(), limit in MIN_FENCED_LIMIT..160) {
        let borders: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
        let blank = |range: Range<usize>| text[range].chars().all(char::is_whitespace);
        for slice in slices(&text, limit, usize::MAX) {
            let Range { start, end } = slice.range;
            // Omitted white space may have been part of a grapheme.
            prop_assert!(borders.iter().any(|border| *border <= start && blank(*border..start)), "{start}");
            prop_assert!(borders.iter().any(|border| *border >= end && blank(end..*border)), "{end}");
        }
    }

    #[test]
    fn any_limit_gives_visible_parts_that_fit(text in awkward_text(), limit in 1_usize..MIN_FENCED_LIMIT) {
        let parts = split(&text, limit);
        for part in &parts {
            prop_assert!((1..=limit).contains(&part.chars().count()) && !is_blank(part), "{part:?}");
        }
        prop_assert_eq!(visible(&parts.concat()), visible(&text));
    }

    #[test]
    fn graphemes_are_never_cut(words in proptest::collection::vec("(👨‍👩‍👧‍👦|e\u{301}|🇩🇪|[a-z ])", 0..80), limit in 7_usize..60) {
        let text = words.concat();
        let whole: Vec<&str> = text.graphemes(true).filter(|g| !g.trim().is_empty()).collect();
        let parts = split(&text, limit);
        let cut: Vec<&str> = parts.iter().flat_map(|part| part.graphemes(true)).filter(|g| !g.trim().is_empty()).collect();
        prop_assert_eq!(cut, whole);
    }
}

#[test]
fn the_cost_of_any_text_is_linear() {
    let texts = |size: usize| {
        vec![
            "a".repeat(size),
            "word ".repeat(size / 5),
            format!("z{}", "\u{301}".repeat(size / 2)),
            "🇩🇪".repeat(size / 8),
            "🇩🇪`".repeat(size / 9),
            format!("`{}", "\u{301}`".repeat(size / 3)),
            "```\n".repeat(size / 4),
            format!("```{}", "a".repeat(size)),
            format!("```\nx{}y", " ".repeat(size)),
            "```rs\nlet a = 1;\n```` x. \u{200d}e\u{301}".repeat(size / 32),
        ]
    };
    cost::grows_linearly(512, texts, |texts| {
        for text in &texts {
            drop((split(text, 20), split(text, 400)));
        }
    });
}

#[test]
fn a_text_that_fits_into_one_message_takes_one_slice() {
    let text = |size: usize| "Einige W\u{f6}rter. ".repeat(size / 17);
    cost::fits_a_slice(2_000_000, text, |text| drop(split(&text, 2_000_000)));
}

#[test]
fn what_one_answer_shows_is_cut_in_one_slice() {
    let text = |size: usize| "```rs\nlet a = 1;\n```` x. \u{200d}e\u{301}".repeat(size / 32);
    cost::fits_a_slice(11 * 2_000, text, |text| drop(split_at_most(&text, 2_000, 11)));
}
