//! The content of a post in Slack's form.

use serde_json::{Value, json};

use crate::mrkdwn::{PLAIN_MAX, convert, sections};
use crate::web_api::Arguments;
use domain::outgoing::{Button, ButtonStyle, Piece};

/// The longest label of a button, in characters.
const LABEL_MAX: usize = 75;
/// The longest text of a notification beside blocks, in characters.
const SHORT_MAX: usize = 150;

/// Emoji and their names at Slack. `docs.slack.dev` has no table; the names are those of its picker.
const EMOJI: [(&str, &str); 18] = [
    ("⏳", "hourglass_flowing_sand"),
    ("⌛", "hourglass"),
    ("⏰", "alarm_clock"),
    ("🕒", "clock3"),
    ("👀", "eyes"),
    ("🚫", "no_entry_sign"),
    ("⛔", "no_entry"),
    ("🛑", "octagonal_sign"),
    ("✅", "white_check_mark"),
    ("❌", "x"),
    ("⚠", "warning"),
    ("🐌", "snail"),
    ("🐢", "turtle"),
    ("💤", "zzz"),
    ("🙏", "pray"),
    ("🤖", "robot_face"),
    ("👍", "+1"),
    ("👎", "-1"),
];

/// Returns the arguments of an edit to this content. Without blocks of its own, the earlier ones are removed: Slack keeps
/// the blocks of an edit that names none, and the bot's earlier ones may have buttons.
pub(super) fn replacing(piece: &Piece) -> Arguments<'static> {
    let mut arguments = arguments(piece);
    if !arguments.iter().any(|(name, _)| *name == "blocks") {
        arguments.push(("blocks", "[]".into()));
    }
    arguments
}

/// Returns the arguments of a post with this content. Each notifies no account.
pub(super) fn arguments(piece: &Piece) -> Arguments<'static> {
    let text = convert(&piece.text);
    let blocks = blocks(piece, &text);
    let shown = if blocks.is_some() { short(&text) } else { text };
    let mut arguments: Arguments<'static> =
        vec![("text", shown.into()), ("parse", "none".into()), ("link_names", "false".into())];
    arguments.extend(blocks.map(|blocks| ("blocks", blocks.to_string().into())));
    arguments
}

/// Returns the body of an answer that only the member sees who pressed a button.
pub(super) fn private(piece: &Piece) -> Value {
    let text = convert(&piece.text);
    let mut body = json!({"response_type": "ephemeral", "replace_original": false, "text": text});
    if !piece.buttons.is_empty() {
        body["blocks"] = blocks(piece, &text).unwrap_or_default();
    }
    body
}

/// Returns the blocks of a piece; `None` if plain text shows it.
fn blocks(piece: &Piece, text: &str) -> Option<Value> {
    if piece.buttons.is_empty() && text.chars().count() <= PLAIN_MAX {
        return None;
    }
    // `verbatim` keeps Slack from turning names into mentions.
    let section = |text: String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}});
    let mut blocks: Vec<Value> = sections(&piece.text).into_iter().map(section).collect();
    if !piece.buttons.is_empty() {
        blocks.push(json!({"type": "actions", "elements": piece.buttons.iter().map(button).collect::<Vec<_>>()}));
    }
    Some(Value::Array(blocks))
}

fn button(button: &Button) -> Value {
    let label: String = button.label.chars().take(LABEL_MAX).collect();
    let mut element = json!({
        "type": "button",
        "text": {"type": "plain_text", "text": label},
        "value": button.name,
        "action_id": button.name,
    });
    match button.style {
        ButtonStyle::Good => element["style"] = "primary".into(),
        ButtonStyle::Bad => element["style"] = "danger".into(),
        ButtonStyle::Link => element["url"] = button.name.as_str().into(),
        ButtonStyle::Plain => {}
    }
    element
}

fn short(text: &str) -> String {
    text.chars().take(SHORT_MAX).collect()
}

/// Returns Slack's name of an emoji, or of a workspace's own one, written `name:id`.
pub(super) fn emoji_name(emoji: &str) -> Option<&str> {
    let bare = emoji.trim_end_matches('\u{fe0f}');
    if let Some((_, name)) = EMOJI.iter().find(|(known, _)| *known == bare) {
        return Some(name);
    }
    let name = emoji.trim_matches(':').split(':').next().unwrap_or_default();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '+');
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument<'a>(arguments: &'a Arguments<'_>, name: &str) -> Option<&'a str> {
        arguments.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    #[test]
    fn a_short_text_is_sent_without_blocks() {
        let sent = arguments(&Piece::text("**hi** <!channel>"));
        assert_eq!(argument(&sent, "text"), Some("*hi* &lt;!channel&gt;"));
        assert_eq!((argument(&sent, "parse"), argument(&sent, "blocks")), (Some("none"), None));
    }

    #[test]
    fn an_escaped_text_that_is_too_long_becomes_blocks() {
        let sent = arguments(&Piece::text("&".repeat(2_000)));
        let blocks: Vec<Value> = serde_json::from_str(argument(&sent, "blocks").unwrap()).unwrap();
        assert!(blocks.len() > 1 && argument(&sent, "text").unwrap().chars().count() <= SHORT_MAX);
        assert!(blocks.iter().all(|block| block["text"]["verbatim"] == true));
    }

    #[test]
    fn buttons_stand_below_the_whole_text() {
        let button = Button { name: "gate:1:yes".to_owned(), label: "Allow".to_owned(), style: ButtonStyle::Good };
        let sent = arguments(&Piece { buttons: vec![button], ..Piece::text("May I?") });
        let blocks: Value = serde_json::from_str(argument(&sent, "blocks").unwrap()).unwrap();
        assert_eq!(blocks[0]["text"]["text"], "May I?");
        assert_eq!(blocks[1]["elements"][0]["value"], "gate:1:yes");
    }

    #[test]
    fn an_edit_without_blocks_removes_the_earlier_ones() {
        let sent = replacing(&Piece::text("Approved."));
        assert_eq!(argument(&sent, "blocks"), Some("[]"));
        let long = replacing(&Piece::text("&".repeat(2_000)));
        assert!(argument(&long, "blocks").unwrap().len() > 2_000);
    }

    #[test]
    fn emoji_have_names() {
        assert_eq!(emoji_name("⏳"), Some("hourglass_flowing_sand"));
        assert_eq!(emoji_name("⚠\u{fe0f}"), Some("warning"));
        assert_eq!(emoji_name("party:123"), Some("party"));
        assert_eq!(emoji_name("🦀"), None);
    }
}
