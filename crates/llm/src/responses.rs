//! The Responses wire of OpenAI and compatible providers. The specification is the types of the official `openai`
//! package, and the public Open Responses specification.
//!
//! The provider keeps nothing (`store` is false): each request contains the whole conversation, with the items of
//! earlier answers of the turn as they came.

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;

use crate::pictures;
use crate::wire::{Assembly, Model, OpenAi, Wire};
use domain::completion::{Completion, Request};
use ports::ModelError;

mod body;

mod event;

mod hosted;

mod item;

mod read;

mod assembly;

/// The wire of one call.
#[derive(Debug, Clone, Default)]
pub struct Responses {
    /// True if the arguments of [`ANSWER_FUNCTION`](domain::completion::ANSWER_FUNCTION) are streamed as text.
    pub answer_function: bool,
}

#[async_trait]
impl Wire for Responses {
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError> {
        let body = body::Body::new(model, request, stream);
        // The transport has already read the answer; the library receives an empty body.
        match pictures::written(request, &body) {
            Some(written) => openai.responses().create_byot::<_, ()>(written).await,
            None => openai.responses().create_byot::<_, ()>(body).await,
        }
    }

    fn assembly(&self) -> Box<dyn Assembly> {
        Box::new(assembly::Assembled::new(self.answer_function))
    }

    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        read::read(answer, prompt_chars)
    }
}
