//! The window law as one step of the server: the script, and what goes in and out of it.

use std::time::Duration;

use ::redis::{RedisResult, Script};

use super::pool::Link;
use crate::{LimitDecision, LimitOutcome};
use domain::ids::{self, Timestamp};
use domain::keys;
use domain::limits::member_windows::Changes;
use domain::limits::window_log::{Entry, EntryState};
use domain::limits::{
    Basis, Decision, ENTRIES_MAX, Limits, Member, Refusal, Request, Reservation, Step, TOKENS_MAX, Tier, Used, member,
};

/// The largest limit that the script gets: all entries at their most stay below it, and it is exact as a number of Lua.
const LIMIT_MAX: u64 = TOKENS_MAX * ENTRIES_MAX as u64;

/// The script of the limits, as the server gets it.
const SCRIPT: &str =
    concat!(include_str!("limits.lua"), include_str!("limits/sum.lua"), include_str!("limits/lists.lua"));

/// What the server says that has lost what it is known to have had.
const LOST: &str = "lost";

/// Word, moment, tier, wait, basis, version, messages, tokens, whether the lists follow, the list of messages, the list of
/// tokens.
type RawReply = (String, u64, String, i64, String, u64, u32, u64, bool, Vec<String>, Vec<String>);

/// The script of the limits. The client library loads it where the server does not have it, or has lost it.
pub struct LimitScript(Script);

impl LimitScript {
    /// The script of the limits, as the server gets it.
    pub fn new() -> Self {
        Self(Script::new(SCRIPT))
    }

    /// One step of the server.
    pub async fn decide_limit(
        &self,
        link: &mut Link,
        request: &Request,
        known: u64,
        changes: Option<&Changes>,
    ) -> RedisResult<LimitOutcome> {
        let turns = changes.map(|changes| &changes.turns[..]).unwrap_or_default();
        let told = self.ask(link, (&request.member, request.window), Some(&request.step), known, turned(turns)).await?;
        let (word, now, tier, wait, basis, version, many, much, whole, messages, tokens) = told;
        let basis = match basis.as_str() {
            "use" => Basis::Use,
            "remainder" => Basis::Remainder,
            _ => Basis::OpenTurns,
        };
        let log = whole.then(|| member::read(&messages, &tokens));
        let wait = u64::try_from(wait).ok().map(Duration::from_millis);
        let decision = match word.as_str() {
            "admitted" => Decision::Admitted,
            "refused" => {
                let tier = if tier == "messages" { Tier::Messages } else { Tier::Tokens };
                Decision::Refused(Refusal { tier, retry_after: wait, basis })
            }
            "used" => Decision::Used(Used { messages: many, tokens: much, wait }),
            LOST => return Ok(LimitOutcome::Lost),
            _ => Decision::Done,
        };
        Ok(LimitOutcome::Decided(LimitDecision { decision, now: Timestamp(now), version, used: (many, much), log }))
    }

    /// Tells the server what was decided while it was away.
    pub async fn merge(&self, link: &mut Link, changes: &[Changes]) -> RedisResult<()> {
        for changed in changes {
            let of = (&changed.member, changed.window);
            let told = self.ask(link, of, None, changed.known, turned(&changed.turns)).await?;
            if told.0 == LOST {
                let rest = changed.rest.iter().filter_map(|entry| Some((entry.turn.as_deref()?, Some(entry))));
                self.ask(link, of, None, 0, turned(&changed.turns).chain(rest)).await?;
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        link: &mut Link,
        (member, window): (&Member, Duration),
        step: Option<&Step>,
        known: u64,
        changes: impl Iterator<Item = (&str, Option<&Entry>)>,
    ) -> RedisResult<RawReply> {
        let mut call = self.0.prepare_invoke();
        for key in keys::limits::limit_pair(member, link.is_spread()) {
            call.key(key);
        }
        call.key(keys::limits::limit_sum(member, link.is_spread()));
        let none = Limits { messages: 0, tokens: 0 };
        let (word, limits, exempt, tokens, turn, lease) = match step {
            Some(Step::Reserve(Reservation { turn, tokens, lease, limits, exempt })) => {
                ("reserve", *limits, *exempt, Some(*tokens), Some(turn), ids::millis(*lease))
            }
            Some(Step::Settle(turn, tokens)) => ("settle", none, false, *tokens, Some(turn), 0),
            Some(Step::Cancel(turn)) => ("cancel", none, false, None, Some(turn), 0),
            Some(Step::Read(limits)) => ("read", *limits, false, None, None, 0),
            None => ("merge", none, false, None, None, 0),
        };
        let tokens = tokens.map(|tokens| tokens.min(TOKENS_MAX).to_string()).unwrap_or_default();
        call.arg(word)
            .arg(ids::millis(window))
            .arg(limits.messages)
            .arg(limits.tokens.min(LIMIT_MAX))
            .arg(u8::from(exempt));
        call.arg(tokens)
            .arg(turn.map(keys::limits::limit_turn).unwrap_or_default())
            .arg(lease)
            .arg(ENTRIES_MAX)
            .arg(known);
        for (turn, entry) in changes {
            match entry {
                Some(entry) => {
                    let lease = match entry.state {
                        EntryState::Open(lease) => lease.0.to_string(),
                        EntryState::Estimated => "0".to_owned(),
                        EntryState::Settled => String::new(),
                    };
                    call.arg(entry.at.0).arg(turn).arg(entry.tokens).arg(lease);
                }
                None => {
                    call.arg("").arg(turn).arg("-").arg("");
                }
            }
        }
        call.invoke_async(link).await
    }
}

fn turned(turns: &[(Box<str>, Option<Entry>)]) -> impl Iterator<Item = (&str, Option<&Entry>)> {
    turns.iter().map(|(turn, entry)| (&**turn, entry.as_ref()))
}
