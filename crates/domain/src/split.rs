//! Splits a long text into messages: at paragraphs, lines, sentences or words, with code blocks closed and reopened.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// The limit below which code blocks are cut like any other text, because closing and reopening them would leave no
/// room for code.
pub const MIN_FENCED_LIMIT: usize = 40;

const FENCE: &str = "```";

/// The longest grapheme that is kept whole, in bytes. Graphemes of real text have a few dozen. Longer ones are cut,
/// which bounds the lookahead.
const GRAPHEME_BYTES_MAX: usize = 1_024;

/// The maximum length added to close a code block, in scalar values: a line break and the fence.
const CLOSING: usize = 4;

/// The longest language name that is repeated when a code block is reopened.
const MAX_LANGUAGE: usize = 16;

/// One part of a split text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    /// The opening of a code block that an earlier part had to close; empty outside of a block.
    opening: String,
    /// The byte range of the part in the text.
    range: Range<usize>,
    /// The closing of a code block that a later part reopens, or that the text leaves open; empty outside of a block.
    closing: &'static str,
}

/// Splits a text into parts of at most `limit` Unicode scalar values, none of them blank. A code block that is cut is
/// closed and reopened with its language; an unclosed block is closed. A limit of zero counts as one. Blank text has no
/// parts.
#[must_use]
pub fn split(text: &str, limit: usize) -> Vec<String> {
    split_at_most(text, limit, usize::MAX)
}

/// Returns the first `most` parts of [`split`]. The text after them is not read.
#[must_use]
pub fn split_at_most(text: &str, limit: usize, most: usize) -> Vec<String> {
    let shown = |slice: Slice| format!("{}{}{}", slice.opening, &text[slice.range], slice.closing);
    slices(text, limit, most).into_iter().map(shown).collect()
}

/// Returns the positions of the parts of [`split`] in the text. Together, in order, they cover the text except for
/// white space at their borders and closing fences of blocks that an earlier part closed already. They begin and end
/// between graphemes, unless one grapheme is longer than the limit.
#[must_use]
fn slices(text: &str, limit: usize, most: usize) -> Vec<Slice> {
    let limit = limit.max(1);
    let fences = limit >= MIN_FENCED_LIMIT;
    let mut slices = Vec::new();
    let mut open: Option<&str> = None;
    let mut at = text.len() - text.trim_start().len();
    let end = text.trim_end().len();
    // The end of the current gap, kept so that a long gap is scanned once, not once per part.
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
            // The block is closed already; its own closing fence would open an empty one.
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

/// True if the text is invisible: only white space and characters without a glyph.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    })
}

/// The start state of a part and its capacity.
#[derive(Clone, Copy)]
struct Window<'a> {
    /// The scalar values available for text and closing fence.
    room: usize,
    /// The language of the open block.
    open: Option<&'a str>,
    /// True if code blocks are closed and reopened.
    fences: bool,
}

/// The end of a part.
struct Cut<'a> {
    /// The offset in bytes.
    at: usize,
    /// The language of the block that is open at the cut.
    open: Option<&'a str>,
}

/// The quality of a position for a cut, best last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Quality {
    Grapheme,
    Word,
    Sentence,
    Line,
    Paragraph,
}

/// The last position of one quality: bytes, scalar values, language of the open block.
type Place<'a> = Option<(usize, usize, Option<&'a str>)>;

/// Finds the end of the next part: all text if it fits, else the best position that does not waste too much room.
fn find_cut<'a>(text: &'a str, window: Window<'a>) -> Cut<'a> {
    // No text has more scalar values than bytes.
    if text.len().saturating_add(CLOSING) <= window.room {
        return Cut { at: text.len(), open: open_at_end(text, window) };
    }
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
        // A cut here would leave a new block empty, or a combining mark may follow the last backtick.
        let between = !atom.doubtful || is_boundary(text, scan.at);
        if between && (scan.open.is_none() || scan.block_has_content) {
            places[scan.quality() as usize] = Some((scan.at, scan.scalars, scan.open));
        }
    }
    choose(&places).unwrap_or_else(|| forced(text, window))
}

/// Returns the language of the block that is open at the end of the text. Reads the fences only: looking for graphemes
/// takes much longer, and a text that fits is not cut.
fn open_at_end<'a>(text: &'a str, window: Window<'a>) -> Option<&'a str> {
    let (mut open, mut rest) = (window.open, text);
    while window.fences
        && let Some(at) = rest.find(FENCE)
        && let Some(fence) = next_atom(&rest[at..], open, true)
    {
        open = fence.opens;
        rest = &rest[at + fence.length..];
    }
    open
}

fn is_boundary(text: &str, at: usize) -> bool {
    // The whole text is available, so the cursor never requests more context.
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

/// Makes a forced cut, if there is no clean position (one grapheme as long as the limit, or a block of blanks only).
fn forced<'a>(text: &'a str, window: Window<'a>) -> Cut<'a> {
    let atom = next_atom(text, window.open, window.fences).unwrap_or_default();
    let opens = atom.opens.or(window.open.filter(|_| !atom.closes));
    let closing = if opens.is_some() { CLOSING } else { 0 };
    let room = window.room.saturating_sub(closing).max(1);
    let end = |scalars: usize| text.char_indices().nth(scalars).map_or(text.len(), |(at, _)| at);
    // A fence is never cut; at limits where fences count, it always fits.
    let at = if atom.opens.is_some() || atom.closes { atom.length } else { end(room) };
    Cut { at: at.max(1), open: opens }
}

/// The scan state of a part.
#[derive(Default)]
struct Scan<'a> {
    at: usize,
    scalars: usize,
    open: Option<&'a str>,
    /// True if the open block has content other than blanks. Always true for a reopened block: its content was cut.
    block_has_content: bool,
    last: Last,
    /// True if the last visible character ended a sentence.
    stopped: bool,
    /// The number of line breaks since the last visible character.
    line_breaks: usize,
}

/// The class of the last character.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Letter,
    Gap,
    Fence,
    /// A sentence end that needs no blank after it.
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

/// A unit that is never cut: a grapheme, or a fence with its language.
#[derive(Default)]
struct Atom<'a> {
    /// The length in bytes.
    length: usize,
    /// The language of the block that it opens.
    opens: Option<&'a str>,
    /// True if it closes the open block.
    closes: bool,
    /// True if its end may be inside a grapheme.
    doubtful: bool,
}

fn next_atom<'a>(text: &'a str, open: Option<&str>, fences: bool) -> Option<Atom<'a>> {
    if fences && let Some(after) = text.strip_prefix(FENCE) {
        if open.is_some() {
            return Some(Atom { length: FENCE.len(), opens: None, closes: true, doubtful: true });
        }
        let named = |c: char| c.is_ascii_alphanumeric() || "+#-_.".contains(c);
        // These characters have one byte each. One more than the maximum suffices to reject a name.
        let end = after.chars().take(MAX_LANGUAGE + 1).take_while(|c| named(*c)).count();
        // Only a name followed by a line break is a language; otherwise it is code.
        let named_line = end <= MAX_LANGUAGE && after[end..].starts_with('\n');
        let (length, language) = if named_line { (FENCE.len() + end + 1, &after[..end]) } else { (FENCE.len(), "") };
        return Some(Atom { length, opens: Some(language), closes: false, doubtful: true });
    }
    let near = &text[..text.floor_char_boundary(GRAPHEME_BYTES_MAX)];
    let grapheme = near.graphemes(true).next()?;
    // Some characters combine with the next one, but a backtick must stay separate to begin a fence.
    let length = grapheme.find('`').filter(|at| *at > 0).unwrap_or(grapheme.len());
    Some(Atom { length, opens: None, closes: false, doubtful: length < grapheme.len() })
}

#[cfg(test)]
mod tests;
