//! The cost of pictures: by the tokens that an endpoint reports, or by the picture.
//!
//! Source: the reference of OpenAI's Images API (`usage` of its responses).

use serde_json::Value;

use domain::completion::SANE_TOKENS;
use ports::micros;

/// The prices of one image model, in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// The price of one picture: it is reserved, and it is the cost if the endpoint reports no tokens.
    pub picture: f64,
    /// The price per million tokens of a description.
    pub input: Option<f64>,
    /// The price per million tokens of a picture that is edited. `None`: the price of a description.
    pub input_picture: Option<f64>,
    /// The price per million tokens of a picture that is returned.
    pub output: Option<f64>,
}

/// The tokens of one picture, as the endpoint reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    text: u64,
    /// Those of the picture that is edited.
    picture: u64,
    output: u64,
}

impl Prices {
    /// Returns the cost of one picture in millionths of a dollar.
    pub(super) fn micros(&self, usage: Option<Usage>) -> u64 {
        let Self { picture, input, input_picture, output } = *self;
        match usage.filter(|_| input.or(input_picture).or(output).is_some()) {
            Some(usage) => {
                let parts = [(input, usage.text), (input_picture.or(input), usage.picture), (output, usage.output)];
                parts.into_iter().map(|(price, tokens)| micros(price, as_amount(tokens))).fold(0, u64::saturating_add)
            }
            None => micros(Some(picture), 1e6),
        }
    }
}

impl Usage {
    /// Returns the tokens that an answer reports. A count that is no number is none; with an implausible one, there are
    /// no tokens.
    pub(super) fn of(reported: &Value) -> Option<Self> {
        let details = &reported["input_tokens_details"];
        let (output, all) =
            (reported["output_tokens"].as_u64()?, reported["input_tokens"].as_u64().unwrap_or_default());
        let picture = details["image_tokens"].as_u64().unwrap_or_default();
        let text = details["text_tokens"].as_u64().unwrap_or(all.saturating_sub(picture));
        [text, picture, output].iter().all(|tokens| *tokens <= SANE_TOKENS).then_some(Self { text, picture, output })
    }
}

#[expect(clippy::cast_precision_loss, reason = "the tokens of one picture are far below 2^52")]
const fn as_amount(tokens: u64) -> f64 {
    tokens as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_costs_its_tokens_if_they_are_reported_and_priced_and_its_price_otherwise() {
        let each = Prices { picture: 0.04, input: None, input_picture: None, output: None };
        let tokens = Prices { input: Some(5.0), input_picture: Some(10.0), output: Some(40.0), ..each };
        let told = |json: Value| Usage::of(&json);
        let edited = told(
            json!({"input_tokens": 373, "output_tokens": 1_056, "input_tokens_details": {"text_tokens": 50, "image_tokens": 323}}),
        );
        assert_eq!(edited, Some(Usage { text: 50, picture: 323, output: 1_056 }));
        assert_eq!(tokens.micros(edited), 50 * 5 + 323 * 10 + 1_056 * 40);
        assert_eq!(Prices { input_picture: None, ..tokens }.micros(edited), 373 * 5 + 1_056 * 40);
        let bare = told(json!({"input_tokens": 50, "output_tokens": 1_056}));
        assert_eq!(tokens.micros(bare), 50 * 5 + 1_056 * 40);
        let implausible = json!({"output_tokens": u64::MAX});
        for none in
            [json!(null), json!({"output_tokens": "many"}), json!({"output_tokens": -1}), json!([]), implausible]
        {
            assert_eq!(tokens.micros(told(none)), 40_000);
        }
        assert_eq!(each.micros(edited), 40_000);
        let endless = Some(Usage { text: u64::MAX, picture: u64::MAX, output: u64::MAX });
        assert_eq!(tokens.micros(endless), u64::MAX);
    }
}
