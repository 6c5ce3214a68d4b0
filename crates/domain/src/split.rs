//! Cuts a long text into messages: at paragraphs, lines, sentences, words, and keeps code blocks whole to the eye.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Below this limit code blocks are cut like any other text: closing and reopening them would leave no room for code.
pub const MIN_FENCED_LIMIT: usize = 40;

const FENCE: &str = "```";

/// The longest grapheme that is kept whole, in bytes; letters and pictures of real languages have some dozens. Longer ones are
/// cut, so that what is read ahead of a cut has a bound.
const GRAPHEME_BYTES_MAX: usize = 1_024;

/// What closing an open code block may add, in scalar values: a line break and the fence.
const CLOSING: usize = 4;

/// The longest name of a language that is repeated when a code block is reopened.
const MAX_LANGUAGE: usize = 16;

/// One part of a text that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    /// The opening of a code block that an earlier part had to close; empty outside of one.
    opening: String,
    /// The bytes of the text that the part holds.
    range: Range<usize>,
    /// The closing of a code block that a later part opens again, or that nobody closed; empty outside of one.
    closing: &'static str,
}

/// Cuts a text into parts of at most `limit` Unicode scalar values, none of them blank. A code block that is cut is closed
/// and reopened with its language, as is one that was never closed. A limit of zero counts as one. Blank text has no parts.
#[must_use]
pub fn split(text: &str, limit: usize) -> Vec<String> {
    split_at_most(text, limit, usize::MAX)
}

/// The first `most` parts of [`split`]. What comes after them is not read.
#[must_use]
pub fn split_at_most(text: &str, limit: usize, most: usize) -> Vec<String> {
    let shown = |slice: Slice| format!("{}{}{}", slice.opening, &text[slice.range], slice.closing);
    slices(text, limit, most).into_iter().map(shown).collect()
}

/// Where the parts of [`split`] stand in the text. Together they hold all of it, in order, but for white space at their
/// borders and for closing fences of blocks that an earlier part had closed already. They begin and end between graphemes,
/// unless one grapheme alone is longer than a part may be.
#[must_use]
fn slices(text: &str, limit: usize, most: usize) -> Vec<Slice> {
    let limit = limit.max(1);
    let fences = limit >= MIN_FENCED_LIMIT;
    let mut slices = Vec::new();
    let mut open: Option<&str> = None;
    let mut at = text.len() - text.trim_start().len();
    let end = text.trim_end().len();
    // A gap that is longer than a part is looked through once, not once for each part that it fills.
    let mut gap_end = at;
    while at < end && slices.len() < most {
        let opening = open.map_or(String::new(), |language| format!("{FENCE}{language}\n"));
        let rest = &text[at..end];
        let cut = find_cut(rest, Window { room: limit - opening.chars().count(), open, fences });
        let (head, tail) = rest.split_at(cut.at);
        let (length, closing) = match cut.open {
            Some(_) if head.ends_with('\n') => (head.len(), FENCE),
            Some(_) => (head.len(), "\n```"),
            None => (head.trim_end().len(), ""),
        };
        if !is_blank(&opening) || !is_blank(&head[..length]) {
            slices.push(Slice { opening, range: at..at + length, closing });
        }
        open = cut.open;
        let tail_at = end - tail.len();
        if gap_end < tail_at {
            gap_end = tail_at;
        }
        if text[gap_end..end].starts_with(char::is_whitespace) {
            gap_end = end - text[gap_end..end].trim_start().len();
        }
        let next = &text[gap_end..end];
        let rest = match open {
            None => next,
            // The block is closed already: its own closing fence would open an empty one.
            Some(_) if next.starts_with(FENCE) => {
                open = None;
                next[FENCE.len()..].trim_start()
            }
            Some(_) if next.is_empty() => "",
            Some(_) if !head.ends_with('\n') => tail.strip_prefix('\n').unwrap_or(tail),
            Some(_) => tail,
        };
        at = end - rest.len();
    }
    slices
}

/// Whether people would see nothing: only white space and characters without a shape.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    })
}

/// What a part begins with and how much it may take.
#[derive(Clone, Copy)]
struct Window<'a> {
    /// Scalar values left for text and closing fence.
    room: usize,
    /// The language of the block that is open.
    open: Option<&'a str>,
    /// Code blocks are minded.
    fences: bool,
}

/// Where a part ends.
struct Cut<'a> {
    /// Bytes of the text.
    at: usize,
    /// The language of the block that is open there.
    open: Option<&'a str>,
}

/// How good a place is for a cut, best last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Quality {
    Grapheme,
    Word,
    Sentence,
    Line,
    Paragraph,
}

/// The last place of one quality: bytes, scalar values, language of the open block.
type Place<'a> = Option<(usize, usize, Option<&'a str>)>;

/// Finds the end of the next part: everything if it fits, else the best place that does not waste too much room.
fn find_cut<'a>(text: &'a str, window: Window<'a>) -> Cut<'a> {
    let mut scan = Scan { open: window.open, block_has_content: window.open.is_some(), ..Scan::default() };
    let mut places: [Place<'a>; 5] = [None; 5];
    while let Some(atom) = next_atom(&text[scan.at..], scan.open, window.fences) {
        scan.take(&text[scan.at..], &atom);
        if scan.scalars > window.room {
            break;
        }
        let closing = if scan.open.is_some() { CLOSING } else { 0 };
        if scan.scalars + closing > window.room {
            continue;
        }
        if scan.at == text.len() {
            return Cut { at: scan.at, open: scan.open };
        }
        // A block that was just opened would be left empty, and a mark may stand on the last backtick.
        let between = !atom.doubtful || is_boundary(text, scan.at);
        if between && (scan.open.is_none() || scan.block_has_content) {
            places[scan.quality() as usize] = Some((scan.at, scan.scalars, scan.open));
        }
    }
    choose(&places).unwrap_or_else(|| forced(text, window))
}

fn is_boundary(text: &str, at: usize) -> bool {
    // The whole text is at hand, so the cursor never asks for more of it.
    let (from, to) = (text.floor_char_boundary(at.saturating_sub(GRAPHEME_BYTES_MAX)), text.len());
    GraphemeCursor::new(at - from, to - from, true).is_boundary(&text[from..], 0).unwrap_or(true)
}

fn choose<'a>(places: &[Place<'a>; 5]) -> Option<Cut<'a>> {
    let furthest = places.iter().flatten().map(|(_, scalars, _)| *scalars).max()?;
    let least = |quality: Quality| match quality {
        Quality::Paragraph | Quality::Line => furthest / 2,
        Quality::Sentence => furthest / 3,
        Quality::Word | Quality::Grapheme => 0,
    };
    let good_enough = [Quality::Paragraph, Quality::Line, Quality::Sentence]
        .into_iter()
        .find_map(|quality| places[quality as usize].filter(|(_, scalars, _)| *scalars >= least(quality)));
    let any_gap = || places[Quality::Word as usize..].iter().flatten().max_by_key(|place| place.1).copied();
    let (at, _, open) = good_enough.or_else(any_gap).or(places[Quality::Grapheme as usize])?;
    Some(Cut { at, open })
}

/// The last resort: nothing can be cut cleanly (one grapheme as long as the limit, a block of nothing but blanks).
fn forced<'a>(text: &'a str, window: Window<'a>) -> Cut<'a> {
    let atom = next_atom(text, window.open, window.fences).unwrap_or_default();
    let opens = atom.opens.or(window.open.filter(|_| !atom.closes));
    let closing = if opens.is_some() { CLOSING } else { 0 };
    let room = window.room.saturating_sub(closing).max(1);
    let end = |scalars: usize| text.char_indices().nth(scalars).map_or(text.len(), |(at, _)| at);
    // A fence is never cut, and at the limits where fences count it always fits.
    let at = if atom.opens.is_some() || atom.closes { atom.length } else { end(room) };
    Cut { at: at.max(1), open: opens }
}

/// How far a part has been read.
#[derive(Default)]
struct Scan<'a> {
    at: usize,
    scalars: usize,
    open: Option<&'a str>,
    /// The open block holds more than blanks. True for one that an earlier part opened: its content was cut.
    block_has_content: bool,
    last: Last,
    /// The last thing with a shape ended a sentence.
    stopped: bool,
    /// Line breaks since the last character with a shape.
    line_breaks: usize,
}

/// What the last character was, as far as cuts care.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Letter,
    Gap,
    Fence,
    /// It ends a sentence without a blank after it.
    Stop,
}

impl<'a> Scan<'a> {
    fn take(&mut self, text: &'a str, atom: &Atom<'a>) {
        let taken = &text[..atom.length];
        self.at += atom.length;
        self.scalars += taken.chars().count();
        if atom.opens.is_some() || atom.closes {
            self.open = atom.opens;
            self.block_has_content = false;
            self.last = Last::Fence;
            self.line_breaks = 0;
        } else if taken.chars().all(char::is_whitespace) {
            self.line_breaks += usize::from(taken.contains('\n'));
            self.last = Last::Gap;
        } else {
            self.block_has_content = true;
            self.line_breaks = 0;
            let closes_quote = taken.starts_with(['"', '\'', ')', ']', '”', '’', '»', '*', '_']);
            self.stopped = taken.starts_with(['.', '!', '?', '…']) || (self.stopped && closes_quote);
            self.last = if taken.starts_with(['。', '！', '？']) { Last::Stop } else { Last::Letter };
        }
    }

    fn quality(&self) -> Quality {
        match (self.last, self.line_breaks) {
            (Last::Gap, 0) if self.stopped => Quality::Sentence,
            (Last::Gap, 0) => Quality::Word,
            (Last::Gap, breaks) if breaks > 1 && self.open.is_none() => Quality::Paragraph,
            (Last::Gap | Last::Fence, _) => Quality::Line,
            (Last::Stop, _) => Quality::Sentence,
            (Last::Letter, _) => Quality::Grapheme,
        }
    }
}

/// What is never cut: a grapheme, or a fence with the name of its language.
#[derive(Default)]
struct Atom<'a> {
    /// Bytes.
    length: usize,
    /// It opens a block of this language.
    opens: Option<&'a str>,
    /// It closes the open block.
    closes: bool,
    /// Its end may be inside of a grapheme.
    doubtful: bool,
}

fn next_atom<'a>(text: &'a str, open: Option<&str>, fences: bool) -> Option<Atom<'a>> {
    if fences && let Some(after) = text.strip_prefix(FENCE) {
        if open.is_some() {
            return Some(Atom { length: FENCE.len(), opens: None, closes: true, doubtful: true });
        }
        let named = |c: char| c.is_ascii_alphanumeric() || "+#-_.".contains(c);
        // All of them are one byte long, and one more than a language may have is enough to see that it is none.
        let end = after.chars().take(MAX_LANGUAGE + 1).take_while(|c| named(*c)).count();
        // Only a name with a line break after it is a language; else it is the code itself.
        let named_line = end <= MAX_LANGUAGE && after[end..].starts_with('\n');
        let (length, language) = if named_line { (FENCE.len() + end + 1, &after[..end]) } else { (FENCE.len(), "") };
        return Some(Atom { length, opens: Some(language), closes: false, doubtful: true });
    }
    let near = &text[..text.floor_char_boundary(GRAPHEME_BYTES_MAX)];
    let grapheme = near.graphemes(true).next()?;
    // Some characters pull the next one into their grapheme; a backtick must stay free to begin a fence.
    let length = grapheme.find('`').filter(|at| *at > 0).unwrap_or(grapheme.len());
    Some(Atom { length, opens: None, closes: false, doubtful: length < grapheme.len() })
}

#[cfg(test)]
mod tests;
