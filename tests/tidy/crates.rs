//! The dependencies between crates, and the libraries that inner crates may use. `docs/architecture.md` has the table,
//! manifests state it, and the compiler enforces it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Table;

/// Libraries for crates without tasks, logs and wire formats.
const PURE: [&str; 20] = [
    "base64",
    "compact_str",
    "croner",
    "encoding_rs",
    "hmac",
    "imagesize",
    "jiff",
    "jsonschema",
    "memchr",
    // The only kind of lock, for caches.
    "parking_lot",
    "regex",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "unicode-normalization",
    "unicode-segmentation",
    "async-trait",
    "futures-util",
    "secrecy",
];

/// Libraries for asynchronous traits.
const WAITING: [&str; 2] = ["tokio", "tokio-util"];

/// Further libraries for actors: their runtime, logs and metrics.
const OF_ACTORS: [&str; 3] = ["metrics", "ractor", "tracing"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the dependencies in the manifest of a crate: those in this workspace, and the others.
fn dependencies(manifest: &Path, own: &BTreeSet<String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let table: Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
    let named = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(Table::keys);
    named.cloned().partition(|name| own.contains(name))
}

fn crates() -> BTreeSet<String> {
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the rows of the table of crates with their dependencies.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, rest) = page.split_once("<!-- crates -->\n").expect("docs/architecture.md marks where the crates begin");
    let (table, _) = rest.split_once("<!-- /crates -->").expect("docs/architecture.md marks where the crates end");
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let name = names(cells[1]).remove(0);
        (name, names(cells[3]).into_iter().collect())
    })
    .collect()
}

#[test]
fn each_crate_knows_those_that_the_page_draws() {
    let own = crates();
    let known = own.iter().map(|name| {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        (name.clone(), dependencies(&manifest, &own).0)
    });
    assert_eq!(known.collect::<BTreeMap<_, _>>(), drawn());
}

#[test]
fn pure_crates_and_actors_use_few_libraries() {
    let own = crates();
    for (name, allowed) in [
        ("domain", [PURE.as_slice(), &[], &[]]),
        ("ports", [PURE.as_slice(), &WAITING, &[]]),
        ("actors", [PURE.as_slice(), &WAITING, &OF_ACTORS]),
    ] {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let (_, libraries) = dependencies(&manifest, &own);
        let refused: Vec<&String> =
            libraries.iter().filter(|library| !allowed.concat().contains(&library.as_str())).collect();
        assert!(refused.is_empty(), "{name} may not use {refused:?}");
    }
}
