//! Every sentence that the bot says by itself, in each language. Plain and friendly words; nothing that only an operator
//! understands. One table for each language stands in a file of its own; a sentence that one of them lacks does not compile.

mod english;

mod german;

mod spanish;

use super::locale::Locale;

/// All sentences in one language.
struct Words {
    hint: &'static str,
    not_served: &'static str,
    model_down: &'static str,
    timed_out: &'static str,
    no_answer: &'static str,
    not_posted: &'static str,
    interrupted: &'static str,
    internal: &'static str,
    busy: &'static str,
    lane_full: &'static str,
    lane_busy: &'static str,
    /// Stands for the operator's notice as long as that is the one of `config/default.toml`; so do the others of its kind.
    limit_over: &'static str,
    /// The same where nobody is restricted.
    limit_over_for_now: &'static str,
    /// The same where restricted members have no channel.
    limit_over_nowhere: &'static str,
    limit_never: &'static str,
    limit_wait: &'static str,
    restricted: &'static str,
    restricted_without_channel: &'static str,
    /// Stands for `{until}` when nobody knows the moment.
    until_lifted: &'static str,
    /// Stands for `{retry_at}` when nobody knows the moment.
    later: &'static str,
}

const fn words(locale: Locale) -> &'static Words {
    match locale {
        Locale::English => &english::WORDS,
        Locale::Spanish => &spanish::WORDS,
        Locale::German => &german::WORDS,
    }
}

pub mod commands;

pub mod limit;

pub mod report;

pub mod restriction;

pub mod template;

/// Why somebody gets an apology instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Apology {
    /// No model could answer.
    ModelDown,
    /// It took too long.
    TimedOut,
    /// The model gave nothing that can be shown.
    NoWords,
    /// The answer was there but not all of it could be posted.
    NotPosted,
    /// The bot was stopped while it worked on the answer.
    Interrupted,
    /// Something on our side broke.
    Internal,
}

impl Apology {
    /// The apology for a failure of this label, as the model port and the dialogue name them.
    #[must_use]
    pub fn of_failure(label: &str) -> Self {
        match label {
            "timeout" | "deadline" => Self::TimedOut,
            "unusable_answer" | "filtered" => Self::NoWords,
            "connection" | "rate_limited" | "provider" | "malformed" | "refused" | "bad_request"
            | "context_overflow" | "breaker open" | "no model" => Self::ModelDown,
            _ => Self::Internal,
        }
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelDown => "model_down",
            Self::TimedOut => "timed_out",
            Self::NoWords => "no_words",
            Self::NotPosted => "not_posted",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}

/// Answers somebody who addressed us without asking anything.
#[must_use]
pub const fn hint(locale: Locale) -> &'static str {
    words(locale).hint
}

/// Says that the bot does not answer in a community that it was not opened to.
#[must_use]
pub const fn not_served(locale: Locale) -> &'static str {
    words(locale).not_served
}

/// Says that there will be no answer, and why.
#[must_use]
pub const fn apology(why: Apology, locale: Locale) -> &'static str {
    let words = words(locale);
    match why {
        Apology::ModelDown => words.model_down,
        Apology::TimedOut => words.timed_out,
        Apology::NoWords => words.no_answer,
        Apology::NotPosted => words.not_posted,
        Apology::Interrupted => words.interrupted,
        Apology::Internal => words.internal,
    }
}

/// Says that so many people are asking that this one cannot be served now.
#[must_use]
pub const fn busy(locale: Locale) -> &'static str {
    words(locale).busy
}

/// Says that this person has more questions waiting than we keep.
#[must_use]
pub const fn lane_full(locale: Locale) -> &'static str {
    words(locale).lane_full
}

/// Says that a second question is not taken while the first is being answered.
#[must_use]
pub const fn lane_busy(locale: Locale) -> &'static str {
    words(locale).lane_busy
}

/// Says that a restart cut an answer short.
#[must_use]
pub const fn interrupted(locale: Locale) -> &'static str {
    words(locale).interrupted
}

/// Stands for a file where files cannot be shown.
#[must_use]
pub fn file_not_shown(name: &str, bytes: usize) -> String {
    format!("(file {name}, {bytes} bytes: it cannot be shown here)")
}

/// Our line of status while something is wrong with us.
#[must_use]
pub const fn unwell() -> &'static str {
    "Not quite well: answers may be slow or missing."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_is_one_plain_sentence_in_each_language() {
        let apologies = [
            Apology::ModelDown,
            Apology::TimedOut,
            Apology::NoWords,
            Apology::NotPosted,
            Apology::Interrupted,
            Apology::Internal,
        ];
        let mut notices: Vec<&str> = Vec::new();
        for locale in Locale::ALL {
            notices.extend(apologies.map(|why| apology(why, locale)));
            notices.extend([hint(locale), not_served(locale), busy(locale), lane_full(locale), lane_busy(locale), limit::wait(locale)]);
        }
        notices.push(unwell());
        for (index, notice) in notices.iter().enumerate() {
            assert!(notice.chars().count() < 120 && notice.ends_with('.'), "{notice}");
            assert!(!notices[..index].contains(notice), "said twice: {notice}");
            for word in ["error", "model", "timeout", "server", "token", "json", "@", "queue", "{"] {
                assert!(!notice.to_lowercase().contains(word), "{word} in: {notice}");
            }
        }
    }

    #[test]
    fn the_operators_notices_are_ours_until_somebody_writes_others() {
        let defaults = include_str!("../../config/default.toml");
        for sentence in [english::WORDS.limit_over, english::WORDS.restricted] {
            assert!(defaults.contains(&format!("notice = \"{sentence}\"")), "{sentence}");
        }
    }

    #[test]
    fn failures_find_their_apology() {
        assert_eq!(Apology::of_failure("timeout"), Apology::TimedOut);
        assert_eq!(Apology::of_failure("deadline"), Apology::TimedOut);
        assert_eq!(Apology::of_failure("rate_limited"), Apology::ModelDown);
        assert_eq!(Apology::of_failure("breaker open"), Apology::ModelDown);
        assert_eq!(Apology::of_failure("unusable_answer"), Apology::NoWords);
        assert_eq!(Apology::of_failure("what"), Apology::Internal);
    }
}
