//! Conventions: access to the environment, sizes of files, and leftovers.

use crate::source::{File, Finding, Token, behind_group, tokens};

/// Maximum lines of a file, without tests.
const MAX_LINES: usize = 500;

/// Words of deferred work in a comment.
const LATER: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Names of random sources, from any library.
const CHANCE: [&str; 7] = ["thread_rng", "ThreadRng", "SysRng", "OsRng", "from_os_rng", "make_rng", "fastrand"];

/// Only `settings` reads the environment.
pub fn environment(file: &File) -> Vec<Finding> {
    if matches!(file.room(), Some("settings")) {
        return Vec::new();
    }
    let tokens = tokens(&file.shipped);
    let bare = |index: usize| {
        tokens[index].text == "env"
            && word(&tokens, index + 1) == "::"
            && (index == 0 || word(&tokens, index - 1) != "::")
    };
    let mut found: Vec<Token<'_>> =
        behind_path(&tokens, &["std"]).into_iter().filter(|token| token.text == "env").collect();
    found.extend((0..tokens.len()).filter(|index| bare(*index)).map(|index| tokens[index]));
    report(file, found, "environment", "only crates/settings reads the environment")
}

/// Only `app` creates a clock or a random source.
pub fn clocks_and_chance(file: &File) -> Vec<Finding> {
    if matches!(file.room(), Some("app")) {
        return Vec::new();
    }
    let tokens = tokens(&file.shipped);
    let mut found: Vec<Token<'_>> =
        behind_path(&tokens, &["std", "::", "time"]).into_iter().filter(|token| token.text == "Instant").collect();
    for (index, token) in tokens.iter().enumerate() {
        let (first, second) = (word(&tokens, index + 1), word(&tokens, index + 2));
        let now = first == "::" && second == "now";
        let chance = token.text == "rand" && first == "::" && (second == "rng" || second.starts_with("random"));
        let clock = token.text == "SystemTime" || (now && matches!(token.text, "Timestamp" | "Zoned"));
        if clock || chance || CHANCE.contains(&token.text) {
            found.push(*token);
        }
    }
    report(file, found, "clock and chance", "only src/app* makes clocks and chance; take them as arguments")
}

/// No file is longer than [`MAX_LINES`].
pub fn size(file: &File) -> Vec<Finding> {
    if file.shipped.trim().is_empty() {
        return Vec::new();
    }
    let tests: usize = lines_only_in(&file.code, &file.shipped);
    let lines = file.text.lines().count() - tests;
    if lines <= MAX_LINES {
        return Vec::new();
    }
    vec![file.finding(0, "size", format!("{lines} lines without tests, {MAX_LINES} is the wall"))]
}

/// Modules are `foo.rs` beside `foo/`.
pub fn module_files(file: &File) -> Vec<Finding> {
    if !file.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    vec![file.finding(0, "module file", "a module is foo.rs beside foo/")]
}

/// No unwrap outside of tests.
pub fn unwraps(file: &File) -> Vec<Finding> {
    let tokens = tokens(&file.shipped);
    let found = (1..tokens.len()).filter(|index| {
        matches!(word(&tokens, *index), "unwrap" | "unwrap_err" | "unwrap_unchecked")
            && matches!(word(&tokens, index - 1), "." | "::")
    });
    report(
        file,
        found.map(|index| tokens[index]).collect(),
        "unwrap",
        "handle it, or say with expect why it cannot fail",
    )
}

/// No deferred work, disabled tests or debug output, also in tests.
pub fn leftovers(file: &File) -> Vec<Finding> {
    let comments = tokens(&file.comments);
    let mut found: Vec<Token<'_>> = comments.into_iter().filter(|token| LATER.contains(&token.text)).collect();
    let tokens = tokens(&file.code);
    // The child process of a test, which that test starts, is not a disabled test.
    let runs = |index: usize| {
        let reason = tokens.get(index + 2).and_then(|token| file.literal(token.at));
        reason.is_some_and(|reason| reason.starts_with("run by "))
    };
    for (index, token) in tokens.iter().enumerate() {
        let macros = matches!(token.text, "todo" | "unimplemented" | "dbg") && word(&tokens, index + 1) == "!";
        let attribute = token.text == "ignore" && index > 1 && word(&tokens, index - 2) == "#" && !runs(index);
        if macros || attribute {
            found.push(*token);
        }
    }
    report(file, found, "leftover", "do it now or leave it out")
}

fn report(file: &File, found: Vec<Token<'_>>, rule: &'static str, what: &str) -> Vec<Finding> {
    found.into_iter().map(|token| file.finding(token.at, rule, format!("'{}': {what}", token.text))).collect()
}

fn word<'a>(tokens: &[Token<'a>], index: usize) -> &'a str {
    tokens.get(index).map_or("", |token| token.text)
}

/// Returns the names after a path, also in a group at any depth.
fn behind_path<'a>(tokens: &[Token<'a>], path: &[&str]) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    for index in 0..tokens.len() {
        let begins =
            tokens[index..].iter().zip(path).filter(|(token, word)| token.text == **word).count() == path.len();
        let next = index + path.len();
        if !begins || word(tokens, next) != "::" {
            continue;
        }
        let end = if word(tokens, next + 1) == "{" { behind_group(tokens, next + 1) } else { next + 2 };
        found.extend_from_slice(tokens.get(next + 1..end).unwrap_or_default());
    }
    found
}

/// Counts the lines with code in the first text and none in the second, for texts with equal lines. Blank lines and
/// comments within tests count as tests, so each run of such lines is counted as a whole.
fn lines_only_in(code: &str, shipped: &str) -> usize {
    let (mut total, mut waiting, mut within) = (0, 0, false);
    for (all, kept) in code.lines().zip(shipped.lines()) {
        match (all.trim().is_empty(), kept.trim().is_empty()) {
            (true, _) => waiting += 1,
            (false, true) => {
                total += 1 + if within { waiting } else { 0 };
                (waiting, within) = (0, true);
            }
            (false, false) => (waiting, within) = (0, false),
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&File) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        let findings = rule(&File::new(path, text));
        findings.iter().map(|finding| finding.to_string().split(':').nth(1).unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn reading_the_environment_is_found() {
        for text in [
            "let a = std::env::var(\"A\");",
            "use std::env;",
            "use std::{fmt, env};",
            "use std::env::var;",
            "let a = env::var_os(\"A\");",
        ] {
            assert!(!lines(environment, "crates/discord/src/lib.rs", text).is_empty(), "{text}");
            assert!(lines(environment, "crates/settings/src/env.rs", text).is_empty(), "{text}");
        }
        for text in ["let a = env!(\"A\");", "use std::fmt;", "use crate::config::env;", "// std::env", "a.env.get()"] {
            assert!(lines(environment, "crates/discord/src/lib.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn clocks_and_chance_are_found() {
        for text in [
            "let a = std::time::Instant::now();",
            "use std::time::{Duration, Instant};",
            "let a = SystemTime::now();",
            "let a = jiff::Timestamp::now();",
            "let a = Zoned::now();",
            "let a = rand::rng();",
            "let a: u8 = rand::random();",
            "use rand::rngs::SysRng;",
        ] {
            assert_eq!(lines(clocks_and_chance, "crates/discord/src/lib.rs", &format!("\n{text}")), [2], "{text}");
            assert!(lines(clocks_and_chance, "src/app.rs", text).is_empty(), "{text}");
            assert!(lines(clocks_and_chance, "src/app/clock.rs", text).is_empty(), "{text}");
        }
        for text in ["use tokio::time::Instant;", "Instant::now()", "use std::time::Duration;", "use rand::Rng;"] {
            assert!(lines(clocks_and_chance, "crates/discord/src/lib.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn long_files_are_found_but_their_tests_do_not_count() {
        let code = "fn a() {}\n".repeat(MAX_LINES);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // why\n\n    fn b() {}\n".repeat(300));
        assert!(lines(size, "src/a.rs", &(code.clone() + &tests)).is_empty());
        assert_eq!(lines(size, "src/a.rs", &(code.clone() + "// one more\n" + &tests)), [1]);
        assert_eq!(lines(size, "src/a.rs", &("// why\n".repeat(MAX_LINES) + "fn a() {}\n")), [1]);
        assert!(lines(size, "src/a/tests.rs", &(code.clone() + &code)).is_empty());
    }

    #[test]
    fn module_files_are_found() {
        assert_eq!(lines(module_files, "src/a/mod.rs", ""), [1]);
        assert!(lines(module_files, "src/a/model.rs", "").is_empty());
    }

    #[test]
    fn unwraps_are_found() {
        assert_eq!(lines(unwraps, "src/a.rs", "fn a() {\n    b()\n        .unwrap();\n}"), [3]);
        assert_eq!(lines(unwraps, "src/a.rs", "let a = b.map(Option::unwrap);"), [1]);
        let tests = "#[cfg(test)]\nmod tests { fn a() { b.unwrap() } }";
        for text in [tests, "a.unwrap_or(1)", "a.unwrap_or_default()", "// .unwrap()", "let a = \".unwrap()\";"] {
            assert!(lines(unwraps, "src/a.rs", text).is_empty(), "{text}");
        }
        assert!(lines(unwraps, "tests/a.rs", "a.unwrap()").is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        for text in [
            "// TODO: more",
            "/* FIXME */",
            "/// XXX",
            "todo!()",
            "unimplemented!(\"a\")",
            "dbg!(a)",
            "#[ignore] fn a() {}",
            "#[ignore = \"slow\"]",
        ] {
            assert_eq!(lines(leftovers, "src/a.rs", &format!("\n{text}")), [2], "{text}");
            assert_eq!(lines(leftovers, "tests/a.rs", text), [1], "{text}");
        }
        for text in
            ["let todo = 1;", "let a = \"TODO\";", "// TODOs of members", "fn ignore() {}", "#[ignore = \"run by b\"]"]
        {
            assert!(lines(leftovers, "src/a.rs", text).is_empty(), "{text}");
        }
    }
}
