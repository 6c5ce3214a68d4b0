//! Two processes on one store: data that a member deletes in one process is deleted in both.

use super::*;
use crate::messages::commands::CommandsMsg;
use crate::testing::{BEGINNING, message, person};
use domain::command::{Callback, CallbackToken, Caller, Command};
use domain::ids::Timestamp;
use domain::keys;
use ports::{Store, Write};

/// A member requests deletion, one second after the last message.
fn forget(world: &World, name: &str) {
    let command = Command {
        callback: Callback {
            id: message("500"),
            application: "1".to_owned(),
            token: CallbackToken::new("token".to_owned()),
        },
        name: name.to_owned(),
        options: Vec::new(),
        named: Vec::new(),
        caller: Caller {
            person: person("7"),
            name: "Ada".to_owned(),
            roles: Vec::new(),
            locale: None,
            operator: false,
        },
        place: place("42"),
        parent: None,
        guild: Some("5".to_owned()),
        at: Timestamp(BEGINNING.0 + 1_000),
    };
    assert!(world.handles.commands.cast(CommandsMsg::Run(Box::new(command))).is_ok());
}

fn history(outside: &Outside) -> Option<String> {
    outside.store.entries.lock().get(&keys::history(&person("7"), &place("42"))).cloned()
}

/// One process has answered a question of the member.
async fn answered(outside: &Outside) -> (World, Connection) {
    let mut one = life(outside, Arc::new(NoFaults)).await;
    let connection = one.connected().await;
    ask(&connection, 2, "10");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(outside.answers(), ["fine"]);
    assert!(history(outside).is_some());
    (one, connection)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_read_its_memory_before_does_not_write_it_back() {
    for name in ["forget", "new"] {
        let outside = Outside::new();
        let (one, connection) = answered(&outside).await;
        let two = life(&outside, Arc::new(NoFaults)).await;
        one.models.takes(Duration::from_secs(10));
        ask(&connection, 3, "11");
        tokio::time::sleep(Duration::from_secs(5)).await;
        forget(&two, name);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(history(&outside), None, "{name}");
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!((outside.answers().len(), history(&outside)), (2, None), "{name}");
        one.tree.stop().await;
        two.tree.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_back_all_the_same_is_taken_out_when_no_turn_from_before_is_left() {
    for (name, restarts) in [("forget", false), ("forget", true), ("new", false)] {
        let outside = Outside::new();
        let (one, _connection) = answered(&outside).await;
        let old = history(&outside).unwrap();
        let two = life(&outside, Arc::new(NoFaults)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        forget(&two, name);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let key = keys::history(&person("7"), &place("42"));
        drop(outside.store.write(vec![Write::Put { key, value: old, ttl: None }]));
        // The process that handled the deletion has ended, and another one takes its place.
        let two = if restarts {
            two.tree.stop().await;
            life(&outside, Arc::new(NoFaults)).await
        } else {
            two
        };
        tokio::time::sleep(Duration::from_secs(2_380)).await;
        assert!(history(&outside).is_some(), "a turn from before may still be there");
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(history(&outside), None, "{name} {restarts}");
        one.tree.stop().await;
        two.tree.stop().await;
    }
}
