//! A streaming filter of a plain text answer: removes its leading thoughts.

use crate::reply::salvage::THOUGHTS;

/// An upper bound for the length of thought marks, in bytes.
const MARK_MAX: usize = 24;

/// A filter of one growing text. It shows a prefix of the text that [`salvage`](crate::reply::salvage) makes of the
/// whole.
#[derive(Debug, Default)]
pub struct Plain {
    stage: Stage,
    text: String,
    /// The length of the text without trailing white space, in bytes.
    shown: usize,
}

#[derive(Debug)]
enum Stage {
    /// Before the text: the possible beginning of a mark.
    Lead(String),
    /// Inside a thought: its closing mark, and the end of the text read.
    Thought(&'static str, String),
    /// In the text.
    Text,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Lead(String::new())
    }
}

impl Plain {
    /// Appends the next text from the model, cut anywhere between characters.
    pub fn push(&mut self, more: &str) {
        let mut more = more.to_owned();
        loop {
            match &mut self.stage {
                Stage::Text => {
                    self.text.push_str(&more);
                    let kept = self.text.trim_end().len();
                    self.shown = self.shown.max(kept);
                    return;
                }
                Stage::Lead(read) => {
                    read.push_str(&more);
                    let lead = read.trim_start();
                    if let Some((open, close)) = THOUGHTS.iter().find(|(open, _)| begins(lead, open)) {
                        more = lead[open.len()..].to_owned();
                        self.stage = Stage::Thought(close, String::new());
                    } else if THOUGHTS.iter().any(|(open, _)| begins(open, lead)) {
                        *read = lead.to_owned();
                        return;
                    } else {
                        more = lead.to_owned();
                        self.stage = Stage::Text;
                    }
                }
                Stage::Thought(close, read) => {
                    read.push_str(&more);
                    let Some(end) = read.to_ascii_lowercase().find(*close) else {
                        let kept = read.floor_char_boundary(read.len().saturating_sub(MARK_MAX));
                        read.drain(..kept);
                        return;
                    };
                    more = read[end + close.len()..].to_owned();
                    self.stage = Stage::Lead(String::new());
                }
            }
        }
    }

    /// Returns the certain beginning of the answer, without leading and trailing white space.
    #[must_use]
    pub fn visible(&self) -> &str {
        &self.text[..self.shown]
    }
}

/// True if a text begins with another one, ignoring ASCII case.
fn begins(text: &str, with: &str) -> bool {
    text.as_bytes().get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::salvage::without_leading_thoughts;

    #[test]
    fn what_is_shown_is_the_beginning_of_the_answer_however_it_is_cut() {
        for whole in [
            "plain words, and more\n\n",
            "  \n<think>hm, 1 < 2</think>\n\nThe answer.",
            "<THINK>a</think><reasoning>b</reasoning>c <think>kept</think>",
            "<b>no thought</b>",
            "◁think▷é◁/think▷ café",
            "<think>never closed",
        ] {
            let answer = without_leading_thoughts(whole).trim_end();
            for step in [1, 2, 3, 7, whole.len()] {
                let mut plain = Plain::default();
                let letters: Vec<char> = whole.chars().collect();
                for piece in letters.chunks(step) {
                    plain.push(&piece.iter().collect::<String>());
                    assert!(answer.starts_with(plain.visible()), "{whole}: {}", plain.visible());
                }
                assert_eq!(plain.visible(), answer, "{whole} in steps of {step}");
            }
        }
    }
}
