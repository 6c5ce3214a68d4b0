use proptest::prelude::*;

use super::{files::File, ids::Snowflakes, mentions::Mentions, seed::Seed, state::*, *};

const NOW: u64 = 1_700_000_000_000;

fn general(state: &State) -> ChannelId {
    state.guilds()[0].channels[0].id
}

proptest! {
    #[test]
    fn ids_grow_for_any_times_of_the_clock(times in prop::collection::vec(0..2 * NOW, 1..100)) {
        let mut snowflakes = Snowflakes::default();
        let ids: Vec<u64> = times.into_iter().map(|now| snowflakes.next(now)).collect();
        prop_assert!(ids.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn no_text_breaks_the_search_for_mentions(text in "[<@&!>0-9é]{0,40}") {
        let named = Mentions::of(&text, &Allowed::default(), None).users;
        prop_assert!(named.iter().all(|user| text.contains(&user.0.to_string())));
    }
}

#[test]
fn an_id_tells_when_it_was_made() {
    assert_eq!(MessageId(Snowflakes::default().next(NOW)).made_at(), NOW);
}

#[test]
fn a_channel_forgets_its_oldest_messages() {
    let mut state = State::new(Seed::harbour());
    let (channel, author) = (general(&state), state.bot().id);
    for n in 0..=MESSAGES_PER_CHANNEL {
        let draft = MessageInput { content: n.to_string(), ..MessageInput::default() };
        state.post(channel, author, draft, NOW).unwrap();
    }
    let kept: Vec<&str> = state.messages(channel).map(|message| &*message.content).collect();
    assert_eq!((kept.len(), kept[0]), (MESSAGES_PER_CHANNEL, "1"));
}

#[test]
fn a_nonce_stands_for_its_message_for_some_minutes_and_for_its_author_only() {
    let mut state = State::new(Seed::harbour());
    let (channel, author) = (general(&state), state.bot().id);
    let draft = MessageInput { nonce: Some("n".to_owned()), ..MessageInput::default() };
    let id = state.post(channel, author, draft, NOW).unwrap().id;
    let found = |author, now| state.by_nonce(channel, author, "n", now).map(|message| message.id);
    assert_eq!(found(author, NOW + NONCE_LIFETIME_MS - 1), Some(id));
    assert_eq!(found(author, NOW + NONCE_LIFETIME_MS), None);
    assert_eq!(found(UserId(1), NOW), None);
}

#[test]
fn what_is_kept_is_there_again_and_new_ids_are_above_it() {
    let mut state = State::new(Seed::harbour());
    let (channel, bot) = (general(&state), state.bot().id);
    let (guild, ada) = (state.guilds()[0].id, state.guilds()[0].members[0].id);
    let file = |name: &str, length| File {
        name: name.to_owned(),
        kind: "image/png".to_owned(),
        bytes: vec![7; length].into(),
        description: None,
    };
    for n in 0..kept::MESSAGES + 3 {
        let draft = MessageInput { content: n.to_string(), ..MessageInput::default() };
        state.post(channel, ada, draft, NOW).unwrap();
    }
    let files = vec![file("small.png", 9), file("large.png", 600 * 1024)];
    let asked = state.messages(channel).next_back().unwrap().id;
    let answer =
        MessageInput { content: "an answer".to_owned(), reply_to: Some(asked), files, ..MessageInput::default() };
    let answer = state.post(channel, bot, answer, NOW).unwrap();
    let thread = state.open_thread(channel, Some(asked), ada, "a thread", NOW).unwrap();
    state.set_role(guild, ada, state.guilds()[0].roles[1].id, true);
    let text = serde_json::to_string(&state.kept()).unwrap();
    let mut again = State::new(Seed::harbour());
    again.restore(serde_json::from_str(&text).unwrap());

    let messages: Vec<&Message> = again.messages(channel).collect();
    assert_eq!((messages.len(), &*messages[0].content), (kept::MESSAGES, "4"), "the newest are kept");
    assert_eq!(messages.last().copied(), state.message(channel, answer.id));
    assert_eq!(again.channel(thread.id), Some(&thread));
    assert_eq!(again.member(Some(guild), ada), state.member(Some(guild), ada));
    assert!(again.file(answer.attachments[0].id).is_some() && again.file(answer.attachments[1].id).is_none());
    assert!(again.snowflake(NOW) > answer.attachments[1].id.0, "the clock may have gone back");
    assert_eq!(again.doubled(), 0);
    let twice = MessageInput { reply_to: Some(asked), ..MessageInput::default() };
    again.post(channel, bot, twice, NOW).unwrap();
    assert_eq!(again.doubled(), 1);
}

#[test]
fn the_place_of_a_picture_is_known_before_its_bytes_are_there() {
    let mut state = State::new(Seed::harbour());
    let mut pixels = |bytes: &'static [u8]| {
        let file =
            File { name: "a.gif".to_owned(), kind: "image/gif".to_owned(), bytes: bytes.into(), description: None };
        state.attach(file, NOW).pixels
    };
    assert_eq!(pixels(b"GIF89a\x14\x00\x0a\x00\x00\x00\x00"), Some((20, 10)));
    assert_eq!(pixels(b"words"), None);
}
