//! The text of a file that is no document: UTF-8, UTF-16 with its mark, or Windows-1252, in which older programs save.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::{Attachment, FileText, FileView, Unread};

/// The most bytes of one Unicode scalar value in these encodings.
const BYTES_A_CHARACTER: usize = 4;

/// Reads the bytes of a text, as many as `most` Unicode scalar values can take.
///
/// # Errors
/// They are no text.
pub fn text(file: &Attachment, bytes: &[u8], most: usize) -> Result<FileView, Unread> {
    let end = bytes.len().min(most.saturating_add(1).saturating_mul(BYTES_A_CHARACTER));
    let (begin, cut) = (&bytes[..end], end < bytes.len());
    let text = characters(begin, cut).ok_or(Unread::Mismatch)?;
    if text.contains('\0') {
        return Err(Unread::Mismatch);
    }
    Ok(FileView::Text(FileText::new(file, String::new(), &text, cut)))
}

/// Decodes the characters; `None` if the bytes are no text. If they are `cut`, the last character may be incomplete.
fn characters(bytes: &[u8], cut: bool) -> Option<String> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes)
        && encoding != UTF_8
    {
        let bytes = &bytes[mark..];
        // A cut may separate the halves of a character.
        let shorter = if cut { bytes.len().saturating_sub(2) } else { bytes.len() };
        let decoded = |end: usize| encoding.decode_without_bom_handling_and_without_replacement(&bytes[..end]);
        return decoded(bytes.len()).or_else(|| decoded(shorter)).map(std::borrow::Cow::into_owned);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if cut && error.error_len().is_none() => {
            String::from_utf8(bytes[..error.valid_up_to()].to_vec()).ok()
        }
        Err(_) => older(bytes),
    }
}

/// Decodes Windows-1252; `None` if control characters show that the bytes are no text.
fn older(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c');
    bytes.iter().all(is_text).then(|| WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned())
}
