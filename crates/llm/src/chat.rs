//! The wire of chat completions, as OpenAI and all who are compatible with it speak it.

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

/// Chat completions.
pub struct ChatCompletions;

/// Bytes of pictures that are encoded in the task that sends them; more of them would hold its thread for too long.
const PICTURE_BYTES: usize = 256 * 1024;

/// The body of a request with large pictures, written while the other tasks of this thread run elsewhere. `None` for every other body, and
/// where there are no other threads.
fn written(request: &Request, body: &body::Body<'_>) -> Option<Box<RawValue>> {
    let pictures = request.messages.iter().flat_map(|item| &item.pictures);
    let is_large = pictures.map(|picture| picture.bytes.len()).sum::<usize>() > PICTURE_BYTES;
    let has_threads = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    (is_large && has_threads()).then(|| block_in_place(|| serde_json::value::to_raw_value(body)).ok()).flatten()
}

#[async_trait]
impl Wire for ChatCompletions {
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError> {
        let body = body::Body::new(model, request, stream);
        // The transport has read the answer already, and leaves nothing of it to the library.
        match written(request, &body) {
            Some(written) => openai.chat().create_byot::<_, ()>(written).await,
            None => openai.chat().create_byot::<_, ()>(body).await,
        }
    }

    fn assembly(&self) -> Box<dyn Assembly> {
        Box::new(merge::Merged::default())
    }

    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        read::read(answer, prompt_chars)
    }
}
