//! `restriction_sweeper`: assigns the role to restricted members, and removes it on time.
//!
//! Supervised by: staffai (permanent).
//! Receives: breaches of limits from `rate_limiter`, messages of restricted members from the gateway.
//! Sends: role changes, requests for roles, notices and reports to the outbox.
//! A restart loses: nothing that was durable. It reads its records again: ends of restrictions, roles that may not be
//! assigned yet, and the members who were told where they are answered.
//!
//! The record is written before the role is assigned and deleted after the role is removed, so the next process
//! completes any action that a crash interrupts. Each action is a task that uses the outbox and its budgets; each
//! community has one action at a time. An action that the platform rejects, because of a missing permission or a
//! deleted role, stays and is retried at the next read of the records.

mod actions;
mod confined;
mod endless;
mod exchange;
mod records;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::actions::Outcome;
use self::confined::RolesRead;
use self::exchange::Exchange;
use self::records::{LOAD_TIMEOUT, Records, TOLD_MAX, begun, over, read};
use crate::messages::outbox::OutboxMsg;
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::own_ranges::OwnRanges;
use crate::services::restricted::Restricted;
use crate::services::running::Live;
use domain::happening::{Happening, Lifted, RestrictionChange};
use domain::ids::{self, Place, Timestamp};
use domain::keys;
use domain::notice::restriction as notice;
use domain::notice::template::Filling;
use domain::outgoing::{Outgoing, Part};
use domain::ownership::Portions;
use domain::restriction::Member;
use domain::restriction::book::{RestrictionNotice, Restrictions, RoleChange};
use domain::restriction::changes::LatestChanges;
use domain::turn::Turn;
use ports::{Clock, Store, Write};

/// The interval of the checks for ended restrictions; `restriction.check_interval` sets the interval of reading the
/// records.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The maximum time between two reads of the records if no interval is configured.
const READ_EVERY: Duration = Duration::from_secs(300);
/// The maximum number of concurrent role changes.
const DEEDS_AT_ONCE: usize = 4;
/// The maximum number of messages of restricted members that are queued until the records are read.
const EARLY_MAX: usize = 1_000;
/// The minimum time between two log lines about a community that rejects role changes.
const WARN_EVERY: Duration = Duration::from_secs(3_600);
/// The maximum number of communities on record with such a log line.
const WARNED_MAX: usize = 1_000;

/// Events from its timer and its tasks.
pub enum SweeperEvent {
    /// The time to check for due actions.
    Sweep,
    /// The records were read; `None` on failure.
    Read(Option<Box<Records>>),
    /// The changes of other processes were read; `None` on failure.
    Exchanged(Option<Box<LatestChanges>>),
    /// The result of assigning or removing a role.
    Outcome(Member, RoleChange, Outcome),
    /// The roles of a member who is confined outside of the community.
    Roles(RolesRead),
}

/// The behaviour and its arguments.
pub struct RestrictionSweeper {
    /// The store of the records.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The running configuration.
    pub live: Live,
    /// The outboxes for role changes and messages.
    pub outboxes: Outboxes,
    /// The observers of events.
    pub observers: Observers,
    /// The shared set of members with a record.
    pub restricted: Arc<Restricted>,
    /// The communities whose members this process restricts. The others have owners of their own.
    pub ranges: OwnRanges,
}

/// The state of the sweeper.
pub struct SweeperState {
    book: Restrictions,
    /// The members who got a notice, and its expiry.
    told: HashMap<Member, Timestamp>,
    /// The members with a restriction without an end, and its start.
    endless: HashMap<Member, Timestamp>,
    /// The starts of the restrictions in communities of other processes.
    elsewhere: HashMap<Member, Timestamp>,
    /// The messages that arrived before the records were read; `None` afterwards.
    early: Option<Vec<Arc<Turn>>>,
    exchange: Exchange,
    /// The ranges by which the records were divided last.
    portions: Portions,
    /// The time of the last read of the records; `None` during a read.
    read_at: Option<Instant>,
    reading: bool,
    warned: HashMap<String, Instant>,
    /// The members whose roles were requested lately.
    asked: HashMap<Member, Instant>,
    /// The number of these requests in flight.
    asking: usize,
    /// The start of this process and its number of reports, which form their nonces.
    reports: (Timestamp, u32),
}

impl Actor for RestrictionSweeper {
    type Msg = SweeperMsg;
    type Event = SweeperEvent;
    type State = SweeperState;

    fn start(&self, ctx: &mut ActorContext<RestrictionSweeper>) -> Result<SweeperState, Crash> {
        let mut state = SweeperState {
            book: Restrictions::default(),
            told: HashMap::new(),
            endless: HashMap::new(),
            elsewhere: HashMap::new(),
            exchange: Exchange::default(),
            portions: self.ranges.now(),
            early: Some(Vec::new()),
            read_at: None,
            reading: false,
            warned: HashMap::new(),
            asked: HashMap::new(),
            asking: 0,
            reports: (self.clock.now(), 0),
        };
        self.read(ctx, &mut state);
        ctx.after(SWEEP_EVERY, SweeperEvent::Sweep);
        Ok(state)
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: SweeperMsg,
        state: &mut SweeperState,
    ) -> Result<(), Crash> {
        match message {
            SweeperMsg::Breached { turn, tier } => {
                self.breached(state, &turn, tier);
                self.act(ctx, state);
            }
            SweeperMsg::Spoke(turn) => match &mut state.early {
                Some(early) if early.len() < EARLY_MAX => early.push(turn),
                Some(_) => {}
                None => self.spoke(state, &turn),
            },
            SweeperMsg::CameBack(member) => {
                let now = self.clock.now();
                let lasts = state.endless.contains_key(&member);
                if state.book.came_back(&member, now) || (lasts && state.book.begins_again(&member, now)) {
                    self.act(ctx, state);
                }
            }
            SweeperMsg::Lifted(member) => self.lifted(state, &member),
            SweeperMsg::Confines(account) => self.confines(ctx, state, &account),
        }
        Ok(())
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: SweeperEvent,
        state: &mut SweeperState,
    ) -> Result<(), Crash> {
        match event {
            SweeperEvent::Sweep => {
                let portions = self.ranges.now();
                if std::mem::replace(&mut state.portions, portions) != portions {
                    state.read_at = None;
                }
                self.read_again(ctx, state);
                self.exchange(ctx, state);
                self.act(ctx, state);
                ctx.after(SWEEP_EVERY, SweeperEvent::Sweep);
            }
            SweeperEvent::Read(records) => {
                self.take_over(state, records);
                self.act(ctx, state);
            }
            SweeperEvent::Exchanged(exchanged) => self.exchanged(state, exchanged),
            SweeperEvent::Outcome(member, change, finished) => {
                self.finished(state, &member, change, finished);
                self.act(ctx, state);
            }
            SweeperEvent::Roles(read) => self.roles_read(state, read),
        }
        Ok(())
    }
}

impl RestrictionSweeper {
    /// Reads the records in a task.
    fn read(&self, ctx: &mut ActorContext<RestrictionSweeper>, state: &mut SweeperState) {
        state.reading = true;
        let (store, begun) = (Arc::clone(&self.store), self.clock.now());
        ctx.task(
            async move {
                let records = tokio::time::timeout(LOAD_TIMEOUT, read(&*store, begun)).await;
                SweeperEvent::Read(records.ok().map(Box::new))
            },
            |_| SweeperEvent::Read(None),
        );
    }

    fn read_again(&self, ctx: &mut ActorContext<RestrictionSweeper>, state: &mut SweeperState) {
        let interval = self.live.now().settings.restriction.check_interval;
        let interval = if interval.is_zero() { READ_EVERY } else { interval };
        if !state.reading && state.exchange.sending.is_none() && state.read_at.is_none_or(|at| at.elapsed() >= interval)
        {
            self.read(ctx, state);
        }
    }

    fn take_over(&self, state: &mut SweeperState, records: Option<Box<Records>>) {
        state.reading = false;
        state.read_at = Some(Instant::now());
        let duration = self.live.now().settings.restriction.duration;
        if let Some(records) = records {
            let Records { begun, complete, restricted, mut restricting, told, endless } = *records;
            let portions = self.ranges.now();
            let is_own = |member: &Member| portions.has_guild(Some(&member.guild));
            let (restricted, elsewhere) = restricted.into_iter().partition(|(member, _)| is_own(member));
            restricting.retain(is_own);
            let before = |(member, until): (Member, Timestamp)| {
                (member, Timestamp(until.0.saturating_sub(ids::millis(duration))))
            };
            state.elsewhere = HashMap::into_iter(elsewhere).map(before).collect();
            endless::take_over(&mut state.endless, endless, begun, complete);
            state.book.take_over(&restricted, &restricting, begun, complete);
            if state.early.is_some() {
                state.told.extend(told.into_iter().take(TOLD_MAX));
            }
        }
        let since = state.book.since(duration).map(|(member, since)| (member.clone(), since));
        let lasting = state.endless.iter().map(|(member, since)| (member.clone(), *since));
        let elsewhere = state.elsewhere.iter().map(|(member, since)| (member.clone(), *since));
        self.restricted.replace(elsewhere.chain(lasting).chain(since).collect());
        let now = self.clock.now();
        state.told.retain(|_, until| *until > now);
        for turn in state.early.take().unwrap_or_default() {
            self.spoke(state, &turn);
        }
        self.observers.tell(&Happening::RestrictionsActive(state.book.len()));
    }

    fn breached(&self, state: &mut SweeperState, turn: &Turn, tier: &'static str) {
        let running = self.live.now();
        let restricts = running.rules(&turn.id.door).is_some_and(|rules| rules.restricts(turn));
        let Some(member) = member(turn).filter(|_| restricts) else { return };
        let (now, duration) = (self.clock.now(), running.settings.restriction.duration);
        if !state.book.breached(&member, &turn.name, tier, now, duration) {
            return;
        }
        let until = state.book.told(&member).and_then(|told| told.until);
        // After a crash from here on, the record remains, and the next process assigns the role.
        drop(self.store.write(begun(&member, until)));
        self.announce(state, &member, Some(now));
        self.restricted.begin(member, now);
        self.observers.tell(&Happening::RestrictionsActive(state.book.len()));
    }

    /// Tells a restricted member where they are answered, or that they are not answered.
    fn spoke(&self, state: &mut SweeperState, turn: &Turn) {
        let running = self.live.now();
        let rules = running.rules(&turn.id.door).and_then(|rules| rules.restriction.as_ref());
        let (Some(rules), Some(member)) = (rules, member(turn)) else { return };
        let now = self.clock.now();
        self.observers.tell(&Happening::RestrictedSpoke(turn));
        if state.told.get(&member).is_some_and(|until| *until > now) {
            return;
        }
        state.told.retain(|_, until| *until > now);
        if state.told.len() >= TOLD_MAX {
            return;
        }
        let until = state.book.told(&member).and_then(|told| told.until);
        // If there is a channel for restricted members, the notice is repeated after a while; otherwise it is sent once
        // until the end.
        let counts = match (&rules.channel, until) {
            (Some(_), _) => running.settings.rate_limiter.window,
            (None, Some(until)) => until.since(now),
            (None, None) => keys::restrictions::TOLD_TTL,
        };
        let counts = counts.clamp(SWEEP_EVERY, keys::restrictions::TOLD_TTL);
        let told_until = Timestamp(now.0.saturating_add(ids::millis(counts)));
        let key = keys::restrictions::told(&member.guild, &member.person);
        drop(self.store.write(vec![Write::Put { key, value: told_until.0.to_string(), ttl: Some(counts) }]));
        state.told.insert(member, told_until);
        let (channel_id, locale) = (rules.channel.as_deref(), turn.locale());
        let filling = Filling { locale, channel_id, user: &turn.name, until, retry_at: until };
        let text = notice::elsewhere(&running.settings.restriction.channel_notice, &filling);
        let tell = OutboxMsg::Notify { about: turn.id.trigger(), place: turn.place.clone(), text };
        // The notice is best-effort: it is lost if the outbox refuses it.
        self.outboxes.of(&turn.id.door).tell(tell);
    }

    /// Starts the due actions, within the limit of concurrent changes.
    fn act(&self, ctx: &mut ActorContext<RestrictionSweeper>, state: &mut SweeperState) {
        // Without a configured role, no action is possible; the records stay.
        let Some(role) = self.live.now().settings.restriction.role.clone() else { return };
        while state.book.under_way() < DEEDS_AT_ONCE
            && let Some((member, change)) = state.book.begin(self.clock.now())
        {
            let until = state.book.told(&member).and_then(|told| told.until);
            let outbox = self.outboxes.of(&member.person.door).clone();
            let store = Arc::clone(&self.store);
            let (role, there, back) = (role.clone(), member.clone(), member);
            ctx.task(
                async move {
                    let finished = actions::perform(&*store, &outbox, &there, change, role, until).await;
                    SweeperEvent::Outcome(there, change, finished)
                },
                move |panic| SweeperEvent::Outcome(back, change, Outcome::Failed(panic)),
            );
        }
    }

    fn finished(&self, state: &mut SweeperState, member: &Member, change: RoleChange, finished: Outcome) {
        let (now, running) = (self.clock.now(), self.live.now());
        let again = match running.settings.restriction.check_interval {
            Duration::ZERO => READ_EVERY,
            interval => interval,
        };
        match finished {
            Outcome::Done if change == RoleChange::Give => {
                let Some(told) = state.book.done(member, change) else { return };
                drop(self.store.write(vec![Write::Delete {
                    key: keys::restrictions::restricting(&member.guild, &member.person),
                }]));
                let RestrictionNotice { until, name, tier, again } = told;
                self.tell(member, RestrictionChange::Added { tier, until });
                if until.is_none() {
                    self.lasts(state, member);
                }
                if !again {
                    self.report(state, member, notice::added(member, name.as_deref(), until));
                }
            }
            // The member may rejoin before the end of the restriction.
            Outcome::Absent if change == RoleChange::Give => {
                if state.book.told(member).is_some_and(|told| told.until.is_none()) {
                    self.lasts(state, member);
                }
                state.book.away(member);
                drop(self.store.write(vec![Write::Delete {
                    key: keys::restrictions::restricting(&member.guild, &member.person),
                }]));
                self.tell(member, RestrictionChange::Left);
            }
            Outcome::Done | Outcome::Absent => {
                let absent = finished == Outcome::Absent;
                let told = state.book.done(member, RoleChange::Take);
                state.told.remove(member);
                self.restricted.end(member);
                drop(self.store.write(over(member)));
                self.announce(state, member, None);
                let late = told.as_ref().and_then(|told| told.until).map(|until| now.since(until));
                let why = if absent { Lifted::Left } else { Lifted::Expired };
                self.tell(member, RestrictionChange::Lifted { why, late });
                let name = told.and_then(|told| told.name);
                let say = if absent { notice::left } else { notice::lifted };
                self.report(state, member, say(member, name.as_deref()));
            }
            Outcome::Refused(reason) => {
                state.book.failed(member, now, again, true);
                self.refused(state, member, change, &reason);
            }
            Outcome::Failed(reason) => {
                state.book.failed(member, now, again, false);
                self.tell(member, RestrictionChange::Failed(&reason));
            }
        }
        self.observers.tell(&Happening::RestrictionsActive(state.book.len()));
    }

    fn tell(&self, member: &Member, change: RestrictionChange<'_>) {
        self.observers.tell(&Happening::Restriction(member, change));
    }

    /// Reports, at a limited rate, that a community rejects role changes.
    fn refused(&self, state: &mut SweeperState, member: &Member, change: RoleChange, reason: &str) {
        state.warned.retain(|_, at| at.elapsed() < WARN_EVERY);
        if state.warned.len() >= WARNED_MAX || state.warned.contains_key(&member.guild) {
            return;
        }
        state.warned.insert(member.guild.clone(), Instant::now());
        self.tell(member, RestrictionChange::Refused(reason));
        let name = state.book.told(member).and_then(|told| told.name);
        self.report(state, member, notice::failed(member, name.as_deref(), change == RoleChange::Give));
    }

    /// Sends a report to the moderators, if a channel for it is configured.
    fn report(&self, state: &mut SweeperState, member: &Member, text: String) {
        let Some(channel) = self.live.now().settings.restriction.audit_channel.clone() else { return };
        let (began, count) = &mut state.reports;
        *count = count.wrapping_add(1);
        let name = format!("s{:x}-{count:x}", began.0);
        let place = Place::new(member.person.door.clone(), channel);
        let outgoing = Outgoing {
            place,
            reply_to: None,
            parts: vec![Part::Text { text }],
            apology: false,
            spent: None,
            private: false,
        };
        // The log has the same report, so the outbox may refuse it.
        let (reply, _) = oneshot::channel();
        self.outboxes.of(&member.person.door).tell(OutboxMsg::Post { name, outgoing, reply });
    }
}

/// Returns the author of a turn as a member; `None` outside of communities, which have no roles.
fn member(turn: &Turn) -> Option<Member> {
    turn.guild.clone().map(|guild| Member { guild, person: turn.person.clone() })
}

#[cfg(test)]
mod tests;
