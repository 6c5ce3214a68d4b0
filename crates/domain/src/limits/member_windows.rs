//! The entries of all windows that one process knows of, of members and of accounts: all there is where no server decides, else
//! what the server told last, to go on with while it is away. Plain data, bounded, no waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::account::{Account, Share};
use super::window_log::{Entry, WindowLog};
use super::{AccountUse, Decision, ENTRIES_MAX, FullAccount, Member, Refusal, Request, Step};
use crate::ids::{self, Timestamp};
use crate::keys;

/// How many members are known at most; those heard of least lately go first.
pub const MEMBERS_MAX: usize = 50_000;

/// Members below which nobody looks for some whose entries have all aged out.
const TIDY_FROM: usize = 256;

/// Whose or what window it is.
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
    /// How many windows have changes that are not kept elsewhere yet.
    unkept: usize,
    last: u64,
    tidy_at: usize,
}

struct Page {
    log: WindowLog,
    window: Duration,
    /// The number of the last step about it.
    touched: u64,
    /// The turns that changed here and are not kept elsewhere yet, each with the number of its last change.
    changes: Vec<(u64, Box<str>)>,
    /// The version that the server gave to what is in the log; zero while it has none.
    version: u64,
    /// The greatest version that the server told. What is told with a lesser one was overtaken on its way.
    newest: u64,
    /// The turns that this process reserved and did not cancel. A server that does not know one of them has lost it.
    own: Vec<Arc<str>>,
}

/// What changed in one window and is not kept elsewhere yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Whose or what window it is.
    pub of: Counted,
    /// The length of the window.
    pub window: Duration,
    /// Each turn that changed, and its entry; none when it was cancelled, or has aged out.
    pub turns: Vec<(Box<str>, Option<Entry>)>,
    /// The other entries that are known, for a server that has lost them.
    pub rest: Vec<Entry>,
    /// The version of what the server is expected to have; zero for none.
    pub known: u64,
    /// All changes up to this number are in it.
    pub through: u64,
}

impl Changes {
    /// The same for a server that has lost what it had: the other entries are told too.
    #[must_use]
    pub fn with_rest(mut self) -> Self {
        let rest = std::mem::take(&mut self.rest);
        self.turns
            .extend(rest.into_iter().filter_map(|entry| Some(((&**entry.turn.as_ref()?).into(), Some(entry.clone())))));
        self
    }
}

impl MemberWindows {
    /// Does one step by what is known here. What it changed waits to be kept elsewhere.
    pub fn decide(&mut self, now: Timestamp, request: &Request) -> Decision {
        let number = self.number();
        let blocked = self.blocking_share(now, request, number);
        let (mut answer, changed) = self.decide_of_member(now, request, blocked, number);
        if let Decision::Used(used) = &mut answer {
            used.accounts = request.shares.iter().map(|share| self.used_of(now, share)).collect();
        }
        let takes =
            matches!(request.step, Step::Settle(..) | Step::Cancel(_)) || (changed && answer == Decision::Admitted);
        for share in request.shares.iter().filter(|_| takes) {
            self.take_share(now, request, share, number);
        }
        answer
    }

    /// Decides by the window of the member; what an account refuses is told after what this window refuses. True with it when
    /// something changed, or the turn is new where no member is counted.
    fn decide_of_member(
        &mut self,
        now: Timestamp,
        request: &Request,
        blocked: Option<Refusal>,
        number: u64,
    ) -> (Decision, bool) {
        let Some(member) = &request.member else {
            let known = self.first_counts(now, request);
            return match (&request.step, blocked) {
                (Step::Reserve(_), Some(refusal)) if !known => (Decision::Refused(refusal), false),
                (Step::Reserve(_), _) => (Decision::Admitted, !known),
                _ => (Decision::Done, false),
            };
        };
        let of = Counted::Member(member.clone());
        if matches!(request.step, Step::Read(_)) && !self.pages.contains_key(&of) {
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

    /// Returns true if the first account of a step counts its turn already.
    fn first_counts(&mut self, now: Timestamp, request: &Request) -> bool {
        let (Some(share), Some(turn)) = (request.shares.first(), turn_of(request)) else { return false };
        let page = self.pages.get_mut(&Counted::Account(share.account.clone()));
        page.is_some_and(|page| {
            page.log.refresh(now, share.account.window);
            page.log.entry(&turn).is_some()
        })
    }

    /// Returns why an account has no room for a turn; `None` when all have, or nothing is reserved.
    fn blocking_share(&mut self, now: Timestamp, request: &Request, number: u64) -> Option<Refusal> {
        let Step::Reserve(ask) = &request.step else { return None };
        if ask.exempt || request.shares.is_empty() {
            return None;
        }
        let turn = keys::limits::limit_turn(&ask.turn);
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
            Step::Reserve(ask) => page.log.reserve_share(now, share, ask),
            Step::Settle(turn, _) => page.log.settle_share(now, share, turn),
            Step::Cancel(turn) => page.log.cancel_share(now, share, turn),
            Step::Read(_) => false,
        };
        if changed && let Some(turn) = turn_of(request) {
            self.change(&of, number, turn);
        }
    }

    /// How much of an account is used; nothing is changed.
    fn used_of(&self, now: Timestamp, share: &Share) -> AccountUse {
        let page = self.pages.get(&Counted::Account(share.account.clone()));
        page.map(|page| page.log.clone()).unwrap_or_default().used_of_share(now, share)
    }

    /// A step that was sent elsewhere got no answer, and was decided here instead: what became of its turn is told there in any
    /// case, so that nothing stays behind of what nobody knows about.
    pub fn tell_of(&mut self, request: &Request) {
        let number = self.number();
        let Some(turn) = turn_of(request).filter(|_| matches!(request.step, Step::Reserve(_))) else { return };
        for of in windows_of(request) {
            if self.pages.contains_key(&of) {
                self.change(&of, number, turn.clone());
            }
        }
    }

    /// What is kept elsewhere about a member, as it was told there; changes that were not in that are kept upon it. What this
    /// process reserved or settled and is not told of was lost there: it counts on, and waits to be kept there again. True when
    /// there is any such.
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
            let gone = |ours: &Entry| match log.entry(turn) {
                Some(there) => there.state.is_open() && !ours.state.is_open(),
                None => true,
            };
            !known && ours.is_some_and(gone)
        };
        if !page.own.iter().any(missing) {
            return false;
        }
        // Where one of ours is missing, those of others were lost too, unless they cancelled them meanwhile.
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

    /// A step was done elsewhere, on exactly what was known here before: it is done here too. When that does not lead to as many
    /// messages and tokens as there, nothing is known any more.
    pub fn followed(&mut self, now: Timestamp, request: &Request, (known, version): (u64, u64), used: (u32, u64)) {
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

    /// This process reserved or cancelled the turn of a step.
    pub fn did(&mut self, request: &Request) {
        let Some(page) = request.of_window().and_then(|of| self.pages.get_mut(&of)) else { return };
        let (Some(turn), reserved) = (turn_of(request), matches!(request.step, Step::Reserve(_))) else { return };
        let at = page.own.iter().position(|known| **known == *turn);
        match (&request.step, at) {
            (Step::Cancel(_), Some(at)) => drop(page.own.swap_remove(at)),
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

    /// The version of what is kept elsewhere about a member, as far as it is known here; zero when it is not, or when nothing
    /// of it counts any more.
    #[must_use]
    pub fn version(&self, now: Timestamp, of: &Counted) -> u64 {
        let page = self.pages.get(of).filter(|page| !page.log.is_over(now, page.window));
        page.map_or(0, |page| page.version)
    }

    /// The server has lost what it knew of a member: its versions begin anew.
    pub fn lost(&mut self, of: &Counted) {
        if let Some(page) = self.pages.get_mut(of) {
            (page.version, page.newest) = (0, 0);
        }
    }

    /// Whether the turn of a step counts already, as far as it is known here.
    #[must_use]
    pub fn knows(&self, request: &Request) -> bool {
        let page = windows_of(request).next().and_then(|of| self.pages.get(&of));
        page.is_some_and(|page| turn_of(request).is_some_and(|turn| page.log.entry(&turn).is_some()))
    }

    /// All that is known about a member, for a server that has lost it.
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

    /// What an earlier life wrote down. Windows that are known already are left as they are. The length of a member's window
    /// comes with a request only; until then it is `window`.
    pub fn load(&mut self, rows: Vec<(Counted, WindowLog)>, window: Duration) {
        for (of, log) in rows.into_iter().take(MEMBERS_MAX) {
            let touched = self.number();
            let window = if let Counted::Account(account) = &of { account.window } else { window };
            let page = Page { log, touched, ..Page::empty(window) };
            self.pages.entry(of).or_insert(page);
        }
    }

    /// Whether any change waits to be kept elsewhere.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        self.unkept > 0
    }

    /// What changed in a window and is not kept elsewhere yet; `None` when all is.
    #[must_use]
    pub fn changes_of(&self, of: &Counted) -> Option<Changes> {
        let page = self.pages.get(of).filter(|page| !page.changes.is_empty())?;
        let turns = page.changes.iter().map(|(_, turn)| (turn.clone(), page.log.entry(turn).cloned())).collect();
        let (window, rest, known) = (page.window, page.rest().cloned().collect(), page.version);
        Some(Changes { of: of.clone(), window, turns, rest, known, through: self.last })
    }

    /// What changed in all windows and is not kept elsewhere yet.
    #[must_use]
    pub fn changes(&self) -> Vec<Changes> {
        if self.unkept == 0 {
            return Vec::new();
        }
        self.pages.keys().filter_map(|of| self.changes_of(of)).collect()
    }

    /// The entries of each member of whom something changed, and the length of their window.
    #[must_use]
    pub fn changed(&self) -> Vec<(&Counted, &WindowLog, Duration)> {
        if self.unkept == 0 {
            return Vec::new();
        }
        let changed = self.pages.iter().filter(|(_, page)| !page.changes.is_empty());
        changed.map(|(of, page)| (of, &page.log, page.window)).collect()
    }

    /// The number of the last change.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// All changes up to this number are kept elsewhere.
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

    /// The changes of one window up to this number are kept elsewhere.
    pub fn kept_of(&mut self, of: &Counted, through: u64) {
        let Some(page) = self.pages.get_mut(of).filter(|page| !page.changes.is_empty()) else { return };
        page.keep(through);
        self.unkept -= usize::from(page.changes.is_empty());
    }

    /// Forgets windows whose entries have all aged out.
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

    /// Of members whose entries all count the ones heard of least lately go, an eighth at once.
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

    /// The changes up to this number are kept elsewhere. Nothing stays of their room: a page lives for a window, and its changes for
    /// moments.
    fn keep(&mut self, through: u64) {
        self.changes.retain(|(number, _)| *number > through);
        if self.changes.is_empty() {
            self.changes = Vec::new();
        }
    }

    /// The entries that did not change here.
    fn rest(&self) -> impl Iterator<Item = &Entry> {
        let changed = |turn: &Arc<str>| self.changes.iter().any(|(_, known)| **known == **turn);
        self.log.entries().iter().filter(move |entry| entry.turn.as_ref().is_some_and(|turn| !changed(turn)))
    }
}

impl Request {
    /// The window of its member.
    fn of_window(&self) -> Option<Counted> {
        self.member.clone().map(Counted::Member)
    }
}

/// All windows that a step is about, that of the member first.
fn windows_of(request: &Request) -> impl Iterator<Item = Counted> {
    let accounts = request.shares.iter().map(|share| Counted::Account(share.account.clone()));
    request.of_window().into_iter().chain(accounts)
}

/// The turn that a step is about.
fn turn_of(request: &Request) -> Option<Box<str>> {
    let turn = match &request.step {
        Step::Reserve(ask) => &ask.turn,
        Step::Settle(turn, _) | Step::Cancel(turn) => turn,
        Step::Read(_) => return None,
    };
    Some(keys::limits::limit_turn(turn).into())
}

#[cfg(test)]
mod tests;
