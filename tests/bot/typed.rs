//! Typed replies: how members see a link, a picture, a formula, a program and its output; none pings a member.

use std::time::Duration;

use playground::guild::{Attachment, Message};
use serde_json::{Value, json};

use crate::model::{Act, End, Streamed};
use crate::support::{Setup, World, story};

const POST: &str = "POST /channels/{channel}/messages";

/// A well-formed reply of a type.
fn reply(kind: &str, response: &str, data: &str) -> Act {
    Act::Content(json!({"type": kind, "response": response, "data": data}).to_string())
}

/// Ada asks, and the model answers like this.
async fn asked(world: &World, act: Act) -> Message {
    world.model.always(act);
    let said = world.says("Ada", "general", "@staffai show me");
    world.answer_to(said).await
}

/// Returns the content of a file by its public address.
async fn bytes(world: &World, message: &Message, file: &Attachment) -> Vec<u8> {
    let url = format!("{}/attachments/{}/{}/{}", world.service.api_url(), message.channel, file.id, file.filename);
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.bytes().await.unwrap().to_vec()
}

/// Returns the width and height of a PNG picture.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "a png");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// Checks the invariants of every post.
fn pings_no_member(message: &Message) {
    assert_eq!(message.mentions, []);
    assert_eq!(message.mention_roles, []);
    assert!(!message.mention_everyone);
    let nobody = json!({"parse": [], "users": [], "roles": [], "replied_user": false});
    assert_eq!(message.allowed_mentions, Some(nobody), "said in so many words");
}

#[test]
fn text_is_a_reply_that_pings_no_member() {
    story(async {
        let world = World::begin().await;
        let ada = world.member("Ada");
        let role = world.service.guilds()[0].roles.last().unwrap().id;
        let words = format!("Hello <@{ada}>, @everyone, @here and <@&{role}>");
        let heard = asked(&world, reply("text", &words, "")).await;
        assert_eq!(heard.content, words);
        pings_no_member(&heard);
    });
}

#[test]
fn a_link_is_a_card() {
    story(async {
        let world = World::begin().await;
        let heard = asked(&world, reply("url", "The tide tables:", "https://example.com/tides?day=1")).await;
        assert_eq!(heard.content, "The tide tables:");
        assert_eq!(heard.embeds.len(), 1);
        assert_eq!(heard.embeds[0]["title"], "example.com");
        assert_eq!(heard.embeds[0]["url"], "https://example.com/tides?day=1");
        assert_eq!(heard.embeds[0]["description"], "https://example.com/tides?day=1");
        assert!(heard.embeds[0]["image"]["url"].is_null());
        pings_no_member(&heard);
        let photo = asked(&world, reply("url", "The harbour:", "https://example.com/harbour.jpg")).await;
        assert_eq!(photo.embeds[0]["image"]["url"], "https://example.com/harbour.jpg");
    });
}

#[test]
fn a_gif_is_the_picture_of_a_card() {
    story(async {
        let world = World::begin().await;
        let heard = asked(&world, reply("gif", "Like this:", "https://example.com/wave.gif")).await;
        assert_eq!(heard.content, "Like this:");
        assert_eq!(heard.embeds[0]["image"]["url"], "https://example.com/wave.gif");
        pings_no_member(&heard);
    });
}

#[test]
fn an_address_that_is_none_of_the_web_is_not_linked() {
    story(async {
        let world = World::begin().await;
        for data in ["javascript:alert(1)", "data:text/html,<script>", "file:///etc/passwd", "a wave"] {
            let heard = asked(&world, reply("gif", "Like this:", data)).await;
            assert_eq!((heard.content.as_str(), heard.embeds.as_slice()), ("Like this:", &[][..]), "{data}");
        }
        let heard = asked(&world, reply("gif", "", "a cat that waves")).await;
        assert_eq!(heard.content, "a cat that waves");
    });
}

#[test]
fn a_formula_is_a_picture() {
    story(async {
        let world = World::begin().await;
        let heard = asked(&world, reply("latex", "The area:", r"$$\int_0^1 x^2\,dx = \frac{1}{3}$$")).await;
        assert_eq!(heard.content, "The area:");
        let [file] = heard.attachments.as_slice() else { panic!("{heard:?}") };
        assert_eq!((file.filename.as_str(), file.content_type.as_str()), ("formula.png", "image/png"));
        assert_eq!(file.description.as_deref(), Some(r"\int_0^1 x^2\,dx = \frac{1}{3}"), "for those who cannot see it");
        let png = bytes(&world, &heard, file).await;
        let (width, height) = size(&png);
        assert!((150..800).contains(&width) && (80..400).contains(&height), "{width}x{height}");
        assert_eq!(png.len(), file.size);
        pings_no_member(&heard);
    });
}

#[test]
fn a_formula_that_cannot_be_drawn_is_shown_as_it_was_written() {
    story(async {
        let world = World::begin().await;
        for formula in [r"\frac{1}{", r"\includegraphics{https://example.com/x.png}", r"\def\a{\a\a}\a", r"\text{中文}"]
        {
            let heard = asked(&world, reply("latex", "The area:", formula)).await;
            assert_eq!(heard.content, format!("The area:\n```latex\n{formula}\n```"));
            assert_eq!(heard.attachments, []);
        }
    });
}

#[test]
fn code_stands_in_a_block_of_its_language() {
    story(async {
        let world = World::begin().await;
        let data = json!({"language": "python", "content": "print(\"@everyone\")"}).to_string();
        let heard = asked(&world, reply("code", "Run this:", &data)).await;
        assert_eq!(heard.content, "Run this:\n```python\nprint(\"@everyone\")\n```");
        pings_no_member(&heard);
        let heard = asked(&world, reply("code", "Run this:", "fn main() {\n    println!(\"hi\");\n}")).await;
        assert_eq!(heard.content, "Run this:\n```rust\nfn main() {\n    println!(\"hi\");\n}\n```");
        let heard = asked(&world, reply("code", "Mind the fence:", "a = \"\"\"\n```\n@everyone\n```\n\"\"\"")).await;
        assert_eq!(heard.content.matches("```").count(), 2, "{}", heard.content);
        pings_no_member(&heard);
    });
}

#[test]
fn long_code_is_a_file_named_by_its_language() {
    story(async {
        let world = World::begin().await;
        let program = (0..300).map(|n| format!("print(\"line {n}\")")).collect::<Vec<_>>().join("\n");
        let data = json!({"language": "python", "content": program}).to_string();
        let heard = asked(&world, reply("code", "A long one:", &data)).await;
        assert_eq!(heard.content, "A long one:");
        let [file] = heard.attachments.as_slice() else { panic!("{heard:?}") };
        assert_eq!(file.filename, "code.py");
        assert_eq!(bytes(&world, &heard, file).await, program.as_bytes());
        pings_no_member(&heard);
    });
}

#[test]
fn a_program_and_what_it_printed_are_both_shown() {
    story(async {
        let world = World::begin().await;
        let data = json!({"language": "python", "content": "print(6 * 7)", "output": "42"}).to_string();
        let heard = asked(&world, reply("output", "It says:", &data)).await;
        assert_eq!(heard.content, "It says:\n```python\nprint(6 * 7)\n```\n```\n42\n```");
        let heard = asked(&world, reply("output", "It says:", "total 42")).await;
        assert_eq!(heard.content, "It says:\n```\ntotal 42\n```");
        let numbers = (0..900).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let long = json!({"content": "seq 900", "output": numbers});
        let heard = asked(&world, reply("output", "It says:", &long.to_string())).await;
        assert_eq!(heard.content, "It says:\n```\nseq 900\n```");
        assert_eq!(heard.attachments.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["output.txt"]);
    });
}

#[test]
fn readers_along_see_the_words_grow_and_the_picture_come() {
    story(async {
        let world = World::begin().await;
        let words = "Here is how the area below the curve is found, step by step and slowly.";
        let content = json!({"type": "latex", "response": words, "data": r"\frac{1}{3}"}).to_string();
        let pause = Duration::from_millis(25);
        world.model.always(Act::Streams(Streamed { content, piece: 4, pause, end: End::Well }));
        let said = world.says("Ada", "general", "@staffai show me");
        let draft = world.answer_to(said).await;
        assert!(draft.attachments.is_empty() && words.starts_with(&draft.content), "{draft:?}");
        let whole = world
            .until("the picture", || world.answers(said).into_iter().find(|answer| !answer.attachments.is_empty()))
            .await;
        assert_eq!((whole.id, whole.content.as_str()), (draft.id, words));
        size(&bytes(&world, &whole, &whole.attachments[0]).await);
        pings_no_member(&whole);
    });
}

#[test]
fn a_place_that_takes_no_files_is_told_in_words() {
    story(async {
        let world = World::begin().await;
        world.service.faults().refuse_next(POST, 1, 403, 50_013);
        let heard = asked(&world, reply("latex", "The area:", "x^2")).await;
        assert_eq!(heard.content, "The area:\n```latex\nx^2\n```");
        let heard = asked(&world, reply("latex", "Again:", "x^2")).await;
        assert_eq!(heard.attachments.len(), 1, "the place itself stays open");
    });
}

#[test]
fn a_lost_answer_to_a_post_with_a_file_doubles_nothing() {
    story(async {
        let world = World::begin().await;
        world.service.faults().drop_answers(1);
        let heard = asked(&world, reply("latex", "The area:", "x^2")).await;
        let later = world.says("Ada", "general", "@staffai and again");
        world.answer_to(later).await;
        let said = world.spoken(heard.channel);
        assert_eq!(said.iter().map(|message| message.attachments.len()).collect::<Vec<_>>(), [1, 1]);
    });
}

/// A text for two messages, and a formula that goes with the second.
fn two_messages() -> (String, Act) {
    let sentences = (0..60).map(|n| format!("Sentence number {n} says something about the tide."));
    let words = sentences.collect::<Vec<_>>().join(" ");
    let act = reply("latex", &words, r"\frac{1}{3}");
    (words, act)
}

#[test]
fn killed_between_two_messages_the_rest_comes_once_with_its_file() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let (words, act) = two_messages();
        world.model.always(act);
        world.service.faults().delay_route(POST, Duration::from_millis(1_500));
        let process = world.process("first").await;
        let said = world.says("Ada", "general", "@staffai show me");
        world.answer_to(said).await;
        process.kill();
        world.service.disconnected(0).await;
        let before = world.spoken(said.channel).len();
        world.service.faults().clear();
        let _process = world.process("second").await;
        let all = world
            .until("the picture", || {
                let spoken = world.spoken(said.channel);
                spoken.iter().any(|message| !message.attachments.is_empty()).then_some(spoken)
            })
            .await;
        assert_eq!(before, 1, "it was killed between the two");
        let joined = all.iter().map(|message| message.content.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, words);
        assert_eq!(all.iter().map(|message| message.attachments.len()).collect::<Vec<_>>(), [0, 1]);
        let png = bytes(&world, &all[1], &all[1].attachments[0]).await;
        size(&png);
        // A further answer shows that nothing more follows the first.
        world.model.always(reply("text", "Done.", ""));
        let later = world.says("Ada", "general", "@staffai thanks");
        assert_eq!(world.words_to(later).await, "Done.");
        assert_eq!(world.spoken(said.channel).len(), 3);
    });
}

#[test]
fn what_the_model_cannot_make_valid_is_still_never_raw() {
    story(async {
        let world = World::begin().await;
        let object = json!({"language": "sh", "content": "ls"});
        let wrong = json!({"type": "code", "response": "Run this:", "data": object}).to_string();
        // The schema requires a text there: the model is asked again and corrects it.
        world.model.does(move |ask| match ask.number {
            0 => Act::Content(wrong.clone()),
            _ => reply("code", "Run this:", &Value::to_string(&object)),
        });
        let said = world.says("Ada", "general", "@staffai show me");
        assert_eq!(world.words_to(said).await, "Run this:\n```sh\nls\n```");
        assert_eq!(world.model.calls(), 2);
    });
}
