//! Members see an answer while it is being written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use playground::change::Change;
use playground::guild::Message;
use playground::guild::ids::ChannelId;
use ports::{Fault, Faults, Input};
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

use crate::model::{Act, End};
use crate::support::{SOON, Said, Setup, World, story};

/// Tolerance of the interval of one second between edits: request latencies vary.
const SLACK: Duration = Duration::from_millis(100);

/// A state of a message in a channel, and its time.
#[derive(Debug)]
struct Shown {
    at: Instant,
    channel: ChannelId,
    text: String,
    edit: bool,
}

/// Records everything that the bot shows.
fn watch(world: &World) -> tokio::task::JoinHandle<Vec<Shown>> {
    let (bot, mut changes) = (world.service.bot(), world.service.subscribe());
    tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some((message, edit)) = next(&mut changes).await {
            if message.author == bot {
                seen.push(Shown { at: Instant::now(), channel: message.channel, text: message.content, edit });
            }
        }
        seen
    })
}

/// Returns the next message that was created or edited; `None` after the first deletion, which ends the recording.
async fn next(changes: &mut Receiver<Change>) -> Option<(Message, bool)> {
    loop {
        match changes.recv().await.expect("nothing was missed") {
            Change::MessageCreated(message) => return Some((message, false)),
            Change::MessageEdited(message) => return Some((message, true)),
            Change::MessageDeleted { .. } => return None,
            _ => {}
        }
    }
}

/// Ends the recording and returns it.
async fn seen(world: &World, watching: tokio::task::JoinHandle<Vec<Shown>>) -> Vec<Shown> {
    let last = world.says("Ada", "random", "the end");
    world.service.deletes(last.channel, last.id);
    watching.await.unwrap()
}

/// Waits until the answer has this text.
async fn finished(world: &World, said: Said, words: &str) {
    world.until("the whole answer", || (world.answers(said).first()?.content == words).then_some(())).await;
}

fn no_edits_within_a_second(shown: &[Shown]) {
    // The edit that finishes an answer is not delayed by drafts.
    let edits: Vec<&Shown> = shown.iter().filter(|shown| shown.edit && shown.text != TALK).collect();
    for (index, edit) in edits.iter().enumerate() {
        if let Some(before) = edits[..index].iter().rev().find(|before| before.channel == edit.channel) {
            assert!(edit.at - before.at + SLACK >= Duration::from_secs(1), "{before:?}\n{edit:?}");
        }
    }
}

/// A text of about three seconds with a code block in the middle.
const TALK: &str = "Here is how it goes, step by step, with a program: \n```python\nfor number in range(10):\n    print('👩‍👩‍👧 says', number)\n    # and one more line for good measure\n```\nand that is all there is to it, really, é\u{301} 🇩🇪.";

/// A world with long timeouts.
fn patient() -> Setup {
    Setup::new().set("STAFFAI_LLM__TIMEOUT", "10s").set("STAFFAI_TURN__DEADLINE", "20s")
}

fn talk(pieces: u32) -> Act {
    let piece = TALK.chars().count() / pieces as usize;
    Act::streams(TALK, piece, Duration::from_secs(3) / pieces, End::Well)
}

#[test]
fn an_answer_grows_in_the_channel() {
    story(async {
        let world = World::with(patient()).await;
        let watching = watch(&world);
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai how does it go?");
        world.until("typing", || world.service.typing(said.channel).then_some(())).await;
        world.until("a first draft", || world.answers(said).into_iter().next()).await;
        finished(&world, said, TALK).await;
        world.all_answered(&[said], SOON).await;

        let shown = seen(&world, watching).await;
        assert!((3..=6).contains(&shown.len()), "{shown:#?}");
        assert!(shown[0].text.chars().count() < 60, "the first draft comes early: {shown:#?}");
        no_edits_within_a_second(&shown);
        let (last, drafts) = shown.split_last().unwrap();
        assert_eq!(last.text, TALK);
        for draft in drafts {
            assert_eq!(draft.text.matches("```").count() % 2, 0, "{draft:?}");
            let open = draft.text.strip_suffix("\n```").unwrap_or(&draft.text);
            assert!(TALK.starts_with(open.trim_end()), "{draft:?}");
        }
        assert_eq!(world.spoken(said.channel).len(), 1);
        assert_eq!(world.answers(said)[0].nonce, Some(format!("{}-0", said.id)));
        let asked = world.model.last().body;
        assert_eq!((&asked["stream"], &asked["stream_options"]["include_usage"]), (&true.into(), &true.into()));
    });
}

#[test]
fn a_channel_full_of_answers_is_edited_once_a_second() {
    story(async {
        let world = World::with(patient().real_budgets()).await;
        world.crowd(5);
        let watching = watch(&world);
        world.model.always(talk(100));
        let said: Vec<Said> = (0..5).map(|n| world.says(&format!("member-{n}"), "general", "@staffai go")).collect();
        let elsewhere = world.says("Ada", "help", "@staffai go");
        for said in said.iter().chain([&elsewhere]) {
            finished(&world, *said, TALK).await;
        }
        world.all_answered(&said, SOON).await;
        let shown = seen(&world, watching).await;
        no_edits_within_a_second(&shown);
        assert!(shown.iter().all(|shown| shown.text.matches("```").count() % 2 == 0));
        let stats = world.service.stats();
        assert_eq!(stats.by_status.get(&429), None, "{stats:?}");
    });
}

#[test]
fn six_members_in_one_channel_do_not_wait_for_each_other() {
    story(async {
        let world = World::begin().await;
        world.crowd(6);
        // 0.4 s, so that a part of each is shown before its end.
        world.model.always(Act::streams("It is twenty past five by now.", 3, Duration::from_millis(40), End::Well));
        let begun = Instant::now();
        let said: Vec<Said> = (0..6).map(|n| world.says(&format!("member-{n}"), "general", "@staffai time?")).collect();
        for said in &said {
            finished(&world, *said, "It is twenty past five by now.").await;
        }
        println!("six answers of 0.4 s in one channel: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        world.all_answered(&said, SOON).await;
    });
}

#[test]
fn a_short_answer_is_one_post_that_is_never_edited() {
    story(async {
        let world = World::begin().await;
        let watching = watch(&world);
        world.model.always(Act::streams("Yes, it is.", 4, Duration::from_millis(20), End::Well));
        let said = world.says("Ada", "general", "@staffai is it?");
        finished(&world, said, "Yes, it is.").await;
        world.all_answered(&[said], SOON).await;
        let shown = seen(&world, watching).await;
        assert_eq!(
            shown.iter().map(|shown| (shown.text.as_str(), shown.edit)).collect::<Vec<_>>(),
            [("Yes, it is.", false)]
        );
    });
}

#[test]
fn a_draft_goes_on_in_a_second_message_before_its_end() {
    story(async {
        let world = World::with(patient()).await;
        let words: Vec<String> = (0..500).map(|n| format!("word{n}")).collect();
        world.model.always(Act::streams(&words.join(" "), 40, Duration::from_millis(40), End::Well));
        let said = world.says("Ada", "general", "@staffai tell me everything");
        world.until("a second message", || (world.spoken(said.channel).len() == 2).then_some(())).await;
        let unfinished = world.spoken(said.channel);
        assert!(!unfinished[1].content.ends_with("word499"), "{unfinished:#?}");
        let done =
            || world.spoken(said.channel).last().is_some_and(|part| part.content.ends_with("word499")).then_some(());
        world.until("all parts", done).await;
        let parts = world.spoken(said.channel);
        assert_eq!((parts.len(), parts[1].id), (2, unfinished[1].id));
        let shown: Vec<&str> = parts.iter().flat_map(|part| part.content.split_whitespace()).collect();
        assert_eq!(shown, words, "every word once and in order");
    });
}

#[test]
fn a_long_answer_goes_on_in_further_messages() {
    story(async {
        let world = World::with(patient()).await;
        let words: Vec<String> = (0..700).map(|n| format!("word{n}")).collect();
        world.model.always(Act::streams(&words.join(" "), 100, Duration::from_millis(30), End::Well));
        let said = world.says("Ada", "general", "@staffai tell me everything");
        let done =
            || world.spoken(said.channel).last().is_some_and(|part| part.content.ends_with("word699")).then_some(());
        world.until("all parts", done).await;
        let parts = world.spoken(said.channel);
        let shown: Vec<&str> = parts.iter().flat_map(|part| part.content.split_whitespace()).collect();
        assert_eq!(shown, words, "every word once and in order");
        assert_eq!(world.answers(said).len(), 1);
    });
}

#[test]
fn a_stream_that_breaks_keeps_its_words_and_apologises() {
    story(async {
        let words = "The first half stands here, but the second half will never be read by any member.";
        for end in [End::ErrorAfter(12), End::CutAfter(12), End::SilenceAfter(12)] {
            let world = World::begin().await;
            world.model.always(Act::streams(words, 5, Duration::from_millis(40), end.clone()));
            let said = world.says("Ada", "general", "@staffai go on");
            let apology = || {
                world.answers(said).first().map(|answer| answer.content.clone()).filter(|text| text.contains("Sorry"))
            };
            let text = world.until("an apology", apology).await;
            let (kept, sorry) = text.split_once("\n\n").expect("the words stay above the apology");
            assert!(words.starts_with(kept) && kept.len() > 15, "{end:?}: {text}");
            assert!(sorry.starts_with("Sorry"), "{end:?}: {text}");
            assert_eq!(world.model.calls(), 1, "{end:?}: no second try after words were shown");
            world.all_answered(&[said], SOON).await;
            assert_eq!(world.spoken(said.channel).len(), 1);

            world.model.always(Act::says("yes"));
            let again = world.says("Ada", "general", "@staffai what did you say?");
            finished(&world, again, "yes").await;
            assert!(world.model.last().shows(kept), "{end:?}: what was shown is remembered");
        }
    });
}

/// A row and its fallback, both at the scripted model's address.
const ROWS: &str = r#"{"models": {"first": {"fallback": ["second"]}, "second": {}}}"#;

/// The answer of both rows, and the part of it that is shown when the second row takes over.
const HALVES: &str = "The first half stands here, and of the second half another row writes every single word to its end. So long a text \
                      is shown while it grows, also where it is continued: the member reads on where the row before broke off, and sees \
                      neither the beginning once more nor a gap, until the last word of the whole answer stands there as well.";

fn two_rows(folder: &tempfile::TempDir) -> Setup {
    let rows = folder.path().join("rows.json");
    std::fs::write(&rows, ROWS).unwrap();
    patient().set("STAFFAI_MODELS", rows.display()).set("LITELLM_MODEL", "first")
}

#[test]
fn a_stream_that_breaks_is_continued_by_a_fallback_row_and_nothing_begins_again() {
    story(async {
        for (end, repeats) in [(End::ErrorAfter(12), false), (End::CutAfter(12), true)] {
            let folder = tempfile::tempdir().unwrap();
            let world = World::with(two_rows(&folder)).await;
            let breaks = end.clone();
            world.model.does(move |ask| {
                if ask.model() == "first" {
                    return Act::streams(HALVES, 5, Duration::from_millis(40), breaks.clone());
                }
                let shown = &ask.messages[ask.messages.len() - 2];
                assert_eq!(shown.0, "assistant", "{}", ask.talk());
                let rest = HALVES.strip_prefix(shown.1.as_str()).unwrap_or_else(|| panic!("{shown:?}"));
                Act::streams(if repeats { HALVES } else { rest.trim_start() }, 5, Duration::from_millis(20), End::Well)
            });
            let watching = watch(&world);
            let said = world.says("Ada", "general", "@staffai go on");
            finished(&world, said, HALVES).await;
            assert_eq!(world.model.calls(), 2, "{end:?}: the row that broke off is not asked again");
            world.all_answered(&[said], SOON).await;
            assert_eq!(world.spoken(said.channel).len(), 1);
            for shown in seen(&world, watching).await.iter().filter(|shown| shown.channel == said.channel && shown.edit)
            {
                assert!(HALVES.starts_with(shown.text.as_str()) && shown.text.len() > 15, "{end:?}: {shown:?}");
            }
            world.model.always(Act::says("yes"));
            let again = world.says("Ada", "general", "@staffai what did you say?");
            finished(&world, again, "yes").await;
            assert!(world.model.last().shows(HALVES), "{end:?}: the whole answer is remembered");
        }
    });
}

#[test]
fn a_stream_that_breaks_in_each_row_keeps_its_words_and_apologises_once() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with(two_rows(&folder)).await;
        world.model.does(|ask| match ask.model() {
            "first" => Act::streams(HALVES, 5, Duration::from_millis(40), End::CutAfter(12)),
            _ => Act::Status(500),
        });
        let said = world.says("Ada", "general", "@staffai go on");
        let apology = || Some(world.answers(said).first()?.content.clone()).filter(|text| text.contains("Sorry"));
        let text = world.until("an apology", apology).await;
        let (kept, _) = text.split_once("\n\n").expect("the words stay above the apology");
        assert!(HALVES.starts_with(kept) && kept.len() > 15, "{text}");
        assert_eq!(world.model.calls(), 2);
        world.all_answered(&[said], SOON).await;
    });
}

#[test]
fn a_stream_that_breaks_before_its_first_word_is_tried_again() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| match ask.number {
            0 => Act::streams("never seen", 5, Duration::ZERO, End::ErrorAfter(3)),
            1 => Act::streams("never seen", 5, Duration::ZERO, End::CutAfter(0)),
            _ => Act::streams("all is well", 5, Duration::ZERO, End::Well),
        });
        let said = world.says("Ada", "general", "@staffai hello");
        finished(&world, said, "all is well").await;
        assert_eq!(world.model.calls(), 3);
        world.all_answered(&[said], SOON).await;
    });
}

#[test]
fn a_model_that_does_not_stream_answers_in_one_piece() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("in one piece"));
        let said = world.says("Ada", "general", "@staffai hello");
        assert_eq!(world.words_to(said).await, "in one piece");
        world.all_answered(&[said], SOON).await;
    });
}

#[test]
fn a_reply_that_needs_a_repair_replaces_its_draft() {
    story(async {
        let world = World::begin().await;
        let bad = r#"{"type": "nonsense", "response": "this is what was shown at first", "data": ""}"#;
        world.model.does(move |ask| match ask.number {
            0 => Act::Streams(crate::model::Streamed {
                content: bad.to_owned(),
                piece: 4,
                pause: Duration::from_millis(30),
                end: End::Well,
            }),
            _ => Act::streams("this is better", 4, Duration::from_millis(30), End::Well),
        });
        let said = world.says("Ada", "general", "@staffai hello");
        finished(&world, said, "this is better").await;
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}

#[test]
fn lost_answers_of_discord_double_nothing() {
    story(async {
        let world = World::with(patient()).await;
        world.service.faults().drop_answers(2);
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai go");
        finished(&world, said, TALK).await;
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}

#[test]
fn a_post_that_is_still_on_its_way_when_the_answer_comes_is_finished_by_edit() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_STREAMING__HOLD", "0")).await;
        world.service.faults().delay_route("POST /channels/{channel}/messages", Duration::from_millis(800));
        world.model.always(Act::streams("quick as lightning it is there", 4, Duration::from_millis(20), End::Well));
        let said = world.says("Ada", "general", "@staffai go");
        finished(&world, said, "quick as lightning it is there").await;
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}

/// Fails an actor at its next message, once armed.
struct Armed {
    path: &'static str,
    armed: AtomicBool,
}

impl Faults for Armed {
    fn before(&self, path: &str, _input: Input) -> Option<Fault> {
        (path.starts_with(self.path) && self.armed.swap(false, Ordering::SeqCst)).then_some(Fault::Panic)
    }
}

/// Panics this actor in the middle of an answer.
fn breaks(path: &'static str) {
    story(async move {
        let faults = Arc::new(Armed { path, armed: AtomicBool::new(false) });
        let world = World::with(patient().faults(Arc::clone(&faults) as _)).await;
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai go");
        world.until("a first draft", || world.answers(said).into_iter().next()).await;
        faults.armed.store(true, Ordering::SeqCst);
        finished(&world, said, TALK).await;
        assert!(!faults.armed.load(Ordering::SeqCst), "{path} was never told anything");
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1, "{path}");
    });
}

#[test]
fn the_outbox_breaks_in_the_middle() {
    breaks("staffai/outbox:discord");
}

#[test]
fn the_journal_breaks_in_the_middle() {
    breaks("staffai/journal");
}

#[test]
fn the_router_breaks_in_the_middle() {
    story(async {
        let faults = Arc::new(Armed { path: "staffai/conversations", armed: AtomicBool::new(false) });
        let world = World::with(patient().faults(Arc::clone(&faults) as _)).await;
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai go");
        world.until("a first draft", || world.answers(said).into_iter().next()).await;
        faults.armed.store(true, Ordering::SeqCst);
        let other = world.says("Ben", "help", "@staffai go");
        finished(&world, said, TALK).await;
        finished(&world, other, TALK).await;
        world.all_answered(&[said, other], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}

#[test]
fn a_restarted_bot_finishes_the_draft_of_its_earlier_life() {
    story(async {
        let world = World::with(patient()).await;
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai go");
        world.until("a first draft", || world.answers(said).into_iter().next()).await;
        world.stop().await;
        world.start().await;
        finished(&world, said, TALK).await;
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}

#[test]
fn a_deleted_question_takes_its_half_answer_along() {
    story(async {
        let world = World::with(patient()).await;
        world.model.always(talk(60));
        let said = world.says("Ada", "general", "@staffai go");
        world.until("a first draft", || world.spoken(said.channel).into_iter().next()).await;
        world.service.deletes(said.channel, said.id);
        world.until("the half answer is removed", || world.spoken(said.channel).is_empty().then_some(())).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(world.spoken(said.channel), [], "nothing more is written");
        assert!(!world.service.typing(said.channel));
    });
}
