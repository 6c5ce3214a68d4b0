//! Built-in tools, one per file. To the rest of the program they are a tool server that is always connected.
//!
//! Each tool has a bounded cost, no access to the file system, and no network access except to what its own settings
//! name.

pub mod agent_call;
mod calculator;
mod clean;
mod client;
#[cfg(feature = "databases")]
pub mod db_query;
mod facts;
mod forget_fact;
mod get_time;
pub mod google_drive;
pub mod images;
mod remember;
mod roll_dice;
mod search_memory;
mod system_prompt;
pub mod url_extract;
pub mod web_search;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use domain::completion::WrittenJson;
use domain::tool::catalogue::Offer;
use domain::tool::outline::Outline;
use domain::tool::rights::Audience;
use domain::tool::{Annotations, CallError, CallErrorKind, Source, Tool, ToolKind, ToolRequest, ToolResult};
use ports::tools::{Listing, ServerInfo};
use ports::{CleanCalls, Clock, Dice, Facts, ProgressSink, PromptSections, ToolServer};

/// One built-in tool.
#[async_trait]
pub trait BuiltInTool: Send + Sync {
    /// Returns its description for models, at [`Source::BuiltIn`].
    fn tool(&self) -> Tool;

    /// Returns the members who may call it.
    fn audience(&self) -> Audience {
        Audience::Everyone
    }

    /// Returns the timeout of one call; `None` for the usual one.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Runs one call whose arguments match the schema. An invalid request is a result that explains it.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError>;

    /// Returns the databases that it reaches, as last read.
    async fn outline(&self) -> Option<Arc<Outline>> {
        None
    }

    /// Like [`call`](Self::call), and reports progress if the tool supports it.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn call_showing(
        &self,
        request: &ToolRequest,
        _progress: Option<ProgressSink>,
    ) -> Result<ToolResult, CallError> {
        self.call(request).await
    }
}

/// The built-in tools.
pub struct BuiltIns {
    tools: Vec<(Tool, Box<dyn BuiltInTool>)>,
    info: ServerInfo,
    changes: watch::Sender<u64>,
}

impl BuiltIns {
    /// Creates the server of these tools, in this order.
    #[must_use]
    pub fn new(tools: Vec<Box<dyn BuiltInTool>>) -> Self {
        let info = ServerInfo { name: "staffai".to_owned(), ..ServerInfo::default() };
        let tools = tools.into_iter().map(|tool| (tool.tool(), tool)).collect();
        Self { tools, info, changes: watch::Sender::new(0) }
    }

    /// Returns the tools that are offered.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let operators = self.tools.iter().filter(|(_, tool)| tool.audience() == Audience::Operators);
        let operators = operators.map(|(tool, _)| Arc::clone(&tool.name)).collect();
        Offer { operators, ..Offer::built_in(self.tools()) }
    }

    /// Returns the descriptions of all tools for models.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.iter().map(|(tool, _)| tool.clone()).collect()
    }
}

/// Creates the tools that depend only on time and chance.
#[must_use]
pub fn simple(clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Vec<Box<dyn BuiltInTool>> {
    vec![Box::new(calculator::Calculator), Box::new(get_time::GetTime(clock)), Box::new(roll_dice::RollDice(dice))]
}

/// Creates the tools for members' facts.
#[must_use]
pub fn memory(facts: &Arc<dyn Facts>) -> Vec<Box<dyn BuiltInTool>> {
    let [remember, search, forget] = [0; 3].map(|_| Arc::clone(facts));
    vec![
        Box::new(remember::Remember(remember)),
        Box::new(search_memory::SearchMemory(search)),
        Box::new(forget_fact::ForgetFact(forget)),
    ]
}

/// Creates the tools that read and change sections of prompts.
#[must_use]
pub fn prompts(sections: &Arc<dyn PromptSections>) -> Vec<Box<dyn BuiltInTool>> {
    vec![
        Box::new(system_prompt::ReadSystemPrompt(Arc::clone(sections))),
        Box::new(system_prompt::UpdateSystemPrompt(Arc::clone(sections))),
    ]
}

/// Creates the tools that ask other model rows.
#[must_use]
pub fn models(calls: &Arc<dyn CleanCalls>) -> Vec<Box<dyn BuiltInTool>> {
    let [list, text, tool] = [0; 3].map(|_| Arc::clone(calls));
    vec![Box::new(clean::List(list)), Box::new(clean::Text(text)), Box::new(clean::WithTools(tool))]
}

/// Describes a tool that only reads, and nothing outside of this program.
#[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
fn reads(name: &str, description: &str, input_schema: Value) -> Tool {
    Tool {
        source: Source::BuiltIn,
        name: name.into(),
        title: None,
        description: description.to_owned(),
        input_schema: WrittenJson::new(&input_schema),
        annotations: Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() },
        kind: ToolKind::Other,
        utility: None,
    }
}

fn arguments<T: DeserializeOwned>(request: &ToolRequest) -> Result<T, CallError> {
    let arguments = Value::Object(request.arguments.clone());
    T::deserialize(arguments).map_err(|error| {
        CallError::new(
            CallErrorKind::InvalidArguments,
            format!("the arguments of {} are invalid: {error}", request.name),
        )
    })
}

/// Converts a result, or the explanation of an invalid request.
fn told(result: Result<String, String>) -> ToolResult {
    result.map_or_else(ToolResult::failure, ToolResult::text)
}

#[async_trait]
impl ToolServer for BuiltIns {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        Ok(Listing { tools: self.tools(), warnings: Vec::new() })
    }

    async fn call(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        match self.tools.iter().find(|(tool, _)| tool.name == request.name) {
            Some((_, tool)) => tool.call_showing(request, progress).await,
            None => Err(CallError::new(CallErrorKind::NotFound, format!("there is no built-in tool {}", request.name))),
        }
    }

    fn timeout(&self, tool: &str) -> Option<Duration> {
        self.tools.iter().find(|(known, _)| *known.name == *tool).and_then(|(_, tool)| tool.timeout())
    }

    async fn outline(&self, tool: &str) -> Option<Arc<Outline>> {
        let (_, tool) = self.tools.iter().find(|(known, _)| &*known.name == tool)?;
        tool.outline().await
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

    use serde_json::json;

    use super::*;
    use domain::ids::Timestamp;
    use domain::tool::Effect;

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
        let request = ToolRequest::new(
            name,
            arguments.as_object().cloned().unwrap_or_default(),
            Effect::Reads,
            Duration::from_secs(1),
        );
        let built_ins = BuiltIns::new(simple(Arc::new(Fixed), Arc::new(Fixed)));
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
            let tools = BuiltIns::new(simple(Arc::new(Fixed), Arc::new(Fixed))).tools();
            let tool = tools.into_iter().find(|tool| &*tool.name == name).unwrap();
            assert_eq!(jsonschema::is_valid(&tool.input_schema.to_value(), &arguments), fits, "{name} {arguments}");
        }
    }
}
