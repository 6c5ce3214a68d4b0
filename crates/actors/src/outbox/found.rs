//! The part of an answer that is already in the channel: posted by an earlier process, or by a request whose response
//! was lost.

use std::time::Duration;

use tokio::time::Instant;

use super::attempt::PostFailure;
use super::courier::Courier;
use domain::ids::{MessageId, Place, Timestamp};
use domain::incoming::{AuthorKind, Posted};
use domain::outgoing::Piece;
use ports::{HistoryRange, PostRequest, PostResult};

/// The most pages of a channel searched for an answer of an earlier process.
const SEARCH_PAGES: u32 = 5;
/// Messages per page.
const PAGE: u8 = 100;
/// The fewest bytes by which a further message of a draft is recognised as the beginning of a piece. Shorter messages
/// are recognised only by their nonce.
const BEGINNING_MIN: usize = 40;
/// The endings that close the open code block of a draft.
const CLOSINGS: [&str; 2] = ["\n```", "```"];

/// The largest clock difference between a platform and this process.
const CLOCKS_APART: Duration = Duration::from_secs(5);

/// The feature that distinguishes the messages of an answer from our other messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor<'a> {
    /// The first message replies to this message.
    Trigger(&'a MessageId),
    /// The same, and messages may show drafts, which can also contain more than their piece.
    Growing(&'a MessageId),
    /// No reply: the first message has the text of the first piece, was posted after this time, and is not in this
    /// list of answers to others.
    Words(Timestamp, &'a [MessageId]),
    /// There is no such feature.
    Nothing,
}

/// The messages of an answer that exist.
#[derive(Default)]
pub(super) struct VisibleAnswer {
    /// The pieces, in order.
    pub pieces: Vec<VisiblePiece>,
    /// True if more than one message of ours replies to the trigger.
    pub doubled: bool,
}

/// A piece in the channel.
#[derive(Debug, Clone)]
pub(super) struct VisiblePiece {
    /// Its message.
    pub message: MessageId,
    /// The text that it certainly shows; empty if unknown.
    pub text: String,
    /// True if its cards and files are there too. A piece of a draft has none.
    pub whole: bool,
    /// True if it has files, which may be those of another answer.
    pub files: bool,
    /// True if the message was removed: the piece must be posted again.
    pub gone: bool,
}

impl VisiblePiece {
    /// Returns a message of a draft with this text.
    pub(super) fn draft(message: MessageId, text: String) -> Self {
        Self { message, text, whole: false, files: false, gone: false }
    }

    /// Returns a message with this complete piece.
    pub(super) fn whole(message: MessageId, piece: &Piece) -> Self {
        Self { message, text: piece.text.clone(), whole: true, files: !piece.files.is_empty(), gone: false }
    }

    /// True if the message shows the complete piece.
    pub(super) fn shows(&self, piece: &Piece) -> bool {
        !self.gone && self.text == piece.text && (self.whole || (piece.is_plain() && !self.files))
    }
}

impl Courier {
    /// Finds the posted part of this answer: the reply to the trigger, then the following pieces by text. An outage
    /// delays the search as it delays a post: giving up here would lose the answer.
    pub(super) async fn find(
        &mut self,
        place: &Place,
        anchor: Anchor<'_>,
        pieces: &[Piece],
        until: Instant,
    ) -> Result<VisibleAnswer, PostFailure> {
        let mut range = match anchor {
            Anchor::Trigger(trigger) | Anchor::Growing(trigger) => HistoryRange::After(trigger.clone()),
            Anchor::Words(..) => HistoryRange::Newest,
            Anchor::Nothing => return Ok(VisibleAnswer::default()),
        };
        let nothing = Piece::default();
        let mut ours = Vec::new();
        for _ in 0..SEARCH_PAGES {
            let request = PostRequest::History { place: place.clone(), range: range.clone(), limit: PAGE };
            let mut attempt = 0;
            let page = loop {
                match self.perform(&request).await {
                    Ok(PostResult::Messages(page)) => break page,
                    Ok(_) => break Vec::new(),
                    Err(error) => self.wait_or_refuse(error, &nothing, attempt, until).await?,
                }
                attempt += 1;
            };
            let full = page.len() >= usize::from(PAGE);
            let (oldest, newest) = (page.first().map(edge), page.last().map(edge));
            let mine = page.into_iter().filter(|posted| posted.author.kind == AuthorKind::Ourselves);
            range = match (anchor, oldest, newest) {
                (Anchor::Words(since, _), Some((at, oldest)), _) => {
                    ours.splice(0..0, mine);
                    if is_before(at, since) {
                        break;
                    }
                    HistoryRange::Before(oldest)
                }
                (_, _, Some((_, newest))) => {
                    ours.extend(mine);
                    HistoryRange::After(newest)
                }
                (_, _, None) => break,
            };
            if !full {
                break;
            }
        }
        Ok(VisibleAnswer::among(ours, anchor, pieces))
    }
}

impl VisibleAnswer {
    /// Stores the present content of a piece.
    pub(super) fn note(&mut self, index: usize, shown: VisiblePiece) {
        match self.pieces.get_mut(index) {
            Some(known) => *known = shown,
            None => self.pieces.push(shown),
        }
    }

    fn among(ours: Vec<Posted>, anchor: Anchor<'_>, pieces: &[Piece]) -> Self {
        let words = pieces.first().map_or("", |piece| piece.text.as_str());
        let of_others = |posted: &Posted| matches!(anchor, Anchor::Words(_, others) if others.contains(&posted.id));
        let answers = |posted: &Posted| match anchor {
            Anchor::Trigger(trigger) | Anchor::Growing(trigger) => {
                posted.reply_to.as_ref().is_some_and(|quoted| quoted.id == *trigger)
            }
            Anchor::Words(since, _) => {
                let fits = posted.reply_to.is_none() && !is_before(posted.at, since) && posted.text == words;
                fits && !of_others(posted)
            }
            Anchor::Nothing => false,
        };
        let replies = ours.iter().filter(|posted| answers(posted)).count();
        // Without a trigger, identical messages may be answers to different turns.
        let doubled = replies > 1 && matches!(anchor, Anchor::Trigger(_) | Anchor::Growing(_));
        let mut found = Self { pieces: Vec::new(), doubled };
        // Another answer that began after the trigger may have its further messages behind this one.
        let is_alone = !ours.iter().take_while(|posted| !answers(posted)).any(|posted| posted.reply_to.is_some());
        let mut rest = ours.into_iter().skip_while(|posted| !answers(posted));
        let Some(first) = rest.next() else { return found };
        let files = !first.attachments.is_empty();
        found.pieces.push(VisiblePiece { files, ..VisiblePiece::draft(first.id, first.text) });
        // Only first pieces are replies, so an answer to another message never matches.
        let is_further = |posted: &Posted| posted.reply_to.is_none() && !of_others(posted);
        let rest: Vec<Posted> = rest.collect();
        let mut rest = rest.as_slice();
        let grows = matches!(anchor, Anchor::Growing(_));
        for piece in pieces.iter().skip(1) {
            let is_part = |posted: &Posted| {
                is_beginning(&posted.text, &piece.text) || (grows && is_beginning(&piece.text, &posted.text))
            };
            let whole = rest.iter().position(|posted| is_further(posted) && posted.text == piece.text);
            // A beginning may be that of another answer. One that is not directly behind the known part is not taken:
            // the piece is posted, and the platform recognises the nonce of a message that was its own.
            let begun = || rest.first().filter(|posted| is_alone && is_further(posted) && is_part(posted)).map(|_| 0);
            let at = whole.or_else(begun);
            let Some((at, posted)) = at.and_then(|at| Some((at, rest.get(at)?))) else { break };
            let shown = VisiblePiece::draft(posted.id.clone(), posted.text.clone());
            found.pieces.push(VisiblePiece {
                whole: whole.is_some(),
                files: whole.is_some() && !piece.files.is_empty(),
                ..shown
            });
            rest = &rest[at + 1..];
        }
        found
    }
}

fn edge(posted: &Posted) -> (Timestamp, MessageId) {
    (posted.at, posted.id.clone())
}

/// True if a message was certainly posted before a turn began.
fn is_before(posted: Timestamp, since: Timestamp) -> bool {
    since.since(posted) > CLOCKS_APART
}

/// True if a message shows a draft of this piece: its beginning, possibly with its open code block closed.
fn is_beginning(text: &str, piece: &str) -> bool {
    let open = CLOSINGS.iter().find_map(|closing| text.strip_suffix(closing)).unwrap_or(text);
    open.len() >= BEGINNING_MIN && (piece.starts_with(text) || piece.starts_with(open))
}
