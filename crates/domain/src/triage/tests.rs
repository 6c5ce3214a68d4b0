use super::*;
use crate::ids::{Door, MessageId, Place, Timestamp};
use crate::incoming::{Author, Quoted, Seen, WantedModels};
use crate::people::Linked;
use crate::turn::{GatePolicy, HistoryScope};

const DOOR: Door = Door::new("discord");

fn us() -> Person {
    Person::new(DOOR, "1")
}

fn rules() -> TriageRules {
    TriageRules {
        aliases: vec!["Staffai".into(), "hey bot".into(), "Ünal".into()],
        ignored_roles: HashSet::from(["66".to_owned()]),
        allowed_bots: HashSet::from(["77".to_owned()]),
        direct_messages: false,
        communities: HashSet::new(),
        operators: HashSet::new(),
        super_roles: HashSet::from(["99".to_owned()]),
        restriction: Some(restriction::RestrictionRules {
            role: "12".to_owned(),
            channel: Some("40".to_owned()),
            by_record: false,
        }),
        policy: Policy { gates: GatePolicy::Ask, ..Policy::default() },
    }
}

fn posted(text: &str) -> Posted {
    Posted {
        id: MessageId::new(DOOR, "900"),
        place: Place::new(DOOR, "5"),
        parent: Some(Place::new(DOOR, "4")),
        guild: Some("3".into()),
        author: Author {
            joined: None,
            person: Person::new(DOOR, "42"),
            name: "Ada".into(),
            roles: vec!["60".into()],
            kind: AuthorKind::Member,
        },
        text: text.into(),
        mentions_us: text.contains("<@1>") || text.contains("<@!1>"),
        reply_to: None,
        attachments: Vec::new(),
        locale: Some("de".into()),
        may_answer: true,
        at: Timestamp(1_700_000_000_000),
        draw: None,
        tools: true,
        given: None,
        models: WantedModels::default(),
        lineage: None,
    }
}

fn quoted(ours: bool) -> Quoted {
    Quoted {
        id: MessageId::new(DOOR, "800"),
        seen: Some(Seen {
            author: Person::new(DOOR, if ours { "1" } else { "43" }),
            name: "Bob".into(),
            ours,
            text: "the sky is green".into(),
            attachments: Vec::new(),
            answers: None,
        }),
    }
}

fn ignored(posted: &Posted) -> Option<&'static str> {
    match triage(posted, &rules(), &us()) {
        TriageDecision::Ignore(reason) => Some(reason.as_str()),
        TriageDecision::Turn(_)
        | TriageDecision::Hint(_)
        | TriageDecision::Restricted(_)
        | TriageDecision::NotServed(_)
        | TriageDecision::RestrictedElsewhere(_)
        | TriageDecision::Interjection(..) => None,
    }
}

fn turn(posted: &Posted, rules: &TriageRules) -> Turn {
    match triage(posted, rules, &us()) {
        TriageDecision::Turn(turn) => turn,
        other => panic!("expected a turn, got {other:?}"),
    }
}

#[test]
fn a_mention_becomes_a_whole_turn() {
    let message = posted("<@1> how  are <@42> and you?");
    assert_eq!(
        turn(&message, &rules()),
        Turn {
            id: TurnId::new(DOOR, "900"),
            place: Place::new(DOOR, "5"),
            parent: Some(Place::new(DOOR, "4")),
            guild: Some("3".into()),
            person: Person::new(DOOR, "42"),
            linked: Linked::default(),
            name: "Ada".into(),
            roles: message.author.roles.clone(),
            trigger: Trigger::Mention,
            text: "how are <@42> and you?".into(),
            quoted: None,
            attachments: Vec::new(),
            locale: Some("de".into()),
            at: Timestamp(1_700_000_000_000),
            policy: rules().policy,
            given: None,
        }
    );
}

#[test]
fn authors_that_are_never_answered() {
    for (kind, label) in [
        (AuthorKind::Ourselves, "own"),
        (AuthorKind::Bot, "bot"),
        (AuthorKind::Webhook, "webhook"),
        (AuthorKind::System, "system"),
    ] {
        let mut message = posted("<@1> hello");
        message.author.kind = kind;
        assert_eq!(ignored(&message), Some(label));
    }
    let mut message = posted("<@1> hello");
    message.author.person = us();
    assert_eq!(ignored(&message), Some("own"), "our id counts whatever the door thinks");
    let mut message = posted("<@1> hello");
    message.author.roles.push("66".into());
    assert_eq!(ignored(&message), Some("ignored_role"));
    assert_eq!(ignored(&posted("hello everybody")), Some("not_addressed"));
}

#[test]
fn listed_bots_are_heard_but_system_messages_are_not() {
    for kind in [AuthorKind::Bot, AuthorKind::Webhook] {
        let mut message = posted("<@1> hello");
        message.author.kind = kind;
        message.author.person = Person::new(DOOR, "77");
        assert_eq!(turn(&message, &rules()).trigger, Trigger::Mention);
        message.author.roles.push("66".into());
        assert_eq!(ignored(&message), Some("ignored_role"));
    }
    let mut message = posted("<@1> hello");
    message.author.kind = AuthorKind::System;
    message.author.person = Person::new(DOOR, "77");
    assert_eq!(ignored(&message), Some("system"));
}

#[test]
fn direct_messages_follow_the_rule() {
    let mut message = posted("hello");
    message.guild = None;
    assert_eq!(ignored(&message), Some("direct_message"));
    let open = TriageRules { direct_messages: true, ..rules() };
    assert_eq!(turn(&message, &open).trigger, Trigger::Direct);
    message.reply_to = Some(quoted(true));
    assert_eq!(turn(&message, &open).trigger, Trigger::Reply);
}

#[test]
fn the_first_match_names_the_trigger() {
    let mut message = posted("<@1> staffai, why?");
    assert_eq!(turn(&message, &rules()).trigger, Trigger::Mention);
    message.reply_to = Some(quoted(true));
    assert_eq!(turn(&message, &rules()).trigger, Trigger::Reply);
    message.reply_to = Some(quoted(false));
    assert_eq!(turn(&message, &rules()).trigger, Trigger::Mention);
    message.mentions_us = false;
    assert_eq!(turn(&message, &rules()).trigger, Trigger::Alias);
    message.text = "why?".into();
    assert_eq!(ignored(&message), Some("not_addressed"), "a reply to somebody else is not for us");
    message.reply_to = Some(Quoted { seen: None, ..quoted(true) });
    assert_eq!(ignored(&message), Some("not_addressed"), "nor is a reply to what nobody can see");
}

#[test]
fn aliases_are_whole_words_in_any_case() {
    for text in ["so STAFFAI?", "ok, staffai: go", "well Hey  Bot do it", "ünal, hi", "(staffai) hi", "hi ÜNAL!"] {
        assert_eq!(turn(&posted(text), &rules()).trigger, Trigger::Alias, "{text}");
    }
    for text in ["staffaix", "my_staffai", "heybot", "https://staffai.example/ down", "<:staffai:12> hi", "günalp"] {
        assert_eq!(ignored(&posted(text)), Some("not_addressed"), "{text}");
    }
}

#[test]
fn a_bare_address_is_hinted_and_a_bare_reply_is_a_question() {
    for text in ["<@1>", " <@!1>  <@1>\n", "Staffai!", "staffai?"] {
        assert!(matches!(triage(&posted(text), &rules(), &us()), TriageDecision::Hint(_)), "{text:?}");
    }
    for text in ["<@1> ?", "<@1> 😀", "<@1> <@42>"] {
        assert!(matches!(triage(&posted(text), &rules(), &us()), TriageDecision::Turn(_)), "{text:?}");
    }
    let mut message = posted("<@1>");
    message.reply_to = Some(quoted(false));
    let asked = turn(&message, &rules());
    assert_eq!((asked.text.as_str(), asked.quoted), ("", Some(quoted(false))));
}

#[test]
fn folding_keeps_lines_indentation_and_code() {
    let check = |text: &str, expected: &str| assert_eq!(fold(text, "1"), expected, "{text:?}");
    check("a \t b  \n\n\n\n  - c\nd", "a b\n\n  - c\nd");
    check(
        "fix <@1>this:\n```rs\nlet  x =  1;\n\n\n// <@1>\n``` ok<@!1> ?",
        "fix this:\n```rs\nlet  x =  1;\n\n\n// <@1>\n``` ok ?",
    );
    check("see ```no  end <@1> here", "see ```no end here");
    check("<@1><@12>", "<@12>");
    check("", "");
}

const DRAW: Draw = Draw { consider: 0.01, deliver: 0.2 };

fn drawn(text: &str) -> Posted {
    Posted { draw: Some(DRAW), ..posted(text) }
}

#[test]
fn chance_alone_makes_a_plain_message_of_what_nobody_asked_for() {
    let TriageDecision::Interjection(turn, draw) = triage(&drawn("the ferry is late"), &rules(), &us()) else {
        panic!("not considered")
    };
    assert_eq!((draw, turn.trigger), (DRAW, Trigger::Interjection));
    assert_eq!((turn.policy.history, turn.quoted.is_none()), (HistoryScope::Nothing, true));
    assert_eq!(turn.reply_with("indeed").reply_to, None);
    assert_eq!(turn.lane(), crate::turn::Lane::Unasked);
}

#[test]
fn nobody_is_interjected_upon_who_is_not_a_person_among_others() {
    let mut bot = drawn("beep");
    bot.author.kind = AuthorKind::Bot;
    let mut listed = TriageRules { direct_messages: true, ..rules() };
    listed.allowed_bots.insert("42".into());
    assert_eq!(triage(&bot, &listed, &us()), TriageDecision::Ignore(Reason::NotAddressed), "not even a listed bot");
    assert_eq!(ignored(&bot), Some("bot"));
    assert_eq!(ignored(&Posted { guild: None, ..drawn("psst") }), Some("direct_message"));
    assert_eq!(ignored(&drawn(" \n")), Some("not_addressed"), "a picture without words");
    assert_eq!(ignored(&posted("the ferry is late")), Some("not_addressed"), "nobody drew");
    let mut rude = drawn("hello");
    rude.author.roles = rules().ignored_roles.into_iter().collect();
    assert_eq!(ignored(&rude), Some("ignored_role"));
}

#[test]
fn whoever_addresses_us_needs_no_luck() {
    assert_eq!(turn(&drawn("<@1> hello"), &rules()).trigger, Trigger::Mention);
    assert!(matches!(triage(&drawn("<@1>"), &rules(), &us()), TriageDecision::Hint(_)));
}

#[test]
fn a_restricted_member_is_answered_in_one_channel_and_its_threads_only() {
    let mut message = posted("<@1> hello?");
    let verdict = |message: &Posted| match triage(message, &rules(), &us()) {
        TriageDecision::Turn(_) => "answered",
        TriageDecision::Hint(_) => "hinted",
        TriageDecision::Restricted(_) | TriageDecision::RestrictedElsewhere(_) => "restricted",
        TriageDecision::NotServed(_) => "not served",
        TriageDecision::Interjection(..) => "interjection",
        TriageDecision::Ignore(reason) => reason.as_str(),
    };
    assert_eq!(verdict(&message), "answered");
    message.author.roles.push("12".into());
    assert_eq!(verdict(&message), "restricted");
    assert_eq!(verdict(&Posted { text: "<@1>".into(), ..message.clone() }), "restricted");
    assert_eq!(verdict(&Posted { mentions_us: false, ..message.clone() }), "not_addressed");
    assert_eq!(verdict(&Posted { parent: Some(Place::new(DOOR, "40")), ..message.clone() }), "answered");
    assert_eq!(verdict(&Posted { place: Place::new(DOOR, "40"), parent: None, ..message.clone() }), "answered");
    let unasked = Posted { mentions_us: false, place: Place::new(DOOR, "40"), draw: Some(DRAW), ..message.clone() };
    assert_eq!(verdict(&unasked), "restricted", "nobody joins in with them, also where they are answered");
    message.author.roles.push("99".into());
    assert_eq!(verdict(&message), "answered", "nobody restricts who is exempt");
}

#[test]
fn where_we_may_not_answer_nobody_is_answered() {
    let message = Posted { may_answer: false, ..posted("<@1> hello?") };
    assert_eq!(ignored(&message), Some("no_permission"));
    assert_eq!(ignored(&Posted { mentions_us: false, ..message }), Some("not_addressed"));
}

#[test]
fn where_we_do_not_serve_members_are_told_so_and_nobody_is_joined() {
    let listed = TriageRules { communities: HashSet::from(["6".to_owned()]), ..rules() };
    assert!(matches!(triage(&posted("<@1> hello?"), &listed, &us()), TriageDecision::NotServed(_)));
    assert_eq!(triage(&drawn("hello"), &listed, &us()), TriageDecision::Ignore(Reason::NotServed));
    assert!(listed.serves(None), "direct conversations");
}

#[test]
fn a_breach_restricts_members_of_a_community_with_roles_alone() {
    let asked = turn(&posted("<@1> hello?"), &rules());
    assert!(rules().restricts(&asked));
    assert!(!rules().restricts(&Turn { guild: None, ..asked.clone() }), "a direct conversation");
    for role in ["12", "99"] {
        assert!(!rules().restricts(&Turn { roles: vec![role.to_owned()], ..asked.clone() }), "{role}");
    }
    assert!(!TriageRules { restriction: None, ..rules() }.restricts(&asked), "a door without roles");
}
