//! The manual pages and shell completions of a release: complete, and accepted by the programs that read them.

#[path = "../../examples/documents.rs"]
#[expect(dead_code, reason = "`main` belongs to the example")]
mod example;

use std::process::Command;

use clap::CommandFactory as _;
use staffai::app::Cli;

#[test]
fn each_visible_command_has_a_manual_page_and_completions() {
    let folder = tempfile::tempdir().expect("a folder");
    example::write(folder.path()).expect("written");
    let read = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let (hidden, visible): (Vec<_>, Vec<_>) =
        Cli::command().get_subcommands().cloned().partition(clap::Command::is_hide_set);
    assert!(visible.len() > 10 && !hidden.is_empty(), "{}, {}", visible.len(), hidden.len());
    let shells = ["staffai.bash", "staffai.fish", "_staffai"].map(read);
    let whole = read("staffai.1");
    for command in &visible {
        let name = command.get_name();
        assert!(read(&format!("staffai-{name}.1")).contains(".TH "), "{name}");
        assert!(whole.contains(&format!("staffai\\-{name}(1)")), "{name} is not on the main page");
        for text in &shells {
            assert!(text.contains(name), "{name} is not completed");
        }
    }
    for command in &hidden {
        let name = command.get_name();
        assert!(!folder.path().join(format!("staffai-{name}.1")).exists(), "{name} is hidden");
        assert!(shells.iter().all(|text| !text.contains(name)), "{name} is hidden");
    }
    assert!(read("staffai-key-add.1").contains("days"), "commands below commands have pages with their options");
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().expect("a folder");
    example::write(folder.path()).expect("written");
    // Calls the function that bash calls when a person presses the tabulator key.
    let script = r#"
        source "$1/staffai.bash"
        COMP_WORDS=(staffai che); COMP_CWORD=1; _staffai staffai che staffai; echo "${COMPREPLY[@]}"
        COMP_WORDS=(staffai check --off); COMP_CWORD=2; _staffai staffai --off check; echo "${COMPREPLY[@]}"
    "#;
    let done = Command::new("bash").args(["-euc", script, "bash"]).arg(folder.path()).output().expect("bash runs");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "check\n--offline\n",
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
