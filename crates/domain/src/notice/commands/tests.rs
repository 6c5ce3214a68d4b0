use super::*;
use crate::arguments_hash::ArgumentsHash;
use crate::arm_figures::ArmFigures;
use crate::command::Caller;
use crate::daily::{DayUse, ToolUse};
use crate::experiment::Trial;
use crate::fact::Fact;
use crate::gate::allowance::Allowance;
use crate::gate::{Clicker, Gate, GateId, Subject};
use crate::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use crate::kept::StoredSummary;
use crate::ledger::{self, Sums};
use crate::limits::account::Scope;
use crate::limits::{AccountStanding, Cost, Standing};
use crate::summary::Summary;
use crate::tool::server::ServerStatus;
use crate::tool::server::ToolServer;

const EN: Locale = Locale::English;

/// One item of each kind of data.
const ONE_OF_EACH: Wiped = Wiped {
    conversations: 1,
    summaries: 1,
    answers: 1,
    quotes: 1,
    facts: 1,
    audit: 1,
    recorded: 1,
    preferences: true,
    usage: true,
    in_flight: 1,
    messages: 1,
};

#[test]
fn durations_and_numbers_are_short() {
    assert_eq!(span(Duration::from_secs(0)), "0 s");
    assert_eq!(span(Duration::from_secs(61)), "1 min 1 s");
    assert_eq!(span(Duration::from_secs(86_400 + 60)), "1 d");
    assert_eq!(span(Duration::from_secs(7_325)), "2 h 2 min");
    let written = |locale| number(1_234_567, words(locale));
    assert_eq!(Locale::ALL.map(written), ["1,234,567", "1\u{202f}234\u{202f}567", "1.234.567"]);
}

#[test]
fn forgetting_names_what_went_and_what_stays() {
    let wiped =
        Wiped { conversations: 2, messages: 8, answers: 1, preferences: true, in_flight: 1, ..Wiped::default() };
    insta::assert_snapshot!(forgotten(&wiped, Erasure::Done, EN), @r"
    **Forgotten**
    - 2 conversations with 8 messages
    - 1 question with its answer (kept for replies)
    - your settings

    1 question from before this will still be answered, but not remembered.

    **Kept, and why**
    - your limits and any restriction, with their times: `/forget` does not end them
    - for an hour, the ids of messages that I answered, so that I answer none twice
    - the messages in the channels: they stay there, and you can delete yours
    ");
    assert!(forgotten(&Wiped::default(), Erasure::Done, EN).starts_with("I kept nothing"));
    assert!(forgotten(&ONE_OF_EACH, Erasure::Unsure, EN).contains("I cannot reach my storage"));
    assert!(forgotten(&ONE_OF_EACH, Erasure::GoesOn, EN).contains("it goes on by itself"));
}

#[test]
fn operators_read_what_all_members_and_tools_took_today() {
    let person = Person::new(Door::new("discord"), "7");
    let tally = Tally { tokens: 1_200, messages: 3, ..Tally::default() };
    let ledger = ledger::Overview { total: tally, members: vec![(person, tally); 7], ..ledger::Overview::default() };
    let used = |tool: &str, calls, failed| ToolUse { tool: tool.to_owned(), calls, failed, ..ToolUse::default() };
    let tools = vec![used("roll_dice", 12, 0), used("get_time", 1, 1)];
    let day = DayUse::new(ledger::date(Timestamp(0)), ledger, tools);
    let text = usage_of_all(&day, EN);
    let ends = "\nTools today\n- `roll_dice`: 12 calls\n- `get_time`: 1 call, 1 failed";
    assert!(text.starts_with("All members today: 1,200 tokens for 3 messages\n- <@7>: 1,200 tokens"), "{text}");
    assert!(text.ends_with(ends) && text.matches("<@7>").count() == 5, "{text}");
}

#[test]
fn operators_read_the_figures_of_each_arm() {
    let trial = |arm: &str| Trial { experiment: "cheaper".to_owned(), arm: arm.to_owned() };
    let mut arm = ArmFigures {
        answers: 1_200,
        apologies: 1,
        repaired: 3,
        tokens_in: 5_000,
        micros: 1_500,
        up: 2,
        ..ArmFigures::default()
    };
    for millis in 1..=100 {
        arm.took.record(Duration::from_millis(millis * 20));
    }
    let text = experiments(&[(trial("main"), arm), (trial("mini"), ArmFigures::default())], EN);
    insta::assert_snapshot!(text.unwrap(), @r"
    Experiments
    - `cheaper` main: 1200 answers, 1 apology, 3 repaired, half within 0.9 s, 95 % within 1.8 s, 5,000 tokens, $0.0015, 👍 2
    - `cheaper` mini: 0 answers, 0 tokens
    ");
    assert_eq!(experiments(&[], EN), None);
}

#[test]
fn a_choice_whose_row_is_gone_is_said() {
    assert_eq!(
        models(&[("fast", None)], "fast", None, EN),
        "You are answered by the default model, `fast`. There is no other model to choose."
    );
    insta::assert_snapshot!(models(&[("fast", None), ("deep", None)], "fast", Some("gone"), EN), @r"
    You chose `gone`, which no longer exists. You are answered by the default model, `fast`. You can choose with `/model row:`
    - `fast` (default)
    - `deep`
    ");
    let described = models(&[("fast", None), ("deep", Some("slow and thorough"))], "fast", None, EN);
    assert!(described.ends_with("- `fast` (default)\n- `deep`: slow and thorough"), "{described}");
    assert!(models(&[("fast", None), ("deep", None)], "fast", Some("deep"), EN).starts_with("You chose `deep`."));
}

#[test]
fn usage_shows_windows_and_sums() {
    let account = AccountStanding {
        scope: Scope::Channel,
        cost: Cost::Dollars,
        used: (1_200_000, 2_500_000),
        window: Duration::from_secs(86_400),
        frees_at: None,
    };
    let standing = Standing {
        messages: (3, 15),
        tokens: (1_250, 20_000),
        frees_at: Some(Timestamp(1_800_000_000_001)),
        window: Duration::from_secs(60),
        exempt: false,
        accounts: vec![account],
    };
    let today = Tally { tokens: 1_250, messages: 3, micros: 2_100, ..Tally::default() };
    let total =
        Tally { tokens: 91_250, cached: 80_000, messages: 1, micros: 3_002_100, unpriced: 7, ..Tally::default() };
    let own = Usage { standing: Some(standing), sums: Sums { today, week: today, total } };
    insta::assert_snapshot!(usage(&own, None, EN), @r"
    You have used 3 of 15 messages and 1,250 of 20,000 tokens in the last 1 min.
    This channel: $1.20 of $2.50 in the last 1 d.
    The next message will be accepted <t:1800000001:R>.
    Today: 1,250 tokens for 3 messages, $0.0021
    Seven days: 1,250 tokens for 3 messages, $0.0021
    In all: 91,250 tokens (80,000 of them from a cache) for 1 message, $3.00 and usage without a price
    ");
    insta::assert_snapshot!(usage(&Usage::default(), Some("<@8>"), EN), @r"
    I cannot tell at the moment how much of the limits is used.
    Today: nothing
    Seven days: nothing
    In all: nothing
    ");
}

#[test]
fn status_says_what_is_wrong_first() {
    let overview = Overview {
        status: "degraded".to_owned(),
        version: "1.0.0".to_owned(),
        configuration: "abc".to_owned(),
        down: vec![("store".to_owned(), "connection `refused`".to_owned())],
        shards: (1, 2),
        models: (vec!["fast".to_owned()], vec!["deep".to_owned()]),
        bounds: vec![("open turns".to_owned(), 1, 2_000)],
        restarts: 3,
        restarted: vec![("journal".to_owned(), 3)],
        memory: Some(64 << 20),
        uptime: Duration::from_secs(3_700),
        limits: (15, 20_000, Duration::from_secs(60)),
        ..Overview::default()
    };
    assert_eq!(status_title(&overview), "staffai 1.0.0: degraded");
    assert_eq!(status_text(&overview, EN), "**store is down**: connection refused");
    let facts: Vec<String> =
        status_facts(&overview, EN).into_iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
    insta::assert_snapshot!(facts.join("\n"), @r"
    Up for: 1 h 1 min
    Configuration: abc
    Shards: 1 of 2 connected
    Models: fast; paused: deep
    Store: fails; data is kept in memory
    Turns: 0 in flight, 0 since the start
    In use: open turns 1/2000
    Queues: empty
    Restarts: 3 (journal 3)
    Limits for each member: 15 messages, 20,000 tokens in 1 min
    Memory: 64 MiB
    ");
}

fn gate() -> Gate {
    let door = Door::new("discord");
    let (turn, hash) = (TurnId::of(&MessageId::new(door.clone(), "9")), ArgumentsHash("ab".to_owned()));
    let asked_at = Timestamp(1_000);
    Gate {
        id: GateId::draw([0.5; 4], &turn, &hash, asked_at),
        turn,
        place: Place::new(door.clone(), "42"),
        requester: Person::new(door, "7"),
        unattended: false,
        locale: None,
        approvers: Vec::new(),
        tool: "fm__delete".to_owned(),
        hash,
        arguments: "{}".to_owned(),
        subject: Subject::Approval,
        asked_at,
        expires_at: Timestamp(2_000),
    }
}

#[test]
fn tools_and_approvals_are_told_as_they_are() {
    let none = Tooling::default();
    assert!(tools(&none, &[], EN).starts_with("No tool server"));
    assert!(approvals(&[], &[], EN).starts_with("No tool call waits for approval."));
    let server = ToolServer {
        name: "time".to_owned(),
        state: ServerStatus::Ready,
        progress: None,
        tools: vec!["now".to_owned()],
        changed: Vec::new(),
        about: Some("the tides".to_owned()),
        verified_at: Some(Timestamp(1_800_000_000_000)),
        discovered: Vec::new(),
    };
    let some = Tooling { servers: vec![server.clone()] };
    assert_eq!(
        tools(&some, &["dice".to_owned()], EN),
        "**Tools**\n- **my own**: `dice`\n- **time** (ready, list verified 2027-01-15 08:00 UTC, the tides): `now`"
    );
    let held =
        ToolServer { tools: (0..40).map(|n| n.to_string()).collect(), changed: vec!["add".to_owned()], ..server };
    let told = tools(&Tooling { servers: vec![held] }, &[], EN);
    assert!(
        told.ends_with("`29` and 10 more; changed, and held back until an operator runs `/refresh_tools`: `add`"),
        "{told}"
    );
    assert!(tools_refreshed(&some, EN).contains("1 tool server:"));
    let gate = gate();
    let caller = Caller {
        person: gate.requester.clone(),
        name: String::new(),
        roles: Vec::new(),
        locale: None,
        operator: false,
    };
    let allowance = Allowance::of(&gate, &Clicker::Member(caller), gate.asked_at);
    let told = approvals(std::slice::from_ref(&gate), std::slice::from_ref(&allowance), EN);
    let (id, shown) = (&allowance.id, "{}");
    assert_eq!(
        told,
        format!(
            "**Waiting for approval**\n- `{id}`: `fm__delete` in <#42> for <@7>, expires <t:2:R>; `{shown}`\n\n**Allowed for a while** \
             (withdraw one with `/approvals withdraw:` and its id)\n- `{id}`: `fm__delete` in <#42> for <@7>, ends <t:3601:R>; `{shown}`"
        )
    );
    let long = Gate { arguments: format!("{{\n  \"path\": \"{}\"\n}}", "x".repeat(100)), ..gate };
    let told = approvals(&[long], &[], EN);
    assert!(told.contains(&format!("; `{{ \"path\": \"{}…`", "x".repeat(49))), "{told}");
    assert!(withdrawn("ab`@everyone", false, EN).contains("no `abeee`"), "typed text is filtered before it is shown");
}

#[test]
fn every_answer_fits_one_message() {
    let long = "x".repeat(5_000);
    for locale in Locale::ALL {
        for text in [
            help(&CommandKind::ALL, HelpPlace::Channel { direct: true }, locale),
            forgotten(&ONE_OF_EACH, Erasure::Unsure, locale),
            exported(&ONE_OF_EACH, false, locale),
            no_such_model(&long, &["a"], locale),
        ] {
            assert!(text.chars().count() < 2_000, "{text}");
        }
    }
}

#[test]
fn every_language_says_everything_and_says_it_otherwise() {
    let account = AccountStanding {
        scope: Scope::Channel,
        cost: Cost::Dollars,
        used: (1_200_000, 2_500_000),
        window: Duration::from_secs(86_400),
        frees_at: None,
    };
    let standing = Standing {
        messages: (3, 15),
        tokens: (1_250, 20_000),
        frees_at: Some(Timestamp(1_800_000_000_001)),
        window: Duration::from_secs(60),
        exempt: false,
        accounts: vec![account],
    };
    let total =
        Tally { tokens: 1_091_250, cached: 5_000, messages: 1, micros: 1_003_002_100, unpriced: 7, ..Tally::default() };
    let own = Usage { standing: Some(standing), sums: Sums { total, ..Sums::default() } };
    insta::assert_snapshot!(usage(&own, None, Locale::German), @r"
    Du hast 3 von 15 Nachrichten und 1.250 von 20.000 Token verbraucht (Zeitfenster: 1 min).
    Dieser Kanal: $1,20 von $2,50 (Zeitfenster: 1 d).
    Die nächste Nachricht wird <t:1800000001:R> angenommen.
    Heute: nichts
    Sieben Tage: nichts
    Insgesamt: 1.091.250 Token (davon 5.000 aus einem Zwischenspeicher) für 1 Nachricht, $1.003,00 und Verbrauch ohne Preis
    ");
    let spanish = usage(&own, Some("<@8>"), Locale::Spanish).replace('\u{202f}', "_");
    insta::assert_snapshot!(spanish, @r"
    <@8> ha usado 3 de 15 mensajes y 1_250 de 20_000 tokens (intervalo: 1 min).
    Este canal: $1,20 de $2,50 (intervalo: 1 d).
    El próximo mensaje se aceptará <t:1800000001:R>.
    Hoy: nada
    Siete días: nada
    En total: 1_091_250 tokens (5_000 de ellos de una caché) por 1 mensaje, $1_003,00 y uso sin precio
    ");
    let counts = Wiped { conversations: 1, messages: 2, answers: 1, usage: true, ..Wiped::default() };
    insta::assert_snapshot!(
        exported(&counts, true, Locale::German),
        @"Alles, was ich über dich aufbewahre: 1 Gespräch mit 2 Nachrichten, 1 Frage mit ihrer Antwort (für spätere Nachfragen), wie viele Token du verbraucht hast. Die Zähler deiner Limits fehlen hier; sie laufen von selbst ab."
    );
    let said: Vec<Vec<String>> = Locale::ALL.map(everything).into();
    for (index, english) in said[0].iter().enumerate() {
        let [spanish, german] = [&said[1][index], &said[2][index]];
        assert!(english != spanish && english != german && spanish != german, "the same in two languages: {english}");
    }
}

/// One of each answer.
fn everything(locale: Locale) -> Vec<String> {
    let server = ToolServer {
        name: "time".to_owned(),
        state: ServerStatus::Ready,
        progress: None,
        tools: Vec::new(),
        changed: Vec::new(),
        about: None,
        verified_at: Some(Timestamp(0)),
        discovered: Vec::new(),
    };
    let names: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    let many = ToolServer { tools: names, changed: vec!["new".to_owned()], ..server.clone() };
    let many = Tooling { servers: vec![many] };
    let some = Tooling { servers: vec![server] };
    let mut said = vec![
        row(locale).to_owned(),
        user(locale).to_owned(),
        operators_only(CommandKind::Status, locale),
        forgotten(&ONE_OF_EACH, Erasure::Unsure, locale),
        forgotten(&Wiped::default(), Erasure::Done, locale),
        exported(&ONE_OF_EACH, false, locale),
        models(&[("fast", None)], "fast", None, locale),
        models(&[("fast", None), ("deep", None)], "fast", Some("gone"), locale),
        models(&[("fast", None), ("deep", None)], "fast", Some("deep"), locale),
        model_chosen("fast", false, locale),
        model_default("fast", locale),
        no_such_model("slow", &["fast"], locale),
        usage(&Usage::default(), None, locale),
        status_text(&Overview::default(), locale),
        tools(&Tooling::default(), &[], locale),
        tools(&some, &["dice".to_owned()], locale),
        tools(&many, &[], locale),
        tools_refreshed(&Tooling::default(), locale),
        tools_refreshed(&some, locale),
        approvals(&[], &[], locale),
        approvals(&vec![gate(); 20], &[], locale),
        withdrawn("ab", true, locale),
        withdrawn("ab", false, locale),
        withdraw(locale).to_owned(),
        refreshed("abc", locale),
        help(&[], HelpPlace::Channel { direct: true }, locale),
    ];
    let plain = [usage_of_others, unknown, broken, too_slow, forgetting_goes_on, busy, still_running];
    said.extend(plain.map(|say| say(locale).to_owned()));
    said.extend(
        [(true, true), (false, true), (true, false)]
            .map(|(known, sound)| new_conversation(known, sound, locale).to_owned()),
    );
    said.extend(CommandKind::ALL.map(|kind| description(kind, locale).to_owned()));
    said
}

#[test]
fn memories_list_facts_and_summaries_within_one_message() {
    let part = |text: &str| format!(r#"{{"text": "{text}", "exchanges": 5, "own": [1, 2]}}"#);
    let stored = |place: &str, texts: &[&str]| {
        let parts: Vec<String> = texts.iter().map(|text| part(text)).collect();
        let summary = Summary::parse(Some(&format!(r#"{{"parts": [{}]}}"#, parts.join(","))));
        StoredSummary { key: String::new(), place: place.to_owned(), summary }
    };
    assert!(memories(&[], &[], true, EN).starts_with("I remember no facts"));
    insta::assert_snapshot!(memories(&[], &[stored("42", &["They met.", "A `boat`."])], true, EN), @r"
    **Summaries of what we said earlier**
    - <#42>: `A 'boat'.`
    - <#42>: `They met.`

    A model wrote them, so that I can go on with a long conversation. I use each in its channel, only for your questions. `/new` deletes the one of this channel, `/forget` deletes all.
    ");
    let long = "x".repeat(500);
    let many = [stored("42", &[&*long; 8]), stored("terminal:s1", &[&*long; 8])];
    let fact = Fact {
        id: "0123456789ab".parse().unwrap(),
        text: long,
        place: Place::new(Door::new("discord"), "42"),
        told: Timestamp(0),
        message: MessageId::new(Door::new("discord"), "1"),
        alone: false,
    };
    let facts = vec![fact; 5];
    for locale in Locale::ALL {
        for text in [memories(&facts, &many, true, locale), memories(&[], &many, true, locale)] {
            assert!(text.chars().count() <= 2_000, "{}: {text}", text.chars().count());
        }
    }
}
