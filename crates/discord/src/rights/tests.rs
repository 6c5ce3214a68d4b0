use serde_json::{Value, json};
use serenity::model::id::UserId;

use super::*;
use crate::DOOR;

const ME: u64 = 1;
const GUILD: u64 = 5;
const NOW: Timestamp = Timestamp(1_800_000_000_000);
const ALL: u64 = 1 << 10 | 1 << 11 | 1 << 38;

/// A guild with one channel and full permissions for all members; role 6 belongs to the bot and grants nothing.
fn told() -> Value {
    json!({
        "id": GUILD.to_string(),
        "owner_id": "9",
        "roles": [
            {"id": GUILD.to_string(), "permissions": ALL.to_string()},
            {"id": "6", "permissions": "0"},
            {"id": "7", "permissions": "8"},
            {"id": "odd"},
        ],
        "channels": [
            {"id": "42", "type": 0, "permission_overwrites": []},
            {"id": "43", "type": 4, "permission_overwrites": []},
        ],
        "members": [
            {"user": {"id": "8"}, "roles": ["7"]},
            {"user": {"id": ME.to_string()}, "roles": ["6"], "communication_disabled_until": null},
        ],
    })
}

fn rights(told: &Value) -> Rights {
    let rights = Rights::default();
    rights.learn(wire::guild(&told.to_string(), UserId::new(ME)).unwrap());
    rights
}

fn may(rights: &Rights, channel: &str) -> bool {
    rights.may_answer(Some("5"), &Place::new(DOOR, channel), None, NOW)
}

fn may_in_thread(rights: &Rights) -> bool {
    rights.may_answer(Some("5"), &Place::new(DOOR, "99"), Some(&Place::new(DOOR, "42")), NOW)
}

/// The channel with these overwrites: subject, allowed, denied.
fn channel(overwrites: &[(u64, u64, u64)]) -> Value {
    let overwrites: Vec<Value> = overwrites
        .iter()
        .map(|(id, allow, deny)| json!({"id": id.to_string(), "type": 0, "allow": allow.to_string(), "deny": deny.to_string()}))
        .collect();
    json!({"id": "42", "guild_id": "5", "type": 0, "permission_overwrites": overwrites})
}

fn changes(rights: &Rights, kind: &str, json: &Value) {
    rights.learn(wire::change(kind, &json.to_string(), UserId::new(ME)).unwrap().expect("a change"));
}

/// Overwrites, and true if the bot may then answer.
type Case<'a> = (&'a [(u64, u64, u64)], bool);

#[test]
fn overwrites_apply_in_order() {
    const SEND: u64 = 1 << 11;
    const VIEW: u64 = 1 << 10;
    let rights = rights(&told());
    assert!(may(&rights, "42") && may_in_thread(&rights));
    let cases: [Case<'_>; 8] = [
        (&[(GUILD, 0, SEND)], false),
        (&[(GUILD, 0, VIEW)], false),
        (&[(GUILD, 0, SEND), (6, SEND, 0)], true),
        (&[(GUILD, 0, SEND), (7, SEND, 0)], false),
        (&[(6, SEND, SEND)], true),
        (&[(6, SEND, 0), (ME, 0, SEND)], false),
        (&[(6, 0, SEND), (ME, SEND, 0)], true),
        (&[(GUILD, 0, 1 << 38)], true),
    ];
    for (overwrites, expected) in cases {
        changes(&rights, "CHANNEL_UPDATE", &channel(overwrites));
        assert_eq!(may(&rights, "42"), expected, "{overwrites:?}");
    }
    assert!(!may_in_thread(&rights), "the last case takes threads");
    changes(&rights, "CHANNEL_UPDATE", &channel(&[(GUILD, 0, SEND)]));
    assert!(may_in_thread(&rights), "and what threads need is not what channels need");
}

#[test]
fn roles_and_our_own_membership_change() {
    let rights = rights(&told());
    let role = |id: &str, bits: u64| json!({"guild_id": "5", "role": {"id": id, "permissions": bits.to_string()}});
    changes(&rights, "GUILD_ROLE_UPDATE", &role("5", 0));
    assert!(!may(&rights, "42"));
    changes(&rights, "GUILD_ROLE_UPDATE", &role("6", ALL));
    assert!(may(&rights, "42"));
    changes(&rights, "GUILD_ROLE_DELETE", &json!({"guild_id": "5", "role_id": "6"}));
    assert!(!may(&rights, "42"));
    let us = |roles: &[&str], until: Value| json!({"guild_id": "5", "user": {"id": "1"}, "roles": roles, "communication_disabled_until": until});
    changes(&rights, "GUILD_MEMBER_UPDATE", &us(&["7"], Value::Null));
    assert!(may(&rights, "42"), "administrators have all permissions");
    changes(&rights, "GUILD_ROLE_CREATE", &role("10", ALL));
    changes(&rights, "GUILD_MEMBER_UPDATE", &us(&["10"], json!("2099-01-01T00:00:00Z")));
    assert!(!may(&rights, "42"), "a member in a timeout may not write");
    changes(&rights, "GUILD_MEMBER_UPDATE", &us(&["10"], json!("2001-01-01T00:00:00Z")));
    assert!(may(&rights, "42"));
    let other = json!({"guild_id": "5", "user": {"id": "8"}, "roles": []}).to_string();
    assert_eq!(wire::change("GUILD_MEMBER_UPDATE", &other, UserId::new(ME)).unwrap(), None);
}

#[test]
fn what_is_not_known_is_allowed() {
    let mut told = told();
    told["roles"][0]["permissions"] = json!("0");
    let closed = rights(&told);
    assert!(!may(&closed, "42"));
    assert!(may(&closed, "77"), "an unknown channel");
    assert!(closed.may_answer(Some("6"), &Place::new(DOOR, "42"), None, NOW), "another community");
    assert!(closed.may_answer(None, &Place::new(DOOR, "42"), None, NOW), "a direct message");
    changes(&closed, "CHANNEL_DELETE", &channel(&[]));
    assert!(may(&closed, "42"));
    told["members"] = json!([]);
    assert!(may(&rights(&told), "42"), "the bot's membership is unknown");
    told["owner_id"] = json!("1");
    assert!(may(&rights(&told), "42"));
    let gone = rights(&told);
    changes(&gone, "GUILD_DELETE", &json!({"id": "5"}));
    assert!(may(&gone, "42"));
}

#[test]
fn lists_are_sorted_and_bounded() {
    let mut list = Vec::new();
    for id in [5, 3, 9, 3] {
        put(&mut list, id, id * 10, 2);
    }
    assert_eq!(list, [(3, 30), (5, 50)]);
    assert_eq!((get(&list, 3), get(&list, 9)), (Some(&30), None));
}

#[test]
fn an_update_of_a_guild_changes_its_roles_and_leaves_its_channels() {
    let rights = rights(&told());
    assert!(may(&rights, "42"));
    let silent =
        json!({"id": GUILD.to_string(), "owner_id": "9", "roles": [{"id": GUILD.to_string(), "permissions": "0"}]});
    rights.learn(wire::guild_update(&silent.to_string(), UserId::new(ME)).unwrap());
    assert!(!may(&rights, "42"));
    let given = json!({"id": GUILD.to_string(), "owner_id": ME.to_string(), "roles": []});
    rights.learn(wire::guild_update(&given.to_string(), UserId::new(ME)).unwrap());
    assert!(may(&rights, "42"), "the bot owns it now");
}
