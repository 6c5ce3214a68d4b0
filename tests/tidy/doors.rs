//! The lines that a door costs: its crate, and the rows elsewhere. `docs/architecture.md` states them for Slack.

use std::path::{Path, PathBuf};

/// The name of the door that is counted.
const DOOR: &str = "slack";
/// The files outside of its crate that concern this door alone.
const OWN: [&str; 3] = ["crates/actors/src/slack.rs", "crates/actors/src/slack/", "src/app/commands/check/slack.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Returns the lines of code of a file: no tests, no comments, no blank lines.
fn code(path: &Path) -> Vec<String> {
    if path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
    {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let (code, _) = text.split_once("#[cfg(test)]\nmod tests").unwrap_or((&text, ""));
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(str::to_owned).collect()
}

/// Returns the figures of the table in the documentation.
fn stated() -> Vec<usize> {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, rest) = page.split_once("<!-- door lines -->").expect("docs/architecture.md states the lines of a door");
    let (table, _) = rest.split_once("<!-- /door lines -->").expect("the end of the table");
    let figure = |line: &str| line.rsplit_once("about ")?.1.trim_end_matches(" |").replace(',', "").parse().ok();
    table.lines().filter_map(figure).collect()
}

#[test]
fn a_door_costs_its_crate_and_rows() {
    let mut all = Vec::new();
    for folder in ["crates", "src"] {
        files(&root().join(folder), &mut all);
    }
    let (mut of_crate, mut own, mut rows, mut in_domain) = (0, 0, 0, Vec::new());
    for path in all {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.starts_with("crates/playground/") || name.starts_with("crates/simulator/") {
            continue;
        }
        let code = code(&path);
        if name.starts_with(&format!("crates/{DOOR}/")) {
            of_crate += code.len();
        } else if OWN.iter().any(|own| name.starts_with(own)) {
            own += code.len();
        } else {
            let named = code.iter().filter(|line| line.to_lowercase().contains(DOOR)).count();
            rows += named;
            if name.starts_with("crates/domain/") && named > 0 {
                in_domain.push(name);
            }
        }
    }
    println!("crates/{DOOR}: {of_crate}, other files of its own: {own}, further lines that name it: {rows}");
    assert_eq!(in_domain, Vec::<String>::new(), "pure decisions name no door");
    let counted = [of_crate, own, rows];
    let stated = stated();
    assert_eq!(stated.len(), counted.len());
    for (counted, stated) in counted.into_iter().zip(stated) {
        assert!(counted.abs_diff(stated) * 10 <= counted, "counted {counted}, stated {stated}");
    }
}
