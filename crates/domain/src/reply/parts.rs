//! The conversion of a reply's text and data to neutral parts. Data that does not fit its kind is shown as text.

use serde_json::{Map, Value};

use super::{Reply, ReplyKind};
use crate::code;
use crate::outgoing::{Card, Part};
use crate::split::is_blank;

const LINK_COLOUR: u32 = 0x34_98_db;
const PICTURE_COLOUR: u32 = 0x9b_59_b6;

/// The longest address that becomes a link, in bytes.
const MAX_LINK: usize = 2_000;

/// The file name endings of pictures.
const PICTURES: [&str; 6] = [".gif", ".png", ".jpg", ".jpeg", ".webp", ".avif"];

const DELIMITERS: [(&str, &str); 4] = [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")];

/// Returns the neutral parts of a reply, the text first. Never empty for a reply that was parsed.
#[must_use]
pub fn to_parts(reply: &Reply) -> Vec<Part> {
    let response = reply.response.trim();
    let data = reply.data.trim();
    let shown = match reply.kind {
        // Some models write the formula into the text field.
        ReplyKind::Latex if is_blank(data) => undelimited(response).map(formula).into_iter().collect(),
        _ if is_blank(data) => Vec::new(),
        ReplyKind::Text => Vec::new(),
        ReplyKind::Url => link(data).map(link_card).or_else(|| bare_address(data)).into_iter().collect(),
        ReplyKind::Gif => link(data).map(picture_card).into_iter().collect(),
        ReplyKind::Latex => vec![formula(&formula_in(data))],
        ReplyKind::Code | ReplyKind::Output => program(reply.kind, data),
    };
    let mut parts = match words_beside(response, data, &shown) {
        words if is_blank(&words) => Vec::new(),
        text => vec![Part::Text { text }],
    };
    let repeats = shown.iter().all(|part| matches!(part, Part::Code { text, .. } if stands_in_a_block(response, text)));
    if !repeats {
        parts.extend(shown);
    }
    parts
}

/// Returns the text, or nothing if the other parts repeat it. Data that does not fit its kind replaces a blank text.
fn words_beside(response: &str, data: &str, shown: &[Part]) -> String {
    match shown {
        [] if is_blank(response) => super::words(data),
        [Part::Formula { formula }] if undelimited(response).unwrap_or(response) == formula => String::new(),
        [Part::Code { text, .. }] if response == text => String::new(),
        _ => response.to_owned(),
    }
}

/// True if the text contains this code in a code block.
fn stands_in_a_block(response: &str, code: &str) -> bool {
    response.contains("```") && response.contains(code)
}

/// Returns the address if it is a valid web link.
fn link(data: &str) -> Option<String> {
    let data = text_in(data, &["url", "link", "src", "content"]);
    let data = data.strip_prefix('<').and_then(|data| data.strip_suffix('>')).unwrap_or(&data);
    let (scheme, rest) = data.split_once("://")?;
    let web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let odd = |c: char| c.is_whitespace() || c.is_control() || "<>\"\\^`{|}".contains(c);
    (web && data.len() <= MAX_LINK && host(rest).is_some() && !data.contains(odd)).then(|| data.to_owned())
}

/// Returns the host of an address without its scheme. Credentials before an `@` are not part of the host.
fn host(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    host.contains(|c: char| c.is_alphanumeric()).then_some(host)
}

/// Returns an address without a scheme as text.
fn bare_address(data: &str) -> Option<Part> {
    let plain = data.contains('.') && !data.contains(|c: char| c.is_whitespace() || c == ':' || c == '{');
    plain.then(|| Part::Text { text: data.to_owned() })
}

fn link_card(url: String) -> Part {
    let title = host(url.split_once("://").map_or("", |(_, rest)| rest)).map(str::to_owned);
    let image = is_picture(&url).then(|| url.clone());
    Part::Card(Card { title, text: url.clone(), url: Some(url), image, colour: Some(LINK_COLOUR), ..Card::default() })
}

fn picture_card(url: String) -> Part {
    // An address without a picture's ending may be a web page; then a link is more useful than a broken picture.
    let page = !is_picture(&url);
    let title = host(url.split_once("://").map_or("", |(_, rest)| rest)).map(str::to_owned);
    Part::Card(Card {
        title: title.filter(|_| page),
        url: page.then(|| url.clone()),
        image: Some(url),
        colour: Some(PICTURE_COLOUR),
        ..Card::default()
    })
}

fn is_picture(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    PICTURES.iter().any(|end| path.ends_with(end))
}

fn formula(formula: &str) -> Part {
    Part::Formula { formula: formula.to_owned() }
}

fn formula_in(data: &str) -> String {
    let told = text_in(data, &["content", "latex", "formula"]);
    let bare = code::unfenced(&told).map_or(told.as_str(), |(_, inner)| inner);
    undelimited(bare).unwrap_or(bare.trim()).to_owned()
}

/// Returns the content of a single delimited formula; `None` for any other text.
fn undelimited(text: &str) -> Option<&str> {
    let text = text.trim();
    let inside = |(open, close): &(&str, &str)| {
        let inner = text.strip_prefix(*open)?.strip_suffix(*close)?.trim();
        (!inner.is_empty() && !inner.contains(*open) && !inner.contains(*close)).then_some(inner)
    };
    DELIMITERS.iter().find_map(inside)
}

/// Returns the first of these fields if the data is a JSON object, else the data itself.
fn text_in(data: &str, names: &[&str]) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(data) else { return data.to_owned() };
    names.iter().find_map(|name| field(&fields, name)).unwrap_or_else(|| data.to_owned())
}

/// Returns a field as text. Blank fields count as missing.
fn field(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let text = match fields.get(name)? {
        Value::String(text) => text.trim_start_matches(['\r', '\n']).trim_end().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        _ => return None,
    };
    (!is_blank(&text)).then_some(text)
}

/// Returns a program and its output, from plain text or from the JSON form with `language`, `content` and `output`.
fn program(kind: ReplyKind, data: &str) -> Vec<Part> {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(data) else {
        return vec![one(kind, None, data)];
    };
    let language = field(&fields, "language");
    let content = field(&fields, "content").or_else(|| field(&fields, "code"));
    let output = field(&fields, "output").map(|output| one(ReplyKind::Output, None, &output));
    // With an output or a language present, the content is the program.
    let kind = if output.is_some() || language.is_some() { ReplyKind::Code } else { kind };
    let content = content.map(|content| one(kind, language, &content));
    let parts: Vec<Part> = content.into_iter().chain(output).collect();
    if parts.is_empty() {
        // Any other object is data that the person requested.
        return vec![one(ReplyKind::Code, Some("json".to_owned()), data)];
    }
    parts
}

/// Returns one code block. Only programs have a language, given or guessed from the text.
fn one(kind: ReplyKind, language: Option<String>, text: &str) -> Part {
    let (brought, text) = code::unfenced(text).unwrap_or(("", text));
    if kind == ReplyKind::Output {
        return Part::Code { language: String::new(), stem: "output".to_owned(), text: text.to_owned() };
    }
    let language = language.unwrap_or_else(|| brought.to_owned());
    let language = if language.is_empty() { code::guess(text).to_owned() } else { language };
    Part::Code { language, stem: "code".to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests;
