//! What may be in the dependency tree: the list in `deny.toml`, checked here without a tool that would have to be built first.

use std::collections::BTreeSet;
use std::process::Command;

use serde::Deserialize;

/// The part of `deny.toml` that is checked here; `cargo deny check bans licenses sources` checks all of it.
#[derive(Deserialize)]
struct Rules {
    bans: Bans,
    licenses: Licenses,
    sources: Sources,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    source: Option<String>,
}

fn rules() -> Rules {
    toml::from_str(include_str!("../../deny.toml")).unwrap()
}

/// Every package that any build of ours for this machine may contain.
fn packages() -> Vec<Package> {
    let cargo = env!("CARGO");
    let version = Command::new(cargo).args(["version", "--verbose"]).output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let asked = Command::new(cargo)
        .args(["metadata", "--locked", "--all-features", "--format-version", "1", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice::<Metadata>(&asked.stdout).unwrap().packages
}

/// What is wrong with a package.
fn wrong(package: &Package, rules: &Rules) -> Vec<String> {
    let Some(source) = &package.source else { return Vec::new() };
    let mut wrong = Vec::new();
    if let Some(banned) = rules.bans.deny.iter().find(|banned| banned.name == package.name) {
        wrong.push(format!("is banned: {}", banned.reason));
    }
    if !rules.sources.allow_registry.iter().any(|allowed| source.ends_with(allowed)) {
        wrong.push(format!("comes from {source}"));
    }
    match &package.license {
        Some(license) if License::new(license).met_by(&rules.licenses.allow) => {}
        Some(license) => wrong.push(format!("has the licence {license}")),
        None => wrong.push("names no licence".to_owned()),
    }
    wrong
}

/// A licence expression, word by word.
struct License<'a> {
    words: Vec<&'a str>,
}

impl<'a> License<'a> {
    fn new(text: &'a str) -> Self {
        // The slash is how `OR` was written once.
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['(', ')', '/']) {
                words.extend([&rest[..at], &rest[at..=at]]);
                rest = &rest[at + 1..];
            }
            words.push(rest);
        }
        words.retain(|word| !word.is_empty());
        words.reverse();
        Self { words }
    }

    fn met_by(mut self, allowed: &BTreeSet<String>) -> bool {
        self.either(allowed) && self.words.is_empty()
    }

    fn next_is(&mut self, wanted: &[&str]) -> bool {
        let found = self.words.last().is_some_and(|word| wanted.contains(word));
        if found {
            self.words.pop();
        }
        found
    }

    fn either(&mut self, allowed: &BTreeSet<String>) -> bool {
        let mut met = self.both(allowed);
        while self.next_is(&["OR", "/"]) {
            met |= self.both(allowed);
        }
        met
    }

    fn both(&mut self, allowed: &BTreeSet<String>) -> bool {
        let mut met = self.one(allowed);
        while self.next_is(&["AND"]) {
            met &= self.one(allowed);
        }
        met
    }

    fn one(&mut self, allowed: &BTreeSet<String>) -> bool {
        if self.next_is(&["("]) {
            let met = self.either(allowed);
            return self.next_is(&[")"]) && met;
        }
        let Some(mut name) = self.words.pop().map(str::to_owned) else { return false };
        if self.next_is(&["WITH"]) {
            name = format!("{name} WITH {}", self.words.pop().unwrap_or_default());
        }
        allowed.contains(&name)
    }
}

#[test]
fn every_dependency_may_be_there() {
    let (rules, packages) = (rules(), packages());
    assert!(packages.len() > 100, "{} packages", packages.len());
    let found: Vec<String> = packages
        .iter()
        .flat_map(|package| wrong(package, &rules).into_iter().map(|what| format!("{} {what}", package.name)))
        .collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_wrong_dependency_is_found() {
    let package = |name: &str, license: Option<&str>, source: &str| {
        let (license, source) = (license.map(str::to_owned), Some(source.to_owned()));
        wrong(&Package { name: name.to_owned(), license, source }, &rules()).len()
    };
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    assert_eq!(package("fine", Some("MIT/Apache-2.0"), registry), 0);
    assert_eq!(package("openssl-sys", Some("MIT"), registry), 1);
    assert_eq!(package("elsewhere", Some("MIT"), "git+https://example.org/x"), 1);
    assert_eq!(package("unlicensed", None, registry), 1);
    assert_eq!(package("copyleft", Some("GPL-3.0-only"), registry), 1);
}

#[test]
fn licence_expressions_are_read_as_they_are_meant() {
    let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (text, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 / MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("(MIT", false),
        ("MIT ISC", false),
        ("", false),
    ] {
        assert_eq!(License::new(text).met_by(&allowed), met, "{text}");
    }
}
