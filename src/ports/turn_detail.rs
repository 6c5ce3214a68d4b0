//! One turn in detail, as plain data that is shown as JSON.

use serde::Serialize;

/// What was said to and by models for one turn, and what the log has of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TurnDetail {
    /// Whether texts are kept at all: the operator decides.
    pub texts: bool,
    /// Its calls of models in their order, the first six; none when they were forgotten, or are not kept.
    pub calls: Vec<ModelCall>,
    /// Its lines of the log, the oldest first, at most a hundred; without content and secrets as the log itself.
    pub log: Vec<String>,
}

/// One call of a model. Long texts are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelCall {
    /// The model row.
    pub model: String,
    /// What it was asked.
    pub prompt: Vec<PromptPart>,
    /// What it answered, before anything was made of it; none while it is asked and when it failed.
    pub answer: Option<String>,
    /// The tools that it wanted to have run, each with its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Why it failed; never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptPart {
    /// Who speaks: `system`, `user`, `assistant` or `tool`; `…` for what is left out.
    pub role: String,
    /// The text.
    pub text: String,
}

impl ModelCall {
    /// The same with each of its texts changed.
    pub(crate) fn each_text(mut self, change: impl Fn(&str) -> String) -> Self {
        let prompt = self.prompt.iter_mut().map(|part| &mut part.text);
        for text in prompt.chain(&mut self.answer).chain(&mut self.tools).chain(&mut self.error) {
            *text = change(text);
        }
        self
    }
}
