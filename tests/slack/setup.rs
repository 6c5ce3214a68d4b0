//! The first steps of an operator: the app's manifest, and the check of the tokens.

use serde_json::Value;

use crate::process::program;
use crate::world::{World, story};
use playground::workspace::Fault;

/// Runs a command of the program; returns its exit code and its output.
pub fn run(world: &World, arguments: &[&str]) -> (i32, String, String) {
    let output = program(world.dir(), &world.env).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_manifest_of_the_app_is_printed_with_the_next_steps() {
    story(async {
        let world = World::without_bot().await;
        let (code, manifest, steps) = run(&world, &["init", "slack"]);
        assert_eq!(code, 0, "{steps}");
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
        for word in ["https://api.slack.com/apps?new_app=1", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"] {
            assert!(steps.contains(word), "{word}: {steps}");
        }
    });
}

#[test]
fn the_check_tries_both_tokens_and_names_missing_scopes_and_socket_mode() {
    story(async {
        let mut world = World::without_bot().await;
        let (code, table, _) = run(&world, &["check"]);
        assert_eq!(code, 0, "{table}");
        for part in ["slack bot token", "slack app token", "slack scopes"] {
            assert!(table.lines().any(|line| line.starts_with("ok") && line.contains(part)), "{part}: {table}");
        }
        world.service.grants("chat:write,app_mentions:read");
        let (code, table, _) = run(&world, &["check"]);
        assert!(code == 1 && table.contains("channels:history") && !table.contains("chat:write,"), "{table}");
        world.env.insert("SLACK_APP_TOKEN".to_owned(), "xapp-of-another".to_owned());
        let (code, table, _) = run(&world, &["check"]);
        assert!(code == 1 && table.contains("connections:write"), "{table}");
        assert!(!table.contains("xapp-of-another"), "{table}");
        world.env.insert("SLACK_APP_TOKEN".to_owned(), crate::world::APP_TOKEN.to_owned());
        world.service.breaks("apps.connections.open", Fault::Named("socket_mode_not_enabled"));
        let (code, table, _) = run(&world, &["check"]);
        assert!(code == 1 && table.contains("enable Socket Mode"), "{table}");
    });
}

#[test]
fn one_token_alone_is_a_mistake_that_names_the_other() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.remove("SLACK_APP_TOKEN");
        let (code, _, problems) = run(&world, &["run"]);
        assert!(code == 64 && problems.contains("SLACK_APP_TOKEN"), "{code}: {problems}");
    });
}
