//! The part of a prompt that a provider's cache can reuse: prompts of one lane begin like the one before.

use serde_json::{Value, json};

use crate::hosted_tools::tool_server;
use crate::model::{Act, Ask};
use crate::support::{Setup, World, story};

const TURNS: usize = 20;

/// Returns a request as providers cache it: the tools, then the messages in their order.
fn cached_text(ask: &Ask) -> String {
    let messages = ask.body["messages"].as_array().unwrap().iter().map(Value::to_string);
    std::iter::once(ask.body["tools"].to_string()).chain(messages).collect::<Vec<_>>().join("\n")
}

/// Returns how many of 1,000 bytes of all prompts, without the first, begin like the prompt before.
fn share(asks: &[Ask]) -> usize {
    let prompts: Vec<String> = asks.iter().map(cached_text).collect();
    let (mut same, mut all) = (0, 0);
    for pair in prompts.windows(2) {
        let common = pair[0].bytes().zip(pair[1].bytes()).take_while(|(before, now)| before == now).count();
        (same, all) = (same + common, all + pair[1].len());
    }
    same * 1_000 / all
}

/// Talks in one lane; each third message needs a tool.
async fn talk(setup: Setup) -> Vec<Ask> {
    let world =
        World::of_row(setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true"), r#""schema_with_tools": true"#).await;
    world.model.does(|ask| {
        let wants = ask.question().contains("roll") && ask.results().is_empty();
        if wants {
            Act::calls(&[("call-1", "roll_dice", json!({"notation": "2d6"}))])
        } else {
            Act::says("Here you are.")
        }
    });
    for number in 0..TURNS {
        let text = if number % 3 == 0 { "roll two dice" } else { "tell me of the harbour and of its ships" };
        world.answer_to(world.says("Ada", "general", &format!("@staffai {text}, {number}"))).await;
    }
    world.model.asks()
}

#[test]
fn most_of_a_prompt_is_the_prompt_before_it() {
    story(async {
        let whole = share(&talk(Setup::new().set("STAFFAI_HISTORY__MAX_MESSAGES", "60")).await);
        let usual = share(&talk(Setup::new()).await);
        println!("of 1,000 bytes of a prompt, {whole} begin like the prompt before; with the default bound {usual}");
        assert!(whole >= 900 && usual >= 900, "{whole} {usual}");
    });
}

const THINGS: [&str; 18] = [
    "issue", "branch", "release", "commit", "page", "ticket", "invoice", "event", "contact", "file", "photo", "order",
    "parcel", "recipe", "ferry", "berth", "tide", "crew",
];
const VERBS: [(&str, &str); 5] = [
    ("create", "Creates a new"),
    ("list", "Lists each"),
    ("update", "Changes the fields of one"),
    ("delete", "Removes one"),
    ("search", "Searches by words for one"),
];

/// Each question, with the tool that it needs.
const QUESTIONS: [(&str, Option<&str>); TURNS] = [
    ("hello, who are you?", None),
    ("what should I know about the harbour?", None),
    ("which ferry leaves for the island today?", Some("list_ferry")),
    ("is that one fast?", None),
    ("what does it look like from the pier?", None),
    ("is there a berth for a boat of nine metres?", Some("search_berth")),
    ("and how deep is the water there?", None),
    ("the crane is broken; please write that down for the team", Some("create_issue")),
    ("thanks, that helps a lot", None),
    ("who repairs cranes, usually?", None),
    ("are there more things that are broken?", Some("list_issue")),
    ("that is not many", None),
    ("tell me a story about a lighthouse", None),
    ("the berth must be free from Monday", Some("update_berth")),
    ("can I bring a dog?", None),
    ("does it rain much in autumn?", None),
    ("does the ferry run on Sunday, too?", Some("search_ferry")),
    ("good, then we come on Sunday", None),
    ("what should we pack?", None),
    ("thank you, see you then", None),
];

/// A tool server over HTTP with a tool for each verb and thing: more than a prompt shows.
async fn many_tools() -> String {
    let all = THINGS.iter().flat_map(|thing| VERBS.iter().map(move |verb| (thing, verb)));
    let tools: Vec<Value> = all
        .map(|(thing, (verb, does))| {
            let properties = json!({
                "name": {"type": "string", "description": format!("The name of the {thing}.")},
                "limit": {"type": "integer", "description": "The maximum number of results."},
            });
            let description =
                format!("{does} {thing} and returns its number, its owner and the time of its last change.");
            json!({"name": format!("{verb}_{thing}"), "description": description,
                "inputSchema": {"type": "object", "properties": properties}})
        })
        .collect();
    tool_server(tools.into(), "Number seven, of Ada, an hour ago.").await.0
}

/// Calls the tool that the question needs, after a search if it is not shown.
fn calls_or_searches(ask: &Ask) -> Act {
    let question = ask.messages.iter().rev().find(|(role, _)| role == "user").map_or("", |(_, text)| text);
    let needs = QUESTIONS.iter().find(|(text, _)| question.ends_with(text)).and_then(|(_, tool)| *tool);
    let Some(tool) = needs else { return Act::says("That depends on the weather and on the season, as always here.") };
    let name = format!("harbour__{tool}");
    match ask.results().last() {
        Some((id, _)) if id == "call" => Act::says("It is number seven, and Ada is responsible for it."),
        _ if ask.tools().contains(&name.as_str()) => Act::calls(&[("call", &name, json!({"name": "seven"}))]),
        _ => Act::calls(&[("search", "find_tools", json!({"query": tool.replace('_', " ")}))]),
    }
}

/// The prompts of a conversation with more tools than a prompt shows.
async fn talk_with_many_tools(setup: Setup) -> Vec<Ask> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let harbour = json!({"url": many_tools().await, "side_effects": false});
    std::fs::write(&file, json!({"mcpServers": {"harbour": harbour}}).to_string()).unwrap();
    let world = World::of_row(setup.set("STAFFAI_MCP_CONFIG", file.display()), r#""schema_with_tools": true"#).await;
    world.model.does(calls_or_searches);
    // The list of the server arrives after the start.
    loop {
        world.answer_to(world.says("Ben", "random", "@staffai hello")).await;
        if world.model.last().tools().contains(&"find_tools") {
            break;
        }
    }
    for (number, (text, _)) in QUESTIONS.iter().enumerate() {
        world.answer_to(world.says("Ada", "general", &format!("@staffai {text}"))).await;
        // The use of other lanes does not change the prompts of this one.
        let other = &QUESTIONS[(number + 9) % TURNS].0;
        world.answer_to(world.says("Ben", "random", &format!("@staffai {other}"))).await;
    }
    let begins = |ask: &Ask| ask.messages.iter().find(|(role, _)| role == "user").map(|(_, text)| text.clone());
    let is_of_ada = |ask: &Ask| begins(ask).is_some_and(|text| text.ends_with(QUESTIONS[0].0));
    let asks: Vec<Ask> = world.model.asks().into_iter().filter(is_of_ada).collect();
    assert!(asks.iter().all(|ask| ask.tools().contains(&"find_tools") && ask.tools().len() <= 40));
    asks
}

#[test]
fn most_of_a_prompt_is_the_prompt_before_it_with_more_tools_than_it_shows() {
    story(async {
        let asks = talk_with_many_tools(Setup::new().set("STAFFAI_HISTORY__MAX_MESSAGES", "60")).await;
        let whole = share(&asks);
        println!(
            "with {} tools, of 1,000 bytes of a prompt, {whole} begin like the prompt before",
            THINGS.len() * VERBS.len()
        );
        assert!(asks.len() > TURNS && whole >= 900, "{whole} of {} prompts", asks.len());
    });
}
