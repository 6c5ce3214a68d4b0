use serde_json::{Value, json};

use super::deleted::BULK_MAX;
use super::*;

const ME: u64 = 1;

fn read(message: &Value) -> Posted {
    posted(&message.to_string(), UserId::new(ME), None).unwrap()
}

fn plain() -> Value {
    json!({
        "id": "1300000000000000001", "channel_id": "500", "guild_id": "400", "type": 0, "content": "hi <@1>",
        "timestamp": "2026-11-20T18:38:00.123000+00:00", "edited_timestamp": null, "tts": false,
        "mention_everyone": false, "mention_roles": [], "attachments": [], "embeds": [], "pinned": false,
        "mentions": [{"id": "1", "username": "staffai", "discriminator": "0", "avatar": null, "global_name": null}],
        "author": {"id": "7", "username": "ann", "global_name": "Ann", "discriminator": "0", "avatar": null},
        "member": {"nick": "Annie", "roles": ["11", "12"], "joined_at": "2020-01-01T00:00:00+00:00", "deaf": false,
                   "mute": false},
    })
}

#[allow(clippy::needless_pass_by_value, reason = "this keeps the callers short")]
fn with(changes: Value) -> Value {
    let mut message = plain();
    for (key, value) in changes.as_object().unwrap() {
        message[key] = value.clone();
    }
    message
}

#[test]
fn a_usual_message_is_told_whole() {
    let expected = Posted {
        id: MessageId::new(DOOR, "1300000000000000001"),
        place: Place::new(DOOR, "500"),
        parent: None,
        guild: Some("400".to_owned()),
        author: Author {
            joined: Some(Timestamp(1_577_836_800_000)),
            person: Person::new(DOOR, "7"),
            name: "Annie".to_owned(),
            roles: vec!["11".to_owned(), "12".to_owned()],
            kind: AuthorKind::Member,
        },
        text: "hi <@1>".to_owned(),
        mentions_us: true,
        reply_to: None,
        attachments: Vec::new(),
        locale: None,
        may_answer: true,
        at: Timestamp(1_795_199_880_123),
        draw: None,
        tools: true,
        given: None,
        models: WantedModels::default(),
        lineage: None,
    };
    assert_eq!(read(&plain()), expected);
}

/// Serenity parses the same payload with its full type: shared fields must agree.
#[test]
fn the_lean_reading_agrees_with_the_full_type() {
    let message = with(json!({
        "type": 19, "message_reference": {"message_id": "8", "channel_id": "500", "guild_id": "400"},
        "referenced_message": {
            "message_reference": {"message_id": "6", "channel_id": "500"},
            "id": "8", "channel_id": "500", "content": "old", "timestamp": "2026-11-20T18:00:00+00:00",
            "edited_timestamp": null, "tts": false, "mention_everyone": false, "mention_roles": [], "attachments": [],
            "embeds": [], "pinned": false, "mentions": [], "type": 0,
            "author": {"id": "1", "username": "staffai", "discriminator": "0", "avatar": null, "bot": true},
        },
    }));
    let full: serenity::model::channel::Message = serde_json::from_value(message.clone()).unwrap();
    let lean = read(&message);
    assert_eq!(lean.id, message_id(full.id));
    assert_eq!(lean.place, place(full.channel_id));
    assert_eq!(lean.guild, full.guild_id.map(|id| id.to_string()));
    assert_eq!(lean.text, full.content);
    assert_eq!(lean.at, milliseconds(full.timestamp));
    assert_eq!(Some(&lean.author.name), full.member.as_ref().unwrap().nick.as_ref());
    let quoted = lean.reply_to.unwrap();
    let old = full.referenced_message.unwrap();
    assert_eq!(quoted.id, message_id(old.id));
    let answers = old.message_reference.unwrap().message_id.map(message_id);
    let (author, name) = (person(old.author.id), old.author.name);
    let expected = Seen { author, name, ours: true, text: old.content, answers, attachments: Vec::new() };
    assert_eq!(quoted.seen, Some(expected));
}

#[test]
fn files_are_told_as_they_are_claimed_and_odd_ones_are_left_out() {
    let file = json!({"id": "9", "filename": "cat.png", "content_type": "image/png", "size": 70, "width": 2, "height": 3,
        "url": "https://cdn.discordapp.com/attachments/1/2/cat.png?ex=1", "proxy_url": "https://media.discordapp.net/x"});
    let bare =
        json!({"id": "9", "filename": "notes", "size": 5, "url": "https://cdn.discordapp.com/attachments/1/2/n"});
    let endless = json!({"id": "9", "filename": "n".repeat(9_000), "size": 5, "url": "https://x"});
    let odd = [json!(7), json!({"id": "9"}), json!({"filename": "x", "size": -1, "url": "y"}), endless];
    let listed: Vec<Value> = [file.clone(), bare].into_iter().chain(odd).collect();
    let told = read(&with(json!({"attachments": listed}))).attachments;
    let cat = Attachment {
        name: "cat.png".to_owned(),
        mime: Some("image/png".to_owned()),
        size: 70,
        url: "https://cdn.discordapp.com/attachments/1/2/cat.png?ex=1".to_owned(),
        width: Some(2),
        height: Some(3),
    };
    assert_eq!((told.len(), &told[0], told[1].mime.as_deref()), (2, &cat, None));
    assert_eq!(read(&with(json!({"attachments": vec![file.clone(); 30]}))).attachments.len(), MAX_ATTACHMENTS);
    assert_eq!(read(&with(json!({"attachments": "none"}))).attachments, []);
    let reply = with(json!({"type": 19, "message_reference": {"message_id": "8"}, "referenced_message":
        {"id": "8", "author": {"id": "5", "username": "bob"}, "attachments": [file]}}));
    assert_eq!(read(&reply).reply_to.unwrap().seen.unwrap().attachments, [cat]);
}

#[test]
fn names_fall_back_from_nick_to_username() {
    let name = |changes| read(&with(changes)).author.name;
    assert_eq!(name(json!({"member": {"nick": null, "roles": []}})), "Ann");
    assert_eq!(name(json!({"member": null})), "Ann");
    assert_eq!(name(json!({"member": null, "author": {"id": "7", "username": "ann", "global_name": null}})), "ann");
}

#[test]
fn authors_are_told_apart() {
    let kind = |changes| read(&with(changes)).author.kind;
    let bot = json!({"id": "9", "username": "other", "bot": true});
    assert_eq!(kind(json!({"author": bot})), AuthorKind::Bot);
    assert_eq!(kind(json!({"author": bot, "webhook_id": "9"})), AuthorKind::Webhook);
    assert_eq!(kind(json!({"webhook_id": null})), AuthorKind::Member);
    assert_eq!(kind(json!({"author": {"id": "1", "username": "us", "bot": true}, "type": 6})), AuthorKind::Ourselves);
    assert_eq!(kind(json!({"author": {"id": "3", "username": "discord", "system": true}})), AuthorKind::System);
    for system in [1, 6, 7, 8, 18, 21, 24, 46, 200] {
        assert_eq!(kind(json!({"type": system})), AuthorKind::System, "{system}");
    }
    for written in [0, 19, 20, 23] {
        assert_eq!(kind(json!({"type": written})), AuthorKind::Member, "{written}");
    }
}

#[test]
fn only_the_list_of_mentions_counts() {
    let mentions = |changes| read(&with(changes)).mentions_us;
    assert!(!mentions(json!({"mentions": [], "content": "<@1> @everyone", "mention_everyone": true})));
    assert!(!mentions(json!({"mentions": [{"id": "2"}], "mention_roles": ["1"]})));
    assert!(mentions(json!({"mentions": [{"odd": true}, {"id": "1"}]})));
}

#[test]
fn replies_are_told_and_other_references_are_not() {
    let reply = |changes| read(&with(changes)).reply_to;
    let reference = json!({"message_id": "8", "channel_id": "500"});
    let unseen = Some(Quoted { id: MessageId::new(DOOR, "8"), seen: None });
    assert_eq!(reply(json!({"type": 19, "message_reference": reference})), unseen);
    assert_eq!(reply(json!({"type": 19, "message_reference": reference, "referenced_message": null})), unseen);
    assert_eq!(reply(json!({"type": 19, "message_reference": reference, "referenced_message": {"odd": 1}})), unseen);
    assert_eq!(reply(json!({"type": 6, "message_reference": reference})), None);
    assert_eq!(reply(json!({"message_reference": {"type": 1, "message_id": "8", "channel_id": "500"}})), None);
    assert_eq!(reply(json!({"message_reference": {"channel_id": "500"}})), None);
    let source = json!({"message_id": "8", "channel_id": "777", "guild_id": "9"});
    assert_eq!(
        reply(json!({"type": 0, "flags": 2, "webhook_id": "3", "message_reference": source})),
        None,
        "a crosspost"
    );
}

#[test]
fn odd_parts_do_not_hide_a_message() {
    let odd = with(json!({
        "embeds": [{"type": 99, "fields": 7}], "components": "what", "member": 5, "attachments": {"x": []},
        "timestamp": "yesterday", "sticker_items": 1, "poll": [], "nonce": {"a": 1}, "flags": "many",
    }));
    let message = read(&odd);
    assert!(message.mentions_us);
    assert_eq!(message.author.name, "Ann");
    // The id also contains the time.
    assert_eq!(message.at, Timestamp((1_300_000_000_000_000_001 >> 22) + 1_420_070_400_000));
}

#[test]
fn what_is_no_message_is_an_error_that_names_the_field() {
    let mut message = plain();
    message.as_object_mut().unwrap().remove("author");
    let error = posted(&message.to_string(), UserId::new(ME), None).unwrap_err();
    assert!(error.to_string().contains("author"), "{error}");
    for wrong in [json!({"id": "0"}), json!({"channel_id": {}}), json!({"author": "ann"}), json!({"id": "x"})] {
        assert!(posted(&with(wrong.clone()).to_string(), UserId::new(ME), None).is_err(), "{wrong}");
    }
    for text in ["", "null", "[]", "{", &"[".repeat(10_000)] {
        assert!(posted(text, UserId::new(ME), None).is_err());
    }
}

#[test]
fn deep_nesting_neither_overflows_nor_hides_a_message() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = plain().to_string().replacen("\"embeds\":[]", &format!("\"embeds\":{deep}"), 1);
    assert!(posted(&text, UserId::new(ME), None).unwrap().mentions_us);
    let text = plain().to_string().replacen("\"mentions\":[", &format!("\"mentions\":[{deep},"), 1);
    assert!(posted(&text, UserId::new(ME), None).unwrap().mentions_us);
}

#[test]
fn the_guild_of_a_read_message_is_what_the_caller_knows() {
    let mut message = plain();
    message.as_object_mut().unwrap().remove("guild_id");
    let told = posted(&message.to_string(), UserId::new(ME), Some("400")).unwrap();
    assert_eq!(told.guild.as_deref(), Some("400"));
    assert_eq!(read(&message).guild, None);
}

#[test]
fn deletions_name_their_messages() {
    let one = deleted(r#"{"id":"8","channel_id":"5","guild_id":"4"}"#).unwrap();
    assert_eq!(one, Deleted { guild: Some("4".to_owned()), messages: vec![MessageId::new(DOOR, "8")] });
    let bulk = deleted_bulk(r#"{"ids":["8","9"],"channel_id":"5"}"#).unwrap();
    assert_eq!(bulk.messages, [MessageId::new(DOOR, "8"), MessageId::new(DOOR, "9")]);
    assert!(deleted("{}").is_err());
    assert!(deleted_bulk(r#"{"ids":7}"#).is_err());
}

#[test]
fn a_guild_tells_its_places_and_skips_odd_ones() {
    let guild = json!({
        "id": "4", "name": "here", "roles": "whatever", "preferred_locale": "de",
        "channels": [
            {"id": "10", "type": 0, "last_message_id": "100"}, {"id": "11", "type": 4}, {"id": "12", "type": 5},
            {"type": 0}, 7, {"id": "13", "type": 15}, {"id": "14", "type": 2, "last_message_id": null},
        ],
        "threads": [{"id": "20", "type": 11, "last_message_id": "4194304000", "parent_id": "10"}],
    });
    let GuildPlaces { guild: id, locale, newest, threads } = places(&guild.to_string()).unwrap().unwrap();
    assert_eq!(threads, [(Place::new(DOOR, "20"), Place::new(DOOR, "10"))]);
    assert_eq!(locale.as_deref(), Some("de"));
    let newest: Vec<_> = newest.into_iter().map(|(place, at)| (place.id.to_string(), at)).collect();
    let epoch = Timestamp(1_420_070_400_000);
    let expected = [("10", epoch), ("12", epoch), ("14", epoch), ("20", Timestamp(epoch.0 + 1_000))];
    let expected: Vec<_> = expected.into_iter().map(|(id, at)| (id.to_owned(), at)).collect();
    assert_eq!((id.as_str(), newest), ("4", expected));
    assert_eq!(places(r#"{"id":"4","unavailable":true}"#).unwrap(), None);
    assert_eq!(
        places(r#"{"id":"4","preferred_locale":7}"#).unwrap(),
        Some(GuildPlaces { guild: "4".to_owned(), locale: None, newest: Vec::new(), threads: Vec::new() })
    );
    assert!(places("{}").is_err());
}

#[test]
fn a_place_that_began_lately_may_have_messages_of_which_its_hint_says_nothing() {
    let second = |seconds: u64| (seconds * 1_000) << 22;
    let guild = json!({
        "id": "4",
        "channels": [{"id": second(50).to_string(), "type": 0, "last_message_id": null}],
        "threads": [
            {"id": second(10).to_string(), "type": 11, "parent_id": "10", "last_message_id": second(20).to_string(),
             "thread_metadata": {"create_timestamp": "2015-01-01T00:01:00+00:00"}},
            {"id": second(30).to_string(), "type": 11, "parent_id": "10", "last_message_id": second(70).to_string(),
             "thread_metadata": {"create_timestamp": null}},
            {"id": second(40).to_string(), "type": 12, "parent_id": "10", "thread_metadata": {"create_timestamp": "soon"}},
        ],
    });
    let newest = places(&guild.to_string()).unwrap().unwrap().newest;
    let seconds: Vec<u64> = newest.iter().map(|(_, at)| (at.0 - 1_420_070_400_000) / 1_000).collect();
    assert_eq!(seconds, [50, 60, 70, 40]);
}

#[test]
fn a_page_of_messages_costs_in_proportion_to_its_length() {
    let page = |size: usize| {
        let one = with(
            json!({"embeds": [{"title": "x"}], "referenced_message": plain(), "message_reference": {"message_id": "1300000000000000001"}}),
        );
        vec![one.to_string(); size]
    };
    cost::grows_linearly(8, page, |page| {
        for message in &page {
            drop(posted(message, UserId::new(ME), None));
        }
    });
}

#[test]
fn a_bulk_deletion_is_bounded() {
    let ids: Vec<String> = (1..=2 * BULK_MAX).map(|id| id.to_string()).collect();
    assert_eq!(deleted_bulk(&json!({"ids": ids, "channel_id": "5"}).to_string()).unwrap().messages.len(), BULK_MAX);
}
