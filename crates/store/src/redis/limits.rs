//! The sliding-window limits as one atomic step of the server: the script, its arguments, and its reply.

use std::time::Duration;

use ::redis::{RedisResult, Script, ScriptInvocation};

use super::pool::Link;
use crate::{AccountsKnown, LimitDecision, LimitOutcome};
use domain::ids::{self, Timestamp};
use domain::keys;
use domain::limits::account::Share;
use domain::limits::member_windows::{Changes, Counted};
use domain::limits::window_log::{EntryState, WindowEntry, WindowLog};
use domain::limits::{
    self, Basis, Cost, Decision, ENTRIES_MAX, FullAccount, LimitRefusal, LimitStep, Limits, Member, Request,
    Reservation, TOKENS_MAX, Used, member,
};

/// The largest limit sent to the script: no sum of entries exceeds it, and it is exact as a Lua number.
const LIMIT_MAX: u64 = TOKENS_MAX * ENTRIES_MAX as u64;

/// The script of the limits, as sent to the server.
const SCRIPT: &str = concat!(
    include_str!("limits.lua"),
    include_str!("limits/shares.lua"),
    include_str!("limits/sum.lua"),
    include_str!("limits/lists.lua")
);

/// The reply of a server that has lost known entries.
const LOST: &str = "lost";

/// The member's part of a reply: word, moment, cost, wait, basis, version, messages, tokens, true if the lists follow,
/// the list of messages, the list of tokens.
type MemberReply = (String, u64, String, i64, String, u64, u32, u64, bool, Vec<String>, Vec<String>);

/// The whole reply with accounts: the member's part, the number of the refusing account or zero, the server's time in
/// microseconds, the list of each account.
type RawReply = (MemberReply, usize, u64, Vec<Vec<String>>);

/// The script of the limits. The client library loads it if the server does not have it.
pub struct LimitScript(Script);

impl LimitScript {
    /// Creates the script of the limits.
    pub fn new() -> Self {
        Self(Script::new(SCRIPT))
    }

    /// Makes one step in one round trip. In a cluster, the accounts of each community and the window of a member may be
    /// on different servers. They then decide one after another, the member last, and what was reserved is reverted if a
    /// later one refuses.
    pub async fn decide_limit(
        &self,
        link: &mut Link,
        request: &Request,
        known: &AccountsKnown,
    ) -> RedisResult<LimitOutcome> {
        let communities: Vec<&[Share]> =
            request.shares.chunk_by(|one, next| one.account.community == next.account.community).collect();
        if !link.is_spread() || communities.len() + usize::from(request.member.is_some()) < 2 {
            return self.decide(link, request, known).await;
        }
        let (mut micros, mut logs, mut reserved) = (0, Vec::new(), Vec::new());
        let mut last = None;
        for shares in communities {
            let (begin, end) = (logs.len(), logs.len() + shares.len());
            let of_shares = Request { member: None, shares: shares.to_vec(), ..request.clone() };
            let changes = known.shares.get(begin..end).map(<[_]>::to_vec).unwrap_or_default();
            let outcome = self.decide(link, &of_shares, &AccountsKnown { shares: changes, ..known.clone() }).await?;
            let LimitOutcome::Decided(mut decided) = outcome else {
                self.revert(link, reserved).await?;
                return Ok(outcome);
            };
            micros = decided.micros;
            logs.append(&mut decided.shares);
            if let Decision::Refused(refusal) = &mut decided.decision {
                if let Some(account) = &mut refusal.account {
                    account.place += begin;
                }
                self.revert(link, reserved).await?;
                return Ok(LimitOutcome::Decided(LimitDecision { shares: logs, ..decided }));
            }
            reserved.push(of_shares);
            last = Some(decided);
        }
        let of_member = Request { shares: Vec::new(), ..request.clone() };
        let outcome = match last.filter(|_| request.member.is_none()) {
            Some(decided) => LimitOutcome::Decided(decided),
            None => self.decide(link, &of_member, known).await?,
        };
        match outcome {
            LimitOutcome::Decided(decided) if !matches!(decided.decision, Decision::Refused(_)) => {
                let mut whole = LimitDecision { micros, shares: logs, ..decided };
                if let Decision::Used(used) = &mut whole.decision {
                    let of_account = |(log, share): (&WindowLog, &Share)| log.clone().used_of_share(whole.now, share);
                    used.accounts = whole.shares.iter().zip(&request.shares).map(of_account).collect();
                }
                Ok(LimitOutcome::Decided(whole))
            }
            other => {
                self.revert(link, reserved).await?;
                Ok(other)
            }
        }
    }

    /// Reverts what these steps reserved.
    async fn revert(&self, link: &mut Link, reserved: Vec<Request>) -> RedisResult<()> {
        for request in reserved {
            if let LimitStep::Reserve(ask) = &request.step {
                let back = Request { step: LimitStep::Cancel(ask.turn.clone()), ..request };
                self.decide(link, &back, &AccountsKnown::default()).await?;
            }
        }
        Ok(())
    }

    async fn decide(&self, link: &mut Link, request: &Request, known: &AccountsKnown) -> RedisResult<LimitOutcome> {
        let (of_member, refusing, micros, lists) =
            self.ask(link, &Target::of(request), Some(&request.step), known).await?;
        let (word, now, cost, wait, basis, version, many, much, whole, messages, tokens) = of_member;
        let basis = match basis.as_str() {
            "use" => Basis::Use,
            "remainder" => Basis::Remainder,
            _ => Basis::OpenTurns,
        };
        let log = whole.then(|| member::read(&messages, &tokens));
        let wait = u64::try_from(wait).ok().map(Duration::from_millis);
        let share = refusing.checked_sub(1).and_then(|at| request.shares.get(at));
        let shares: Vec<WindowLog> = lists.iter().map(|list| member::read::<&str, _>(&[], list)).collect();
        let used = |(log, share): (&WindowLog, &Share)| log.clone().used_of_share(Timestamp(now), share);
        let accounts = shares.iter().zip(&request.shares).map(used).collect();
        let decision = match word.as_str() {
            "admitted" => Decision::Admitted,
            "refused" => {
                let own = if cost == "messages" { Cost::Messages } else { Cost::Tokens };
                let cost = share.map_or(own, |share| share.account.cost);
                let account = share.map(|share| FullAccount { place: refusing - 1, scope: share.account.scope });
                Decision::Refused(LimitRefusal { cost, retry_after: wait, basis, account })
            }
            "used" => Decision::Used(Used { messages: many, tokens: much, wait, accounts }),
            LOST => return Ok(LimitOutcome::Lost),
            _ => Decision::Done,
        };
        Ok(LimitOutcome::Decided(LimitDecision {
            decision,
            now: Timestamp(now),
            version,
            used: (many, much),
            log,
            micros,
            shares,
        }))
    }

    /// Sends the decisions made while the server was unavailable.
    pub async fn merge(&self, link: &mut Link, changes: &[Changes]) -> RedisResult<()> {
        for changed in changes {
            match &changed.of {
                Counted::Member(member) => {
                    let target = Target { member: Some(member), window: changed.window, shares: &[] };
                    let known =
                        |version, changes| AccountsKnown { version, changes: Some(changes), shares: Vec::new() };
                    let told = self.ask(link, &target, None, &known(changed.known, changed.clone())).await?;
                    if told.0.0 == LOST {
                        self.ask(link, &target, None, &known(0, changed.clone().with_rest())).await?;
                    }
                }
                Counted::Account(account) => {
                    let share = [Share { account: account.clone(), limit: 0, amount: None }];
                    let target = Target { member: None, window: changed.window, shares: &share };
                    let known = AccountsKnown { shares: vec![Some(changed.clone())], ..AccountsKnown::default() };
                    self.ask(link, &target, None, &known).await?;
                }
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        link: &mut Link,
        target: &Target<'_>,
        step: Option<&LimitStep>,
        known: &AccountsKnown,
    ) -> RedisResult<RawReply> {
        let mut call = self.0.prepare_invoke();
        let tagged = link.is_spread();
        if let Some(member) = target.member {
            for key in keys::limits::limit_pair(member, tagged) {
                call.key(key);
            }
            call.key(keys::limits::limit_sum(member, tagged));
        }
        for share in target.shares {
            call.key(keys::limits::account(&share.account, tagged));
        }
        step_arguments(&mut call, target.window, step, known.version);
        call.arg(target.shares.len());
        for (at, share) in target.shares.iter().enumerate() {
            let amount = share.amount.map(|amount| amount.min(TOKENS_MAX).to_string()).unwrap_or_default();
            let changes = known.shares.get(at).and_then(Option::as_ref);
            let turns = changes.map(|changes| &changes.turns[..]).unwrap_or_default();
            call.arg(ids::millis(share.account.window)).arg(share.limit.min(LIMIT_MAX)).arg(amount);
            call.arg(u8::from(share.account.cost.is_counted())).arg(turns.len());
            changed_turns(&mut call, turns);
        }
        if let (Some(_), Some(changes)) = (target.member, &known.changes) {
            changed_turns(&mut call, &changes.turns);
        }
        if target.shares.is_empty() {
            return Ok((call.invoke_async(link).await?, 0, 0, Vec::new()));
        }
        call.invoke_async(link).await
    }
}

/// The subject of one call of the script.
struct Target<'a> {
    member: Option<&'a Member>,
    window: Duration,
    shares: &'a [Share],
}

impl<'a> Target<'a> {
    fn of(request: &'a Request) -> Self {
        Self { member: request.member.as_ref(), window: request.window, shares: &request.shares }
    }
}

/// Adds the arguments of the step and of the member's window.
fn step_arguments(call: &mut ScriptInvocation<'_>, window: Duration, step: Option<&LimitStep>, version: u64) {
    let none = Limits { messages: 0, tokens: 0 };
    let (word, limits, exempt, tokens, turn, lease) = match step {
        Some(LimitStep::Reserve(Reservation { turn, tokens, lease, limits, exempt })) => {
            ("reserve", *limits, *exempt, Some(*tokens), Some(turn), ids::millis(*lease))
        }
        Some(LimitStep::Settle(turn, tokens)) => ("settle", none, false, *tokens, Some(turn), 0),
        Some(LimitStep::Cancel(turn)) => ("cancel", none, false, None, Some(turn), 0),
        Some(LimitStep::Read(limits)) => ("read", *limits, false, None, None, 0),
        None => ("merge", none, false, None, None, 0),
    };
    let tokens = tokens.map(|tokens| tokens.min(TOKENS_MAX).to_string()).unwrap_or_default();
    call.arg(word)
        .arg(ids::millis(window))
        .arg(limits.messages)
        .arg(limits.tokens.min(LIMIT_MAX))
        .arg(u8::from(exempt));
    call.arg(tokens).arg(turn.map(limits::turn_part).unwrap_or_default()).arg(lease).arg(ENTRIES_MAX).arg(version);
}

/// Adds the decisions made elsewhere: moment, turn, amount and lease of each entry.
fn changed_turns(call: &mut ScriptInvocation<'_>, turns: &[(Box<str>, Option<WindowEntry>)]) {
    for (turn, entry) in turns {
        match entry {
            Some(entry) => {
                let lease = match entry.state {
                    EntryState::Open(lease) => lease.0.to_string(),
                    EntryState::Estimated => "0".to_owned(),
                    EntryState::Settled => String::new(),
                };
                call.arg(entry.at.0).arg(&**turn).arg(entry.tokens).arg(lease);
            }
            None => {
                call.arg("").arg(&**turn).arg("-").arg("");
            }
        }
    }
}
