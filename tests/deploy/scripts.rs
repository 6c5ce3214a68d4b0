//! The scripts of `deploy` and the workflows of `.github`, read by the programs that find mistakes in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{read, yaml};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program from the Python environment of the tests, which `./test` installs, and expects that it finds nothing.
fn finds_nothing(program: &str, arguments: &[&str], files: &[PathBuf]) {
    let programs = root().join(".venv-tests/bin");
    let mut command = Command::new(programs.join(program));
    command
        .args(arguments)
        .args(files)
        .current_dir(root())
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let done = command.output().unwrap_or_else(|error| panic!("{program}: {error}; ./test installs it"));
    let printed = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(done.status.success(), "{printed}");
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    assert!(found.len() >= 3, "{found:?}");
    found
}

#[test]
fn the_workflows_have_no_mistakes() {
    finds_nothing("actionlint", &["-no-color"], &files(".github/workflows", "yml"));
}

#[test]
fn the_scripts_have_no_mistakes() {
    let mut scripts = files("deploy", "sh");
    scripts.extend(
        ["test", ".ci/run", "deploy/package/postrm", "deploy/package/staffai-service"].map(|name| root().join(name)),
    );
    finds_nothing("shellcheck", &["--severity=style"], &scripts);
}

#[test]
fn a_release_is_built_with_the_release_of_rust_that_builds_the_image() {
    let builder = "rust:1.91.0-bookworm";
    assert!(read("deploy/Dockerfile").contains(&format!("FROM {builder} AS builder")));
    let workflow = yaml(".github/workflows/release.yml").remove(0);
    assert_eq!(
        workflow["jobs"]["release"]["container"]["image"], builder,
        "the program needs the C library of its builder"
    );
    for job in yaml(".github/workflows/test.yml").remove(0)["jobs"].as_object().expect("jobs").values() {
        assert_eq!(job["container"], builder);
    }
}

#[test]
fn the_package_installs_the_unit_and_keeps_what_the_operator_wrote() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let package = &manifest["package"]["metadata"]["deb"];
    let assets = package["assets"].as_array().expect("a list");
    let source = |target: &str| {
        assets.iter().find(|row| row[1].as_str().is_some_and(|to| to.starts_with(target))).map(|row| row[0].clone())
    };
    assert_eq!(source("usr/bin/").expect("the program").as_str(), Some("target/release/staffai"));
    let settings = source("etc/staffai/").expect("the settings");
    assert_eq!(package["conf-files"][0].as_str(), Some("/etc/staffai/staffai.env"));
    // Every name in the settings is one that the program reads, and none of them is a secret.
    let known = super::known();
    for line in read(settings.as_str().expect("a path")).lines().filter(|line| line.contains('=')) {
        let name = line.trim_start_matches('#').split('=').next().expect("a name");
        assert!(name.contains(' ') || (known.contains(name) && !super::is_secret(name)), "{name}");
    }
    super::unit_has("EnvironmentFile", "/etc/staffai/staffai.env");
    super::unit_has("ConditionPathExists", "|/etc/staffai/discord_bot_token");
    super::unit_has("ConditionPathExists", "|/etc/staffai/slack_bot_token");
}

#[test]
fn a_command_of_the_service_gets_its_secrets_and_data() {
    let script = read("deploy/package/staffai-service");
    let (unit, mut secrets) = (super::unit(), 0);
    let values = |key: &str| unit.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect::<Vec<_>>();
    for credential in values("LoadCredential") {
        let name = credential.split(':').next().expect("a name").to_owned();
        let variable = name.to_uppercase();
        assert!(super::is_secret(&variable), "{variable}");
        assert!(values("SetCredential").contains(&format!("{name}:\\n")), "{name} is optional");
        assert!(
            values("Environment").iter().any(|pairs| pairs.contains(&format!("{variable}_FILE=%d/{name}"))),
            "{name}"
        );
        assert!(script.contains(&format!("-p LoadCredential={credential} -p 'SetCredential={name}:\\n'")), "{name}");
        assert!(script.contains(&format!("{variable}_FILE=\"$from/{name}\"")), "{name}");
        secrets += 1;
    }
    assert_eq!(secrets, 4);
    for setting in
        ["DynamicUser", "StateDirectory", "StateDirectoryMode", "WorkingDirectory", "EnvironmentFile", "UMask"]
    {
        let value = values(setting).remove(0);
        assert!(script.contains(&format!("-p {setting}={value} ")), "{setting}={value}");
    }
}
