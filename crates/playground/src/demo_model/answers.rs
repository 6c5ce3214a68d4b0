//! The answers of the demo model: a table of keywords, tried in order. Pure.

mod calls;

use serde_json::{Value, json};

use super::wire::TranscriptMessage;
use crate::examples::{EXAMPLES, Example, Topic};
use domain::dialogue::GO_ON;
use domain::fact::prompt::{BEGIN as FACTS_BEGIN, END as FACTS_END};
use domain::preferences::prompt::END as SETTINGS_END;

/// Maximum length of a quotation from a member's message, in characters.
const QUOTE_LETTERS: usize = 120;

/// The prefix of the bot's description of a file.
const ATTACHED: &str = "[Attached ";

/// The input for an answer.
pub struct Heard<'a> {
    /// The transcript, oldest first.
    pub said: &'a [TranscriptMessage],
    /// Names of the offered tools, each with its argument schema.
    pub tools: &'a [(String, Value)],
}

/// The demo model's action.
#[derive(Debug, Clone, PartialEq)]
pub enum DemoAnswer {
    /// A text.
    Says {
        /// The kind in the program's response format: `text`, `code`, `latex`, ...
        kind: &'static str,
        /// The text.
        response: String,
        /// The additional data of the kind (code, formula); may be empty.
        data: String,
    },
    /// A tool call.
    Call {
        /// The tool's name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// Chooses the answer.
#[must_use]
pub fn answer(heard: &Heard) -> DemoAnswer {
    let Some(last) = heard.said.iter().rev().find(|said| said.role != "system" && said.role != "developer") else {
        return text(heard.pick(&["over a demo harbour", "a small harbour town", "the tide tables"]));
    };
    if last.text == GO_ON {
        return heard.rest();
    }
    if last.role == "tool" {
        let before = heard.said.iter().rposition(|said| said.role != "tool").map_or(0, |at| at + 1);
        let results: Vec<&str> = heard.said[before..].iter().map(|said| said.text.as_str()).collect();
        return text(calls::told(&results));
    }
    // Status lines are requested with instructions that name the activity.
    if heard.said.iter().all(|said| said.role != "assistant") && heard.wants_status() {
        return text(heard.status(&last.text));
    }
    if heard.joins_in() {
        return text(JOINS_IN);
    }
    // Facts about the member and their settings may precede the question.
    let after = |text: &str, end: &str| text.rfind(end).map_or(0, |at| at + end.len());
    let begin = after(&last.text, FACTS_END).max(after(&last.text, SETTINGS_END));
    let asked = &last.text[begin..];
    let (now, files) = asked.split_once(ATTACHED).unwrap_or((asked, ""));
    if !files.is_empty() {
        return text(came_with(files));
    }
    let now = now.trim();
    // Words in a code block are data, not cues.
    let cues = now.split_once("\n```").map_or(now, |(cues, _)| cues);
    if cues.len() < now.len() && !now.contains("$$") {
        return text(WITH_BLOCK);
    }
    let words = words(cues);
    let has = |any: &[&str]| any.iter().any(|word| words.iter().any(|said| said == word));
    if now.starts_with('/') {
        return text(COMMANDS);
    }
    if let Some(formula) = formula_in(now) {
        return says("latex", "Your formula, as the bot draws it. I only handed it over.", formula);
    }
    if let Some(call) = calls::wanted(heard.tools, now, &words) {
        return call;
    }
    if now.is_empty() {
        return text(heard.pick(&[
            "You called? Say a few words after the mention. Try: help",
            "I am here, a demo model without a brain. Ask me for help to see what I can do.",
        ]));
    }
    if has(&["help", "commands"]) || ["what", "can", "you", "do"].iter().all(|word| has(&[*word])) {
        return text(heard.help());
    }
    if has(&["connect", "litellm", "openai", "ollama", "llm"]) || (has(&["real", "model"]) && !has(&["hello", "hi"])) {
        return text(CONNECT);
    }
    if let Some(memory) = heard.memory(&words) {
        return text(memory);
    }
    if has(&["playground", "harbour", "harbor"]) || now.to_lowercase().contains("what is this") {
        return text(PLAYGROUND);
    }
    if has(&["tale"]) {
        return text(heard.tale());
    }
    show(&has).unwrap_or_else(|| text(heard.small_talk(now, &has)))
}

/// Returns the text between the first two `$$`.
fn formula_in(text: &str) -> Option<&str> {
    let (formula, _) = text.split_once("$$")?.1.split_once("$$")?;
    Some(formula.trim()).filter(|formula| !formula.is_empty())
}

/// Samples of every kind of message.
fn show(has: &dyn Fn(&[&str]) -> bool) -> Option<DemoAnswer> {
    if has(&["list", "todo", "steps"]) {
        return Some(text(LIST));
    }
    let code = has(&["code", "rust", "python", "program"]);
    if has(&["file"]) || (code && has(&["long"])) {
        let data = json!({"language": "python", "content": long_code()}).to_string();
        return Some(says("code", "This program is too long for a message, so it comes as a file.", &data));
    }
    if code {
        return Some(says("code", "Here is a little Rust, from my tiny shelf of examples.", CODE));
    }
    if has(&["run", "ran"]) {
        let data = json!({"language": "python", "content": RAN, "output": PRINTED}).to_string();
        return Some(says("output", "A program and what it printed; I did not really run it.", &data));
    }
    if has(&["output", "log", "logs"]) {
        return Some(says("output", "This is what plain output looks like.", OUTPUT));
    }
    if has(&["latex", "formula", "math", "equation", "matrix"]) {
        let formula = if has(&["matrix"]) { MATRIX } else { FORMULA };
        return Some(says("latex", "A formula from my shelf; I did not work it out.", formula));
    }
    if has(&["gif", "picture", "wave"]) {
        return Some(says("gif", "A moving picture. It is made up, so there is nothing behind its address.", GIF));
    }
    if has(&["link", "url", "address"]) {
        return Some(says("url", "A link, as a card.", LINK));
    }
    if has(&["long", "story", "stream"]) {
        return Some(text(long()));
    }
    if has(&["table"]) {
        return Some(says("output", "A table, as plain output shows it.", TABLE));
    }
    if has(&["format", "markdown", "bold"]) {
        return Some(text(
            "Text can be **bold**, *italic*, `code`, or > quoted. Links stay links: <https://example.com>",
        ));
    }
    None
}

impl Heard<'_> {
    /// Picks one of several sentences. The choice depends only on the transcript, so equal requests get equal answers.
    fn pick(&self, choices: &[&'static str]) -> &'static str {
        // The length of the instructions varies between requests.
        let said = || self.said.iter().filter(|said| said.role != "system");
        let letters: usize = said().map(|said| said.text.len()).sum();
        choices[(letters + said().count()) % choices.len()]
    }

    /// Returns a status line of the requested kind.
    fn status(&self, asked: &str) -> &'static str {
        let kind = asked.lines().next().unwrap_or_default();
        if kind.contains("Playing") {
            self.pick(&["with a drawer full of demo answers", "hide and seek with your keywords"])
        } else if kind.contains("Listening") {
            self.pick(&["the hum of a demo harbour", "you, and recognising a word or two"])
        } else if kind.contains("Custom") {
            self.pick(&["a demo model: no brain, good mood", "I only read this off a list"])
        } else {
            self.pick(&["over a demo harbour", "a small harbour town", "the tide tables"])
        }
    }

    /// True if the instructions say that the bot joins in unasked.
    fn joins_in(&self) -> bool {
        self.said.iter().any(|said| said.role == "system" && said.text.contains("Nobody called you"))
    }

    /// Continues an answer that broke off: returns the part that is not shown yet.
    fn rest(&self) -> DemoAnswer {
        let before = &self.said[..self.said.len().saturating_sub(1)];
        let Some((shown, before)) = before.split_last() else { return text("") };
        let DemoAnswer::Says { kind, response, data } = answer(&Heard { said: before, tools: &[] }) else {
            return text(LOST_THREAD);
        };
        match response.strip_prefix(shown.text.trim_end()) {
            Some(rest) => says(kind, rest.trim_start(), &data),
            None => text(LOST_THREAD),
        }
    }

    /// Returns a tale that is not in the transcript; if all are, the one told longest ago.
    fn tale(&self) -> &'static str {
        let told = |tale: &str| {
            let opening = tale.split_once('.').map_or(tale, |(opening, _)| opening);
            self.said.iter().rposition(|said| said.role == "assistant" && said.text.contains(opening))
        };
        TALES.into_iter().min_by_key(|tale| told(tale)).unwrap_or(TALES[0])
    }

    fn wants_status(&self) -> bool {
        let instructions = self.said.iter().filter(|said| said.role != "user").map(|said| said.text.to_lowercase());
        let mut asked = instructions.chain(self.said.last().map(|said| said.text.to_lowercase()));
        asked.any(|text| {
            ["status line", "activity status", "presence", "current activity"].iter().any(|mark| text.contains(mark))
        })
    }

    /// Returns this member's earlier messages, oldest first, without the one to answer.
    fn earlier(&self) -> impl DoubleEndedIterator<Item = &str> {
        let before = self.said.len().saturating_sub(1);
        let said =
            self.said.iter().take(before).filter(|said| said.role == "user" && !said.text.starts_with(FACTS_BEGIN));
        said.map(|said| said.text.trim()).filter(|text| !text.is_empty())
    }

    /// Answers questions about the conversation.
    fn memory(&self, words: &[String]) -> Option<String> {
        let has = |word: &str| words.iter().any(|said| said == word);
        if has("name") && has("my") && (has("what") || has("whats") || has("know")) {
            let named = self.earlier().rev().find(|text| text.to_lowercase().contains("my name is"));
            return Some(match named {
                Some(text) => format!(
                    "You told me before: \"{}\". I remember by the history that comes with each request.",
                    quote(text)
                ),
                None => "You have not told me your name in this conversation. Say: my name is ...".to_owned(),
            });
        }
        if !(has("remember") || has("told") || has("memory") || (has("did") && has("say"))) {
            return None;
        }
        let earlier: Vec<String> = self.earlier().rev().take(3).map(|text| format!("- {}", quote(text))).collect();
        if earlier.is_empty() {
            return Some(
                "Nothing yet: this is the first thing you told me here. Tell me more and ask again.".to_owned(),
            );
        }
        let latest: Vec<String> = earlier.into_iter().rev().collect();
        Some(format!(
            "You told me before:\n{}\nThat is the history your staffai keeps for you in this channel.",
            latest.join("\n")
        ))
    }

    /// Lists its abilities, with the offered tools.
    fn help(&self) -> String {
        // The request that writes the reply offers no tools.
        let offered = |name: &str| self.tools.is_empty() || self.tools.iter().any(|(tool, _)| tool.ends_with(name));
        let line = |topic: Topic| {
            let inside = EXAMPLES.iter().filter(|example| example.help == Some(topic));
            let asks: Vec<String> = inside.filter(|example| example.tool.is_none_or(offered)).map(shown).collect();
            (!asks.is_empty()).then(|| format!("\n- {}: {}", asks.join(", "), topic.label()))
        };
        let lines: String = Topic::ALL.into_iter().filter_map(line).collect();
        format!("I am the demo model. Try one of these:{lines}")
    }

    fn small_talk(&self, now: &str, has: &dyn Fn(&[&str]) -> bool) -> String {
        let quoted = quote(now);
        if has(&["hello", "hi", "hey", "moin", "hallo", "morning", "evening", "ahoy"]) {
            return self
                .pick(&[
                    "Ahoy! I am the demo model: friendly, quick, and not clever at all. Say help to see what I can do.",
                    "Hello there! No real model is connected yet, so you get me. Try: list, code, or remember.",
                    "Hi! You reached staffai's demo model. The bot around me is real, only my wit is missing.",
                ])
                .to_owned();
        }
        if has(&["thanks", "thank", "thx", "cheers"]) {
            return self
                .pick(&[
                    "You are welcome! Being thanked is the one thing I understand fully.",
                    "Any time. I am only a demo, but a polite one.",
                ])
                .to_owned();
        }
        if has(&["bye", "goodbye", "night"]) {
            return self
                .pick(&[
                    "Fair winds! I forget you at once, but your history stays here.",
                    "Bye! The lighthouse stays on.",
                ])
                .to_owned();
        }
        if has(&["joke", "funny", "laugh"]) {
            return self
                .pick(&[
                    "Why did the actor restart? It wanted a second act. (From a list of two; I am a demo.)",
                    "A supervisor walks into a bar. All its children order again. (From a list of two; I am a demo.)",
                ])
                .to_owned();
        }
        if has(&["who", "you", "your"]) && (now.ends_with('?') || has(&["are", "who"])) {
            return self.pick(&[
                "I am a stand-in: a demo model that matches a few words. Say connect to learn how to give staffai a real one.",
                "Just a small table of sentences that answers like a model would. Everything around me is the real program.",
            ]).to_owned();
        }
        let before = self.earlier().next_back().map(quote);
        match (now.ends_with('?'), before) {
            (true, _) => format!(
                "You asked: \"{quoted}\" A real model would know; I am the demo. Say connect to plug one in, or help."
            ),
            (false, Some(before)) if self.said.len().is_multiple_of(2) => {
                format!(
                    "Noted: \"{quoted}\" You told me before: \"{before}\" Two facts and no opinion: I am only the demo model."
                )
            }
            (false, _) => match self.pick(&["a", "b", "c"]) {
                "a" => format!(
                    "I read \"{quoted}\", {} words. Understanding them takes a real model; I am the demo.",
                    now.split_whitespace().count()
                ),
                "b" => format!("Understood as well as a demo can: \"{quoted}\" Ask me for a list, code, or a formula."),
                _ => format!("\"{quoted}\" is safe in our history now. Later, ask what I remember. (Demo model here.)"),
            },
        }
    }
}

fn text(response: impl Into<String>) -> DemoAnswer {
    says("text", response, "")
}

fn says(kind: &'static str, response: impl Into<String>, data: &str) -> DemoAnswer {
    DemoAnswer::Says { kind, response: response.into(), data: data.to_owned() }
}

/// Formats an example for the help.
fn shown(example: &Example) -> String {
    let mark = if example.ask.contains('$') { "`" } else { "**" };
    let note = example.chip.filter(|note| !note.is_empty()).map(|note| format!(" ({note})")).unwrap_or_default();
    format!("{mark}{}{mark}{note}", example.ask)
}

/// Returns the words of a text in lower case, without punctuation.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
    split.filter(|word| !word.is_empty()).map(|word| word.to_lowercase().replace('\'', "")).collect()
}

/// Formats a text on one line, truncated.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTE_LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Describes attached files by the bot's description: the text of a file, or its name and the reason why it is not
/// shown.
fn came_with(files: &str) -> String {
    let (mut read, mut named) = (Vec::new(), Vec::new());
    for told in files.split(ATTACHED) {
        let told = told.split_once(' ').map_or(told, |(_, name)| name);
        if let Some((name, _)) = told.split_once(". What the member's file holds") {
            read.push(format!("`{}`", quote(name)));
        } else if let Some((name, _)) = told.split_once(" (") {
            named.push(format!("`{}`", quote(name)));
        }
    }
    let mut said = Vec::new();
    if !read.is_empty() {
        said.push(format!("I was shown what is in {}.", read.join(", ")));
    }
    if !named.is_empty() {
        said.push(format!("I was only told the name of {}.", named.join(", ")));
    }
    said.push("A real model would make something of it; I am the demo.".to_owned());
    said.join(" ")
}

/// A program that is too long for a single message.
fn long_code() -> String {
    // Few spaces, since streaming is word by word.
    let lines = (1..=40).map(|n| format!("bells[{n}]=ring({n},pause={},bell='harbour-bell-number-{n}')", n % 7));
    format!("bells = {{}}\n{}\nprint(len(bells))", lines.collect::<Vec<_>>().join("\n"))
}

/// A text that is too long for a single message.
fn long() -> String {
    let paragraphs = (1..=16).map(|n| {
        format!("**{n}.** The harbour bell rings {n} times, the tide turns, and the demo model adds one more paragraph so that you can watch a long answer grow.")
    });
    let told = paragraphs.collect::<Vec<_>>().join("\n\n");
    format!("{told}\n\nThe end. I made that long on purpose: it shows how an answer streams and is split.")
}

/// Long enough to be interrupted.
const TALES: [&str; 3] = [
    "A sailor wrote a long letter in a storm. Halfway down the page a wave took the pen, the ink and the table.\n\n\
The lighthouse keeper had copied every word that left the harbour, so another sailor sat down, read what was there, and \
wrote on. The letter arrived once, whole, and no reader could tell where the wave had been.\n\n\
That is all a supervision tree does: it lets things break where they break, and finishes the letter. The end.",
    "A baker promised forty loaves to a ship that left at dawn. At midnight the oven cracked from door to chimney.\n\n\
On the wall hung a slate with every order, and a line through each loaf that was paid and carried out. The next baker read \
the slate, lit the second oven, and baked exactly what had no line.\n\n\
Forty loaves went aboard, not thirty-nine and not forty-one. The slate is what this program calls its journal. The end.",
    "Three bell ringers shared one tower. Each had a rope of their own, so a slow song on one bell never kept the others waiting.\n\n\
One evening a rope tore in the middle of a song. The tower keeper did not climb down to ask what had gone wrong in the other \
two; she tied on a new rope, and the song went on where the town had last heard it.\n\n\
In this program a rope is a lane, and the keeper is a supervisor. The end.",
];

const LOST_THREAD: &str =
    "… and there the demo model broke off. I am its spare, and I do not know how it would have gone on.";

/// The answer to a question with a code block or piped input.
const WITH_BLOCK: &str =
    "I was shown a block of text with your question. A real model would make something of it; I am the demo.";

const COMMANDS: &str = "Commands are for the bot, not for me: write them without a mention, with / as the first character of the message. \
Type / in the empty box to see them, such as **/tools**.";

const JOINS_IN: &str = "You did not ask me, I know: the dice decided that I join in. I am only the demo model \
and understood nothing. (`RESPONSE_CHANCE=0` keeps me quiet.)";

const CONNECT: &str = "To connect a real model, choose *Use my model* on the playground's page, or restart the playground with two variables:\n\
```sh\n\
LITELLM_API_URL=http://localhost:11434/v1 LITELLM_MODEL=llama3.1 staffai playground\n\
```\n\
`OPENAI_BASE_URL` works as well, and `LITELLM_API_KEY` or `OPENAI_API_KEY` holds the key if it needs one.";

const PLAYGROUND: &str = "This is the playground: the real staffai, with local imitations of Discord and Slack and a demo model: me. \
Switch the member you speak as, reply, edit or delete, and watch the supervision tree beside the chat.";

const LIST: &str = "A list, as asked (from the demo model's shelf):\n\
1. Mention me in another channel\n\
2. Speak as another member\n\
3. Reply to one of my messages\n\
4. Watch the tree while I answer";

const FORMULA: &str = r"\int_0^1 x^2\,dx = \frac{1}{3}";

const MATRIX: &str = r"\begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix} \begin{pmatrix} x \\ y \end{pmatrix}";

const GIF: &str = "https://example.com/harbour-wave.gif";

const LINK: &str = "https://example.com/tide-tables?harbour=demo";

const RAN: &str = "tides = [4.2, 10.6, 16.9]\nprint(max(tides), \"m\")";

const PRINTED: &str = "16.9 m";

const CODE: &str = "fn main() {\n    let crew = [\"Ada\", \"Ben\", \"Chloe\"];\n    for name in crew {\n        println!(\"welcome aboard, {name}\");\n    }\n}";

const TABLE: &str = "harbour    high water  low water\n\
---------  ----------  ---------\n\
North Bay  04:12       10:37\n\
South Bay  04:55       11:20\n\
Old Mole   05:03       11:41";

const OUTPUT: &str = "tide    high 04:12  low 10:37\nwind    west, 4 knots\nberths  3 of 12 free";
