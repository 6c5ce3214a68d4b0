//! Tools that are part of this program. They have no file system and no network, and each is bounded in what it costs. To the
//! rest of the program they are one more tool server, which is always connected.

mod calculator;
mod get_time;
mod roll_dice;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::domain::tool::{Annotations, CallError, CallErrorKind, Source, Tool, ToolKind, ToolRequest, ToolResult};
use crate::ports::tools::{Listing, ServerInfo};
use crate::ports::{Clock, Dice, ProgressSink, ToolServer};

/// The built-in tools.
pub struct BuiltIns {
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    info: ServerInfo,
    changes: watch::Sender<u64>,
}

impl BuiltIns {
    /// All of them.
    pub fn new(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        let info = ServerInfo { name: "staffai".to_owned(), ..ServerInfo::default() };
        Self { clock, dice, info, changes: watch::Sender::new(0) }
    }

    fn run(&self, name: &str, arguments: &Map<String, Value>) -> Option<Result<String, String>> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        match name {
            "calculator" => Some(calculator::evaluate(text("expression"))),
            "get_time" => {
                let zone = arguments.get("timezone").and_then(Value::as_str).unwrap_or("UTC");
                let format = arguments.get("format").map(serde::Deserialize::deserialize);
                // The schema of the tool lists the formats; whatever is none of them is the full one.
                let format = format.and_then(Result::ok).unwrap_or_default();
                Some(get_time::tell(self.clock.now(), zone, format))
            }
            "roll_dice" => Some(roll_dice::roll(text("notation"), || self.dice.roll())),
            _ => None,
        }
    }
}

/// What models are told of each tool; the descriptions and parameters are those of the earlier bot.
fn tools() -> Vec<Tool> {
    let tool = |name: &str, description: &str, input_schema: Value| Tool {
        source: Source::BuiltIn,
        name: name.into(),
        title: None,
        description: description.to_owned(),
        input_schema: Arc::new(input_schema),
        annotations: Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() },
        kind: ToolKind::Other,
    };
    vec![
        tool(
            "calculator",
            "Perform mathematical calculations: + - * / // % **, parentheses, abs, round, min, max, sum, sqrt, pow, sin, cos, \
             tan, log, log10, pi and e.",
            json!({"type": "object", "required": ["expression"], "additionalProperties": false, "properties": {
                "expression": {"type": "string", "description": "Expression to evaluate, such as '2 + 2', 'sqrt(16)', '2**10'"},
            }}),
        ),
        tool(
            "get_time",
            "Get the current date and time, optionally in a specific time zone.",
            json!({"type": "object", "additionalProperties": false, "properties": {
                "timezone": {"type": "string", "default": "UTC",
                    "description": "IANA name, such as 'America/New_York', 'Europe/London', 'UTC'"},
                "format": {"type": "string", "enum": ["full", "date", "time", "iso"], "default": "full"},
            }}),
        ),
        tool(
            "roll_dice",
            "Roll dice in standard notation, such as '2d6', 'd20+5' or '4d6kh3' to keep the highest 3.",
            json!({"type": "object", "required": ["notation"], "additionalProperties": false, "properties": {
                "notation": {"type": "string", "description": "[N]dS, then kh or kl with a number, then + or - with a number"},
            }}),
        ),
    ]
}

#[async_trait]
impl ToolServer for BuiltIns {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        Ok(Listing { tools: tools(), warnings: Vec::new() })
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        match self.run(&request.name, &request.arguments) {
            Some(Ok(text)) => Ok(ToolResult::text(text)),
            Some(Err(reason)) => Ok(ToolResult::failure(reason)),
            None => Err(CallError::new(CallErrorKind::NotFound, format!("there is no built-in tool {}", request.name))),
        }
    }

    async fn ping(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn closed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::ids::Timestamp;
    use crate::domain::tool::{Effect, ResultLimits};

    struct Fixed;

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp(1_709_247_907_250)
        }
    }

    impl Dice for Fixed {
        fn roll(&self) -> f64 {
            0.5
        }
    }

    async fn call(name: &str, arguments: Value) -> Result<(String, bool), CallErrorKind> {
        let request = ToolRequest {
            name: name.into(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            effect: Effect::Reads,
            deadline: Duration::from_secs(1),
            limits: ResultLimits::default(),
            trace: None,
        };
        let built_ins = BuiltIns::new(Arc::new(Fixed), Arc::new(Fixed));
        let result = built_ins.call(&request, None).await;
        result.map(|result| (result.to_text(), result.is_error)).map_err(|error| error.kind)
    }

    #[tokio::test]
    async fn each_tool_answers_by_its_name() {
        for (name, arguments, text) in [
            ("calculator", json!({"expression": "2**10"}), "1024"),
            ("get_time", json!({"timezone": "Europe/Berlin", "format": "time"}), "00:05:07 CET"),
            ("get_time", json!({}), "Thursday, February 29, 2024 at 11:05 PM UTC"),
            ("roll_dice", json!({"notation": "2d6"}), "Rolled 2d6: [4, 4] = **8**"),
        ] {
            assert_eq!(call(name, arguments).await, Ok((text.to_owned(), false)), "{name}");
        }
        assert_eq!(call("calculator", json!({"expression": "1/0"})).await, Ok(("division by zero".to_owned(), true)));
        assert_eq!(call("format_disk", json!({})).await, Err(CallErrorKind::NotFound));
    }

    #[tokio::test]
    async fn their_schemas_fit_what_they_take() {
        for (name, arguments, fits) in [
            ("calculator", json!({"expression": "1"}), true),
            ("calculator", json!({}), false),
            ("get_time", json!({"format": "iso"}), true),
            ("get_time", json!({"format": "unix"}), false),
            ("roll_dice", json!({"notation": "d6", "times": 2}), false),
        ] {
            let tool = tools().into_iter().find(|tool| &*tool.name == name).unwrap();
            assert_eq!(jsonschema::is_valid(&tool.input_schema, &arguments), fits, "{name} {arguments}");
        }
    }
}
