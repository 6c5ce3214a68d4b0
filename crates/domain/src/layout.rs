//! Lays an answer out as posts: splits text, turns long parts into files, and replaces parts that a door cannot show
//! by text.

use super::code;
use super::outgoing::{Capabilities, FILE_BYTES_MAX, File, Part, Piece};
use super::split::{split, split_at_most};

/// Maximum number of messages of one answer, so that a model cannot flood a channel. A longer text is shown as
/// its beginning, with the full text as a file; if the door takes no file, it ends with `CUT`.
pub const ANSWER_MESSAGES_MAX: usize = 10;

/// Marks the end of an answer that is not shown completely.
const CUT: &str = "…";

/// Returns the posts of an answer, at most [`ANSWER_MESSAGES_MAX`]. Text comes first, split where it is too long;
/// cards and files are attached to its last post. Code and formulas that do not fit into one message become files.
/// Parts that the door cannot show become text.
#[must_use]
pub fn lay_out(parts: &[Part], door: &Capabilities) -> Vec<Piece> {
    let mut layout = Layout { door, texts: Vec::new(), extras: Piece::default() };
    for part in parts {
        layout.add(part);
    }
    layout.pieces()
}

/// Returns an answer as one text, for readers without messages. Text beyond the limit of characters of a message is
/// split as in [`lay_out`].
#[must_use]
pub fn as_text(parts: &[Part], text_limit: usize) -> String {
    let mut texts = lay_out(parts, &Capabilities::text_only(text_limit)).into_iter().map(|piece| piece.text);
    let mut all = texts.next().unwrap_or_default();
    for text in texts {
        all.push('\n');
        all.push_str(&text);
    }
    all
}

struct Layout<'a> {
    door: &'a Capabilities,
    texts: Vec<String>,
    extras: Piece,
}

impl Layout<'_> {
    fn add(&mut self, part: &Part) {
        match part {
            Part::Card(card) if self.door.cards > 0 => self.extras.cards.push(card.clone()),
            Part::File(file) if self.takes(file) => self.extras.files.push(file.clone()),
            Part::Code { language, stem, text } => {
                let block = code::fence(language, text);
                let file = File::new(code::file_name(stem, language), "text/plain; charset=utf-8", text.as_bytes());
                if longer_than(&block, self.door.text_limit) && self.takes(&file) {
                    self.extras.files.push(file);
                } else {
                    self.tell(&block, "\n");
                }
            }
            Part::Formula { formula } => {
                let block = part.text();
                let file = File::new("formula.tex", "text/plain; charset=utf-8", formula.as_bytes());
                if longer_than(&block, self.door.text_limit) && self.takes(&file) {
                    self.extras.files.push(file);
                } else {
                    self.tell(&block, "\n");
                }
            }
            Part::Text { text } => self.say(text),
            Part::Buttons { buttons } => self.extras.buttons.extend(buttons.iter().take(self.door.buttons).cloned()),
            Part::Card(_) | Part::File(_) | Part::Calls { .. } => self.tell(&part.text(), "\n\n"),
        }
    }

    fn takes(&self, file: &File) -> bool {
        self.door.files > 0 && file.bytes.len() <= FILE_BYTES_MAX.min(self.door.file_bytes)
    }

    fn say(&mut self, text: &str) {
        if longer_than(text, ANSWER_MESSAGES_MAX.saturating_mul(self.door.text_limit)) {
            let file = File::new("answer.txt", "text/plain; charset=utf-8", text.as_bytes());
            if self.takes(&file) {
                self.extras.files.push(file);
                let beginning = split_at_most(text, self.door.text_limit, 1).into_iter().next();
                return self.tell(&beginning.unwrap_or_default(), "\n\n");
            }
        }
        self.tell(text, "\n\n");
    }

    /// Appends text, to the last post if it fits. Text beyond the last possible message is not processed.
    fn tell(&mut self, text: &str, gap: &str) {
        let most = (ANSWER_MESSAGES_MAX + 1).saturating_sub(self.texts.len());
        let mut pieces = split_at_most(text, self.door.text_limit, most).into_iter();
        if let Some(last) = self.texts.last_mut()
            && let Some(first) = pieces.next()
        {
            if length(last) + length(gap) + length(&first) <= self.door.text_limit {
                last.push_str(gap);
                last.push_str(&first);
            } else {
                self.texts.push(first);
            }
        }
        self.texts.extend(pieces);
    }

    fn pieces(self) -> Vec<Piece> {
        let Self { door, mut texts, extras } = self;
        if texts.len() > ANSWER_MESSAGES_MAX {
            texts.truncate(ANSWER_MESSAGES_MAX);
            if let Some(last) = texts.last_mut() {
                *last = cut(last, door.text_limit);
            }
        }
        let mut pieces: Vec<Piece> = texts.into_iter().map(Piece::text).collect();
        if !extras.is_plain() && pieces.is_empty() {
            pieces.push(Piece::default());
        }
        for card in extras.cards {
            if let Some(piece) = with_room(&mut pieces, |piece| piece.cards.len() < door.cards) {
                piece.cards.push(card);
            }
        }
        for file in extras.files {
            let bytes = |piece: &Piece| piece.files.iter().map(|file| file.bytes.len()).sum::<usize>();
            let fits = |piece: &Piece| bytes(piece) + file.bytes.len() <= door.file_bytes;
            if let Some(piece) = with_room(&mut pieces, |piece| piece.files.len() < door.files && fits(piece)) {
                piece.files.push(file);
            }
        }
        // Buttons belong to the whole answer, so they are on its last post.
        if let Some(last) = pieces.last_mut() {
            last.buttons = extras.buttons.into_iter().take(door.buttons).collect();
        }
        pieces
    }
}

/// Returns the last post, or a new one if that is full. `None` if the answer may have no further post.
fn with_room(pieces: &mut Vec<Piece>, has_room: impl Fn(&Piece) -> bool) -> Option<&mut Piece> {
    if !pieces.last().is_some_and(has_room) {
        if pieces.len() >= ANSWER_MESSAGES_MAX {
            return None;
        }
        pieces.push(Piece::default());
    }
    pieces.last_mut()
}

/// Returns the text with `CUT` at its end, within the limit.
fn cut(text: &str, limit: usize) -> String {
    let room = limit.saturating_sub(length(CUT) + 1);
    let kept = split(text, room).into_iter().next().unwrap_or_default();
    format!("{kept}\n{CUT}")
}

/// True if a text is longer than `most` characters. Reads only the beginning of a much longer text.
#[must_use]
pub fn longer_than(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// Returns the length as a door counts it.
fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests;
