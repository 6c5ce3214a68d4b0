//! `forget_fact`: removes a fact that the asking member told.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::facts::{Shared, asked, changes, refused};
use super::{BuiltInTool, arguments};
use domain::fact::FactId;
use domain::tool::{CallError, Tool, ToolRequest, ToolResult};

pub(super) struct ForgetFact(pub Shared);

#[derive(Deserialize)]
struct Arguments {
    id: String,
}

#[async_trait]
impl BuiltInTool for ForgetFact {
    fn tool(&self) -> Tool {
        changes(
            "forget_fact",
            "Forget one fact of the member you are answering, when they ask for that. search_memory tells the ids of facts.",
            json!({"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
                "id": {"type": "string", "description": "the id of the fact, as search_memory told it"},
            }}),
        )
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        const NONE: &str = "There is no such fact of this member here; search_memory tells the ids.";
        let Arguments { id } = arguments(request)?;
        let asked = asked(request)?;
        let Ok(id) = id.parse::<FactId>() else { return Ok(ToolResult::failure(NONE)) };
        match self.0.forget(asked, &id).await {
            Ok(true) => Ok(ToolResult::text("It is forgotten.")),
            Ok(false) => Ok(ToolResult::failure(NONE)),
            Err(why) => refused(why),
        }
    }
}
