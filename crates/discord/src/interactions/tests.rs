use serde_json::json;

use super::*;

fn event(kind: u8, data: &Value) -> Value {
    json!({
        "id": "9", "application_id": "1", "type": kind, "token": "secret-token", "version": 1, "locale": "de",
        "guild_id": "5", "channel_id": "42", "channel": {"id": "42", "type": 0, "parent_id": "4"},
        "member": {
            "user": {"id": "7", "username": "ada", "global_name": "Ada"}, "nick": null, "roles": ["3"],
            "permissions": "8", "joined_at": "2020-01-01T00:00:00Z",
        },
        "data": data,
    })
}

fn command(event: &Value) -> Command {
    match read(&event.to_string()) {
        Ok(Some(Interaction::Command(command))) => *command,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_is_read_with_all_that_decides_about_it() {
    let options = json!([{"name": "user", "type": 6, "value": "8"}, {"name": "count", "type": 4, "value": 3}]);
    let command = command(&event(
        2,
        &json!({"id": "1", "name": "usage", "type": 1, "options": options,
        "resolved": {"users": {"8": {"id": "8", "username": "ben"}}, "members": {"8": {"roles": ["4"], "permissions": "0"}}}}),
    ));
    assert_eq!(
        (command.name.as_str(), command.option("user"), command.option("count")),
        ("usage", Some("8"), Some("3"))
    );
    assert_eq!((command.place.id.as_str(), command.guild.as_deref(), command.parent.as_ref()), ("42", Some("5"), None));
    assert_eq!(command.named, [(events::person(UserId::new(8)), vec!["4".to_owned()])]);
    let caller = &command.caller;
    assert_eq!((caller.person.id.as_str(), caller.name.as_str()), ("7", "Ada"));
    assert_eq!((caller.roles.as_slice(), caller.locale.as_deref()), (&["3".to_owned()][..], Some("de")));
    assert_eq!(command.callback.token.expose(), "secret-token");
    assert!(!format!("{command:?}").contains("secret-token"));
}

#[test]
fn a_thread_names_its_channel_and_a_direct_conversation_its_user() {
    let mut in_thread = event(2, &json!({"name": "new"}));
    in_thread["channel"]["type"] = json!(11);
    assert_eq!(command(&in_thread).parent.unwrap().id, "4");
    let mut direct = event(2, &json!({"name": "new"}));
    for gone in ["guild_id", "member"] {
        direct.as_object_mut().unwrap().remove(gone);
    }
    direct["user"] = json!({"id": "8", "username": "ben"});
    let direct = command(&direct);
    assert_eq!((direct.caller.person.id.as_str(), direct.guild), ("8", None));
}

#[test]
fn what_is_typed_is_the_focused_option() {
    let data = json!({"name": "model", "options": [{"name": "row", "type": 3, "value": "de", "focused": true}]});
    let Ok(Some(Interaction::Typing(typing))) = read(&event(4, &data).to_string()) else { panic!("nothing typed") };
    assert_eq!((typing.name.as_str(), typing.option.as_str(), typing.typed.as_str()), ("model", "row", "de"));
}

#[test]
fn what_we_never_offered_is_a_command_without_a_name_and_nonsense_is_an_error() {
    let foreign = json!({"custom_id": "yes", "component_type": 2});
    let list = json!({"custom_id": "colour", "component_type": 3, "values": ["red"]});
    let form = json!({"custom_id": "form", "components": [{"type": 1, "components": [{"type": 4, "value": "x"}]}]});
    for event in [event(3, &foreign), event(3, &list), event(5, &form), event(2, &json!({"name": "menu", "type": 3}))] {
        let command = command(&event);
        assert_eq!((command.name.as_str(), command.options.len(), command.caller.name.as_str()), ("", 0, "Ada"));
        assert_eq!(command.callback.token.expose(), "secret-token");
    }
    assert!(
        read(&event(1, &json!({})).to_string()).is_err()
            || read(&event(9, &json!({"name": "x"})).to_string()).unwrap().is_none()
    );
    assert!(read(&event(2, &json!({})).to_string()).is_err());
    assert!(read("{}").is_err());
}
