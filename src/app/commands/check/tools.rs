//! Tests one round with a harmless tool: if a model calls it, and if the same call can give a typed answer, by
//! structured output or by a function. A model that calls no native tool is tested with the tool in its prompt.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::models::{bounded, signs_of_end};
use super::report::CheckStatus;
use domain::completion::{Completion, Item, Request, Role, ToolCall, ToolSpec, WrittenJson};
use domain::dialogue::{USE_RESULTS, by_function};
use domain::model::{ReplyBy, Row, ToolMode};
use domain::reply::Schema;
use domain::tool::spoken;
use ports::{ModelError, ModelErrorKind, Models};

/// The tool, which exists only in this check.
const TOOL: &str = "lucky_number";
/// The tool's result, which a model cannot guess.
const NUMBER: &str = "7341";
/// The question, which only the tool can answer.
const QUESTION: &str = "Call the tool lucky_number once, then tell me in a few words the number that it gave.";

/// The results of a round.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// The place of tools that the model uses: in the request, in its prompt (tested if it called none of the request), or not at
    /// all.
    tools: ToolMode,
    /// True if it does so when the same request asks for structured output, and then answers in that form.
    both: bool,
    /// True if it does so when the same request offers a function that gives the answer, and then answers by it.
    /// Tested if the row answers by it, or without `both`.
    function: bool,
    signs: Vec<String>,
}

/// Tests one round with a row and returns the recommended line in `models.json`. Returns the reason if the model fails
/// otherwise and the result is unknown.
pub async fn round(models: &dyn Models, row: &Row, instructions: &Item, schema: &Schema) -> (CheckStatus, String) {
    let begun = Instant::now();
    let function = row.replies_by_function();
    let trial = Trial { models, row: &row.key, instructions, schema, function };
    let mut found = Found { tools: ToolMode::Off, both: false, function: false, signs: Vec::new() };
    if let Err(error) = trial.run(&mut found).await {
        return (CheckStatus::Note, format!("the test of tools failed: {}: {}", error.kind.as_str(), error.message));
    }
    let took = begun.elapsed().as_millis();
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let signs = if found.signs.is_empty() { String::new() } else { format!("; {}", found.signs.join("; ")) };
    let (native, both) = (yes(found.tools == ToolMode::Native), yes(found.both));
    let function = if found.both && !row.replies_by_function() { "not needed" } else { yes(found.function) };
    let (verdict, line) = compare(row, &found);
    let ways = format!("with structured output in one call: {both}; with a function for the answer: {function}");
    let prompt = match found.tools {
        ToolMode::Native => "not needed",
        other => yes(other == ToolMode::Prompt),
    };
    (verdict, format!("calls tools: {native}; {ways}; described in the prompt: {prompt}; {took} ms{line}{signs}"))
}

/// Compares the row with the results. Returns the recommended values if they differ.
fn compare(row: &Row, found: &Found) -> (CheckStatus, String) {
    let tools = found.tools;
    let reply_by = match (found.both, found.function, row.reply_by) {
        (_, true, ReplyBy::Tool) => ReplyBy::Tool,
        (false, false, _) if tools == ToolMode::Native => ReplyBy::Schema,
        (_, _, ReplyBy::Schema) => ReplyBy::Schema,
        _ => ReplyBy::Auto,
    };
    if (row.tools, row.schema_with_tools, row.reply_by) == (tools, found.both, reply_by) {
        return (CheckStatus::Ok, "; the row says so".to_owned());
    }
    let (key, mode, both, way) = (json!(row.key), tools.as_str(), found.both, reply_by.as_str());
    let line = format!(
        "; write into the models file: {key}: {{\"tools\": \"{mode}\", \"schema_with_tools\": {both}, \"reply_by\": \"{way}\"}}"
    );
    // A row that claims too much breaks turns; one that claims too little only slows them down.
    let broken = row.schema_with_tools && !found.both && row.tools == ToolMode::Native;
    (if broken { CheckStatus::Wrong } else { CheckStatus::Note }, line)
}

/// The way in which the form of the answer is requested beside the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Format,
    Function,
    /// In words, like the tool.
    Prompt,
    /// Only after the tool's result, without the tool.
    Later,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::Format => "with response_format",
            Self::Function => "with a function for the answer",
            Self::Prompt => "described in the prompt",
            Self::Later => "without response_format",
        }
    }
}

struct Trial<'a> {
    models: &'a dyn Models,
    row: &'a str,
    instructions: &'a Item,
    schema: &'a Schema,
    /// True if the row answers by a function, even if the model can combine tools with structured output.
    function: bool,
}

impl Trial<'_> {
    async fn run(&self, found: &mut Found) -> Result<(), ModelError> {
        let opening = vec![self.instructions.clone(), Item::new(Role::User, QUESTION)];
        for form in [Form::Format, Form::Function] {
            if form == Form::Function && found.both && !self.function {
                return Ok(());
            }
            if let Some((completion, call)) = self.offer(&opening, form, found).await? {
                found.tools = ToolMode::Native;
                let answers = self.finish(&opening, &completion, &call, form, found).await?;
                let way = if form == Form::Function { &mut found.function } else { &mut found.both };
                *way = answers;
            }
        }
        if found.both || found.function {
            return Ok(());
        }
        if let Some((completion, call)) = self.offer(&opening, Form::Later, found).await? {
            found.tools = ToolMode::Native;
            self.finish(&opening, &completion, &call, Form::Later, found).await?;
        }
        if found.tools == ToolMode::Off
            && let Some((completion, call)) = self.offer(&opening, Form::Prompt, found).await?
            && self.finish(&opening, &completion, &call, Form::Prompt, found).await?
        {
            found.tools = ToolMode::Prompt;
        }
        Ok(())
    }

    /// Offers the tool. Returns `None` if it was not called, or if the request was refused.
    async fn offer(
        &self,
        opening: &[Item],
        form: Form,
        found: &mut Found,
    ) -> Result<Option<(Completion, ToolCall)>, ModelError> {
        let how = form.name();
        let typed = form != Form::Later;
        let completion = match bounded(self.models, self.row, &self.request(opening.to_vec(), form, typed, true)).await
        {
            Ok(completion) => completion,
            Err(error) if error.kind == ModelErrorKind::BadRequest => {
                found.signs.push(format!("the model rejects tools {how} ({})", error.message));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let written = spoken::calls(&completion.content, |name| name == TOOL);
        let calls = if form == Form::Prompt { &written } else { &completion.calls };
        let call = calls.iter().find(|call| call.name == TOOL).cloned();
        if call.is_none() && form == Form::Prompt {
            found.signs.push("the text has no call of the tool that the prompt describes".to_owned());
        } else if call.is_none() {
            found.signs.push(format!("tool_calls: none {how}, although tool_choice is auto and the tool was needed"));
            found.signs.extend(signs_of_end(&completion));
        }
        Ok(call.map(|call| (completion, call)))
    }

    /// Sends the tool's result and reads the answer. The tool stays offered if the model supports both together;
    /// otherwise the final answer is requested without it.
    async fn finish(
        &self,
        opening: &[Item],
        asked: &Completion,
        call: &ToolCall,
        form: Form,
        found: &mut Found,
    ) -> Result<bool, ModelError> {
        let mut messages = opening.to_vec();
        let result = json!({"number": NUMBER}).to_string();
        if form == Form::Prompt {
            messages.push(Item::new(Role::Assistant, asked.content.clone()));
            messages.push(Item::new(Role::User, format!("{result}\n{USE_RESULTS}")));
        } else {
            messages.push(Item::echo(asked));
            messages.extend(asked.calls.iter().map(|call| Item::result(call, result.clone())));
        }
        let offered = form != Form::Later;
        let answer = match bounded(self.models, self.row, &self.request(messages, form, true, offered)).await {
            Ok(answer) => answer,
            Err(error) if error.kind == ModelErrorKind::BadRequest => {
                found.signs.push(format!("the model rejects the result of the call {} ({})", call.name, error.message));
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        Ok(self.judge(answer, call, form, found))
    }

    /// Returns true if this is an answer of the required form, and adds the signs of problems. Beside a function, and
    /// with tools in the prompt, prose is an answer too.
    fn judge(&self, answer: Completion, call: &ToolCall, form: Form, found: &mut Found) -> bool {
        let prose_counts = matches!(form, Form::Function | Form::Prompt);
        let answer = match by_function::arguments(&answer) {
            Some(content) if prose_counts => Completion { content, calls: Vec::new(), ..answer },
            _ => answer,
        };
        let again = !answer.calls.is_empty() || !spoken::calls(&answer.content, |name| name == call.name).is_empty();
        let reply = self.schema.read(&answer.content);
        let prose = |invalid| by_function::prose(&answer, invalid).is_some_and(|text| text.contains(NUMBER));
        let is_answer = reply.as_ref().map_or_else(|invalid| prose_counts && prose(invalid), |_| true);
        match &reply {
            _ if again => {
                found.signs.push("it calls the tool again instead of answering".to_owned());
            }
            _ if answer.content.trim().is_empty() => {
                found.signs.push("the content is empty after the tool's result".to_owned());
            }
            Err(_) if is_answer => found.signs.push("it answers in prose, which is accepted".to_owned()),
            Err(error) => {
                let how = form.name();
                found.signs.push(format!("the answer after the tool {how} does not fit the schema: {error}"));
            }
            Ok(_) if !answer.content.contains(NUMBER) => {
                found.signs.push("the answer lacks the result of the tool".to_owned());
            }
            Ok(_) => {}
        }
        found.signs.extend(signs_of_end(&answer));
        is_answer && !again
    }

    fn request(&self, mut messages: Vec<Item>, form: Form, typed: bool, offered: bool) -> Request {
        if form == Form::Prompt {
            messages[0].content = format!("{}\n\n{}", messages[0].content, spoken::instructions(&[Arc::new(tool())]));
            return Request { messages, ..Request::default() };
        }
        let mut tools = if offered { vec![Arc::new(tool())] } else { Vec::new() };
        if form == Form::Function {
            tools.insert(0, self.schema.function());
            messages[0].content = format!("{}\n\n{}", messages[0].content, by_function::INSTRUCTION);
            return Request { messages, tools, answer_function: true, ..Request::default() };
        }
        Request { messages, form: typed.then(|| self.schema.form()), tools, ..Request::default() }
    }
}

fn tool() -> ToolSpec {
    let parameters: Value = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let description = "Gives today's lucky number. Takes no arguments.".to_owned();
    ToolSpec { name: TOOL.to_owned(), description, parameters: WrittenJson::new(&parameters) }
}

#[cfg(test)]
mod tests;
