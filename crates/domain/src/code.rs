//! Code in messages: safe code blocks, language names, file extensions.

use serde_json::Value;

const FENCE: &str = "```";

/// The longest language name, in bytes.
const MAX_LANGUAGE: usize = 20;

/// Maximum number of lines examined to guess a language.
const GUESS_LINES: usize = 60;

/// Maximum number of bytes examined in each line.
const GUESS_BYTES: usize = 256;

/// A language: its names in code blocks, its file extension, and its distinctive signs. A sign with `^` must be at
/// the beginning of a line. If two languages match equally often, the earlier one wins.
struct Language {
    names: &'static [&'static str],
    end: &'static str,
    signs: &'static [&'static str],
}

const fn language(names: &'static [&'static str], end: &'static str, signs: &'static [&'static str]) -> Language {
    Language { names, end, signs }
}

const LANGUAGES: [Language; 31] = [
    language(&["python", "py", "python3"], "py", &["^def ", "^async def ", "^elif ", "^if __name__"]),
    language(
        &["rust", "rs"],
        "rs",
        &["^fn ", "^pub fn ", "let mut ", "println!(", "^impl ", "^#[derive", "^use std::"],
    ),
    language(&["typescript", "ts", "tsx"], "ts", &["^interface ", "^export type ", "^export interface "]),
    language(
        &["javascript", "js", "jsx", "node"],
        "js",
        &["console.log(", "^async function ", "document.getElement", "^module.exports"],
    ),
    language(&["java"], "java", &["^public class ", "public static void main", "System.out.", "^import java"]),
    language(&["csharp", "cs", "c#"], "cs", &["^using System", "Console.Write", "static void Main(string"]),
    language(
        &["cpp", "c++", "cc"],
        "cpp",
        &["std::cout", "std::vector", "^#include <iostream>", "^using namespace ", "^template <", "std::string"],
    ),
    language(&["c", "h"], "c", &["^#include <std", "^#define "]),
    language(&["go", "golang"], "go", &["^package main", "fmt.Print"]),
    language(&["kotlin", "kt"], "kt", &["^fun ", "^data class "]),
    language(&["swift"], "swift", &["^import Foundation", "^import SwiftUI", "^guard let "]),
    language(&["php"], "php", &["^<?php", "$this->"]),
    language(&["ruby", "rb"], "rb", &["^require '", " do |", "^attr_"]),
    language(&["lua"], "lua", &["^local function "]),
    language(
        &["sql", "postgresql", "mysql", "sqlite"],
        "sql",
        &["^select ", "^insert into ", "^create table ", "^delete from ", "^alter table "],
    ),
    language(
        &["bash", "sh", "shell", "zsh", "console"],
        "sh",
        &["^#!/bin/", "^sudo ", "^apt ", "^curl ", "^git ", "^docker ", "^cargo ", "^pip ", "^npm ", "^set -e"],
    ),
    language(
        &["html", "htm"],
        "html",
        &["^<!doctype html", "^<html", "<div", "</p>", "<body", "<head", "<span", "<script"],
    ),
    language(&["xml", "svg"], "xml", &["^<?xml", "^<svg"]),
    language(&["css", "scss"], "css", &["^@media ", "^:root {"]),
    language(&["diff", "patch"], "diff", &["^diff --git", "^@@ -"]),
    language(&["json", "json5", "jsonc"], "json", &[]),
    language(&["yaml", "yml"], "yaml", &[]),
    language(&["toml"], "toml", &[]),
    language(&["ini"], "ini", &[]),
    language(&["markdown", "md"], "md", &[]),
    language(&["haskell", "hs"], "hs", &[]),
    language(&["r"], "r", &[]),
    language(&["perl", "pl"], "pl", &[]),
    language(&["csv"], "csv", &[]),
    language(&["latex", "tex"], "tex", &[]),
    language(&["dockerfile", "docker"], "dockerfile", &[]),
];

/// Returns a code block. Fences inside the code are broken by an invisible character, so that they cannot end the
/// block; an invalid language name is omitted.
#[must_use]
pub fn fence(language: &str, code: &str) -> String {
    format!("{FENCE}{}\n{}\n{FENCE}", named(language), code.replace(FENCE, "`\u{200b}`\u{200b}`"))
}

/// Returns the language and the content of code that is already one code block.
#[must_use]
pub fn unfenced(code: &str) -> Option<(&str, &str)> {
    let inner = code.trim().strip_prefix(FENCE)?.strip_suffix(FENCE)?;
    if inner.contains(FENCE) {
        return None;
    }
    let (first, rest) = inner.split_once('\n').unwrap_or(("", inner));
    let (language, code) = if named(first.trim()) == first.trim() { (first.trim(), rest) } else { ("", inner) };
    Some((language, code.trim_start_matches(['\r', '\n']).trim_end()))
}

/// Returns the name if it is valid in a code block, otherwise an empty string.
fn named(language: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+#-_.".contains(c);
    if language.len() <= MAX_LANGUAGE && language.chars().all(plain) { language } else { "" }
}

/// Guesses the language of code by distinctive signs. Empty if there are none.
#[must_use]
pub fn guess(code: &str) -> &'static str {
    let code = code.trim();
    if matches!(serde_json::from_str(code), Ok(Value::Object(_) | Value::Array(_))) {
        return "json";
    }
    let first = code.lines().next().unwrap_or_default().to_lowercase();
    if let Some(told) = told(&first) {
        return told;
    }
    let mut best = ("", 0);
    for known in &LANGUAGES {
        let lines = code.lines().take(GUESS_LINES).map(|line| line[..line.floor_char_boundary(GUESS_BYTES)].trim());
        let points = lines.filter(|line| hits(known.signs, line)).count();
        if points > best.1 {
            best = (known.names[0], points);
        }
    }
    best.0
}

/// Returns the language named in the first line, if that is a shebang or a comment.
fn told(first: &str) -> Option<&'static str> {
    let comment = ["#!", "# ", "// ", "-- ", "/*", "<!--", "; "].iter().any(|mark| first.starts_with(mark));
    let words = first.split(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '#');
    let known = |word: &str| LANGUAGES.iter().find(|known| word.len() > 1 && known.names.contains(&word));
    words.filter(|_| comment).find_map(known).map(|known| known.names[0])
}

fn hits(signs: &[&str], line: &str) -> bool {
    signs.iter().any(|sign| match sign.strip_prefix('^') {
        Some(start) => line.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
        None => line.contains(sign),
    })
}

/// Returns a file name for code in this language, such as `code.py`. Unknown languages get `.txt`.
#[must_use]
pub fn file_name(stem: &str, language: &str) -> String {
    let language = language.to_ascii_lowercase();
    let end = LANGUAGES.iter().find(|known| known.names.contains(&language.as_str())).map_or("txt", |known| known.end);
    format!("{stem}.{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_inside_code_cannot_end_the_block() {
        assert_eq!(fence("py", "print(1)"), "```py\nprint(1)\n```");
        for code in ["a ``` b", "```", "``````", "x\n```\n@everyone", "````"] {
            assert_eq!(fence("", code).matches(FENCE).count(), 2, "{code:?}");
        }
        assert_eq!(fence("a\n```evil", "y"), "```\ny\n```");
        assert_eq!(fence(&"x".repeat(21), "y"), "```\ny\n```");
    }

    #[test]
    fn code_that_brought_its_own_block_is_taken_out_of_it() {
        assert_eq!(unfenced("```sh\nls\n```"), Some(("sh", "ls")));
        assert_eq!(unfenced("```\n  indented\n```"), Some(("", "  indented")));
        assert_eq!(unfenced("```print(1)```"), Some(("", "print(1)")));
        for other in ["ls", "```a``` and ```b```", "```", "x ```a```"] {
            assert_eq!(unfenced(other), None, "{other}");
        }
    }

    #[test]
    fn languages_are_recognised_by_their_signs() {
        for (language, code) in [
            ("python", "def greet(name):\n    return f\"hi {name}\""),
            ("", "import os\nprint(os.getcwd())"),
            ("python", "# python\nx = 1"),
            ("python", "#!/usr/bin/env python3\nx = 1"),
            ("rust", "fn main() {\n    println!(\"hi\");\n}"),
            ("javascript", "const a = [1, 2].map((x) => x * 2);\nconsole.log(a);"),
            ("typescript", "interface Ship {\n  name: string;\n}"),
            ("java", "public class Main {\n    public static void main(String[] args) {}\n}"),
            ("csharp", "using System;\nConsole.WriteLine(\"hi\");"),
            ("cpp", "#include <iostream>\nint main() { std::cout << 1; }"),
            ("c", "#include <stdio.h>\nint main(void) { printf(\"hi\"); }"),
            ("go", "package main\n\nfunc main() {\n\tfmt.Println(\"hi\")\n}"),
            ("sql", "SELECT name\nFROM ships\nWHERE berth = 3"),
            ("bash", "sudo apt update\ncd /tmp"),
            ("html", "<!DOCTYPE html>\n<html></html>"),
            ("css", "@media print {\n  body { color: red; }\n}"),
            ("json", "{\"a\": [1, 2]}"),
            ("lua", "local function f()\nend"),
            ("", "local x = 1\nprint(x)"),
            ("", "the tide is high"),
            ("", "x = 1"),
            ("", ""),
            ("", "12"),
        ] {
            assert_eq!(guess(code), language, "{code}");
        }
    }

    #[test]
    fn files_end_as_their_language_says() {
        for (language, name) in
            [("python", "code.py"), ("Rust", "code.rs"), ("c++", "code.cpp"), ("exe", "code.txt"), ("", "code.txt")]
        {
            assert_eq!(file_name("code", language), name);
        }
    }

    #[test]
    fn code_costs_in_proportion_to_its_length() {
        let texts = |size: usize| {
            vec!["`".repeat(size), "```\n".repeat(size / 4), "[".repeat(size), "\n".repeat(size), "# ".repeat(size / 2)]
        };
        cost::grows_linearly(4 * 1024, texts, |texts| {
            for text in &texts {
                drop((fence("rust", text), unfenced(text).is_some(), guess(text)));
            }
        });
    }
}
