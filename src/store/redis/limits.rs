//! The window law as one step of the server: the script, and what goes in and out of it.

use ::redis::{RedisResult, Script};

use super::pool::Link;
use crate::domain::ids::{self, Timestamp};
use crate::domain::keys;
use crate::domain::limits::member_windows::Changes;
use crate::domain::limits::{
    Answer, ENTRIES_MAX, Limits, Member, Refusal, Request, Reservation, Step, TOKENS_MAX, Tier, member,
};
use crate::store::LimitDecision;

/// The largest limit that the script is told: all entries at their most stay below it, and it is exact as a number of Lua.
const LIMIT_MAX: u64 = TOKENS_MAX * ENTRIES_MAX as u64;

/// Word, moment, tier, wait, unsettled, the list of messages, the list of tokens.
type RawReply = (String, u64, String, i64, u8, Vec<String>, Vec<String>);

/// The law. A server that does not know it yet, or does no longer, is told it by the client library.
pub struct LimitScript(Script);

impl LimitScript {
    /// The law as the server is told it.
    pub fn new() -> Self {
        Self(Script::new(include_str!("limits.lua")))
    }

    /// One step of the server.
    pub async fn rule(
        &self,
        link: &mut Link,
        request: &Request,
        changes: Option<&Changes>,
    ) -> RedisResult<LimitDecision> {
        let told = self.ask(link, &request.member, ids::millis(request.window), Some(&request.step), changes).await?;
        let (word, now, tier, wait, unsettled, messages, tokens) = told;
        let log = member::read(&messages, &tokens);
        let wait = u64::try_from(wait).ok().map(std::time::Duration::from_millis);
        let answer = match word.as_str() {
            "admitted" => Answer::Admitted,
            "refused" => {
                let tier = if tier == "messages" { Tier::Messages } else { Tier::Tokens };
                Answer::Refused(Refusal { tier, retry_after: wait, unsettled: unsettled == 1 })
            }
            "used" => Answer::Used(log.used(wait)),
            _ => Answer::Done,
        };
        Ok(LimitDecision { answer, now: Timestamp(now), log })
    }

    /// Tells the server what was decided while it was away.
    pub async fn merge(&self, link: &mut Link, changes: &[Changes]) -> RedisResult<()> {
        for changed in changes {
            self.ask(link, &changed.member, ids::millis(changed.window), None, Some(changed)).await?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        link: &mut Link,
        member: &Member,
        window: u64,
        step: Option<&Step>,
        changes: Option<&Changes>,
    ) -> RedisResult<RawReply> {
        let mut call = self.0.prepare_invoke();
        for key in keys::limit_pair(member, link.is_spread()) {
            call.key(key);
        }
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
        call.arg(word).arg(window).arg(limits.messages).arg(limits.tokens.min(LIMIT_MAX)).arg(u8::from(exempt));
        call.arg(tokens).arg(turn.map(keys::limit_turn).unwrap_or_default()).arg(lease).arg(ENTRIES_MAX);
        for (turn, entry) in changes.map(|changes| &changes.turns[..]).unwrap_or_default() {
            match entry {
                Some(entry) => {
                    let lease = entry.lease.map(|lease| lease.0.to_string()).unwrap_or_default();
                    call.arg(entry.at.0).arg(&**turn).arg(entry.tokens).arg(lease);
                }
                None => {
                    call.arg("").arg(&**turn).arg("-").arg("");
                }
            }
        }
        call.invoke_async(link).await
    }
}
