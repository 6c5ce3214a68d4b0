//! Requests vectors from the embedding model at a row's endpoint.

use serde_json::{Value, json};

use domain::completion::Usage;
use domain::embedding::{EmbeddingRequest, Embeddings, Inputs};
use ports::{ModelError, ModelErrorKind};

/// The longest accepted vector.
const DIMENSIONS_MAX: usize = 16_384;

pub fn body(model: &str, request: &EmbeddingRequest) -> Value {
    let input = match &request.inputs {
        Inputs::Texts(texts) => json!(texts),
        Inputs::Tokens(tokens) => json!(tokens),
    };
    let mut body = json!({"model": model, "input": input, "encoding_format": "float"});
    if let Some(dimensions) = request.dimensions {
        body["dimensions"] = dimensions.into();
    }
    body
}

/// Returns the most JSON values of an answer: for each input a vector and a few fields, and some fields beside them.
pub fn values_max(request: &EmbeddingRequest) -> usize {
    (request.inputs.len() + 1).saturating_mul(DIMENSIONS_MAX)
}

/// Reads an answer.
///
/// # Errors
/// It does not have exactly one vector for each input.
pub fn read(answer: &Value, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
    let unusable = |why: &str| ModelError::new(ModelErrorKind::Malformed, format!("the vectors are not usable: {why}"));
    let data =
        answer.get("data").and_then(Value::as_array).ok_or_else(|| unusable("the answer has no list of them"))?;
    let count = request.inputs.len();
    if data.len() != count {
        return Err(unusable("their number is not that of the inputs"));
    }
    let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); count];
    for (place, entry) in data.iter().enumerate() {
        let at = entry.get("index").and_then(Value::as_u64).map_or(Some(place), |at| usize::try_from(at).ok());
        let numbers =
            entry.get("embedding").and_then(Value::as_array).filter(|numbers| numbers.len() <= DIMENSIONS_MAX);
        let numbers = numbers.ok_or_else(|| unusable("one is not a list of numbers"))?;
        let vector = at.and_then(|at| vectors.get_mut(at)).filter(|vector| vector.is_empty());
        let vector = vector.ok_or_else(|| unusable("an index is wrong"))?;
        #[expect(clippy::cast_possible_truncation, reason = "vectors are of single precision")]
        let read =
            numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect::<Option<Vec<f32>>>();
        *vector = read.filter(|read| !read.is_empty()).ok_or_else(|| unusable("one has no numbers"))?;
    }
    let told = answer.pointer("/usage/prompt_tokens").or_else(|| answer.pointer("/usage/total_tokens"));
    let told = told.and_then(Value::as_u64);
    let prompt = told.unwrap_or_else(|| request.inputs.tokens());
    Ok(Embeddings { vectors, usage: Usage { prompt, estimated: told.is_none(), ..Usage::default() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dimensions: Option<u32>) -> EmbeddingRequest {
        EmbeddingRequest { inputs: Inputs::Texts(vec!["a".to_owned(), "b".to_owned()]), dimensions }
    }

    #[test]
    fn vectors_stand_in_the_order_of_their_inputs() {
        assert_eq!(body("m", &request(Some(2)))["dimensions"], 2);
        let answer = json!({"data": [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, 2]}],
            "usage": {"prompt_tokens": 7, "total_tokens": 7}});
        let read = read(&answer, &request(None)).unwrap();
        assert_eq!((read.vectors, read.usage.prompt), (vec![vec![1.0, 2.0], vec![3.0, 4.5]], 7));
    }

    #[test]
    fn an_answer_without_one_vector_for_each_input_is_an_error() {
        for data in [
            json!(null),
            json!([{"embedding": [1]}]),
            json!([{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]),
            json!([{"index": 0, "embedding": [1]}, {"index": 9, "embedding": [1]}]),
            json!([{"embedding": [1]}, {"embedding": []}]),
            json!([{"embedding": [1]}, {"embedding": ["x"]}]),
            json!([{"embedding": [1]}, {"embedding": "AAAA"}]),
        ] {
            assert!(read(&json!({"data": data}), &request(None)).is_err(), "{data}");
        }
    }
}
