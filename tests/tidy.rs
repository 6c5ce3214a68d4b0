//! The rules of this repository, as tests. Each finding has the file, the line and the rule.
//!
//! Rules read tokens, not types: clippy (see `clippy.toml`) sees through renames, these see directions and sizes.

#[path = "tidy/arithmetic.rs"]
mod arithmetic;

#[path = "tidy/source.rs"]
mod source;

#[path = "tidy/crates.rs"]
mod crates;

#[path = "tidy/book.rs"]
mod book;

#[path = "tidy/doors.rs"]
mod doors;

#[path = "tidy/circles.rs"]
mod circles;

#[path = "tidy/rules.rs"]
mod rules;

#[path = "tidy/licences.rs"]
mod licences;

#[path = "tidy/names.rs"]
mod names;

#[path = "tidy/words.rs"]
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use source::{File, Finding};

/// Every Rust file of the repository.
/// All Rust files of the repository, read once for all rules.
static FILES: LazyLock<Vec<File>> = LazyLock::new(read);

fn read() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches", "crates"] {
        collect(root, &root.join(folder), &mut found);
    }
    let for_tests: Vec<String> = found.iter().flat_map(File::test_modules).collect();
    // All files below a test module are also compiled for tests only.
    let only_for_tests = |path: &str| {
        for_tests
            .iter()
            .any(|module| path == module || path.starts_with(&format!("{}/", module.trim_end_matches(".rs"))))
    };
    for file in found.iter_mut().filter(|file| only_for_tests(&file.path)) {
        file.only_for_tests();
    }
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<File>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            found.push(File::new(&name, &std::fs::read_to_string(&path).unwrap()));
        }
    }
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

fn enforce(rule: fn(&File) -> Vec<Finding>) {
    let found: Vec<String> = FILES.iter().flat_map(rule).map(|finding| finding.to_string()).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_walk_finds_the_source() {
    let names: Vec<String> = FILES.iter().map(|file| file.path.clone()).collect();
    for name in ["src/lib.rs", "crates/telemetry/src/line.rs", "tests/tidy.rs", "tests/tidy/source.rs"] {
        assert!(names.iter().any(|found| found == name), "{name} is not among {names:?}");
    }
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let found: Vec<String> = circles::circles(&FILES).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn only_config_reads_the_environment() {
    enforce(rules::environment);
}

#[test]
fn only_app_makes_clocks_and_chance() {
    enforce(rules::clocks_and_chance);
}

#[test]
fn files_stay_below_the_wall() {
    enforce(rules::size);
}

#[test]
fn modules_are_files_beside_their_folders() {
    enforce(rules::module_files);
}

#[test]
fn nothing_unwraps_outside_tests() {
    enforce(rules::unwraps);
}

#[test]
fn nothing_is_left_for_later() {
    enforce(rules::leftovers);
}

/// Plain English: see `tests/tidy/words.rs`. These numbers only fall.
#[test]
fn comments_and_documents_are_plain() {
    // Rewritten folders, with the remaining indefinite persons and questions of each.
    const REWRITTEN: [(&str, usize, usize); 0] = [];
    // All other code and documents.
    const LEFT: (usize, usize) = (39, 1);

    let mut rest = words::Found::default();
    let mut rewritten: Vec<words::Found> = REWRITTEN.iter().map(|_| words::Found::default()).collect();
    for file in FILES.iter() {
        let folder = REWRITTEN.iter().position(|(folder, ..)| file.path.starts_with(folder));
        folder.map_or(&mut rest, |index| &mut rewritten[index]).extend(words::in_code(file));
    }
    for (path, text) in documents() {
        rest.extend(words::in_document(&path, &text));
    }
    for ((folder, indefinite, questions), found) in REWRITTEN.iter().zip(&rewritten) {
        let list = [&found.indefinite[..], &found.questions[..]].concat().join("\n");
        assert!(found.indefinite.len() <= *indefinite, "{folder}: name the actor\n{list}");
        assert!(found.questions.len() <= *questions, "{folder}: begin with a noun or a verb\n{list}");
    }
    let now = (rest.indefinite.len(), rest.questions.len());
    assert!(
        now.0 <= LEFT.0 && now.1 <= LEFT.1,
        "{now:?} of {} doc comments, at most {LEFT:?}: your change (`git diff main`) adds an indefinite person (name the \
         actor) or a doc comment that begins with What, Who, Whether or How (begin with a noun or a verb)",
        rest.docs
    );
    assert!(now.0 + 100 > LEFT.0 && now.1 + 100 > LEFT.1, "write {now:?} here: it was {LEFT:?}");
}

/// Returns every document with its text.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("docs"), root.join("config"), root.join("deploy"), root.join("examples")];
    let pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "actors.md", ".env.example"];
    let mut paths: Vec<_> = pages.iter().map(|name| root.join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md" || extension == "toml") {
                paths.push(path);
            }
        }
    }
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap_or_default())).collect()
}

#[test]
fn names_of_events_and_metrics_are_written_once() {
    enforce(names::written_out);
}

#[test]
fn every_message_in_actors_md_exists() {
    let page = include_str!("../actors.md");
    let (_, rest) = page.split_once("## The actors, one by one").expect("actors.md tells the actors one by one");
    let table = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let files = &FILES;
    let actors = files.iter().filter(|file| file.path.starts_with("crates/actors/src"));
    let sent: BTreeSet<&str> = actors.flat_map(|file| file.shipped.split("Msg::").skip(1)).map(first_word).collect();
    for row in table {
        for name in row.split('`').skip(1).step_by(2).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
        {
            assert!(sent.contains(name), "{name} is not documented: {row}");
        }
    }
}

#[test]
fn the_tree_in_actors_md_is_the_tree() {
    const BEGIN: &str = "<!-- tree: staffai tree --markdown -->\n";
    let page = include_str!("../actors.md");
    let (_, rest) = page.split_once(BEGIN).expect("actors.md marks where the tree begins");
    let (block, _) = rest.split_once("<!-- /tree -->").expect("actors.md marks where the tree ends");
    assert_eq!(block, actors::tree::markdown(), "put the output of `staffai tree --markdown` between the marks");
}

#[test]
fn the_ten_stops_of_a_turn_exist() {
    let page = include_str!("../actors.md");
    let (_, rest) = page.split_once("### A turn in ten stops").expect("actors.md tells a turn in ten stops");
    let stops = rest.lines().skip_while(|line| !line.starts_with("1. ")).take(10);
    for (number, stop) in stops.enumerate() {
        assert!(stop.starts_with(&format!("{}. ", number + 1)), "{stop}");
        let mut source = String::new();
        for name in stop.split('`').skip(1).step_by(2) {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            if path.is_file() {
                source.push_str(&std::fs::read_to_string(path).unwrap());
            } else {
                let known = [format!("fn {name}("), format!("fn {name}<"), format!("enum {name} ")];
                assert!(
                    known.iter().any(|known| source.contains(known)),
                    "{name} is not where it is looked for: {stop}"
                );
            }
        }
    }
}

#[test]
fn the_tree_in_the_readme_is_the_tree() {
    let page = include_str!("../README.md");
    let (_, rest) = page.split_once("<!-- tree -->\n").expect("README.md marks where the tree begins");
    let (picture, _) = rest.split_once("\n<!-- /tree -->").expect("README.md marks where the tree ends");
    let block = actors::tree::markdown();
    assert!(
        block.starts_with(&format!("{picture}\n\n|")),
        "put the picture of `staffai tree --markdown` between the marks"
    );
}

#[test]
fn every_actor_of_the_tree_is_explained_in_actors_md() {
    fn check(row: &actors::tree::TreeRow, page: &str) {
        let line = format!("\n| `{}` | ", row.name);
        assert!(page.matches(&line).count() > 1, "actors.md has no line for {} in its table of actors", row.name);
        row.children.iter().for_each(|row| check(row, page));
    }
    let page = include_str!("../actors.md");
    actors::tree::TREE.children.iter().for_each(|row| check(row, page));
}

#[test]
fn every_file_that_the_pages_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    for page in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "actors.md", "docs/architecture.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        // Whole paths; those with a placeholder, such as `src/<door>/`, stand for many.
        let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let paths = quoted.filter(|word| {
            ["src/", "crates/", "docs/", "config/", "prompts/", "deploy/"].iter().any(|room| word.starts_with(room))
                && !word.contains('<')
                && !(word.starts_with("config/") && Path::new(word).extension().is_some_and(|it| it == "rs"))
        });
        missing.extend(paths.filter(|path| !root.join(path).exists()).map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "these are not there: {missing:#?}");
}

/// Every endpoint below `/api/v1` is in the API description.
#[test]
fn every_route_of_the_api_is_described() {
    let document = include_str!("../crates/terminal/src/openapi.json");
    let mut routes = 0;
    for file in FILES.iter() {
        for (at, call) in file.shipped.match_indices(".route(") {
            let path = file.text[at + call.len()..].split('"').nth(1).unwrap_or_default();
            if path.starts_with("/api/v1/") {
                routes += 1;
                assert!(
                    document.contains(&format!("\n  \"{path}\": {{")),
                    "{}: {path} is not in openapi.json",
                    file.path
                );
            }
        }
    }
    assert!(routes > 15, "{routes}");
}

/// Every test named in `docs/proofs.md` exists.
#[test]
fn every_proof_is_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["docs/proofs.md", "docs/coming-from.md"] {
        let page = std::fs::read_to_string(root.join(name)).unwrap();
        let named: Vec<(&str, &str)> = page.split('`').filter_map(|word| word.split_once(".rs::")).collect();
        assert!(named.len() > 20, "{named:?}");
        let missing = named.into_iter().filter(|(file, test)| {
            let source = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
            !is_test(&source, test)
        });
        let missing: Vec<String> = missing.map(|(file, test)| format!("{file}.rs::{test}")).collect();
        assert!(missing.is_empty(), "{name} names what is no test:\n{}", missing.join("\n"));
    }
}

/// True if the source has a function of this name with a test attribute directly above it.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let Some(at) = lines.iter().position(|line| line.trim_start_matches("async ").starts_with(&head)) else {
        return false;
    };
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    above.into_iter().any(|line| line.starts_with("#[test") || line.starts_with("#[tokio::test"))
}
