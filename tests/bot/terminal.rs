//! `staffai chat` as a person uses it: in a terminal, with keys.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pty_process::{OwnedWritePty, Size};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

use crate::approvals::not_begun;
use crate::asking_servers::{self, Asker};
use crate::model::{Act, End};
use crate::support::{SOON, Setup, World, story};

/// Ctrl-C.
const STOP: &str = "\x03";

/// The program in a terminal.
pub struct Terminal<'a> {
    world: &'a World,
    keys: OwnedWritePty,
    screen: Arc<Mutex<String>>,
    /// The length of the screen output that was checked.
    seen: usize,
    child: Child,
}

impl<'a> Terminal<'a> {
    pub fn of(world: &'a World, variables: &[(&str, &str)]) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let command = pty_process::Command::new(env!("CARGO_BIN_EXE_staffai"));
        let state = state(world);
        let mut changes = vec![("TERM", "xterm-256color"), ("XDG_STATE_HOME", state.to_str().unwrap())];
        changes.extend_from_slice(variables);
        let env = world.variables(&changes);
        let command = command.arg("chat").env_clear().envs(env).current_dir(world.dir.path()).kill_on_drop(true);
        let child = command.spawn(pts).unwrap();
        let (mut out, keys) = pty.into_split();
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            // The end of the program is an error of its terminal.
            while let Ok(length @ 1..) = out.read(&mut bytes).await {
                shown.lock().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        Self { world, keys, screen, seen: 0, child }
    }

    pub async fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Waits until the screen shows this after what was checked before; returns the output up to it.
    pub async fn shows(&mut self, text: &str) -> String {
        let (seen, screen) = (self.seen, Arc::clone(&self.screen));
        let found = tokio::time::timeout(SOON, async {
            loop {
                let found = screen.lock()[seen..].find(text).map(|at| seen + at + text.len());
                match found {
                    Some(end) => return end,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        let Ok(end) = found.await else { panic!("{text:?} is not shown: {:?}", &self.screen.lock()[seen..]) };
        self.seen = end;
        self.screen.lock()[seen..end].to_owned()
    }

    /// Waits until the model was asked this.
    async fn asks(&self, question: &str) {
        let asked = || self.world.model.asks().last().is_some_and(|ask| ask.question() == question).then_some(());
        self.world.until(&format!("the question {question:?}"), asked).await;
    }

    async fn ends(mut self) -> Option<i32> {
        let ended = tokio::time::timeout(SOON, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it goes on: {:?}", self.screen.lock())).unwrap().code()
    }
}

fn state(world: &World) -> PathBuf {
    world.dir.path().join("state")
}

/// A running bot with long timeouts.
async fn running(world: &World) -> crate::process::Process {
    let process = world.process("service").await;
    world.becomes("ready").await;
    process
}

fn patient() -> Setup {
    Setup::new().set("STAFFAI_TURN__DEADLINE", "20s").set("STAFFAI_LLM__TIMEOUT", "20s")
}

#[test]
fn messages_of_several_lines_stay_one_and_the_history_brings_them_back() {
    story(async {
        let world = World::without_bot(patient()).await;
        let _process = running(&world).await;
        let mut terminal = Terminal::of(&world, &[]);
        terminal.shows("you ›").await;
        terminal.types("first line\r").await;
        terminal.shows("You said: first line").await;
        for (keys, question) in [
            ("one\\\rtwo\r", "one\ntwo"),
            ("three\x1b\rfour\r", "three\nfour"),
            ("\x1b[200~run \\\r\n now\x1b[201~\r", "run \\\n now"),
            ("\x1b[200~five\r\nsix\x1b[201~\r", "five\nsix"),
            // The last message once more, and the first one by searching for a part of it.
            ("\x1b[A\r", "five\nsix"),
            ("\x12irst\r", "first line"),
        ] {
            terminal.shows("you ›").await;
            terminal.types(keys).await;
            terminal.shows("You said: ").await;
            terminal.asks(question).await;
        }
        terminal.shows("you ›").await;
        // Ctrl-C clears a line, and exits at an empty one.
        terminal.types("never sent").await;
        terminal.shows("sent").await;
        terminal.types(STOP).await;
        terminal.types(STOP).await;
        assert_eq!(terminal.ends().await, Some(0));
        assert!(!world.model.asks().iter().any(|ask| ask.question().contains("never")));

        let file = state(&world).join("staffai/chat_history");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut terminal = Terminal::of(&world, &[("NO_COLOR", "1")]);
        let shown = terminal.shows("you ›").await;
        assert!(!shown.contains("\x1b[1;"), "{shown:?}");
        terminal.types("\x1b[A\x1b[A\r").await;
        terminal.shows("You said: ").await;
        terminal.asks("five\nsix").await;
        terminal.types("\x04").await;
        assert_eq!(terminal.ends().await, Some(0));
    });
}

#[test]
fn ctrl_c_stops_an_answer_which_nothing_typed_stands_in_and_the_next_one_leaves() {
    story(async {
        let world = World::without_bot(patient()).await;
        let _process = running(&world).await;
        world.model.does(|ask| match ask.question() {
            "# draw" => Act::says("# Plan\n\n**now**"),
            _ => Act::streams(&"word ".repeat(200), 10, Duration::from_millis(100), End::Well),
        });
        let mut terminal = Terminal::of(&world, &[]);
        terminal.shows("you ›").await;
        terminal.types("talk\r").await;
        terminal.shows("word word").await;
        terminal.types("# draw").await;
        terminal.shows("word word").await;
        terminal.types(STOP).await;
        let answer = terminal.shows("stopping").await;
        assert!(!answer.contains("draw"), "{answer:?}");
        // The text typed meanwhile is in the editor.
        terminal.shows("you ›").await;
        terminal.shows("# draw").await;
        terminal.types("\r").await;
        terminal.shows("\x1b[1;36mPlan\x1b[0m").await;
        terminal.shows("\x1b[1mnow\x1b[0m").await;
        terminal.shows("you ›").await;
        terminal.types("talk\r").await;
        terminal.shows("word word").await;
        terminal.types(STOP).await;
        terminal.shows("stopping").await;
        // The answer may just have ended: then the prompt is empty, and one more Ctrl-C exits as well.
        let status = loop {
            terminal.types(STOP).await;
            let ended = tokio::time::timeout(Duration::from_millis(500), terminal.child.wait()).await;
            if let Ok(status) = ended {
                break status.unwrap();
            }
        };
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn an_answer_goes_on_after_the_service_was_killed() {
    story(async {
        let world = World::without_bot(patient()).await;
        let process = running(&world).await;
        world.model.does(|ask| match ask.number {
            0 => Act::streams(&"word ".repeat(200), 10, Duration::from_millis(100), End::Well),
            _ => Act::says("All of it, after the restart."),
        });
        let mut terminal = Terminal::of(&world, &[]);
        terminal.shows("you ›").await;
        terminal.types("talk\r").await;
        terminal.shows("word word").await;
        process.kill();
        terminal.shows("waiting for it").await;
        let _process = world.process("second").await;
        terminal.shows("All of it, after the restart.").await;
        terminal.shows("you ›").await;
        // The conversation continues normally.
        terminal.types("and now?\r").await;
        terminal.shows("All of it, after the restart.").await;
        terminal.shows("you ›").await;
        terminal.types("\x04").await;
        assert_eq!(terminal.ends().await, Some(0));
    });
}

#[test]
fn a_call_is_approved_and_refused_by_keys_typed_behind_its_question() {
    story(async {
        let world = not_begun(&[("STAFFAI_TURN__DEADLINE", "20s")]).await;
        let _process = running(&world).await;
        let mut terminal = Terminal::of(&world, &[]);
        terminal.shows("you ›").await;
        terminal.types("roll\r").await;
        terminal.shows("[a]").await;
        terminal.types("a\r").await;
        terminal.shows("Rolled 2d6").await;
        terminal.shows("you ›").await;
        // Text typed before the question decides nothing.
        terminal.types("roll\ra\r").await;
        terminal.shows("[a]").await;
        terminal.types("r\r").await;
        let told = terminal.shows("you ›").await;
        assert!(!told.contains("Rolled 2d6"), "{told:?}");
    });
}

#[test]
fn a_form_of_a_server_is_filled_in_and_refused_in_a_terminal() {
    story(async {
        let asker = Asker::start().await;
        let world = asking_servers::not_begun(&asker, &[("STAFFAI_TURN__DEADLINE", "20s")]).await;
        let _process = running(&world).await;
        asker.listed(&world.http()).await;
        let mut terminal = Terminal::of(&world, &[]);
        terminal.shows("you ›").await;
        terminal.types("call book x\r").await;
        // Keys that are no answer are asked again.
        let question = terminal.shows("[a]").await;
        assert!(question.contains("Where to?"), "{question:?}");
        terminal.types("maybe\r").await;
        terminal.shows("[a]").await;
        terminal.types("a\r").await;
        terminal.shows("city (required").await;
        terminal.types("Rome\r").await;
        terminal.shows("nights").await;
        terminal.types("many\r").await;
        // Values that do not fit are asked for again, and are not sent.
        terminal.shows("[a]").await;
        assert!(asker.state().answers.is_empty());
        terminal.types("a\r").await;
        terminal.shows("city (required").await;
        terminal.types("Rome\r").await;
        terminal.shows("nights").await;
        terminal.types("2\r").await;
        terminal.shows("booked x").await;
        terminal.shows("you ›").await;
        let content = json!({"city": "Rome", "nights": 2});
        assert_eq!(asker.state().answers, [json!({"q": {"action": "accept", "content": content}})]);
        terminal.types("call book y\r").await;
        terminal.shows("[a]").await;
        terminal.types("r\r").await;
        terminal.shows("not booked: decline").await;
        terminal.shows("you ›").await;
        terminal.types("\x04").await;
        assert_eq!(terminal.ends().await, Some(0));
    });
}
