//! The chat completions wire of OpenAI and compatible providers.

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;

use crate::pictures;
use crate::wire::{Assembly, Model, OpenAi, Wire};
use domain::completion::{Completion, Request};
use ports::ModelError;

mod body;

mod chunk;

mod merge;

mod read;

/// A row's settings of the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChatCompletions {
    /// True if the provider caches up to the marks in a prompt.
    pub cache_marks: bool,
}

/// The wire of one call.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    pub settings: ChatCompletions,
    /// True if the arguments of [`ANSWER_FUNCTION`](domain::completion::ANSWER_FUNCTION) are streamed as text.
    pub answer_function: bool,
}

#[async_trait]
impl Wire for Chat {
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError> {
        let mut body = body::Body::new(model, request, stream);
        if self.settings.cache_marks {
            body.mark();
        }
        // The transport has already read the answer; the library receives an empty body.
        match pictures::written(request, &body) {
            Some(written) => openai.chat().create_byot::<_, ()>(written).await,
            None => openai.chat().create_byot::<_, ()>(body).await,
        }
    }

    fn assembly(&self) -> Box<dyn Assembly> {
        Box::new(merge::Merged::new(self.answer_function))
    }

    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        read::read(answer, prompt_chars)
    }
}
