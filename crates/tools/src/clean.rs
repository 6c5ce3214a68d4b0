//! `llm_list`, `llm_clean_text` and `llm_clean_tool`: questions to other model rows without any of the conversation.
//! Which row may be asked, whose quota pays and which tools are offered is decided by the turn ([`CleanCalls`]).

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::facts::asked;
use super::{BuiltInTool, arguments, reads, told};
use domain::model::{Row, ToolMode};
use domain::tool::{Annotations, CallError, Tool, ToolKind, ToolRequest, ToolResult};
use ports::{CleanCalls, CleanQuestion};

/// Maximum length of a question, in bytes.
const TEXT_MAX: usize = 64 * 1024;
/// Maximum number of tools passed with one question.
const TOOLS_MAX: usize = 16;

/// Lists the rows.
pub(super) struct List(pub Arc<dyn CleanCalls>);

/// Asks for a text.
pub(super) struct Text(pub Arc<dyn CleanCalls>);

/// Asks with tools.
pub(super) struct WithTools(pub Arc<dyn CleanCalls>);

#[derive(Deserialize)]
struct Arguments {
    model: String,
    prompt: String,
    #[serde(default)]
    tools: Vec<String>,
}

async fn ask(calls: &Arc<dyn CleanCalls>, request: &ToolRequest) -> Result<ToolResult, CallError> {
    let Arguments { model: row, prompt: text, tools } = arguments(request)?;
    let asked = asked(request)?;
    if text.trim().is_empty() || text.len() > TEXT_MAX {
        return Ok(ToolResult::failure(format!("the prompt has 1 to {TEXT_MAX} bytes")));
    }
    Ok(told(calls.ask(asked, CleanQuestion { row, text, tools }).await))
}

/// Returns the capabilities of a row as one line.
fn line(row: &Row) -> String {
    let mut about = vec![match row.tools {
        ToolMode::Off => "no tools",
        ToolMode::Native | ToolMode::Prompt => "takes tools",
    }];
    about.extend(row.vision.then_some("sees pictures"));
    let price = row.price.map(|price| format!(", ${} in and ${} out per million tokens", price.input, price.output));
    format!("- {}: {}{}", row.key, about.join(", "), price.unwrap_or_default())
}

fn question(name: &str, description: &str, tools: Option<Value>) -> Tool {
    let mut properties = json!({
        "model": {"type": "string", "description": "the name of a model from llm_list"},
        "prompt": {"type": "string", "description": "all that the model is told: the task, and what is needed for it"},
    });
    let mut required = vec!["model", "prompt"];
    if let Some(tools) = tools {
        properties["tools"] = tools;
        required.push("tools");
    }
    let schema =
        json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties});
    Tool { kind: ToolKind::Llm, ..reads(name, description, schema) }
}

#[async_trait]
impl BuiltInTool for List {
    fn tool(&self) -> Tool {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        reads("llm_list", "List the other models that can be asked with llm_clean_text and llm_clean_tool.", schema)
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let rows = self.0.rows(asked(request)?).await;
        let lines = |rows: Vec<Row>| match rows.as_slice() {
            [] => "There is no other model to ask.".to_owned(),
            rows => rows.iter().map(line).collect::<Vec<_>>().join("\n"),
        };
        Ok(told(rows.map(lines)))
    }
}

#[async_trait]
impl BuiltInTool for Text {
    fn tool(&self) -> Tool {
        question(
            "llm_clean_text",
            "Ask another model one question and get its answer as text. It knows nothing of this conversation and has no tools: good for \
             summaries, classification and second opinions.",
            None,
        )
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        ask(&self.0, request).await
    }
}

#[async_trait]
impl BuiltInTool for WithTools {
    fn tool(&self) -> Tool {
        let names = json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": TOOLS_MAX,
            "description": "names of tools of yours that it may call"});
        let tool = question(
            "llm_clean_tool",
            "Give another model a task and some of your tools. It knows nothing of this conversation; its calls are yours, under the same \
             rules. What a person would have to approve is refused there: call that yourself.",
            Some(names),
        );
        let annotations = Annotations {
            read_only: Some(false),
            destructive: Some(false),
            idempotent: Some(false),
            ..tool.annotations
        };
        Tool { annotations, ..tool }
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        ask(&self.0, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use domain::model::Price;

    #[test]
    fn a_row_is_told_with_what_it_can() {
        let row = Row::new("deep", Duration::from_secs(1));
        assert_eq!(line(&row), "- deep: takes tools");
        let price = Some(Price { input: 0.15, output: 0.6, cached: 0.0 });
        let row = Row { tools: ToolMode::Off, vision: true, price, ..row };
        assert_eq!(line(&row), "- deep: no tools, sees pictures, $0.15 in and $0.6 out per million tokens");
    }
}
