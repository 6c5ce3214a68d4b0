//! Lays an answer out as posts: what stands together, what becomes a file, what a door that shows less is told in words.

use super::code;
use super::outgoing::{Capabilities, FILE_BYTES_MAX, File, Part, Piece};
use super::split::split;

/// The most messages that one text fills. Of a longer one its beginning is shown, and all of it stands in a file: nobody gets a
/// model to bury a channel.
pub const TEXTS_MAX: usize = 10;

/// What one post carries, for each post of an answer. The text comes first and is cut where it is too long; cards and files
/// go with its last piece. Code that no single message can hold becomes a file. What the door cannot show degrades to text.
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
                if length(&block) > self.door.text_limit && self.takes(&file) {
                    self.extras.files.push(file);
                } else {
                    self.tell(&block, "\n");
                }
            }
            Part::Formula { .. } => self.tell(&part.text(), "\n"),
            Part::Text { text } => self.say(text),
            Part::Card(_) | Part::File(_) => self.tell(&part.text(), "\n\n"),
        }
    }

    fn takes(&self, file: &File) -> bool {
        self.door.files > 0 && file.bytes.len() <= FILE_BYTES_MAX.min(self.door.file_bytes)
    }

    fn say(&mut self, text: &str) {
        if length(text) > TEXTS_MAX * self.door.text_limit {
            let file = File::new("answer.txt", "text/plain; charset=utf-8", text.as_bytes());
            if self.takes(&file) {
                self.extras.files.push(file);
                let beginning = split(text, self.door.text_limit).into_iter().next();
                return self.tell(&beginning.unwrap_or_default(), "\n\n");
            }
        }
        self.tell(text, "\n\n");
    }

    /// Adds text, to the last piece if it finds room there.
    fn tell(&mut self, text: &str, gap: &str) {
        let mut pieces = split(text, self.door.text_limit).into_iter();
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
        let Self { door, texts, extras } = self;
        let mut pieces: Vec<Piece> = texts.into_iter().map(Piece::text).collect();
        if !extras.is_plain() && pieces.is_empty() {
            pieces.push(Piece::default());
        }
        for card in extras.cards {
            let piece = with_room(&mut pieces, |piece| piece.cards.len() < door.cards);
            piece.cards.push(card);
        }
        for file in extras.files {
            let bytes = |piece: &Piece| piece.files.iter().map(|file| file.bytes.len()).sum::<usize>();
            let fits = |piece: &Piece| bytes(piece) + file.bytes.len() <= door.file_bytes;
            let piece = with_room(&mut pieces, |piece| piece.files.len() < door.files && fits(piece));
            piece.files.push(file);
        }
        pieces
    }
}

/// The last piece, or a further one when that has no room.
fn with_room(pieces: &mut Vec<Piece>, has_room: impl Fn(&Piece) -> bool) -> &mut Piece {
    if !pieces.last().is_some_and(has_room) {
        pieces.push(Piece::default());
    }
    let last = pieces.len() - 1;
    &mut pieces[last]
}

/// As long as a door counts it.
fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests;
