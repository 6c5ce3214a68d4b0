//! The files of a question and of the message it replies to: fetched concurrently, within bounds.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::parts::TurnParts;
use crate::services::running::Running;
use domain::attachment::{self, AttachmentAllowance, Enclosed, FileView, Plan, Unread};
use domain::ids::{Door, Person};
use domain::incoming::{Attachment, Quoted};
use domain::turn::Turn;
use ports::FetchError;
use ports::shares::Share;
use telemetry::events::ATTACHMENT_UNREAD;

/// The maximum size in KiB of the files of all turns in flight. A request briefly takes about four times the size of
/// its files.
pub const KIB_MAX: usize = 32 << 10;
/// The timeout for the memory permits of a turn's files; after that the files are only named.
const ROOM_WITHIN: Duration = Duration::from_secs(3);
/// The timeout for fetching the files of one question, regardless of the port's own timeout.
const FETCH_WITHIN: Duration = Duration::from_secs(15);

/// The files as presented to a model.
pub(super) struct Files {
    /// The files of the question itself.
    pub own: Enclosed,
    /// The files of the message that it replies to.
    pub quoted: Enclosed,
    /// The memory permits of the files, held as long as the files.
    pub room: Option<Share>,
}

/// Fetches the files that are permitted, and names the others.
pub(super) async fn read(parts: &TurnParts, running: &Running, turn: &Turn, quoted: Option<&Quoted>) -> Files {
    let seen = quoted.and_then(|quoted| quoted.seen.as_ref()).filter(|seen| !seen.ours);
    let of_quoted = seen.map(|seen| seen.attachments.as_slice()).unwrap_or_default();
    if turn.attachments.is_empty() && of_quoted.is_empty() {
        return Files { own: Enclosed::default(), quoted: Enclosed::default(), room: None };
    }
    let mut allowance = AttachmentAllowance::new(running.somebody_sees(turn.policy.model.as_deref()));
    let files = turn.attachments.iter().chain(of_quoted);
    let mut plans: Vec<(&Attachment, Plan)> = files.map(|file| (file, allowance.plan(file))).collect();
    let room = room(parts, &turn.person, &plans).await;
    if room.is_none() {
        for (_, plan) in plans.iter_mut().filter(|(_, plan)| is_fetched(*plan)) {
            *plan = Plan::Name(Unread::Busy);
        }
    }
    let shown = join_all(plans.into_iter().map(|(file, plan)| one(parts, turn, file, plan))).await;
    let (mut own, mut quoted) = (Enclosed::default(), Enclosed::default());
    for (number, shown) in shown.into_iter().enumerate() {
        let whose = if number < turn.attachments.len() { &mut own } else { &mut quoted };
        whose.add(shown);
    }
    Files { own, quoted, room }
}

const fn is_fetched(plan: Plan) -> bool {
    matches!(plan, Plan::Picture | Plan::Text)
}

/// Acquires permits for all files to fetch; `None` if they are not free for this person before the timeout.
async fn room(parts: &TurnParts, person: &Person, plans: &[(&Attachment, Plan)]) -> Option<Share> {
    let bytes: u64 = plans.iter().filter(|(_, plan)| is_fetched(*plan)).map(|(file, _)| file.size).sum();
    let kib = usize::try_from(bytes.div_ceil(1024)).ok()?;
    timeout(ROOM_WITHIN, parts.files.kib.wait_many(Some(person), kib)).await.ok()
}

async fn one(parts: &TurnParts, turn: &Turn, file: &Attachment, plan: Plan) -> FileView {
    let read = match plan {
        Plan::Name(why) => Err((why, None)),
        Plan::Picture | Plan::Text => fetch(parts, &turn.id.door, file, plan).await,
    };
    read.unwrap_or_else(|(why, reason)| {
        tracing::info!(
            event = ATTACHMENT_UNREAD, turn = %turn.id, why = why.as_str(), reason, bytes = file.size, "a file is only named"
        );
        attachment::named(file, why)
    })
}

async fn fetch(
    parts: &TurnParts,
    door: &Door,
    file: &Attachment,
    plan: Plan,
) -> Result<FileView, (Unread, Option<String>)> {
    let most = usize::try_from(file.size).unwrap_or(0);
    let fetched = timeout(FETCH_WITHIN, parts.files.doors.fetch(door, &file.url, most)).await;
    let fetched = fetched.unwrap_or_else(|_| Err(FetchError::Lost("it took too long".to_owned())));
    let bytes = fetched.map_err(|error| {
        let why = if error == FetchError::TooLong { Unread::TooLarge } else { Unread::Unreachable };
        (why, Some(error.to_string()))
    })?;
    attachment::read(file, plan, bytes).map_err(|why| (why, None))
}
