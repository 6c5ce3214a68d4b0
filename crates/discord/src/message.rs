//! Converts a piece to a request body, with Discord's builders for text and cards and a form for files. Every body
//! respects Discord's limits and sets its allowed mentions.

use bytes::Bytes;
use http::HeaderValue;
use serde::Serialize;
use serde_json::{Value, json};
use serenity::builder::{
    CreateActionRow, CreateAllowedMentions, CreateButton, CreateEmbed, CreateMessage, EditAttachments, EditMessage,
};
use serenity::model::application::ButtonStyle as WireStyle;
use serenity::model::channel::{MessageReference, Nonce};
use unicode_segmentation::UnicodeSegmentation;

use super::links;
use domain::outgoing::{ButtonStyle, Card, File, Piece};
use domain::rejection::Rejection;
use domain::split::is_blank;
use http_client::Form;
use ports::PostError;

pub(super) const CARDS_MAX: usize = 10;
pub(super) const FILES_MAX: usize = 10;
/// The most bytes of files in one message; every guild allows ten million.
pub(super) const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most buttons in a row; only one row is shown.
pub(super) const BUTTONS_MAX: usize = 5;
/// The longest label of a button, in Unicode scalar values.
const LABEL_MAX: usize = 80;

/// The longest texts of a card, in Unicode scalar values.
const TITLE_MAX: usize = 256;
const TEXT_MAX: usize = 4_096;
const NAME_MAX: usize = 256;
const VALUE_MAX: usize = 1_024;
/// The most short fields of a card.
const FIELDS_MAX: usize = 25;
/// The longest total text of all cards of a message.
const TOGETHER_MAX: usize = 6_000;
/// The longest description of a file.
const DESCRIPTION_MAX: usize = 1_024;
const FILE_NAME_MAX: usize = 100;

/// The accounts that a post may notify. Roles and `@everyone` are never notified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedMentions {
    /// The member who is answered.
    pub answered: bool,
    /// Members mentioned in the text.
    pub mentioned: bool,
}

pub(super) struct Body {
    /// The media type.
    pub content_type: HeaderValue,
    /// JSON, or a form of JSON and files.
    pub bytes: Bytes,
}

impl Body {
    pub(super) fn json(json: Vec<u8>) -> Self {
        Self { content_type: HeaderValue::from_static("application/json"), bytes: json.into() }
    }
}

/// Builds the body that posts a piece. Discord returns the first message for a repeated nonce instead of posting a
/// second one. A post that is not a reply, such as a report, notifies no account.
///
/// # Errors
/// The piece cannot be written as JSON.
pub(super) fn create(
    piece: &Piece,
    reference: Option<MessageReference>,
    nonce: &str,
    pings: AllowedMentions,
) -> Result<Body, PostError> {
    let pings = if reference.is_some() { pings } else { AllowedMentions::default() };
    let mut message = CreateMessage::new()
        .content(links::spelled_out(&piece.text))
        .embeds(cards(piece))
        .nonce(Nonce::String(nonce.to_owned()))
        .enforce_nonce(true)
        .allowed_mentions(allowed(pings));
    if let Some(reference) = reference {
        message = message.reference_message(reference);
    }
    if !piece.buttons.is_empty() {
        message = message.components(buttons(piece));
    }
    body(&message, &piece.files)
}

/// Builds the body that replaces a whole message by a piece. Cards and files that the piece lacks are removed.
///
/// # Errors
/// The piece cannot be written as JSON.
pub(super) fn edit(piece: &Piece, pings: AllowedMentions) -> Result<Body, PostError> {
    let message = EditMessage::new()
        .content(links::spelled_out(&piece.text))
        .embeds(cards(piece))
        .attachments(EditAttachments::new())
        .components(buttons(piece))
        .allowed_mentions(allowed(pings));
    body(&message, &piece.files)
}

fn body(message: &impl Serialize, files: &[File]) -> Result<Body, PostError> {
    let failed = |error: serde_json::Error| PostError::Transient(error.to_string());
    if files.is_empty() {
        // The builders already contain it.
        return Ok(Body::json(serde_json::to_vec(message).map_err(failed)?));
    }
    let mut json = serde_json::to_value(message).map_err(failed)?;
    let told = files.iter().enumerate().map(|(index, file)| told(index, file));
    json["attachments"] = Value::Array(told.collect());
    let json = serde_json::to_vec(&json).map_err(failed)?;
    let unsendable = |message| PostError::unsent(Rejection::Content, message);
    let mut form = Form::without_parts();
    form.part("payload_json", None, "application/json", &json).map_err(unsendable)?;
    for (index, file) in files.iter().enumerate() {
        let name = file_name(&file.name);
        form.part(&format!("files[{index}]"), Some(&name), &file.mime, &file.bytes).map_err(unsendable)?;
    }
    let (content_type, bytes) = form.finish();
    Ok(Body { content_type, bytes })
}

/// Returns the JSON of a file; its number refers to the part with its bytes.
fn told(index: usize, file: &File) -> Value {
    let mut told = json!({"id": index, "filename": file_name(&file.name)});
    if !is_blank(&file.description) {
        told["description"] = capped(&file.description, DESCRIPTION_MAX).into();
    }
    told
}

/// Returns the name without characters that are special in forms or file systems.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(plain).take(FILE_NAME_MAX).collect()
}

fn buttons(piece: &Piece) -> Vec<CreateActionRow> {
    let style = |style| match style {
        ButtonStyle::Good => WireStyle::Success,
        ButtonStyle::Plain | ButtonStyle::Link => WireStyle::Secondary,
        ButtonStyle::Bad => WireStyle::Danger,
    };
    let made = piece.buttons.iter().take(BUTTONS_MAX).map(|button| {
        let made = match button.style {
            ButtonStyle::Link => CreateButton::new_link(button.name.clone()),
            other => CreateButton::new(button.name.clone()).style(style(other)),
        };
        made.label(capped(&button.label, LABEL_MAX))
    });
    let row: Vec<CreateButton> = made.collect();
    if row.is_empty() { Vec::new() } else { vec![CreateActionRow::Buttons(row)] }
}

fn cards(piece: &Piece) -> Vec<CreateEmbed> {
    let mut left = TOGETHER_MAX;
    piece.cards.iter().take(CARDS_MAX).map(|card| embed(card, &mut left)).collect()
}

/// Builds a card within its own limits and within the remaining limit `left` of all cards.
fn embed(card: &Card, left: &mut usize) -> CreateEmbed {
    let mut take = |text: &str, most: usize| {
        let text = capped(text.trim(), most.min(*left));
        *left -= text.chars().count();
        text
    };
    let mut embed = CreateEmbed::new();
    if let Some(title) = card.title.as_deref().map(|title| take(title, TITLE_MAX)).filter(|title| !is_blank(title)) {
        embed = embed.title(title);
    }
    if !is_blank(&card.text) {
        embed = embed.description(take(&linked(&card.text, TEXT_MAX), TEXT_MAX));
    }
    for field in card.fields.iter().take(FIELDS_MAX) {
        let (name, value) = (take(&field.name, NAME_MAX), take(&linked(&field.value, VALUE_MAX), VALUE_MAX));
        if !is_blank(&name) && !is_blank(&value) {
            embed = embed.field(name, value, field.inline);
        }
    }
    if let Some(url) = card.url.as_deref().filter(|url| is_web(url)) {
        embed = embed.url(url);
    }
    if let Some(image) = card.image.as_deref().filter(|image| is_web(image)) {
        embed = embed.image(image);
    }
    if let Some(colour) = card.colour {
        embed = embed.colour(colour & 0x00ff_ffff);
    }
    embed
}

fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"))
}

/// Caps a text and expands misleading links. Only the kept beginning is scanned; expanding never makes a text longer.
fn linked(text: &str, most: usize) -> String {
    links::spelled_out(&capped(text.trim(), most)).into_owned()
}

/// Truncates a text to `most` scalar values, between graphemes, with a sign that text is missing.
fn capped(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let fits = |grapheme: &&str| {
        let length = grapheme.chars().count();
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    };
    let kept: String = text.graphemes(true).take_while(fits).collect();
    if most == 0 { kept } else { format!("{kept}…") }
}

/// Always sent: without it, Discord would notify all accounts that the text mentions.
fn allowed(pings: AllowedMentions) -> CreateAllowedMentions {
    CreateAllowedMentions::new().replied_user(pings.answered).all_users(pings.mentioned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::outgoing::Field;

    fn json(card: Card) -> Value {
        let piece = Piece { cards: vec![card], ..Piece::default() };
        let Ok(Body { bytes: json, .. }) = edit(&piece, AllowedMentions::default()) else { panic!("no json") };
        let json: Value = serde_json::from_slice(&json).unwrap();
        json["embeds"][0].clone()
    }

    #[test]
    fn a_card_is_an_embed() {
        let card = Card {
            title: Some("Weather".to_owned()),
            text: "Dry.".to_owned(),
            url: Some("https://example.org/w".to_owned()),
            image: Some("https://example.org/w.png".to_owned()),
            fields: vec![Field { name: "Wind".to_owned(), value: "calm".to_owned(), inline: true }],
            colour: Some(0x0012_3456),
        };
        let expected = json!({
            "title": "Weather", "description": "Dry.", "url": "https://example.org/w", "color": 0x12_34_56,
            "image": {"url": "https://example.org/w.png"}, "fields": [{"name": "Wind", "value": "calm", "inline": true}],
        });
        let shown = json(card);
        for (name, value) in expected.as_object().unwrap() {
            if name == "image" {
                assert_eq!(shown["image"]["url"], value["url"]);
            } else {
                assert_eq!(shown[name], *value, "{name}");
            }
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_shown() {
        for url in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "attachment://x", "//x", "x"] {
            let shown = json(Card { url: Some(url.to_owned()), image: Some(url.to_owned()), ..Card::default() });
            assert!(
                shown.get("url").is_none_or(Value::is_null) && shown.get("image").is_none_or(Value::is_null),
                "{shown}"
            );
        }
    }

    #[test]
    fn cards_keep_within_the_limits() {
        let long = "e\u{301}".repeat(5_000);
        let field = Field { name: long.clone(), value: long.clone(), inline: false };
        let card = Card { title: Some(long.clone()), text: long, fields: vec![field; 40], ..Card::default() };
        let piece = Piece { cards: vec![card; 12], ..Piece::default() };
        let Ok(Body { bytes: json, .. }) = edit(&piece, AllowedMentions::default()) else { panic!("no json") };
        let json: Value = serde_json::from_slice(&json).unwrap();
        let embeds = json["embeds"].as_array().unwrap();
        assert_eq!(embeds.len(), CARDS_MAX);
        let length = |value: &Value| value.as_str().unwrap_or_default().chars().count();
        assert!(length(&embeds[0]["title"]) <= TITLE_MAX && length(&embeds[0]["description"]) <= TEXT_MAX);
        let together: usize = embeds
            .iter()
            .map(|embed| {
                let fields = embed["fields"].as_array().into_iter().flatten();
                let fields: usize = fields.map(|field| length(&field["name"]) + length(&field["value"])).sum();
                length(&embed["title"]) + length(&embed["description"]) + fields
            })
            .sum();
        assert!(together <= TOGETHER_MAX, "{together}");
        assert_eq!(capped("e\u{301}e\u{301}", 3), "e\u{301}…");
        assert_eq!(capped("abc", 0), "");
    }

    #[test]
    fn masked_links_with_the_label_of_another_address_are_spelled_out() {
        let lure = "[bank.example](https://evil.example)";
        let field = Field { name: "Link".to_owned(), value: lure.to_owned(), inline: false };
        let shown = json(Card { text: lure.to_owned(), fields: vec![field], ..Card::default() });
        let told = "bank.example (https://evil.example)";
        assert_eq!((&shown["description"], &shown["fields"][0]["value"]), (&json!(told), &json!(told)));
        for made in [
            create(&Piece::text(lure), None, "1", AllowedMentions::default()),
            edit(&Piece::text(lure), AllowedMentions::default()),
        ] {
            let Ok(Body { bytes: body, .. }) = made else { panic!("no json") };
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["content"], told);
        }
    }

    #[test]
    fn a_card_is_read_only_as_far_as_it_is_shown() {
        let piece = |size: usize| {
            let text = format!("{}{}", "[b.org ".repeat(600), "](https://b.org)".repeat(size));
            Piece { cards: vec![Card { text, ..Card::default() }], ..Piece::default() }
        };
        cost::stays_flat(1_000, piece, |piece| drop(edit(&piece, AllowedMentions::default())));
    }

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name("code.py"), "code.py");
        assert_eq!(file_name("a\"b\r\n/../c.png"), "a_b___.._c.png");
    }
}
