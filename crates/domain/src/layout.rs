//! Lays an answer out as posts: what stands together, what becomes a file, what a door that shows less is told in words.

use super::code;
use super::outgoing::{Capabilities, FILE_BYTES_MAX, File, Part, Piece};
use super::split::{split, split_at_most};

/// The most messages that one answer fills, whatever it is made of. Of a longer text its beginning is shown, and all of it stands
/// in a file; where no file is taken it ends with `CUT`: nobody gets a model to bury a channel.
pub const ANSWER_MESSAGES_MAX: usize = 10;

/// What stands at the end of an answer that goes on where it is not shown.
const CUT: &str = "…";

/// What one post carries, for each post of an answer, at most [`ANSWER_MESSAGES_MAX`]. The text comes first and is cut where it is
/// too long; cards and files go with its last piece. Code and formulas that no single message can hold become files. What the
/// door cannot show degrades to text.
#[must_use]
pub fn lay_out(parts: &[Part], door: &Capabilities) -> Vec<Piece> {
    let mut layout = Layout { door, texts: Vec::new(), extras: Piece::default() };
    for part in parts {
        layout.add(part);
    }
    layout.pieces()
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

    /// Adds text, to the last piece if it finds room there. What no message is left for is not even looked at.
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
        // They belong to all of it, so they stand below its end.
        if let Some(last) = pieces.last_mut() {
            last.buttons = extras.buttons.into_iter().take(door.buttons).collect();
        }
        pieces
    }
}

/// The last piece, or a further one when that has no room; none when the answer has no further piece.
fn with_room(pieces: &mut Vec<Piece>, has_room: impl Fn(&Piece) -> bool) -> Option<&mut Piece> {
    if !pieces.last().is_some_and(has_room) {
        if pieces.len() >= ANSWER_MESSAGES_MAX {
            return None;
        }
        pieces.push(Piece::default());
    }
    pieces.last_mut()
}

/// The text with the sign that there was more, within the limit.
fn cut(text: &str, limit: usize) -> String {
    let room = limit.saturating_sub(length(CUT) + 1);
    let kept = split(text, room).into_iter().next().unwrap_or_default();
    format!("{kept}\n{CUT}")
}

/// Whether a text is longer than this. Of a much longer one only the beginning is read.
fn longer_than(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// As long as a door counts it.
fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests;
