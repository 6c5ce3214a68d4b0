//! `read_system_prompt` and `update_system_prompt`: the sections of the prompts, and changes of them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::facts::asked;
use super::{BuiltInTool, arguments, reads, told};
use crate::domain::prompt::sections::{Change, Section};
use crate::domain::tool::{Annotations, CallError, Tool, ToolRequest, ToolResult};
use crate::ports::PromptSections;

/// The tool that reads.
pub(super) struct ReadSystemPrompt(pub Arc<dyn PromptSections>);

/// The tool that changes.
pub(super) struct UpdateSystemPrompt(pub Arc<dyn PromptSections>);

/// Which section.
#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    section: Option<String>,
}

/// What becomes of a section.
#[derive(Deserialize)]
struct Update {
    section: String,
    operation: Operation,
    #[serde(default)]
    text: String,
    #[serde(default)]
    old: String,
    #[serde(default)]
    confirm_overwrite: bool,
    #[serde(default)]
    version: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Append,
    Prepend,
    Replace,
    Delete,
    Overwrite,
    RollBack,
}

impl Update {
    fn change(self) -> Result<Change, &'static str> {
        match self.operation {
            Operation::Append => Ok(Change::Append(self.text)),
            Operation::Prepend => Ok(Change::Prepend(self.text)),
            Operation::Replace => Ok(Change::Replace(self.old, self.text)),
            Operation::Delete => Ok(Change::Delete(self.text)),
            Operation::Overwrite if self.confirm_overwrite => Ok(Change::Overwrite(self.text)),
            Operation::Overwrite => Err("overwrite replaces the whole section; it needs confirm_overwrite: true"),
            Operation::RollBack => self.version.map(Change::RollBack).ok_or("roll_back needs the number of a version"),
        }
    }
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

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Which { section } = arguments(request)?;
        let all = match self.0.sections(asked(request)?).await {
            Ok(all) => all,
            Err(why) => return Ok(ToolResult::failure(why)),
        };
        let Some(wanted) = section.filter(|wanted| !wanted.is_empty()) else { return Ok(ToolResult::text(list(&all))) };
        let at = wanted.parse::<usize>().ok().and_then(|number| all.get(number.checked_sub(1)?));
        let found = all.iter().find(|section| section.name == wanted).or(at);
        Ok(told(found.map(whole).ok_or_else(|| format!("there is no section {wanted:?}. {}", list(&all)))))
    }
}

fn list(all: &[Section]) -> String {
    let line = |(number, section): (usize, &Section)| {
        let kind = if section.container { "includes others" } else { "can be changed" };
        let Section { name, text, versions, .. } = section;
        format!("{number}. {name}: {} characters, version {}, {kind}", text.chars().count(), versions.number())
    };
    (1..).zip(all).map(line).collect::<Vec<_>>().join("\n")
}

fn whole(section: &Section) -> String {
    let Section { name, text, versions, .. } = section;
    let mut lines = vec![format!("{name}, version {}:", versions.number()), text.clone(), String::new()];
    lines.push("Versions (0 is the file):".to_owned());
    lines.extend(versions.0.iter().rev().map(|version| {
        let at = i64::try_from(version.at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let at = at.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default();
        format!("{}: {} by {} at {at}", version.number, version.change, version.by)
    }));
    lines.join("\n")
}

#[async_trait]
impl BuiltInTool for UpdateSystemPrompt {
    fn tool(&self) -> Tool {
        let tool = reads(
            "update_system_prompt",
            "Change a section of your own instructions, for everybody and for good, when an operator asks for exactly that. append and prepend add \
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

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let update: Update = arguments(request)?;
        let section = update.section.clone();
        let change = match update.change() {
            Ok(change) => change,
            Err(why) => return Ok(ToolResult::failure(why)),
        };
        let number = self.0.change(asked(request)?, &section, &change).await;
        Ok(told(number.map(|number| format!("{section} is version {number} now, from the next question on."))))
    }
}
