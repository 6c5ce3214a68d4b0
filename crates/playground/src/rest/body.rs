//! Parses bodies and query strings: JSON, and the part of multipart forms that bots use.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{RestRequest, answer::ApiError};
use crate::guild::files::{FILE_BYTES, File};

/// Maximum number of files of a request.
const FILES: usize = 10;

/// Maximum length of a file's description, in characters.
const DESCRIPTION: usize = 1_024;

/// Maximum size of the JSON, in bytes; files may be larger.
const JSON: usize = 512 << 10;

/// A parsed body.
pub struct Form {
    pub json: Map<String, Value>,
    pub files: Vec<File>,
}

/// Parses a JSON object, or a multipart form whose `payload_json` is one.
///
/// # Errors
/// The body is neither, or a file is too large.
pub fn read(asked: &RestRequest) -> Result<Form, ApiError> {
    let kind = asked.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let invalid = || ApiError::new(400, 50_109, "The request body contains invalid JSON.");
    let parsed = |text: &[u8]| {
        if text.len() > JSON {
            return Err(ApiError::new(413, 40_005, "Request entity too large"));
        }
        serde_json::from_slice(text).map_err(|_| invalid())
    };
    let Some((_, boundary)) = kind.split_once("boundary=").filter(|_| kind.starts_with("multipart/form-data")) else {
        let json = parsed(&asked.body)?;
        return Ok(Form { json, files: Vec::new() });
    };
    let boundary = boundary.split(';').next().unwrap_or_default().trim().trim_matches('"');
    let mut form = Form { json: Map::new(), files: Vec::new() };
    for part in parts(&asked.body, boundary) {
        match (attribute(&part.head, "name="), attribute(&part.head, "filename=")) {
            (Some("payload_json"), _) => {
                form.json = parsed(part.body)?;
            }
            (_, Some(filename)) if form.files.len() < FILES => {
                if part.body.len() > FILE_BYTES {
                    return Err(ApiError::new(413, 40_005, "Request entity too large"));
                }
                form.files.push(File {
                    name: filename.to_owned(),
                    kind: media_type(&part.head).to_owned(),
                    bytes: Bytes::copy_from_slice(part.body),
                    description: None,
                });
            }
            _ => {}
        }
    }
    for (index, file) in form.files.iter_mut().enumerate() {
        file.description = described(&form.json, index);
    }
    Ok(form)
}

/// Returns the description of the file with this number in the JSON.
fn described(json: &Map<String, Value>, index: usize) -> Option<String> {
    let told = json.get("attachments")?.as_array()?;
    let number =
        |told: &&Value| told["id"].as_u64().or_else(|| told["id"].as_str()?.parse().ok()) == Some(index as u64);
    let words = told.iter().find(number)?["description"].as_str()?;
    Some(words.chars().take(DESCRIPTION).collect())
}

struct Part<'a> {
    head: String,
    body: &'a [u8],
}

fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<Part<'a>> {
    let mark = format!("--{boundary}");
    let marks: Vec<usize> = memchr::memmem::find_iter(body, mark.as_bytes()).collect();
    let mut found = Vec::new();
    for pair in marks.windows(2) {
        let &[start, end] = pair else { continue };
        let inside = &body[start + mark.len()..end];
        let Some(at) = memchr::memmem::find(inside, b"\r\n\r\n") else {
            continue;
        };
        let content = &inside[at + 4..];
        found.push(Part {
            head: String::from_utf8_lossy(&inside[..at]).into_owned(),
            body: content.strip_suffix(b"\r\n").unwrap_or(content),
        });
    }
    found
}

fn attribute<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    // The space prevents a match of `name=` inside of `filename=`.
    let (_, after) = head.split_once(&format!(" {name}"))?;
    match after.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => after.split([';', '\r']).next(),
    }
}

fn media_type(head: &str) -> &str {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-type:"));
    line.and_then(|line| line.split_once(':')).map_or("application/octet-stream", |(_, kind)| kind.trim())
}

/// Splits a query string.
#[must_use]
pub fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), percent_decoded(value))).collect()
}

/// Decodes percent-encoding. Invalid UTF-8 is replaced.
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let code = digits.filter(|_| byte == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        out.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}
