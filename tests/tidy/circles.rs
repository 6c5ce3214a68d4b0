//! No modules of a crate import each other in a circle: each can be read, and changed, before those that build on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, Finding, Token, behind_group, tokens};

/// Returns every import that is part of a circle of modules of one crate.
pub fn circles(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<(&File, Vec<&str>)>> = BTreeMap::new();
    for file in files {
        if let Some((folder, path)) = place(file) {
            crates.entry(folder).or_default().push((file, path));
        }
    }
    crates.into_iter().flat_map(|(folder, files)| circles_of(folder, &files)).collect()
}

/// Returns the folder whose modules are checked, and the module path of the file in it.
fn place(file: &File) -> Option<(&str, Vec<&str>)> {
    let folder = match file.path.split_once("/src/") {
        Some((name, _)) if name.starts_with("crates/") => &file.path[..name.len() + "/src/".len()],
        _ => "src/app/",
    };
    let inside = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
    Some((folder, inside.split('/').collect()))
}

fn circles_of(folder: &str, files: &[(&File, Vec<&str>)]) -> Vec<Finding> {
    let modules: BTreeSet<&str> = files.iter().map(|(_, path)| path[0]).collect();
    // The root package's modules are those of `crate::app`.
    let above: &[&str] = if folder == "src/app/" { &["app"] } else { &[] };
    let mut imports: BTreeMap<&str, BTreeMap<&str, (&File, usize)>> = BTreeMap::new();
    for (file, path) in files {
        for (used, at) in modules_used(file, above, path) {
            if let Some(used) = modules.get(used).filter(|used| **used != path[0]) {
                imports.entry(path[0]).or_default().entry(used).or_insert((file, at));
            }
        }
    }
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for used in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
                if *used == to {
                    return true;
                }
                if seen.insert(*used) {
                    next.push(used);
                }
            }
        }
        false
    };
    let every = imports.iter().flat_map(|(module, used)| used.iter().map(move |(used, place)| (*module, *used, place)));
    every
        .filter(|(module, used, _)| reaches(used, module))
        .map(|(module, used, (file, at))| file.finding(*at, "circle", format!("{module} and {used} need each other")))
        .collect()
}

/// Returns the modules that a file names, with their positions.
fn modules_used<'a>(file: &'a File, above: &[&'a str], path: &[&'a str]) -> Vec<(&'a str, usize)> {
    let own: Vec<&str> = above.iter().chain(path).copied().collect();
    let tokens = tokens(&file.shipped);
    let mut walk = Walk { tokens: &tokens, above, found: Vec::new() };
    for (index, token) in tokens.iter().enumerate() {
        let begins = index == 0 || tokens[index - 1].text != "::";
        match token.text {
            "crate" if begins => walk.on(index + 1, &[]),
            "super" if begins => walk.on(index + 1, &own[..own.len() - 1]),
            _ => {}
        }
    }
    walk.found
}

/// Resolves paths and import trees to modules.
struct Walk<'a, 'b> {
    tokens: &'b [Token<'a>],
    above: &'b [&'a str],
    found: Vec<(&'a str, usize)>,
}

impl<'a> Walk<'a, '_> {
    /// Continues at `index` from the module `at`, if the path does.
    fn on(&mut self, index: usize, at: &[&'a str]) {
        if self.tokens.get(index).is_some_and(|token| token.text == "::") {
            self.step(index + 1, at);
        }
    }

    fn step(&mut self, index: usize, at: &[&'a str]) {
        let Some(token) = self.tokens.get(index) else { return };
        match (token.text, at) {
            ("{", _) => self.group(index, at),
            ("super", [above @ .., _]) => self.on(index + 1, above),
            ("self", _) => {}
            (module, _) if at == self.above => self.found.push((module, token.at)),
            (module, []) => self.on(index + 1, &[module]),
            _ => {}
        }
    }

    fn group(&mut self, open: usize, at: &[&'a str]) {
        let end = behind_group(self.tokens, open) - 1;
        let mut next = open + 1;
        while next < end {
            self.step(next, at);
            while next < end && self.tokens[next].text != "," {
                next = if self.tokens[next].text == "{" { behind_group(self.tokens, next) } else { next + 1 };
            }
            next += 1;
        }
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
            ("crates/x/src/a.rs", "use super::b::B;\nuse super::c::C;"),
            ("crates/x/src/b.rs", "\nfn f() { crate::a::g() }"),
            ("crates/x/src/c.rs", "use super::tree::Row;"),
        ];
        let wanted = [
            "crates/x/src/a.rs:1: circle: a and b need each other",
            "crates/x/src/b.rs:2: circle: b and a need each other",
        ];
        assert_eq!(found(&two), wanted);
    }

    #[test]
    fn longer_ones_and_those_by_files_below_and_by_groups_are_found() {
        let three = [
            ("src/app/a/deep/er.rs", "use super::super::super::{d, b::{B, Bb}};"),
            ("src/app/b.rs", "use crate::{x, app::{tree::Row, c}};"),
            ("src/app/c/x.rs", "use super::super::a;"),
            ("src/app/d.rs", ""),
        ];
        assert_eq!(found(&three).len(), 3, "{:?}", found(&three));
    }

    #[test]
    fn what_is_no_circle_is_not() {
        let fine = [
            ("crates/x/src/a.rs", "use super::b::B; mod x; #[cfg(test)] mod tests { use super::super::c::C; }"),
            ("crates/x/src/a/x.rs", "use super::Y; use crate::b; use other::a;"),
            ("crates/x/src/b.rs", "use super::c::{self, a::D}; // use super::a;"),
            ("crates/x/src/c.rs", "use crate::T; use y::b; const TEXT: &str = \"super::a\";"),
            ("crates/y/src/b.rs", "use super::a;"),
            ("crates/y/src/lib.rs", "use crate::b;"),
        ];
        assert_eq!(found(&fine), Vec::<String>::new());
    }
}
