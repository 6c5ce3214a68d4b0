//! The entries of all members that one process knows of: all there is where no server decides, else what the server told last,
//! to go on with while it is away. Plain data, bounded, no waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::window_log::{Entry, WindowLog};
use super::{Decision, ENTRIES_MAX, Member, Request, Step};
use crate::ids::{self, Timestamp};
use crate::keys;

/// How many members are known at most; those heard of least lately go first.
pub const MEMBERS_MAX: usize = 50_000;

/// Members below which nobody looks for some whose entries have all aged out.
const TIDY_FROM: usize = 256;

/// The entries of all members.
#[derive(Default)]
pub struct MemberWindows {
    pages: HashMap<Member, Page>,
    /// How many members have changes that are not kept elsewhere yet.
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

/// What changed about one member and is not kept elsewhere yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Who.
    pub member: Member,
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

impl MemberWindows {
    /// Does one step by what is known here. What it changed waits to be kept elsewhere.
    pub fn decide(&mut self, now: Timestamp, request: &Request) -> Decision {
        let number = self.number();
        let reads = matches!(request.step, Step::Read(_));
        if reads && !self.pages.contains_key(&request.member) {
            return WindowLog::default().step(now, request).0;
        }
        self.make_room(now);
        let page = self.page(&request.member, request.window);
        page.touched = number;
        let (answer, changed) = page.log.step(now, request);
        if changed && let Some(turn) = turn_of(request) {
            self.change(&request.member, number, turn);
        }
        answer
    }

    /// A step that was sent elsewhere got no answer, and was decided here instead: what became of its turn is told there in any
    /// case, so that nothing stays behind of what nobody knows about.
    pub fn tell_of(&mut self, request: &Request) {
        let number = self.number();
        if !matches!(request.step, Step::Reserve(_)) || !self.pages.contains_key(&request.member) {
            return;
        }
        if let Some(turn) = turn_of(request) {
            self.change(&request.member, number, turn);
        }
    }

    /// What is kept elsewhere about a member, as it was told there; changes that were not in that are kept upon it. What this
    /// process reserved or settled and is not told of was lost there: it counts on, and waits to be kept there again. True when
    /// there is any such.
    pub fn learned(&mut self, now: Timestamp, member: &Member, window: Duration, log: WindowLog, version: u64) -> bool {
        if log.entries().is_empty() && !self.pages.contains_key(member) {
            return false;
        }
        let number = self.number();
        self.make_room(now);
        let page = self.page(member, window);
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
            self.change(member, number, (**turn).into());
            if let Some(page) = self.pages.get_mut(member) {
                page.log.merge(turn, ours.entry(turn));
            }
        }
        true
    }

    /// A step was done elsewhere, on exactly what was known here before: it is done here too. When that does not lead to as many
    /// messages and tokens as there, nothing is known any more.
    pub fn followed(&mut self, now: Timestamp, request: &Request, (known, version): (u64, u64), used: (u32, u64)) {
        let number = self.number();
        let Some(page) = self.pages.get_mut(&request.member) else { return };
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
        let Some(page) = self.pages.get_mut(&request.member) else { return };
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
    pub fn version(&self, now: Timestamp, member: &Member) -> u64 {
        let page = self.pages.get(member).filter(|page| !page.log.is_over(now, page.window));
        page.map_or(0, |page| page.version)
    }

    /// The server has lost what it knew of a member: its versions begin anew.
    pub fn lost(&mut self, member: &Member) {
        if let Some(page) = self.pages.get_mut(member) {
            (page.version, page.newest) = (0, 0);
        }
    }

    /// Whether the turn of a step counts already, as far as it is known here.
    #[must_use]
    pub fn knows(&self, request: &Request) -> bool {
        let page = self.pages.get(&request.member);
        page.is_some_and(|page| turn_of(request).is_some_and(|turn| page.log.entry(&turn).is_some()))
    }

    /// All that is known about a member, for a server that has lost it.
    #[must_use]
    pub fn everything(&self, member: &Member, window: Duration) -> Changes {
        let of = |page: &Page| {
            let changed = page.changes.iter().map(|(_, turn)| (turn.clone(), page.log.entry(turn).cloned()));
            let rest = page.rest().filter_map(|entry| Some(((&**entry.turn.as_ref()?).into(), Some(entry.clone()))));
            changed.chain(rest).collect()
        };
        let turns = self.pages.get(member).map(of).unwrap_or_default();
        Changes { member: member.clone(), window, turns, rest: Vec::new(), known: 0, through: self.last }
    }

    /// What an earlier life wrote down. Members that are known already are left as they are.
    pub fn load(&mut self, rows: Vec<(Member, WindowLog)>, window: Duration) {
        for (member, log) in rows.into_iter().take(MEMBERS_MAX) {
            let touched = self.number();
            let page = Page { log, touched, ..Page::empty(window) };
            self.pages.entry(member).or_insert(page);
        }
    }

    /// Whether any change waits to be kept elsewhere.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        self.unkept > 0
    }

    /// What changed about a member and is not kept elsewhere yet; none when all is.
    #[must_use]
    pub fn changes_of(&self, member: &Member) -> Option<Changes> {
        let page = self.pages.get(member).filter(|page| !page.changes.is_empty())?;
        let turns = page.changes.iter().map(|(_, turn)| (turn.clone(), page.log.entry(turn).cloned())).collect();
        let (window, rest, known) = (page.window, page.rest().cloned().collect(), page.version);
        Some(Changes { member: member.clone(), window, turns, rest, known, through: self.last })
    }

    /// What changed about all members and is not kept elsewhere yet.
    #[must_use]
    pub fn changes(&self) -> Vec<Changes> {
        if self.unkept == 0 {
            return Vec::new();
        }
        self.pages.keys().filter_map(|member| self.changes_of(member)).collect()
    }

    /// The entries of each member of whom something changed, and the length of their window.
    #[must_use]
    pub fn changed(&self) -> Vec<(&Member, &WindowLog, Duration)> {
        if self.unkept == 0 {
            return Vec::new();
        }
        let changed = self.pages.iter().filter(|(_, page)| !page.changes.is_empty());
        changed.map(|(member, page)| (member, &page.log, page.window)).collect()
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

    /// The changes of one member up to this number are kept elsewhere.
    pub fn kept_of(&mut self, member: &Member, through: u64) {
        let Some(page) = self.pages.get_mut(member).filter(|page| !page.changes.is_empty()) else { return };
        page.keep(through);
        self.unkept -= usize::from(page.changes.is_empty());
    }

    /// Forgets members whose entries have all aged out.
    pub fn tidy(&mut self, now: Timestamp) {
        self.pages.retain(|_, page| !page.changes.is_empty() || !page.log.is_over(now, page.window));
        self.pages.shrink_to(self.pages.len() * 2);
        self.tidy_at = (self.pages.len() * 2).max(TIDY_FROM);
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn page(&mut self, member: &Member, window: Duration) -> &mut Page {
        let page = self.pages.entry(member.clone()).or_insert_with(|| Page::empty(window));
        page.window = window;
        page
    }

    fn change(&mut self, member: &Member, number: u64, turn: Box<str>) {
        let Some(page) = self.pages.get_mut(member) else { return };
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
