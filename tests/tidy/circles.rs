//! Actors write to each other by messages, so no module of `actors` needs another one that needs it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, Finding, Token, behind_group, tokens};

/// The room whose modules are looked at.
const ROOM: &str = "actors";

/// Every import that is part of a circle of modules of the room.
pub fn circles(files: &[File]) -> Vec<Finding> {
    let mut imports: BTreeMap<&str, BTreeMap<String, (&File, usize)>> = BTreeMap::new();
    for file in files {
        let Some(module) = module_of(file) else { continue };
        for (used, at) in modules_used(file) {
            if used != module {
                imports.entry(module).or_default().entry(used).or_insert((file, at));
            }
        }
    }
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for used in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
                if used == to {
                    return true;
                }
                if seen.insert(used) {
                    next.push(used);
                }
            }
        }
        false
    };
    let every = imports.iter().flat_map(|(module, used)| used.iter().map(move |(used, place)| (*module, used, place)));
    every
        .filter(|(module, used, _)| reaches(used, module))
        .map(|(module, used, (file, at))| file.finding(*at, "circle", format!("{module} and {used} need each other")))
        .collect()
}

/// The module of the room that a file belongs to.
fn module_of(file: &File) -> Option<&str> {
    let inside = file.path.strip_prefix("src/")?.strip_prefix(ROOM)?.strip_prefix('/')?;
    Some(inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs"))
}

/// The modules of the room that a file names, and where.
fn modules_used(file: &File) -> Vec<(String, usize)> {
    let own: Vec<&str> =
        file.path.trim_start_matches("src/").trim_end_matches(".rs").split('/').filter(|name| *name != "mod").collect();
    let tokens = tokens(&file.shipped);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let begins = index == 0 || tokens[index - 1].text != "::";
        match token.text {
            "crate" if begins => walk(&tokens, index + 1, &[], &mut found),
            "super" if begins => walk(&tokens, index + 1, &own[..own.len() - 1], &mut found),
            _ => {}
        }
    }
    found
}

/// Follows a path, or a tree of imports, that goes on at `index` from the module `at`.
fn walk(tokens: &[Token<'_>], index: usize, at: &[&str], found: &mut Vec<(String, usize)>) {
    if tokens.get(index).is_none_or(|token| token.text != "::") {
        return;
    }
    step(tokens, index + 1, at, found);
}

fn step(tokens: &[Token<'_>], index: usize, at: &[&str], found: &mut Vec<(String, usize)>) {
    let Some(token) = tokens.get(index) else { return };
    match (token.text, at) {
        ("{", _) => {
            let end = behind_group(tokens, index) - 1;
            let mut next = index + 1;
            while next < end {
                step(tokens, next, at, found);
                while next < end && tokens[next].text != "," {
                    next = if tokens[next].text == "{" { behind_group(tokens, next) } else { next + 1 };
                }
                next += 1;
            }
        }
        ("super", [above @ .., _]) => walk(tokens, index + 1, above, found),
        (ROOM, []) => walk(tokens, index + 1, &[ROOM], found),
        (module, [ROOM]) if module != "self" => found.push((module.to_owned(), token.at)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        circles(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn circles_are_found() {
        let two = [
            ("src/actors/a.rs", "use super::b::B;\nuse super::c::C;"),
            ("src/actors/b.rs", "\nfn f() { crate::actors::a::g() }"),
            ("src/actors/c.rs", "use super::tree::Row;"),
        ];
        let wanted = [
            "src/actors/a.rs:1: circle: a and b need each other",
            "src/actors/b.rs:2: circle: b and a need each other",
        ];
        assert_eq!(found(&two), wanted);
    }

    #[test]
    fn longer_ones_and_those_by_files_below_and_by_groups_are_found() {
        let three = [
            ("src/actors/a/deep/er.rs", "use super::super::super::{d, b::{B, Bb}};"),
            ("src/actors/b.rs", "use crate::{domain::x, actors::{tree::Row, c}};"),
            ("src/actors/c/x.rs", "use super::super::a;"),
            ("src/actors/d.rs", ""),
        ];
        assert_eq!(found(&three).len(), 3, "{:?}", found(&three));
    }

    #[test]
    fn what_is_no_circle_is_not() {
        let fine = [
            ("src/actors/a.rs", "use super::b::B; mod x; #[cfg(test)] mod tests { use super::super::c::C; }"),
            ("src/actors/a/x.rs", "use super::Y; use crate::actors::b; use crate::domain::a;"),
            ("src/actors/b.rs", "use super::c::{self, a::D}; // use super::a;"),
            ("src/actors/c.rs", "use crate::a::b; const TEXT: &str = \"super::a\";"),
            ("src/discord/b.rs", "use super::a;"),
        ];
        assert_eq!(found(&fine), Vec::<String>::new());
    }
}
