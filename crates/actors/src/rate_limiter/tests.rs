use super::*;
use crate::messages::outbox::OutboxMsg;
use crate::observers::Observers;
use crate::testing::log::Log;
use crate::testing::{DOOR, Inbox, LEAF, Stage, Tree, at, live, message, person, place, row, settle, turn};
use domain::attachment::Attachment;
use domain::completion::Usage;
use domain::outgoing::Medium;
use domain::people::Linked;
use domain::quoted::{Quoted, Seen};
use domain::turn::Effort;
use domain::turn::Outcome;
use ports::Fault;
use ports::testing::{ManualClock, MemoryStore, ScriptedFaults, ScriptedModels};

struct World {
    limiter: Handle<RateLimiterMsg>,
    journal: Inbox<JournalMsg>,
    conversations: Inbox<ConversationsMsg>,
    store: Arc<MemoryStore>,
    faults: Arc<ScriptedFaults>,
    sweeper: Inbox<SweeperMsg>,
    outbox: Inbox<OutboxMsg>,
    _tree: Tree,
}

async fn world(variables: &[(&str, &str)]) -> World {
    let (limiter, journal, conversations) = (at("rate_limiter"), at("journal"), at("conversations"));
    let store = Arc::new(MemoryStore::new());
    let (sweeper, outbox) = (at("restriction_sweeper"), at("outbox"));
    let live = live(variables, Arc::new(ScriptedModels::new(&["main"])));
    let actor = RateLimiter {
        limiter: Arc::clone(&store) as _,
        store: Arc::clone(&store) as _,
        clock: Arc::new(ManualClock::new()),
        live,
        conversations: conversations.clone(),
        journal: journal.clone(),
        sweeper: sweeper.clone(),
        outboxes: Outboxes::new(vec![(DOOR, Medium::Messages, outbox.clone())]),
        observers: Observers::default(),
    };
    let mut stage = Stage::new();
    let faults = Arc::clone(&stage.faults);
    let (journal, conversations, sweeper) = (stage.probe(&journal), stage.probe(&conversations), stage.probe(&sweeper));
    let outbox = stage.probe(&outbox);
    stage.actor(row(LEAF), &limiter, actor);
    let tree = stage.go().await;
    World { limiter, journal, conversations, store, faults, sweeper, outbox, _tree: tree }
}

impl World {
    fn admit(&self, turn: &Turn) {
        let offered = OfferedTurn { turn: Arc::new(turn.clone()), again: false, resumed: None };
        self.limiter.cast(RateLimiterMsg::Admit(Box::new(offered))).unwrap();
    }

    fn took(&self, turn: &Turn, prompt: u64, completion: u64) {
        let usage = Usage { prompt, completion, ..Usage::default() };
        let effort = Effort { model: Some("main".to_owned()), usage, ..Effort::default() };
        self.limiter.cast(RateLimiterMsg::Settle { turn: Arc::new(turn.clone()), effort }).unwrap();
    }

    /// Returns the breaches that the sweeper received since the last call.
    async fn breaches(&mut self) -> Vec<(String, &'static str)> {
        let mut told = Vec::new();
        while let Some(message) = self.sweeper.now().await {
            let SweeperMsg::Breached { turn, tier } = message else { panic!("another message") };
            told.push((turn.id.id.to_string(), tier));
        }
        told
    }

    /// Returns the next turn that conversations receive as an offer or a cancellation.
    async fn offered(&mut self) -> Option<String> {
        match self.conversations.now().await? {
            ConversationsMsg::Offer(offered) => Some(offered.turn.id.id.to_string()),
            ConversationsMsg::Cancel(_, id) => Some(format!("cancel {}", id.id)),
            _ => None,
        }
    }

    /// Returns the next refusal: the turn, the text, and the reason.
    async fn refused(&mut self) -> Option<(String, String, String)> {
        match self.journal.now().await? {
            JournalMsg::Answered(id, answer) => match answer.outcome {
                Outcome::Refused(limit) => Some((id.id.into(), answer.outgoing.text(), limit.as_str().to_owned())),
                other => panic!("{other:?}"),
            },
            JournalMsg::Dropped(id, reason) => Some((id.id.into(), String::new(), reason.as_str().to_owned())),
            JournalMsg::Undelivered(id) => Some((id.id.into(), String::new(), "unheard".to_owned())),
            _ => None,
        }
    }

    async fn standing(&self, who: &str) -> Standing {
        let asker = Asker {
            person: person(who),
            linked: Linked::default(),
            guild: Some("5".to_owned()),
            roles: Vec::new(),
            place: place("42"),
            parent: None,
        };
        let ask = |reply| RateLimiterMsg::Usage { asker: Box::new(asker), reply };
        self.limiter.call(ask, Duration::from_secs(5)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn turns_within_the_limits_go_to_conversations_in_their_order() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "3")]).await;
    for number in ["10", "11", "12"] {
        world.admit(&turn(number, "7", "42"));
        assert_eq!(world.offered().await.as_deref(), Some(number));
    }
    let standing = world.standing("7").await;
    assert_eq!((standing.messages, standing.tokens.1, standing.exempt), ((3, 3), 20_000, false));
    assert!(standing.frees_at.is_some());
    assert_eq!(world.standing("8").await.messages, (0, 3));
    assert_eq!(world.refused().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_notice_promises_no_channel_to_whom_no_restriction_concerns() {
    let variables = [("RATE_LIMIT_COUNT", "1"), ("RESTRICTED_USER_ROLE_ID", "12"), ("RESTRICTED_CHANNEL_ID", "42")];
    for own in [None, Some(("RATE_LIMIT_MESSAGE_USER", "Off to <#{channel_id}>, {user}!"))] {
        let variables: Vec<_> = variables.into_iter().chain(own).collect();
        let mut world = world(&variables).await;
        let direct = Turn { guild: None, ..turn("10", "7", "43") };
        let restricted = Turn { roles: vec!["12".to_owned()], ..turn("11", "8", "42") };
        for over in [direct, restricted] {
            world.admit(&Turn { id: turn("1", "7", "43").id, ..over.clone() });
            world.admit(&over);
            let said = world.refused().await.unwrap().1;
            assert!(!said.contains("<#"), "{said}");
        }
        world.admit(&turn("2", "9", "43"));
        world.admit(&turn("12", "9", "43"));
        assert!(world.refused().await.unwrap().1.contains("<#42>"));
    }
}

#[tokio::test(start_paused = true)]
async fn over_the_limit_there_is_one_notice_in_a_window_and_each_breach_counts() {
    let log = Log::capture();
    let mut world =
        world(&[("RATE_LIMIT_COUNT", "1"), ("RATE_LIMIT_MESSAGE_USER", "Enough, {user}: {retry_at}")]).await;
    world.admit(&turn("10", "7", "42"));
    for number in ["11", "12"] {
        world.admit(&turn(number, "7", "42"));
    }
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let (id, said, reason) = world.refused().await.unwrap();
    assert_eq!((id.as_str(), reason.as_str()), ("11", "message limit"));
    assert_eq!(said, "Enough, member 7: <t:1800000060:R>");
    assert_eq!(world.refused().await, Some(("12".into(), String::new(), "message limit".into())));
    assert_eq!(world.breaches().await, [("11".to_owned(), "messages"), ("12".to_owned(), "messages")]);
    let Some(OutboxMsg::React { about, emoji, .. }) = world.outbox.now().await else { panic!("silence") };
    assert_eq!((about.id.as_str(), emoji.as_str()), ("12", "⏳"), "the message without a notice");
    assert!(world.outbox.now().await.is_none());
    let [first, _] = &log.of("limit.refused")[..] else { panic!() };
    assert_eq!((first["tier"].as_str(), first["retry_after_ms"].as_str()), ("messages", "60000"));

    tokio::time::sleep(Duration::from_secs(60)).await;
    world.admit(&turn("13", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("13"));
    world.admit(&turn("14", "7", "42"));
    assert!(world.refused().await.unwrap().1.starts_with("Enough"), "another window, another notice");
}

#[tokio::test(start_paused = true)]
async fn tokens_add_up_and_what_rests_on_estimates_is_no_breach() {
    let mut world = world(&[("TOKEN_RATE_LIMIT_COUNT", "700")]).await;
    let (first, second) = (turn("10", "7", "42"), turn("11", "7", "42"));
    // About 400 tokens by estimate: the fixed prompt, the question, an answer.
    world.admit(&first);
    world.admit(&second);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let (id, said, reason) = world.refused().await.unwrap();
    assert_eq!((id.as_str(), reason.as_str()), ("11", "token limit, by estimate"));
    assert_eq!(said, domain::notice::limit::wait(domain::locale::Locale::English));
    assert!(world.breaches().await.is_empty());

    world.took(&first, 100, 50);
    world.admit(&turn("12", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("12"), "less was used than was expected");
    world.took(&turn("12", "7", "42"), 400, 200);
    world.admit(&turn("13", "7", "42"));
    let (_, said, reason) = world.refused().await.unwrap();
    assert_eq!(reason, "token limit");
    assert!(said.contains("<t:1800000060:R>"), "{said}");
    assert_eq!(world.breaches().await, [("13".to_owned(), "tokens")]);
    assert_eq!(world.standing("7").await.tokens, (750, 700));
}

#[tokio::test(start_paused = true)]
async fn long_answers_of_one_member_restrict_nobody_else() {
    let mut world = world(&[]).await;
    for number in ["10", "11"] {
        let long = turn(number, "7", "42");
        world.admit(&long);
        assert_eq!(world.offered().await.as_deref(), Some(number));
        world.took(&long, 500, 9_000);
    }
    for (number, tokens) in [("20", 900), ("21", 980), ("22", 1_000)] {
        let short = turn(number, "8", "42");
        world.admit(&short);
        assert_eq!(world.offered().await.as_deref(), Some(number), "{:?}", world.standing("8").await);
        world.took(&short, tokens / 2, tokens / 2);
    }
    assert_eq!(world.standing("8").await.tokens.0, 2_880);
    world.admit(&turn("23", "8", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("23"));
    assert!(world.breaches().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_has_little_left_hears_when_there_is_more_and_is_not_restricted() {
    let mut world = world(&[("TOKEN_RATE_LIMIT_COUNT", "1000"), ("RATE_LIMIT_MESSAGE_USER", "Off with you!")]).await;
    let first = turn("10", "7", "42");
    world.admit(&first);
    world.took(&first, 500, 490);
    world.admit(&turn("11", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let (_, said, reason) = world.refused().await.unwrap();
    assert_eq!(reason, "token limit, by estimate");
    assert!(said.contains("<t:1800000060:R>"), "{said}");
    assert!(world.breaches().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn super_roles_are_counted_and_never_refused() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "1"), ("SUPER_ROLE_IDS", "99")]).await;
    for number in ["10", "11", "12"] {
        world.admit(&Turn { roles: vec!["99".to_owned()], ..turn(number, "7", "42") });
        assert_eq!(world.offered().await.as_deref(), Some(number));
    }
    assert_eq!(world.standing("7").await.messages, (3, 1));
    assert!(world.breaches().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_keeps_the_order_of_each_member_and_holds_up_nobody_else() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "5")]).await;
    world.store.answering(false);
    let first = turn("10", "7", "42");
    world.admit(&first);
    world.admit(&first);
    world.admit(&turn("11", "7", "42"));
    world.took(&first, 10, 10);
    world.limiter.cast(RateLimiterMsg::Cancel(Arc::new(turn("11", "7", "42")))).unwrap();
    assert_eq!(world.offered().await, None);
    world.store.answering(true);
    assert_eq!([world.offered().await, world.offered().await], [Some("10".into()), Some("11".into())]);
    assert_eq!(world.offered().await, None, "offered twice, admitted once");
    let standing = world.standing("7").await;
    assert_eq!((standing.messages.0, standing.tokens.0), (1, 20));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_trigger_was_deleted_before_it_was_admitted_costs_nothing() {
    let mut world = world(&[]).await;
    world.store.answering(false);
    let (under_way, waiting) = (turn("10", "7", "42"), turn("11", "7", "42"));
    world.admit(&under_way);
    world.admit(&waiting);
    settle().await;
    for turn in [&under_way, &waiting] {
        world.limiter.cast(RateLimiterMsg::Withdraw(Arc::new(turn.clone()))).unwrap();
    }
    world.store.answering(true);
    let heard = [world.offered().await, world.offered().await, world.offered().await];
    assert_eq!(heard, [Some("cancel 10".into()), Some("cancel 11".into()), None]);
    assert_eq!(world.standing("7").await.messages.0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_no_reservation_and_makes_no_second_one() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "1")]).await;
    let question = turn("10", "7", "42");
    world.admit(&question);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.faults.inject("staffai/rate_limiter", Fault::Panic);
    world.took(&question, 10, 10);
    settle().await;
    world.admit(&question);
    assert_eq!(world.offered().await.as_deref(), Some("10"), "offered again by the journal, and the same reservation");
    world.admit(&turn("11", "7", "42"));
    assert_eq!(world.refused().await.unwrap().2, "message limit");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_gives_the_turn_back() {
    let mut world = world(&[]).await;
    world.store.answering(false);
    world.admit(&turn("10", "7", "42"));
    tokio::time::sleep(STEP_TIMEOUT * 2).await;
    assert_eq!(world.refused().await, Some(("10".into(), String::new(), "unheard".into())));
    assert_eq!(world.offered().await, None, "it never lets anybody through by itself");
}

#[tokio::test(start_paused = true)]
async fn questions_about_one_member_are_bounded() {
    let world = world(&[]).await;
    world.store.answering(false);
    let mut answers = Vec::new();
    for _ in 0..2 * QUESTIONS_MAX {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let asker = Asker {
            person: person("7"),
            linked: Linked::default(),
            guild: None,
            roles: Vec::new(),
            place: place("42"),
            parent: None,
        };
        world.limiter.cast(RateLimiterMsg::Usage { asker: Box::new(asker), reply }).unwrap();
        answers.push(answer);
    }
    settle().await;
    world.store.answering(true);
    settle().await;
    let answered = answers.into_iter().filter_map(|mut answer| answer.try_recv().ok()).count();
    assert_eq!(answered, QUESTIONS_MAX + 1, "and the one that was under way");
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_takes_after_it_waited_counts_in_the_window_and_is_never_refused() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "2"), ("TOKEN_RATE_LIMIT_COUNT", "1000")]).await;
    let asked = turn("10", "7", "42");
    world.admit(&asked);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.took(&asked, 100, 0);
    let part = Turn { id: turn("10-ab", "7", "42").id, ..asked };
    for _ in 0..2 {
        world.limiter.cast(RateLimiterMsg::GoesOn(Arc::new(part.clone()))).unwrap();
    }
    assert_eq!(world.standing("7").await.messages.0, 2, "a second offer of it counts no second time");
    world.took(&part, 800, 100);
    assert_eq!(world.standing("7").await.tokens, (1_000, 1_000));
    assert_eq!((world.offered().await, world.refused().await), (None, None), "it was let through when it was asked");
    world.admit(&turn("11", "7", "42"));
    assert_eq!(world.offered().await, None);
    assert_eq!(world.refused().await.map(|(turn, ..)| turn).as_deref(), Some("11"));
}

#[tokio::test(start_paused = true)]
async fn files_of_a_quoted_message_count_in_the_estimate_like_attached_ones() {
    let world = world(&[]).await;
    let (name, mime, url) = ("a.txt".to_owned(), Some("text/plain".to_owned()), String::new());
    let file = Attachment { name, mime, size: 4_000, url, width: None, height: None };
    let quotes = |ours: bool| {
        let (author, attachments) = (person("5"), vec![file.clone()]);
        let seen = Seen { author, name: String::new(), ours, text: String::new(), answers: None, attachments };
        Some(Quoted { id: message("9"), seen: Some(seen) })
    };
    let attached = Turn { attachments: vec![file.clone()], ..turn("11", "2", "42") };
    let quoting = Turn { quoted: quotes(false), ..turn("12", "3", "42") };
    let quoting_us = Turn { quoted: quotes(true), ..turn("13", "4", "42") };
    for turn in [turn("10", "1", "42"), attached, quoting, quoting_us] {
        world.admit(&turn);
    }
    let mut tokens = Vec::new();
    for who in ["1", "2", "3", "4"] {
        tokens.push(world.standing(who).await.tokens.0);
    }
    assert_eq!(tokens[1..], [tokens[0] + 1_000, tokens[0] + 1_000, tokens[0]]);
}

#[tokio::test(start_paused = true)]
async fn what_tools_add_to_prompts_restricts_no_member() {
    let mut world = world(&[("RATE_LIMIT_COUNT", "100"), ("TOKEN_RATE_LIMIT_COUNT", "20000")]).await;
    for number in 10..15 {
        let asked = turn(&number.to_string(), "7", "42");
        world.admit(&asked);
        assert_eq!(world.offered().await, Some(number.to_string()));
        let before = world.standing("7").await.tokens.0;
        assert!(before < 3_000, "an estimate has no part for tools, whatever the last prompt had: {before}");
        // A list of tools used half a million tokens, and the question with its answer 100.
        let usage = Usage { prompt: 500_060, completion: 40, ..Usage::default() };
        let effort = Effort { model: Some("main".to_owned()), usage, tool_tokens: 500_000, ..Effort::default() };
        world.limiter.cast(RateLimiterMsg::Settle { turn: Arc::new(asked), effort }).unwrap();
    }
    assert_eq!(world.standing("7").await.tokens, (500, 20_000));
    assert!(world.refused().await.is_none() && world.breaches().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_a_channel_is_shared_by_its_members_and_restricts_none_of_them() {
    let rows = r#"[{scope = "channel", per = "1h", tokens = 100}, {scope = "member", per = "1h", dollars = 3}]"#;
    let log = Log::capture();
    let mut world = world(&[("STAFFAI_RATE_LIMITER__LIMITS", rows)]).await;
    let first = turn("10", "7", "42");
    world.admit(&first);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.took(&first, 60, 40);
    let standing = world.standing("8").await;
    let used: Vec<_> = standing.accounts.iter().map(|account| (account.scope.as_str(), account.used)).collect();
    assert_eq!(used, [("channel", (100, 100)), ("member", (0, 3_000_000))]);
    assert!(standing.accounts[0].frees_at.is_some());

    world.admit(&turn("11", "8", "42"));
    let (id, said, reason) = world.refused().await.unwrap();
    assert_eq!((id.as_str(), reason.as_str()), ("11", "limit of an account"));
    assert!(said.starts_with("The limit that all members share here is used up"), "{said}");
    assert_eq!(
        (log.column("limit.refused", "scope"), log.column("limit.refused", "tier")),
        (vec!["channel".to_owned()], vec!["tokens".to_owned()])
    );
    assert_eq!(world.breaches().await, [], "it was not this member who used it up");
    world.admit(&turn("12", "8", "43"));
    assert_eq!(world.offered().await.as_deref(), Some("12"), "another channel has an account of its own");
    world.admit(&Turn { parent: Some(place("42")), ..turn("13", "9", "44") });
    assert_eq!(world.refused().await.map(|(id, ..)| id).as_deref(), Some("13"), "a thread is in its channel");
}
