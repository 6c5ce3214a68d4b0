//! The chat completions wire of OpenAI and compatible providers.

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::wire::{Assembly, Model, OpenAi, Wire};
use domain::completion::{Completion, Request};
use ports::ModelError;

mod body;

mod chunk;

mod lenient;

mod merge;

mod read;

mod usage;

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

/// The most bytes of pictures encoded on the sending task; more would block its thread for too long.
const PICTURE_BYTES: usize = 256 * 1024;

/// Serialises a request with large pictures while other tasks of this thread move elsewhere. Returns `None` for other
/// bodies, and on a runtime without further threads.
fn written(request: &Request, body: &body::Body<'_>) -> Option<Box<RawValue>> {
    let pictures = request.messages.iter().flat_map(|item| &item.pictures);
    let is_large = pictures.map(|picture| picture.bytes.len()).sum::<usize>() > PICTURE_BYTES;
    let has_threads = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    (is_large && has_threads()).then(|| block_in_place(|| serde_json::value::to_raw_value(body)).ok()).flatten()
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
        match written(request, &body) {
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
