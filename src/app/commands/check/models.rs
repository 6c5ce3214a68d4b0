//! Asks models for one tiny answer each, in the form of a turn's request, and reports signs of trouble. If all rows are
//! checked, each also gets one round with a tool.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::{Instant, timeout};

use super::report::{CheckStatus, Report};
use super::tools;
use crate::app::configured::Lookup;
use crate::app::rows;
use crate::app::{reload, setting_files, triggers};
use domain::attachment::Enclosed;
use domain::completion::{Completion, Finish, Item, Request, Role};
use domain::ids::{Door, Place};
use domain::prompt::{self, Prompts, Question, Scene};
use domain::reply::Schema;
use domain::turn::ReplyContract;
use llm::client::Client;
use llm::registry::Registry;
use ports::{ModelError, ModelErrorKind, Models};
use settings::Settings;
use settings::address::is_remote;

/// The maximum number of models checked concurrently.
const AT_ONCE: usize = 4;
/// The maximum timeout of one model, regardless of its row.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The door of the question: one that no member can use.
const DOOR: Door = Door::new("check");
/// The question.
const QUESTION: &str = "Say hello in one word.";

/// Reads the rows.
pub fn rows(settings: &Settings, lookup: &Lookup, report: &mut Report) -> Option<Registry> {
    if settings.llm.model.is_none() {
        report.skipped("model rows", "not read: no model is set");
        return None;
    }
    match rows::configured(settings, lookup) {
        Ok((registry, _)) => {
            let names: Vec<&str> = registry.rows().iter().map(|row| row.key.as_str()).collect();
            report.ok("model rows", format!("{}; {}", names.join(", "), setting_files::origin(&settings.llm.models)));
            for key in names.into_iter().filter(|key| registry.endpoint(key).is_some_and(|at| is_readable(&at.base))) {
                let why = "has a plain http address in another network: messages of members can be read in transit; use https";
                report.push(&format!("model {key}"), CheckStatus::Note, why);
            }
            for off in registry.off() {
                report.wrong_with(&format!("model {}", off.key), off.mistake.clone());
            }
            let odd = triggers::without_their_rows(settings, registry.off());
            let idle = reload::without_summaries(settings, &registry);
            for warning in registry.warnings().iter().chain(&odd).chain(&idle) {
                report.push("model rows", CheckStatus::Note, warning.clone());
            }
            Some(registry)
        }
        Err(mistakes) => {
            for mistake in mistakes {
                report.wrong_with("model rows", mistake);
            }
            None
        }
    }
}

/// True if third parties can read requests to this address.
fn is_readable(base: &str) -> bool {
    let address = base.parse::<http::Uri>().unwrap_or_default();
    address.scheme_str() == Some("http") && address.host().is_some_and(is_remote)
}

/// Asks the default row; with `all`, every row or the models that `LITELLM_MODELS` names.
pub async fn ask(settings: &Settings, lookup: &Lookup, registry: Registry, all: bool, report: &mut Report) {
    let (Ok(prompts), Ok(schema)) = (setting_files::prompts(settings), setting_files::schema(settings)) else {
        return report.skipped("model", "not called, because the prompts or the schema are wrong");
    };
    let messages = transcript(&prompts);
    let instructions = messages.first().cloned().unwrap_or_else(|| Item::new(Role::System, ""));
    let request = Request { messages, form: Some(schema.form()), ..Request::default() };
    let (calls, mistakes) = calls(settings, lookup, registry, all);
    for (row, mistake) in mistakes {
        report.wrong_with(&format!("model {row}"), mistake);
    }
    let answers = stream::iter(calls)
        .map(|(client, row)| {
            let (request, schema, instructions) = (&request, &schema, &instructions);
            async move {
                let found = one(&*client, &row, request, schema).await;
                let known = client
                    .rows()
                    .iter()
                    .find(|known| known.key == row)
                    .filter(|_| all && found.0 != CheckStatus::Wrong);
                let round = match known {
                    Some(known) => Some(tools::round(&*client, known, instructions, schema).await),
                    None => None,
                };
                (row, found, round)
            }
        })
        .buffered(AT_ONCE);
    for (row, (verdict, why), round) in answers.collect::<Vec<_>>().await {
        report.push(&format!("model {row}"), verdict, why);
        if let Some((verdict, why)) = round {
            report.push(&format!("model {row} tools"), verdict, why);
        }
    }
}

/// Returns the transcript of a turn in which a member asks the question in a separate channel.
fn transcript(prompts: &Prompts) -> Vec<Item> {
    let (place, none) = (Place::new(DOOR, "0"), Enclosed::default());
    let question = Question {
        scene: Scene::nobody(&place),
        contract: ReplyContract::Typed,
        earlier: None,
        history: &[],
        referred: &[],
        quoted: None,
        quoted_files: &none,
        text: QUESTION,
        files: &none,
    };
    prompt::transcript(prompts, &question).items
}

type Calls = (Vec<(Arc<Client>, String)>, Vec<(String, String)>);

/// Returns the client for each row, and the rows that cannot be asked.
fn calls(settings: &Settings, lookup: &Lookup, registry: Registry, all: bool) -> Calls {
    let (mut calls, mut mistakes) = (Vec::new(), Vec::new());
    let mut add = |registry: Registry, rows: Vec<String>| match Client::new(registry) {
        Ok(client) => {
            let client = Arc::new(client.exact());
            calls.extend(rows.into_iter().map(|row| (Arc::clone(&client), row)));
        }
        Err(mistake) => mistakes.extend(rows.into_iter().map(|row| (row, mistake.clone()))),
    };
    let keys: Vec<String> = registry.rows().iter().map(|row| row.key.clone()).collect();
    if !all {
        let default = keys.into_iter().take(1).collect();
        add(registry, default);
    } else if settings.llm.check_models.is_empty() {
        add(registry, keys);
    } else {
        let mut wrong = Vec::new();
        for name in &settings.llm.check_models {
            // A name without a row is a model that the default endpoint may have, as with LITELLM_MODEL.
            let mut chosen = settings.clone();
            chosen.llm.model = Some(name.clone());
            match rows::configured(&chosen, lookup) {
                Ok((registry, _)) => add(registry, vec![name.clone()]),
                Err(mistakes) => wrong.push((name.clone(), mistakes.join("; "))),
            }
        }
        mistakes.extend(wrong);
    }
    (calls, mistakes)
}

async fn one(client: &dyn Models, row: &str, request: &Request, schema: &Schema) -> (CheckStatus, String) {
    let begun = Instant::now();
    let answer = bounded(client, row, request).await;
    let took = begun.elapsed().as_millis();
    match answer {
        Ok(completion) => {
            let (verdict, signs) = judge(&completion, schema);
            let signs = if signs.is_empty() { String::new() } else { format!("; {}", signs.join("; ")) };
            let structured = if verdict == CheckStatus::Wrong { "no" } else { "yes" };
            (verdict, format!("answered in {took} ms; structured output: {structured}{signs}"))
        }
        // A model that does not support the form of the answer refuses the whole request.
        Err(error) if error.kind == ModelErrorKind::BadRequest => {
            let plain = Request { form: None, ..request.clone() };
            let why = match bounded(client, row, &plain).await {
                Ok(_) => "structured output: no; the model answers only without response_format",
                Err(_) => "the model rejects the request with and without response_format",
            };
            (CheckStatus::Wrong, format!("{why} ({})", error.message))
        }
        Err(error) => (CheckStatus::Wrong, format!("{}: {}{}", error.kind.as_str(), error.message, hint(error.kind))),
    }
}

/// Makes one call with a timeout.
pub(super) async fn bounded(client: &dyn Models, row: &str, request: &Request) -> Result<Completion, ModelError> {
    timeout(ANSWER_TIMEOUT, client.complete(row, request)).await.unwrap_or_else(|_| {
        let message = format!("no complete answer within {} s", ANSWER_TIMEOUT.as_secs());
        Err(ModelError::new(ModelErrorKind::Timeout, message))
    })
}

/// Returns the operator's options after a failure.
const fn hint(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Connection => "; check LITELLM_API_URL, or the row's host",
        ModelErrorKind::Timeout => "; the model is slow, or STAFFAI_LLM__TIMEOUT is short",
        ModelErrorKind::Refused => "; check the key and the model name",
        ModelErrorKind::RateLimited => "; the provider's limit is reached",
        ModelErrorKind::OutOfQuota => "; the account at the provider has no credit",
        ModelErrorKind::ContextOverflow => "; the model's window is too small for the personality prompt",
        ModelErrorKind::Filtered => "; the provider's content filter refuses the personality prompt",
        ModelErrorKind::Provider
        | ModelErrorKind::Unsupported
        | ModelErrorKind::ToolsRefused
        | ModelErrorKind::Malformed
        | ModelErrorKind::TooLarge
        | ModelErrorKind::NoMemory
        | ModelErrorKind::BadRequest => "",
    }
}

/// Returns the status of an answer, by its use for a turn, and the signs of trouble in it.
fn judge(completion: &Completion, schema: &Schema) -> (CheckStatus, Vec<String>) {
    let mut signs = Vec::new();
    let content = completion.content.trim();
    let read = schema.read(content);
    match &read {
        Err(_) if content.is_empty() => signs.push("the content is empty".to_owned()),
        Err(error) => signs.push(format!("the answer does not fit the schema: {error}")),
        Ok(_) if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(content).is_err() => {
            signs.push("there is other text around the JSON".to_owned());
        }
        Ok(_) => {}
    }
    signs.extend(signs_of_end(completion));
    if completion.finish == Finish::ToolCalls {
        signs.push("it calls tools that were not offered".to_owned());
    }
    if completion.refusal.is_some() {
        signs.push("it refused to answer".to_owned());
    }
    if completion.usage.estimated {
        signs.push("usage is missing or invalid, so tokens are estimated".to_owned());
    }
    let verdict = match (read.is_ok(), signs.is_empty()) {
        (false, _) => CheckStatus::Wrong,
        (true, false) => CheckStatus::Note,
        (true, true) => CheckStatus::Ok,
    };
    (verdict, signs)
}

/// Returns the sign of a problem with the model or its settings in the end of an answer, if any.
pub(super) fn signs_of_end(completion: &Completion) -> Option<String> {
    match &completion.finish {
        Finish::Stop | Finish::ToolCalls => None,
        Finish::Length => Some("finish_reason is length: the answer was cut off by a token limit".to_owned()),
        Finish::Filtered => Some("a content filter stopped it".to_owned()),
        Finish::Other(other) => Some(format!("finish_reason is {other:?}, not stop")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use domain::completion::Usage;

    const GOOD: &str = r#"{"type": "text", "response": "Hello", "data": ""}"#;

    fn schema() -> Schema {
        let text = include_str!("../../../../response_schema.json");
        Schema::compile(&serde_json::from_str(text).unwrap()).unwrap()
    }

    fn judged(content: &str, finish: Finish, estimated: bool) -> (CheckStatus, String) {
        let usage = Usage { estimated, ..Usage::default() };
        let completion = Completion {
            content: content.to_owned(),
            refusal: None,
            calls: Vec::new(),
            finish,
            hosted: domain::hosted::HostedUse::default(),
            usage,
            raw: Value::Null.into(),
        };
        let (verdict, signs) = judge(&completion, &schema());
        (verdict, signs.join("; "))
    }

    #[test]
    fn a_good_answer_has_no_signs() {
        assert_eq!(judged(GOOD, Finish::Stop, false), (CheckStatus::Ok, String::new()));
    }

    #[test]
    fn each_sign_of_trouble_is_named() {
        let cut = judged(r#"{"type": "te"#, Finish::Length, false);
        assert_eq!(cut.0, CheckStatus::Wrong);
        assert!(cut.1.contains("finish_reason is length"), "{}", cut.1);
        let empty = judged("  ", Finish::Stop, false);
        assert_eq!(empty, (CheckStatus::Wrong, "the content is empty".to_owned()));
        let fenced = judged(&format!("Sure!\n```json\n{GOOD}\n```"), Finish::Stop, false);
        assert_eq!(fenced, (CheckStatus::Note, "there is other text around the JSON".to_owned()));
        let blind = judged(GOOD, Finish::Stop, true);
        assert_eq!(blind, (CheckStatus::Note, "usage is missing or invalid, so tokens are estimated".to_owned()));
        let odd = judged(GOOD, Finish::Other("eos".to_owned()), false);
        assert_eq!(odd, (CheckStatus::Note, "finish_reason is \"eos\", not stop".to_owned()));
        let prose = judged("Hello!", Finish::Stop, false);
        assert_eq!(prose.0, CheckStatus::Wrong);
        assert!(prose.1.contains("does not fit the schema"), "{}", prose.1);
    }
}
