//! The calls of one turn: their maximum number, and the detection of repeated calls.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::begun::Begun;
use super::catalogue::{Catalogue, CatalogueEntry};
use super::turn_tools::ShownResult;
use crate::arguments_hash::ArgumentsHash;
use crate::completion::ToolCall;
use crate::hex::hex;

/// The maximum number of calls of the same tool with the same arguments in one turn.
pub const REPEATS_MAX: u32 = 2;

/// The remaining calls of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallAllowance {
    rounds: u32,
    calls: u32,
    /// The number of times each call was made, by its hash.
    made: HashMap<ArgumentsHash, u32>,
}

/// Returns the hash of a call.
#[must_use]
pub fn hash_of(entry: &CatalogueEntry, arguments: &Map<String, Value>) -> ArgumentsHash {
    let mut hash = Sha256::new();
    // Maps of this program keep their keys sorted, at every depth.
    let arguments = Value::Object(arguments.clone()).to_string();
    for part in [&*entry.name, &*entry.origin, &entry.pin.0, &arguments] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    ArgumentsHash(hex(&hash.finalize()))
}

/// A valid call, ready for the checks of rights and limits and for its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// The call as the model made it.
    pub call: ToolCall,
    /// The tool.
    pub entry: Arc<CatalogueEntry>,
    /// The arguments, valid under the schema.
    pub arguments: Map<String, Value>,
    /// The hash to which the call is bound.
    pub hash: ArgumentsHash,
    /// The state of a call that its server has begun.
    pub begun: Option<Box<Begun>>,
}

/// The plan for one call of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// The call may run.
    Run(Box<Ready>),
    /// The call gets this error as its result, for the model.
    Answer(ToolCall, Problem),
    /// The turn answers the call itself with this result.
    Told(ToolCall, String),
    /// The call ran, and its result waits for that of an earlier call.
    Ran(ToolCall, ShownResult),
}

impl Planned {
    /// Returns the call as the model made it.
    #[must_use]
    pub fn call(&self) -> &ToolCall {
        match self {
            Self::Run(ready) => &ready.call,
            Self::Answer(call, _) | Self::Told(call, _) | Self::Ran(call, _) => call,
        }
    }
}

/// The reason why a call does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The tool does not exist or is hidden from the caller.
    #[error("there is no tool {0:?}: use only the tools that you were given")]
    Unknown(String),
    /// The arguments are not valid JSON.
    #[error("the arguments are not JSON ({0}): send one JSON object")]
    NotJson(String),
    /// The arguments do not match the schema.
    #[error("the arguments do not fit: {0}")]
    Misfit(String),
    /// The same call was made the maximum number of times.
    #[error("this call was made with the same arguments before: use the results that you have")]
    Repeated,
    /// The turn has no calls left.
    #[error("no more tool calls are allowed in this answer: answer with what you have")]
    Spent,
}

impl CallAllowance {
    /// Builds the allowance of a turn: the number of rounds, and the number of calls in all rounds.
    #[must_use]
    pub fn new(rounds: u32, calls: u32) -> Self {
        Self { rounds, calls, made: HashMap::new() }
    }

    /// True if the next model call offers tools.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.rounds > 0 && self.calls > 0
    }

    /// Plans one round: each call in the order of the model. `visible` returns true for tools that the caller may see.
    pub fn plan(
        &mut self,
        calls: Vec<ToolCall>,
        catalogue: &Catalogue,
        visible: impl Fn(&CatalogueEntry) -> bool,
    ) -> Vec<Planned> {
        self.begin_round();
        calls.into_iter().map(|call| self.plan_one(call, catalogue, &visible)).collect()
    }

    /// Consumes one round.
    pub fn begin_round(&mut self) {
        self.rounds = self.rounds.saturating_sub(1);
    }

    /// Consumes one call.
    ///
    /// # Errors
    /// [`Problem::Spent`] if no call was left.
    pub fn spend(&mut self) -> Result<(), Problem> {
        self.calls = self.calls.checked_sub(1).ok_or(Problem::Spent)?;
        Ok(())
    }

    /// Plans one call of the current round.
    pub fn plan_one(
        &mut self,
        call: ToolCall,
        catalogue: &Catalogue,
        visible: impl Fn(&CatalogueEntry) -> bool,
    ) -> Planned {
        match self.ready(&call, catalogue, visible) {
            Ok(ready) => Planned::Run(Box::new(ready)),
            Err(problem) => Planned::Answer(call, problem),
        }
    }

    fn ready(
        &mut self,
        call: &ToolCall,
        catalogue: &Catalogue,
        visible: impl Fn(&CatalogueEntry) -> bool,
    ) -> Result<Ready, Problem> {
        self.spend()?;
        let ready = Ready::bind(call, catalogue, visible)?;
        let made = self.made.entry(ready.hash.clone()).or_default();
        if *made >= REPEATS_MAX {
            return Err(Problem::Repeated);
        }
        *made += 1;
        Ok(ready)
    }
}

impl Ready {
    /// Binds a call to its tool in this catalogue, regardless of the turn's remaining calls. `visible` returns true for
    /// tools that the caller may see.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn bind(
        call: &ToolCall,
        catalogue: &Catalogue,
        visible: impl Fn(&CatalogueEntry) -> bool,
    ) -> Result<Self, Problem> {
        let entry = catalogue.get(&call.name).filter(|entry| visible(entry));
        let entry = entry.ok_or_else(|| Problem::Unknown(call.name.chars().take(64).collect()))?;
        let mut arguments = read(&call.arguments)?;
        if let Err(misfit) = entry.check(&arguments) {
            // Many models write null for an omitted argument.
            let fits =
                leave_out_nulls(&mut arguments, &entry.tool.input_schema.to_value()) && entry.check(&arguments).is_ok();
            fits.then_some(()).ok_or(Problem::Misfit(misfit))?;
        }
        let Value::Object(arguments) = arguments else { return Err(Problem::Misfit("no object".to_owned())) };
        let hash = hash_of(entry, &arguments);
        Ok(Self { call: call.clone(), entry: Arc::clone(entry), arguments, hash, begun: None })
    }
}

/// Removes each null for an optional argument. Returns true if it removed one.
fn leave_out_nulls(arguments: &mut Value, schema: &Value) -> bool {
    let Value::Object(given) = arguments else { return false };
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let before = given.len();
    given.retain(|name, value| !value.is_null() || required.iter().any(|needed| needed == name.as_str()));
    given.len() < before
}

/// Parses arguments as models write them: an object, an object written as a string, or nothing.
pub(super) fn read(arguments: &str) -> Result<Value, Problem> {
    if arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let told = |error: serde_json::Error| Problem::NotJson(error.to_string().chars().take(100).collect());
    match serde_json::from_str(arguments).map_err(told)? {
        Value::String(inner) => serde_json::from_str(&inner).map_err(told),
        Value::Null => Ok(Value::Object(Map::new())),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Tool;
    use super::super::catalogue::Offer;
    use super::super::testing::tool;
    use super::*;
    use crate::completion::WrittenJson;

    fn catalogue() -> Catalogue {
        let input_schema = WrittenJson::new(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        let tool = Tool { input_schema, ..tool("a", "x", "") };
        let offer = Offer { tools: vec![Arc::new(tool)], ..Offer::default() };
        Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value())
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    /// Describes the plan of each call in words.
    fn plan(allowance: &mut CallAllowance, calls: &[(&str, &str)]) -> Vec<String> {
        let calls = calls.iter().map(|(name, arguments)| call(name, arguments)).collect();
        let planned = allowance.plan(calls, &catalogue(), |_| true);
        let word = |planned: &Planned| match planned {
            Planned::Run(ready) => Value::Object(ready.arguments.clone()).to_string(),
            Planned::Answer(_, problem) => problem.to_string(),
            Planned::Told(_, text) => text.clone(),
            Planned::Ran(_, told) => told.text.clone(),
        };
        planned.iter().map(word).collect()
    }

    #[test]
    fn arguments_come_as_objects_strings_and_nothing() {
        let told =
            plan(&mut CallAllowance::new(5, 10), &[("a__x", r#"{"n":1}"#), ("a__x", r#""{\"n\":2}""#), ("a__x", " ")]);
        assert_eq!(told, [r#"{"n":1}"#, r#"{"n":2}"#, "{}"]);
    }

    #[test]
    fn null_for_an_optional_argument_is_left_out_and_for_a_required_one_refused() {
        let told = plan(&mut CallAllowance::new(5, 10), &[("a__x", r#"{"n":null,"m":null}"#)]);
        assert_eq!(told, ["{}"]);
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "m": {"type": ["string", "null"]}}});
        let mut given = json!({"n": null, "m": null, "o": null});
        assert!(leave_out_nulls(&mut given, &schema));
        assert_eq!(given, json!({"n": null}));
        let entry = Tool { input_schema: WrittenJson::new(&schema), ..tool("a", "x", "") };
        let offer = Offer { tools: vec![Arc::new(entry)], ..Offer::default() };
        let catalogue = Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value());
        let bind = |arguments: &str| Ready::bind(&call("a__x", arguments), &catalogue, |_| true);
        assert!(bind(r#"{"n":null}"#).unwrap_err().to_string().contains("/n: null is not of type"));
        // A null that the schema allows is intended.
        assert_eq!(bind(r#"{"n":1,"m":null}"#).unwrap().arguments.len(), 2);
    }

    #[test]
    fn what_cannot_run_is_told_to_the_model() {
        let told = plan(
            &mut CallAllowance::new(5, 10),
            &[("b__y", "{}"), ("a__x", "{"), ("a__x", r#"{"n":"one"}"#), ("a__x", "[]")],
        );
        assert_eq!(told[0], "there is no tool \"b__y\": use only the tools that you were given");
        assert!(told[1].starts_with("the arguments are not JSON (EOF"), "{}", told[1]);
        assert_eq!(told[2], "the arguments do not fit: /n: \"one\" is not of type \"integer\"");
        assert_eq!(told[3], "the arguments do not fit: the arguments must be one JSON object");
    }

    #[test]
    fn the_same_call_runs_twice_at_the_most_and_keys_have_no_order() {
        let mut allowance = CallAllowance::new(5, 10);
        let told = plan(&mut allowance, &[("a__x", r#"{"n":1,"m":2}"#), ("a__x", r#"{"m":2,"n":1}"#)]);
        assert_eq!(told[0], told[1]);
        let told = plan(&mut allowance, &[("a__x", r#"{"n":1,"m":2}"#), ("a__x", r#"{"n":2}"#)]);
        assert_eq!(told, [Problem::Repeated.to_string(), r#"{"n":2}"#.to_owned()]);
    }

    #[test]
    fn a_call_is_bound_to_the_address_of_its_server() {
        let hash = |origin: &str, arguments: &str| {
            let offer = Offer { tools: vec![Arc::new(tool("a", "x", ""))], origin: origin.into(), ..Offer::default() };
            let catalogue = Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value());
            Ready::bind(&call("a__x", arguments), &catalogue, |_| true).unwrap().hash
        };
        assert_eq!(hash("one", "{}"), hash("one", " "));
        assert_ne!(hash("one", "{}"), hash("two", "{}"), "the same name at another address");
    }

    #[test]
    fn rounds_and_calls_are_bounded() {
        let mut allowance = CallAllowance::new(2, 3);
        assert!(allowance.is_open());
        plan(&mut allowance, &[("a__x", r#"{"n":1}"#), ("b__y", "{}")]);
        assert!(allowance.is_open());
        let told = plan(&mut allowance, &[("a__x", r#"{"n":2}"#), ("a__x", r#"{"n":3}"#)]);
        assert_eq!(told[1], Problem::Spent.to_string());
        assert!(!allowance.is_open());
    }
}
