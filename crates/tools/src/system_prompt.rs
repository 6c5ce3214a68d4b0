//! `read_system_prompt` and `update_system_prompt`: the sections of the prompts, and edits of them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::facts::asked;
use super::{BuiltInTool, arguments, reads, told};
use domain::prompt::editing::{self, Edit};
use domain::tool::rights::Audience;
use domain::tool::{Annotations, CallError, Tool, ToolRequest, ToolResult};
use ports::PromptSections;

pub(super) struct ReadSystemPrompt(pub Arc<dyn PromptSections>);

pub(super) struct UpdateSystemPrompt(pub Arc<dyn PromptSections>);

#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    section: Option<String>,
}

#[derive(Deserialize)]
struct Wanted {
    section: String,
    #[serde(flatten)]
    edit: Edit,
}

#[async_trait]
impl BuiltInTool for ReadSystemPrompt {
    fn tool(&self) -> Tool {
        reads(
            "read_system_prompt",
            "Read the sections that your instructions are made of: without a section their list, with the name or number of one its text \
             and versions. For operators who want to look at or change the instructions.",
            json!({"type": "object", "additionalProperties": false, "properties": {
                "section": {"type": "string", "description": "the name of a section, or its number in the list"},
            }}),
        )
    }

    fn audience(&self) -> Audience {
        Audience::Operators
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Which { section } = arguments(request)?;
        let all = match self.0.sections(asked(request)?).await {
            Ok(all) => all,
            Err(why) => return Ok(ToolResult::failure(why)),
        };
        let Some(wanted) = section.filter(|wanted| !wanted.is_empty()) else {
            return Ok(ToolResult::text(editing::list(&all)));
        };
        let found = editing::find(&all, &wanted).map(editing::whole);
        Ok(told(found.ok_or_else(|| format!("there is no section {wanted:?}. {}", editing::list(&all)))))
    }
}

#[async_trait]
impl BuiltInTool for UpdateSystemPrompt {
    fn tool(&self) -> Tool {
        let tool = reads(
            "update_system_prompt",
            "Change a section of your own instructions permanently and for all members, when an operator asks for exactly that. append and prepend add \
             text, replace puts text in the place of the first exact old, delete removes whole lines that hold text, overwrite replaces all of it \
             and needs confirm_overwrite, roll_back takes an earlier version.",
            json!({"type": "object", "required": ["section", "operation"], "additionalProperties": false, "properties": {
                "section": {"type": "string", "minLength": 1},
                "operation": {"type": "string",
                    "enum": ["append", "prepend", "replace", "delete", "overwrite", "roll_back"]},
                "text": {"type": "string"},
                "old": {"type": "string", "description": "for replace: the exact words that give way"},
                "confirm_overwrite": {"type": "boolean"},
                "version": {"type": "integer", "minimum": 0, "description": "for roll_back; 0 is the file"},
            }}),
        );
        let annotations = Annotations {
            read_only: Some(false),
            destructive: Some(true),
            idempotent: Some(false),
            open_world: Some(false),
        };
        Tool { annotations, ..tool }
    }

    fn audience(&self) -> Audience {
        Audience::Operators
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Wanted { section, edit } = arguments(request)?;
        let change = match edit.change() {
            Ok(change) => change,
            Err(why) => return Ok(ToolResult::failure(why)),
        };
        let number = self.0.change(asked(request)?, &section, &change).await;
        Ok(told(number.map(|number| format!("{section} is version {number} now, from the next question on."))))
    }
}
