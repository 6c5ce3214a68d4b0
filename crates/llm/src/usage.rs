//! Reads the token usage of an answer under all field names in use.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::Value;

use crate::lenient::{Lenient, Read, Text};
use domain::completion::{self, SANE_TOKENS, Usage};

/// Reported token counts without implausible ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reported {
    prompt_tokens: Tokens,
    input_tokens: Tokens,
    completion_tokens: Tokens,
    output_tokens: Tokens,
    /// Cached prompt tokens, by field: the usual one first, then those of some providers.
    cached: [Tokens; 5],
}

/// A plausible token count. Some providers write integers as `12.0`.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens(Option<u64>);

#[derive(Default)]
struct Details {
    cached_tokens: Tokens,
}

impl Reported {
    /// Reads the usage object of a value; `None` if it is not an object.
    pub fn of(value: &Value) -> Option<Self> {
        Read::deserialize(value).ok().and_then(|Read(reported)| reported)
    }
}

/// Returns the reported usage, with estimates for missing counts. `prompt_chars` returns the length of the prompt.
pub fn usage_of(reported: Option<Reported>, prompt_chars: &dyn Fn() -> usize, answer_chars: usize) -> Usage {
    let reported = reported.unwrap_or_default();
    let prompt = reported.prompt_tokens.0.or(reported.input_tokens.0);
    let completion = reported.completion_tokens.0.or(reported.output_tokens.0);
    // Zero tokens for some text means that the server does not count.
    let prompt = prompt.filter(|tokens| *tokens > 0 || prompt_chars() == 0);
    let completion = completion.filter(|tokens| *tokens > 0 || answer_chars == 0);
    let prompt_tokens = prompt.unwrap_or_else(|| completion::estimated_tokens(prompt_chars()));
    Usage {
        prompt: prompt_tokens,
        completion: completion.unwrap_or_else(|| completion::estimated_tokens(answer_chars)),
        cached: reported.cached.iter().find_map(|tokens| tokens.0).unwrap_or(0).min(prompt_tokens),
        estimated: prompt.is_none() || completion.is_none(),
    }
}

impl<'de> Lenient<'de> for Option<Reported> {
    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut reported = Reported::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            let place = match &*name {
                "prompt_tokens" => &mut reported.prompt_tokens,
                "input_tokens" => &mut reported.input_tokens,
                "completion_tokens" => &mut reported.completion_tokens,
                "output_tokens" => &mut reported.output_tokens,
                "cached_tokens" => &mut reported.cached[2],
                "prompt_cache_hit_tokens" => &mut reported.cached[3],
                "cache_read_input_tokens" => &mut reported.cached[4],
                "prompt_tokens_details" | "input_tokens_details" => {
                    let place = usize::from(name.starts_with("input"));
                    reported.cached[place] = fields.next_value::<Read<Details>>()?.0.cached_tokens;
                    continue;
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *place = fields.next_value::<Read<Tokens>>()?.0;
        }
        Ok(Some(reported))
    }
}

impl<'de> Lenient<'de> for Details {
    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut details = Self::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            if name == "cached_tokens" {
                details.cached_tokens = fields.next_value::<Read<Tokens>>()?.0;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(details)
    }
}

impl Lenient<'_> for Tokens {
    fn count(number: u64) -> Self {
        Self(Some(number).filter(|tokens| *tokens <= SANE_TOKENS))
    }

    fn number(number: f64) -> Self {
        whole(number).map_or(Self(None), Self::count)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the comparison before it")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=1e9).contains(&number)).then_some(number as u64)
}
