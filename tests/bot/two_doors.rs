//! A guild and a workspace in one process: one ledger, one set of limits for linked accounts, and branches of the tree
//! that fail alone. Also the dialogue of the settings at the guild.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use playground::interactions::Interact;
use playground::workspace::{Options, Said, Workspace};
use ports::{Clock, Fault, Faults, Input};
use serde_json::{Value, json};
use staffai::app::system::SystemClock;

use crate::model::Act;
use crate::support::{Setup, World, story};

const BOT_TOKEN: &str = "xoxb-of-the-bot";
const APP_TOKEN: &str = "xapp-of-the-app";

/// A bot that serves the guild and a workspace.
async fn both(setup: Setup) -> (World, Workspace) {
    let clock = Arc::new(|| SystemClock.now().0);
    let options = Options::of_playground(BOT_TOKEN.to_owned(), APP_TOKEN.to_owned(), clock);
    let workspace = Workspace::start(options).await.unwrap();
    let setup = setup
        .set("SLACK_BOT_TOKEN", BOT_TOKEN)
        .set("SLACK_APP_TOKEN", APP_TOKEN)
        .set("SLACK_API_URL", workspace.url())
        .set("STAFFAI_MEMBERS__LINKING", "members");
    let world = World::with(setup).await;
    world.until("both connections", || (workspace.connections().0 >= 2).then_some(())).await;
    (world, workspace)
}

async fn answer(world: &World, workspace: &Workspace, said: &Said) -> String {
    world.until("an answer in the workspace", || workspace.answers(said).first().map(|said| said.text.clone())).await
}

/// Panics once at the first own event of each actor whose path begins so, while it is armed.
struct BreaksBranch {
    branch: Mutex<Option<&'static str>>,
    broken: Mutex<HashSet<String>>,
}

impl Faults for BreaksBranch {
    fn before(&self, path: &str, _input: Input) -> Option<Fault> {
        let branch = (*self.branch.lock())?;
        let fails = path.starts_with(branch) && self.broken.lock().insert(path.to_owned());
        fails.then_some(Fault::Panic)
    }
}

/// Returns the account, messages and tokens of a line of the ledger.
fn line(line: &Value) -> (String, (u64, u64)) {
    (
        line["member"].as_str().unwrap().to_owned(),
        (line["messages"].as_u64().unwrap(), line["tokens"].as_u64().unwrap()),
    )
}

#[test]
fn linked_members_of_a_guild_and_a_workspace_share_their_limit_and_one_ledger() {
    story(async {
        let (world, workspace) = both(Setup::new().set("RATE_LIMIT_COUNT", "2")).await;
        world.model.always(Act::says("Aye."));
        let told = world.tells("Ada", "link", &[]).await;
        let code = told.split('`').nth(1).unwrap_or_else(|| panic!("{told}")).to_owned();
        workspace.runs("UADA", "C1", &format!("link {code}"));
        world
            .until("the link", || {
                workspace.whispers().iter().any(|t| t.to_string().contains("linked now")).then_some(())
            })
            .await;
        let first = world.says("Ada", "general", "@staffai hello");
        assert_eq!(world.words_to(first).await, "Aye.");
        let second = workspace.says("UADA", "C1", "@bot hello");
        assert_eq!(answer(&world, &workspace, &second).await, "Aye.");
        // The third message of the person is over the limit, at either door; another member is not.
        workspace.says("UADA", "C1", "@bot hello");
        world.until("a notice", || (!workspace.notices().is_empty()).then_some(())).await;
        let other = workspace.says("UBEN", "C1", "@bot hello");
        assert_eq!(answer(&world, &workspace, &other).await, "Aye.");
        assert_eq!(world.model.calls(), 3);
        // The ledger has a line for each account, whichever door it came through.
        let accounts = [format!("discord:{}", world.member("Ada")), "slack:UADA".to_owned(), "slack:UBEN".to_owned()];
        let day = world.json("/api/v1/usage/days?days=1").await.1["days"][0].clone();
        let lines: BTreeMap<String, (u64, u64)> = day["members"]["most"].as_array().unwrap().iter().map(line).collect();
        assert_eq!(lines.keys().collect::<HashSet<_>>(), accounts.iter().collect::<HashSet<_>>(), "{day}");
        assert!(lines.values().all(|(messages, _)| *messages == 1), "{day}");
        // The usage that one door shows is the sum of the linked accounts, and not that of another member.
        let tokens: u64 = accounts[..2].iter().map(|account| lines[account].1).sum();
        let usage = world.tells("Ada", "usage", &[]).await;
        assert!(usage.contains(&format!("Today: {tokens} tokens for 2 messages")), "{usage}");
    });
}

/// Breaks all actors of a branch, and checks that no actor outside of it restarts and that both doors answer.
fn breaks(branch: &'static str) {
    story(async move {
        let faults = Arc::new(BreaksBranch { branch: Mutex::new(None), broken: Mutex::default() });
        let (world, workspace) = both(Setup::new().faults(Arc::clone(&faults) as _)).await;
        *faults.branch.lock() = Some(branch);
        for number in 0..3 {
            let (there, here) = (format!("@bot hello {number}"), format!("@staffai hello {number}"));
            let (there, here) = (workspace.says("UADA", "C1", &there), world.says("Ada", "general", &here));
            assert_eq!(answer(&world, &workspace, &there).await, format!("You said: hello {number}"));
            assert_eq!(world.words_to(here).await, format!("You said: hello {number}"));
            // The next messages come while the branch restarts.
            world.until("a broken actor", || (!faults.broken.lock().is_empty()).then_some(())).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        for (path, restarts) in world.restarts().await {
            assert!(restarts == 0 || path.starts_with(branch), "{path} restarted with {branch}");
        }
        for said in workspace.messages().iter().filter(|message| message.thread.is_none()) {
            let said = Said { channel: said.channel.clone(), ts: said.ts.clone(), root: said.ts.clone() };
            assert_eq!(workspace.answers(&said).len(), 1);
        }
    });
}

#[test]
fn a_broken_branch_of_the_workspace_leaves_the_guild_untouched() {
    breaks("staffai/slack");
}

#[test]
fn a_broken_branch_of_the_guild_leaves_the_workspace_untouched() {
    breaks("staffai/discord");
}

#[test]
fn the_settings_of_a_member_of_a_guild_are_changed_in_forms() {
    story(async {
        let world = World::with(Setup::new()).await;
        let shown = world.runs("Ada", "general", "settings", &[]);
        let list = world.told(shown).await;
        assert!(list.content.contains("`verbosity`"), "{}", list.content);
        let labels: Vec<&Value> =
            list.components.iter().flat_map(|row| row["components"].as_array().into_iter().flatten()).collect();
        assert!(labels[0]["label"].as_str().is_some_and(|label| label.starts_with("Change settings")), "{labels:?}");
        let label = labels[0]["label"].as_str().unwrap().to_owned();
        let press = world.presses("Ada", &list, &label);
        let form = world.until("a form", || world.service.interaction(press)?.form).await;
        let form: Value = serde_json::from_str(&form).unwrap();
        let parts = form["components"].as_array().unwrap();
        assert!(
            parts.len() <= 5 && parts.iter().any(|part| part["component"]["custom_id"] == "instructions"),
            "{form}"
        );
        let send = |name: &str, value: &str| {
            let row = json!({"type": 18, "component": {"type": 4, "custom_id": name, "value": value}});
            let form = Interact::Form(form["custom_id"].as_str().unwrap().to_owned(), vec![row]);
            world.service.interacts(world.member("Ada"), list.channel, form).expect("a known member and channel")
        };
        let wrong = world.hears_back(send("language", "!!")).await;
        assert!(wrong.contains("language"), "{wrong}");
        assert!(world.hears_back(send("instructions", "Say tide.")).await.starts_with("Saved"));
        let said = world.says("Ada", "general", "@staffai hello");
        world.words_to(said).await;
        assert!(world.model.asks().pop().unwrap().talk().contains("Say tide."));
    });
}
