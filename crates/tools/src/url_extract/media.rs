//! Determines the type of a body, by its header and its first bytes, and decodes its characters.

use encoding_rs::{Encoding, UTF_8};

/// The bytes at the beginning of a page that are searched for its encoding; browsers search as many.
const PRESCAN_BYTES: usize = 1_024;

/// A media type and a character encoding, as a server sends them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The type in lower case, without its parameters, if any.
    pub media: Option<String>,
    /// The name of the encoding.
    pub charset: Option<String>,
}

impl Told {
    pub(super) fn of(value: &str) -> Self {
        let mut parts = value.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().chars().take(100).collect::<String>().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
        });
        Self { media: Some(media).filter(|media| !media.is_empty()), charset }
    }
}

/// True if such a body is readable text or a page.
pub(super) fn is_text(media: &str) -> bool {
    let structured = |end: &str| media.starts_with("application/") && media.ends_with(end);
    media.starts_with("text/")
        || matches!(media, "application/json" | "application/xml" | "application/yaml" | "application/toml")
        || structured("+json")
        || structured("+xml")
}

/// True if a body is an HTML page. Without a media type, its first bytes decide.
pub(super) fn is_page(media: Option<&str>, bytes: &[u8]) -> bool {
    match media {
        Some(media) => matches!(media, "text/html" | "application/xhtml+xml"),
        None => {
            let begin = bytes.trim_ascii_start();
            let begins =
                |with: &str| begin.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()));
            begins("<!doctype html") || begins("<html")
        }
    }
}

/// Decodes a body; `None` if it is not text. Invalid bytes become the replacement character.
pub(super) fn characters(bytes: &[u8], charset: Option<&str>, page: bool) -> Option<String> {
    let told = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = told.or_else(|| page.then(|| prescan(bytes)).flatten()).unwrap_or(UTF_8);
    let (text, used, _) = encoding.decode(bytes);
    (!text.contains('\0') || used != UTF_8).then(|| text.into_owned())
}

/// Returns the encoding that a page names at its beginning: `<meta charset=...>`, or in a `content` attribute.
fn prescan(bytes: &[u8]) -> Option<&'static Encoding> {
    let begin = bytes[..bytes.len().min(PRESCAN_BYTES)].to_ascii_lowercase();
    let at = memchr::memmem::find(&begin, b"charset")?;
    let rest = begin[at + b"charset".len()..].trim_ascii_start().strip_prefix(b"=")?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"-_:.".contains(byte)))?;
    // This declaration is readable as ASCII, so the encoding is not UTF-16.
    Encoding::for_label(&rest[..end]).map(Encoding::output_encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_encodings_are_taken_apart() {
        for (value, media, charset) in [
            ("text/html", Some("text/html"), None),
            ("Text/HTML ; Charset=\"ISO-8859-1\"; x=y", Some("text/html"), Some("ISO-8859-1")),
            ("", None, None),
            (";charset=utf-8", None, Some("utf-8")),
        ] {
            let told = Told { media: media.map(str::to_owned), charset: charset.map(str::to_owned) };
            assert_eq!(Told::of(value), told, "{value}");
        }
        for good in ["text/plain", "application/json", "application/ld+json", "application/rss+xml"] {
            assert!(is_text(good), "{good}");
        }
        for bad in ["application/pdf", "image/svg+xml", "application/octet-stream", "video/mp4", "multipart/form-data"]
        {
            assert!(!is_text(bad), "{bad}");
        }
    }

    #[test]
    fn characters_are_read_in_the_encoding_that_is_told_or_found() {
        let latin = b"<html><head><meta charset='windows-1252'><p>caf\xe9";
        for (bytes, charset, page, text) in [
            (&b"caf\xc3\xa9"[..], None, false, Some("caf\u{e9}")),
            (b"caf\xe9", Some("latin1"), false, Some("caf\u{e9}")),
            (b"\xef\xbb\xbfx", Some("latin1"), false, Some("x")),
            (b"\xff\xfex\0", None, false, Some("x")),
            (b"caf\xe9", Some("no such thing"), false, Some("caf\u{fffd}")),
            (b"GIF89a\0\0", None, false, None),
            (latin, None, true, Some("<html><head><meta charset='windows-1252'><p>caf\u{e9}")),
            (b"<meta http-equiv=x content=\"text/html; charset=utf-16\">ok", None, true, None),
        ] {
            let found = characters(bytes, charset, page);
            match text {
                Some(text) => assert_eq!(found.as_deref(), Some(text)),
                None => assert!(found.is_none_or(|found| found.ends_with("ok")), "{bytes:?}"),
            }
        }
        assert!(is_page(None, b"  <!DocType HTML><p>"));
        assert!(!is_page(None, b"{}"));
        assert!(!is_page(Some("text/plain"), b"<html>"));
    }

    #[test]
    fn characters_cost_no_more_than_their_bytes() {
        cost::grows_linearly(
            32 * 1024,
            |size| vec![0xe9; size],
            |bytes| drop(characters(&bytes, Some("shift_jis"), true)),
        );
    }
}
