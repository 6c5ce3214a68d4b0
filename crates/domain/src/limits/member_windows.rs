//! The rate-limit windows known to this process, of members and of accounts. Without a server, they are authoritative.
//! With a server, they are a copy of its last state, used as a fallback while the server is unavailable. Pure bounded
//! state, without I/O.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::account::{Account, Share};
use super::window_log::{WindowEntry, WindowLog};
use super::{AccountUse, Decision, ENTRIES_MAX, FullAccount, LimitRefusal, LimitStep, Member, Request, turn_part};
use crate::ids::{self, Timestamp};

/// The maximum number of windows. The least recently used are evicted first.
pub const MEMBERS_MAX: usize = 50_000;

/// The number of windows below which there is no search for windows whose entries have all aged out.
const TIDY_FROM: usize = 256;

/// The subject of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counted {
    /// The messages and tokens of a member.
    Member(Member),
    /// One cost of an account.
    Account(Account),
}

/// The entries of all windows.
#[derive(Default)]
pub struct MemberWindows {
    pages: HashMap<Counted, Page>,
    /// The number of windows with changes that are not yet replicated.
    unkept: usize,
    last: u64,
    tidy_at: usize,
}

struct Page {
    log: WindowLog,
    window: Duration,
    /// The number of the last step on this window.
    touched: u64,
    /// The turns that changed here and are not yet replicated, each with the number of its last change.
    changes: Vec<(u64, Box<str>)>,
    /// The server's version of the log; zero if unknown.
    version: u64,
    /// The highest version that the server reported. A report with a lower version arrived out of order.
    newest: u64,
    /// The turns that this process reserved and did not cancel. If the server does not have one of them, it lost data.
    own: Vec<Arc<str>>,
}

/// The changes of one window that are not yet replicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The subject of the window.
    pub of: Counted,
    /// The length of the window.
    pub window: Duration,
    /// Each changed turn with its entry; none if it was cancelled or has aged out.
    pub turns: Vec<(Box<str>, Option<WindowEntry>)>,
    /// The other known entries, for a server that lost its data.
    pub rest: Vec<WindowEntry>,
    /// The version that the server is expected to have; zero for none.
    pub known: u64,
    /// The number of the last change included.
    pub through: u64,
}

impl Changes {
    /// Returns the same changes for a server that lost its data: the other entries are included.
    #[must_use]
    pub fn with_rest(mut self) -> Self {
        let rest = std::mem::take(&mut self.rest);
        self.turns
            .extend(rest.into_iter().filter_map(|entry| Some(((&**entry.turn.as_ref()?).into(), Some(entry.clone())))));
        self
    }
}

impl MemberWindows {
    /// Performs one step on the local state. Its changes are marked for replication.
    pub fn decide(&mut self, now: Timestamp, request: &Request) -> Decision {
        let number = self.number();
        let blocked = self.blocking_share(now, request, number);
        let (mut answer, changed) = self.decide_of_member(now, request, blocked, number);
        if let Decision::Used(used) = &mut answer {
            used.accounts = request.shares.iter().map(|share| self.used_of(now, share)).collect();
        }
        let takes = matches!(request.step, LimitStep::Settle(..) | LimitStep::Cancel(_))
            || (changed && answer == Decision::Admitted);
        for share in request.shares.iter().filter(|_| takes) {
            self.take_share(now, request, share, number);
        }
        answer
    }

    /// Decides by the member's window, which takes precedence over the refusal of an account. The flag is true if
    /// something changed, or if no member is counted and the turn is new.
    fn decide_of_member(
        &mut self,
        now: Timestamp,
        request: &Request,
        blocked: Option<LimitRefusal>,
        number: u64,
    ) -> (Decision, bool) {
        let Some(member) = &request.member else {
            let known = self.first_counts(now, request);
            return match (&request.step, blocked) {
                (LimitStep::Reserve(_), Some(refusal)) if !known => (Decision::Refused(refusal), false),
                (LimitStep::Reserve(_), _) => (Decision::Admitted, !known),
                _ => (Decision::Done, false),
            };
        };
        let of = Counted::Member(member.clone());
        if matches!(request.step, LimitStep::Read(_)) && !self.pages.contains_key(&of) {
            return WindowLog::default().step(now, request);
        }
        self.make_room(now);
        let page = self.page(&of, request.window);
        page.touched = number;
        if let Some(refusal) = blocked {
            let (answer, counts) = page.log.clone().step(now, request);
            if counts {
                return (Decision::Refused(refusal), false);
            }
            return (answer, false);
        }
        let (answer, changed) = page.log.step(now, request);
        if changed && let Some(turn) = turn_of(request) {
            self.change(&of, number, turn);
        }
        (answer, changed)
    }

    /// True if the first account of a step already counts its turn.
    fn first_counts(&mut self, now: Timestamp, request: &Request) -> bool {
        let (Some(share), Some(turn)) = (request.shares.first(), turn_of(request)) else { return false };
        let page = self.pages.get_mut(&Counted::Account(share.account.clone()));
        page.is_some_and(|page| {
            page.log.refresh(now, share.account.window);
            page.log.entry(&turn).is_some()
        })
    }

    /// Returns the refusal of the first full account; `None` if all have room or the step reserves nothing.
    fn blocking_share(&mut self, now: Timestamp, request: &Request, number: u64) -> Option<LimitRefusal> {
        let LimitStep::Reserve(ask) = &request.step else { return None };
        if ask.exempt || request.shares.is_empty() {
            return None;
        }
        let turn = turn_part(&ask.turn);
        request.shares.iter().enumerate().find_map(|(place, share)| {
            self.make_room(now);
            let page = self.page(&Counted::Account(share.account.clone()), share.account.window);
            page.touched = number;
            let mut refusal = page.log.share_refusal(now, share, &turn)?;
            refusal.account = refusal.account.map(|account| FullAccount { place, ..account });
            Some(refusal)
        })
    }

    /// Counts, settles or cancels a turn in an account.
    fn take_share(&mut self, now: Timestamp, request: &Request, share: &Share, number: u64) {
        self.make_room(now);
        let of = Counted::Account(share.account.clone());
        let page = self.page(&of, share.account.window);
        page.touched = number;
        let changed = match &request.step {
            LimitStep::Reserve(ask) => page.log.reserve_share(now, share, ask),
            LimitStep::Settle(turn, _) => page.log.settle_share(now, share, turn),
            LimitStep::Cancel(turn) => page.log.cancel_share(now, share, turn),
            LimitStep::Read(_) => false,
        };
        if changed && let Some(turn) = turn_of(request) {
            self.change(&of, number, turn);
        }
    }

    /// Returns the use of an account, without changes.
    fn used_of(&self, now: Timestamp, share: &Share) -> AccountUse {
        let page = self.pages.get(&Counted::Account(share.account.clone()));
        page.map(|page| page.log.clone()).unwrap_or_default().used_of_share(now, share)
    }

    /// Marks the turn of a step for replication. The server did not answer the step, so it was decided here; the server
    /// must learn the outcome in any case, so that it keeps no orphaned reservation.
    pub fn tell_of(&mut self, request: &Request) {
        let number = self.number();
        let Some(turn) = turn_of(request).filter(|_| matches!(request.step, LimitStep::Reserve(_))) else { return };
        for of in windows_of(request) {
            if self.pages.contains_key(&of) {
                self.change(&of, number, turn.clone());
            }
        }
    }

    /// Replaces the local state of a window with the server's state, and reapplies changes that are not yet replicated.
    /// A turn that this process reserved or settled and that the server does not report was lost there: it still counts
    /// and is marked for replication again. Returns true if there is such a turn.
    pub fn learned(&mut self, now: Timestamp, of: &Counted, window: Duration, log: WindowLog, version: u64) -> bool {
        if log.entries().is_empty() && !self.pages.contains_key(of) {
            return false;
        }
        let number = self.number();
        self.make_room(now);
        let page = self.page(of, window);
        page.touched = number;
        if version != 0 && version < page.newest {
            return false;
        }
        page.newest = page.newest.max(version);
        page.version = version;
        let ours = std::mem::replace(&mut page.log, log);
        for (_, turn) in &page.changes {
            page.log.merge(turn, ours.entry(turn));
        }
        if version == 0 || page.log.entries().len() >= ENTRIES_MAX {
            return false;
        }
        let (log, changes) = (&page.log, &page.changes);
        let missing = |turn: &Arc<str>| {
            let ours = ours.entry(turn).filter(|entry| entry.at.0.saturating_add(ids::millis(window)) > now.0);
            let known = changes.iter().any(|(_, known)| **known == **turn);
            let gone = |ours: &WindowEntry| match log.entry(turn) {
                Some(there) => there.state.is_open() && !ours.state.is_open(),
                None => true,
            };
            !known && ours.is_some_and(gone)
        };
        if !page.own.iter().any(missing) {
            return false;
        }
        // If one of our turns is missing, turns of other processes were lost too, unless these cancelled them
        // meanwhile.
        let turns = ours.entries().iter().filter_map(|entry| entry.turn.as_ref());
        let lost: Vec<Arc<str>> = turns.filter(|turn| missing(turn)).cloned().collect();
        for turn in &lost {
            self.change(of, number, (**turn).into());
            if let Some(page) = self.pages.get_mut(of) {
                page.log.merge(turn, ours.entry(turn));
            }
        }
        true
    }

    /// Repeats a step that the server performed on exactly the local state. If the resulting messages and tokens differ
    /// from the server's, the local version becomes unknown.
    pub fn followed(&mut self, now: Timestamp, request: &Request, known: u64, version: u64, used: (u32, u64)) {
        let number = self.number();
        let Some(page) = request.of_window().and_then(|of| self.pages.get_mut(&of)) else { return };
        page.touched = number;
        page.newest = page.newest.max(version);
        if page.version != known {
            page.version = 0;
            return;
        }
        page.log.step(now, request);
        let here = page.log.used(None);
        page.version = if (here.messages, here.tokens) == used { version } else { 0 };
    }

    /// Records that this process reserved or cancelled the turn of a step.
    pub fn did(&mut self, request: &Request) {
        let Some(page) = request.of_window().and_then(|of| self.pages.get_mut(&of)) else { return };
        let (Some(turn), reserved) = (turn_of(request), matches!(request.step, LimitStep::Reserve(_))) else { return };
        let at = page.own.iter().position(|known| **known == *turn);
        match (&request.step, at) {
            (LimitStep::Cancel(_), Some(at)) => drop(page.own.swap_remove(at)),
            (_, None) if reserved => {
                let log = &page.log;
                page.own.retain(|known| log.entry(known).is_some());
                if page.own.is_empty() {
                    page.own.reserve_exact(1);
                }
                page.own.push(turn.into());
            }
            _ => {}
        }
    }

    /// Returns the server's version of a window; zero if it is unknown, or if no entry counts any more.
    #[must_use]
    pub fn version(&self, now: Timestamp, of: &Counted) -> u64 {
        let page = self.pages.get(of).filter(|page| !page.log.is_over(now, page.window));
        page.map_or(0, |page| page.version)
    }

    /// Resets the versions of a window whose data the server lost.
    pub fn lost(&mut self, of: &Counted) {
        if let Some(page) = self.pages.get_mut(of) {
            (page.version, page.newest) = (0, 0);
        }
    }

    /// True if the local state already counts the turn of a step.
    #[must_use]
    pub fn knows(&self, request: &Request) -> bool {
        let page = windows_of(request).next().and_then(|of| self.pages.get(&of));
        page.is_some_and(|page| turn_of(request).is_some_and(|turn| page.log.entry(&turn).is_some()))
    }

    /// Returns all known entries of a window, for a server that lost them.
    #[must_use]
    pub fn everything(&self, of: &Counted, window: Duration) -> Changes {
        let all = |page: &Page| {
            let changed = page.changes.iter().map(|(_, turn)| (turn.clone(), page.log.entry(turn).cloned()));
            let rest = page.rest().filter_map(|entry| Some(((&**entry.turn.as_ref()?).into(), Some(entry.clone()))));
            changed.chain(rest).collect()
        };
        let turns = self.pages.get(of).map(all).unwrap_or_default();
        Changes { of: of.clone(), window, turns, rest: Vec::new(), known: 0, through: self.last }
    }

    /// Loads the windows stored before a restart. Windows that are already known stay unchanged. The length of a
    /// member's window arrives with its next request; until then it is `window`.
    pub fn load(&mut self, rows: Vec<(Counted, WindowLog)>, window: Duration) {
        for (of, log) in rows.into_iter().take(MEMBERS_MAX) {
            let touched = self.number();
            let window = if let Counted::Account(account) = &of { account.window } else { window };
            let page = Page { log, touched, ..Page::empty(window) };
            self.pages.entry(of).or_insert(page);
        }
    }

    /// True if a change is not yet replicated.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        self.unkept > 0
    }

    /// Returns the changes of a window that are not yet replicated; `None` if there are none.
    #[must_use]
    pub fn changes_of(&self, of: &Counted) -> Option<Changes> {
        let page = self.pages.get(of).filter(|page| !page.changes.is_empty())?;
        let turns = page.changes.iter().map(|(_, turn)| (turn.clone(), page.log.entry(turn).cloned())).collect();
        let (window, rest, known) = (page.window, page.rest().cloned().collect(), page.version);
        Some(Changes { of: of.clone(), window, turns, rest, known, through: self.last })
    }

    /// Returns the changes of all windows that are not yet replicated.
    #[must_use]
    pub fn changes(&self) -> Vec<Changes> {
        if self.unkept == 0 {
            return Vec::new();
        }
        self.pages.keys().filter_map(|of| self.changes_of(of)).collect()
    }

    /// Returns each window with changes: its subject, its entries and its length.
    #[must_use]
    pub fn changed(&self) -> Vec<(&Counted, &WindowLog, Duration)> {
        if self.unkept == 0 {
            return Vec::new();
        }
        let changed = self.pages.iter().filter(|(_, page)| !page.changes.is_empty());
        changed.map(|(of, page)| (of, &page.log, page.window)).collect()
    }

    /// Returns the number of the last change.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Marks all changes up to this number as replicated.
    pub fn kept(&mut self, through: u64) {
        if self.unkept == 0 {
            return;
        }
        let mut unkept = 0;
        for page in self.pages.values_mut() {
            page.keep(through);
            unkept += usize::from(!page.changes.is_empty());
        }
        self.unkept = unkept;
    }

    /// Marks the changes of one window up to this number as replicated.
    pub fn kept_of(&mut self, of: &Counted, through: u64) {
        let Some(page) = self.pages.get_mut(of).filter(|page| !page.changes.is_empty()) else { return };
        page.keep(through);
        self.unkept -= usize::from(page.changes.is_empty());
    }

    /// Removes windows whose entries have all aged out.
    pub fn tidy(&mut self, now: Timestamp) {
        self.pages.retain(|_, page| !page.changes.is_empty() || !page.log.is_over(now, page.window));
        self.pages.shrink_to(self.pages.len() * 2);
        self.tidy_at = (self.pages.len() * 2).max(TIDY_FROM);
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn page(&mut self, of: &Counted, window: Duration) -> &mut Page {
        let page = self.pages.entry(of.clone()).or_insert_with(|| Page::empty(window));
        page.window = window;
        page
    }

    fn change(&mut self, of: &Counted, number: u64, turn: Box<str>) {
        let Some(page) = self.pages.get_mut(of) else { return };
        self.unkept += usize::from(page.changes.is_empty());
        page.changes.retain(|(_, known)| *known != turn);
        page.changes.push((number, turn));
        let over = page.changes.len().saturating_sub(ENTRIES_MAX);
        page.changes.drain(..over);
    }

    /// Removes aged-out windows from time to time. If [`MEMBERS_MAX`] still count, evicts the least recently used
    /// eighth.
    fn make_room(&mut self, now: Timestamp) {
        if self.pages.len() < self.tidy_at.max(TIDY_FROM) {
            return;
        }
        self.tidy(now);
        self.tidy_at = self.tidy_at.min(MEMBERS_MAX);
        if self.pages.len() < MEMBERS_MAX {
            return;
        }
        let mut touched: Vec<u64> = self.pages.values().map(|page| page.touched).collect();
        let (_, cut, _) = touched.select_nth_unstable(MEMBERS_MAX / 8);
        let cut = *cut;
        self.pages.retain(|_, page| page.touched >= cut);
        self.unkept = self.pages.values().filter(|page| !page.changes.is_empty()).count();
    }
}

impl Page {
    fn empty(window: Duration) -> Self {
        let log = WindowLog::default();
        Self { log, window, touched: 0, changes: Vec::new(), version: 0, newest: 0, own: Vec::new() }
    }

    /// Marks the changes up to this number as replicated and frees their memory: a page lives for a window, its changes
    /// only for moments.
    fn keep(&mut self, through: u64) {
        self.changes.retain(|(number, _)| *number > through);
        if self.changes.is_empty() {
            self.changes = Vec::new();
        }
    }

    /// Returns the entries that did not change here.
    fn rest(&self) -> impl Iterator<Item = &WindowEntry> {
        let changed = |turn: &Arc<str>| self.changes.iter().any(|(_, known)| **known == **turn);
        self.log.entries().iter().filter(move |entry| entry.turn.as_ref().is_some_and(|turn| !changed(turn)))
    }
}

impl Request {
    /// Returns the window of the member.
    fn of_window(&self) -> Option<Counted> {
        self.member.clone().map(Counted::Member)
    }
}

/// Returns all windows of a step, the member's first.
fn windows_of(request: &Request) -> impl Iterator<Item = Counted> {
    let accounts = request.shares.iter().map(|share| Counted::Account(share.account.clone()));
    request.of_window().into_iter().chain(accounts)
}

/// Returns the turn of a step.
fn turn_of(request: &Request) -> Option<Box<str>> {
    let turn = match &request.step {
        LimitStep::Reserve(ask) => &ask.turn,
        LimitStep::Settle(turn, _) | LimitStep::Cancel(turn) => turn,
        LimitStep::Read(_) => return None,
    };
    Some(turn_part(turn).into())
}

#[cfg(test)]
mod tests;
