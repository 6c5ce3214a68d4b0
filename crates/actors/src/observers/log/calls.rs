//! Log lines about calls of models and tools.

use tracing::field::display;

use domain::effort;
use domain::happening::{ModelCalled, NotCalled, Summarised, ToolCalled};
use domain::hosted::HostedCall;
use domain::ids::{TurnId, millis};
use domain::summary::SummaryOutcome;
use domain::tool::Source;
use domain::tool::called::CallEnd;
use telemetry::events as names;

pub(super) fn summarised(summarised: &Summarised<'_>) {
    let Summarised { person, place, exchanges, tokens, outcome } = *summarised;
    macro_rules! line {
        ($level:ident, $words:literal) => {
            tracing::$level!(
                event = names::SUMMARY_MADE, %place, member = %person, exchanges, tokens,
                outcome = outcome.as_str(), $words
            )
        };
    }
    match outcome {
        SummaryOutcome::Written => line!(info, "older exchanges were summarised"),
        // The next turn of the conversation tries again.
        SummaryOutcome::Budget | SummaryOutcome::Busy | SummaryOutcome::Forgotten => {
            line!(debug, "older exchanges were not summarised");
        }
        SummaryOutcome::Failed | SummaryOutcome::Unusable => line!(warn, "older exchanges could not be summarised"),
    }
}

pub(super) fn model_called(call: &ModelCalled<'_>) {
    let ModelCalled { turn, purpose, row: model, tries, took, result, cost } = *call;
    let purpose = purpose.as_str();
    let turn = turn.map(display);
    match result {
        Ok(completed) => {
            let usage = completed.usage;
            tracing::info!(
                event = names::LLM_CALLED,
                turn,
                purpose,
                model,
                finish_reason = completed.finish,
                tool_calls = completed.calls,
                prompt_tokens = usage.prompt,
                completion_tokens = usage.completion,
                cached_tokens = usage.cached,
                estimated = usage.estimated,
                cost,
                tries,
                duration_ms = millis(took),
                "model called"
            );
        }
        Err(failed) => {
            tracing::warn!(
                event = names::LLM_CALLED,
                turn,
                purpose,
                model,
                error = failed.kind,
                reason = failed.reason,
                text = failed.quoted,
                prompt_tokens = failed.streamed.map(|usage| usage.prompt),
                completion_tokens = failed.streamed.map(|usage| usage.completion),
                tries,
                duration_ms = millis(took),
                "model call failed"
            );
        }
    }
}

pub(super) fn fell_back(turn: &TurnId, model: &str, after: &[String]) {
    tracing::warn!(event = names::LLM_FALLBACK, turn = %turn, model, after = after.join(","), "next model");
}

pub(super) fn continued(turn: &TurnId, model: &str) {
    tracing::info!(event = names::LLM_WENT_ON, turn = %turn, model, "an answer that broke off is continued");
}

pub(super) fn repaired(turn: &TurnId, repairs: u32) {
    tracing::info!(event = names::LLM_REPAIRED, turn = %turn, repairs, "the reply needed a repair");
}

pub(super) fn row_refused(model: &str, reason: &str) {
    tracing::error!(
        event = names::LLM_REFUSED,
        model,
        reason,
        "the provider rejects every call of this row; correct its key or model"
    );
}

pub(super) fn row_accepted(model: &str) {
    tracing::info!(event = names::LLM_ACCEPTED, model, "the provider accepts calls of this row again");
}

pub(super) fn breaker_opened(model: &str, reason: &str) {
    tracing::error!(
        event = names::BREAKER_OPENED,
        model,
        reason,
        "the circuit breaker opened; calls to this model are paused"
    );
}

pub(super) fn breaker_closed(model: &str) {
    tracing::info!(event = names::BREAKER_CLOSED, model, "the model answers again");
}

pub(super) fn tool_called(call: &ToolCalled<'_>) {
    let entry = &call.call.entry;
    let server = match &entry.tool.source {
        Source::BuiltIn => None,
        Source::Server(name) => Some(name.as_str()),
    };
    tracing::info!(
        event = names::TOOL_CALLED,
        turn = %call.origin.id,
        call = call.number,
        tool = &*entry.name,
        server,
        kind = entry.tool.kind.as_str(),
        effect = entry.effect.as_str(),
        role = call.role,
        args_sha256 = call.call.hash.0,
        // The same rule name as in `staffai tools`.
        rule = call.rule,
        outcome = call.outcome(),
        // The text of a server can contain text of a member.
        text = call.end.and_then(CallEnd::reason),
        queue_ms = millis(call.queued),
        wait_ms = millis(call.waited),
        run_ms = call.ran.map(millis),
        duration_ms = millis(call.took),
        dollars = (call.paid_micros > 0).then(|| effort::dollars(call.paid_micros)),
        "tool called"
    );
}

pub(super) fn hosted_tool_called(turn: &TurnId, model: &str, role: &str, call: &HostedCall) {
    let (server, outcome) = (call.server.as_deref(), call.end.as_str());
    let (tool, args_sha256) = (call.name(), call.hash().0);
    tracing::info!(
        event = names::TOOL_CALLED,
        turn = %turn,
        tool,
        server,
        role,
        args_sha256,
        outcome,
        model,
        "the provider of the model called a tool"
    );
}

pub(super) fn tool_not_called(turn: &TurnId, tool: Option<&str>, role: &str, why: NotCalled<'_>) {
    let words = match why {
        NotCalled::Invalid => "a call of a tool was no valid one",
        NotCalled::Answered => "the turn answered a call by itself",
        NotCalled::Spent => "the turn has no calls left",
        NotCalled::Impossible(_) => "a call of a tool did not run",
    };
    tracing::info!(
        event = names::TOOL_CALLED, turn = %turn, tool, role, outcome = why.outcome(), duration_ms = 0, "{words}"
    );
}
