//! The wire of chat completions, as OpenAI and all who are compatible with it speak it.

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;

use crate::wire::{Assembly, Model, OpenAi, Wire};
use domain::completion::{Completion, Request};
use ports::ModelError;

mod body;

mod chunk;

mod lenient;

mod merge;

mod read;

mod usage;

/// Chat completions.
pub struct ChatCompletions;

#[async_trait]
impl Wire for ChatCompletions {
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError> {
        // The transport has read the answer already, and leaves nothing of it to the library.
        openai.chat().create_byot::<_, ()>(body::Body::new(model, request, stream)).await
    }

    fn assembly(&self) -> Box<dyn Assembly> {
        Box::new(merge::Merged::default())
    }

    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        read::read(answer, prompt_chars)
    }
}
