//! The bot's own sentences, in each language: plain and friendly, without operators' terms. Each language has a table
//! in its own file; a missing sentence is a compile error.

mod english;

mod german;

mod spanish;

use super::ending::{Ending, ModelErrorKind};
use super::locale::Locale;
use super::tool::failure::ToolFailure;

/// All sentences in one language.
struct Words {
    hint: &'static str,
    not_served: &'static str,
    model_down: &'static str,
    timed_out: &'static str,
    no_answer: &'static str,
    too_long: &'static str,
    filtered: &'static str,
    not_posted: &'static str,
    post_refused: &'static str,
    interrupted: &'static str,
    may_have_acted: &'static str,
    internal: &'static str,
    tools_at_work: &'static str,
    tool_access: &'static str,
    tool_timeout: &'static str,
    tool_not_found: &'static str,
    tool_failed: &'static str,
    busy: &'static str,
    lane_full: &'static str,
    lane_busy: &'static str,
    /// The notice over a limit. It is used while the operator's notice is the default of `config/default.toml`, or
    /// names a channel that does not exist.
    limit_over: &'static str,
    /// The same if members are not restricted.
    limit_over_for_now: &'static str,
    /// The same if restricted members have no channel.
    limit_over_nowhere: &'static str,
    limit_never: &'static str,
    /// An account that several members share has no room.
    limit_shared: &'static str,
    limit_wait: &'static str,
    restricted: &'static str,
    restricted_without_channel: &'static str,
    restricted_elsewhere: &'static str,
    restricted_in_community: &'static str,
    /// Replaces `{until}` if the time is unknown.
    until_lifted: &'static str,
    /// Replaces `{retry_at}` if the time is unknown.
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

pub mod gate;

pub mod limit;

pub mod outage;

pub mod report;

pub mod restriction;

pub mod template;

pub mod workspace;

/// The reason for an apology instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Apology {
    /// No model could answer.
    ModelDown,
    /// The turn timed out.
    TimedOut,
    /// The model's answer was unusable.
    NoWords,
    /// The question is too long for every model; a retry does not help.
    TooLong,
    /// The provider's content filter refused it; a retry does not help.
    Filtered,
    /// The bot could not post in that place when it was asked.
    NotPosted,
    /// The platform refused the answer.
    PostRefused,
    /// The bot was stopped while it worked on the answer.
    Interrupted,
    /// The same, and a tool with side effects may have run.
    MayHaveActed,
    /// An internal error.
    Internal,
}

impl Apology {
    /// Returns the apology for a turn with this ending.
    #[must_use]
    pub const fn of(why: Ending) -> Self {
        match why {
            Ending::Model(ModelErrorKind::Timeout) | Ending::Deadline | Ending::WaitedTooLong | Ending::Stalled => {
                Self::TimedOut
            }
            Ending::Model(ModelErrorKind::ContextOverflow) => Self::TooLong,
            Ending::Model(ModelErrorKind::Filtered) | Ending::Filtered => Self::Filtered,
            Ending::Model(
                ModelErrorKind::Connection
                | ModelErrorKind::RateLimited
                | ModelErrorKind::Provider
                | ModelErrorKind::Unsupported
                | ModelErrorKind::ToolsRefused
                | ModelErrorKind::Malformed
                | ModelErrorKind::TooLarge
                | ModelErrorKind::NoMemory
                | ModelErrorKind::Refused
                | ModelErrorKind::OutOfQuota
                | ModelErrorKind::BadRequest,
            )
            | Ending::NoModel
            | Ending::BreakersOpen => Self::ModelDown,
            Ending::Unusable => Self::NoWords,
            Ending::Interrupted => Self::Interrupted,
            Ending::MayHaveActed => Self::MayHaveActed,
            Ending::PlaceClosed => Self::NotPosted,
            Ending::PostRefused => Self::PostRefused,
            Ending::NoPermit
            | Ending::LaneFull
            | Ending::LaneBusy
            | Ending::Panicked
            | Ending::OffersExhausted
            | Ending::TakenBack
            | Ending::NotResumed
            | Ending::PlaceUnreadable
            | Ending::NothingHeard
            | Ending::AlreadyOver
            | Ending::Unknown => Self::Internal,
        }
    }
}

/// Answers a message that addressed the bot without a question.
#[must_use]
pub const fn hint(locale: Locale) -> &'static str {
    words(locale).hint
}

/// Says that the bot does not answer in this community, because the operator did not enable it.
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
        Apology::TooLong => words.too_long,
        Apology::Filtered => words.filtered,
        Apology::NotPosted => words.not_posted,
        Apology::PostRefused => words.post_refused,
        Apology::Interrupted => words.interrupted,
        Apology::MayHaveActed => words.may_have_acted,
        Apology::Internal => words.internal,
    }
}

/// Says that too many members are asking at the same time.
#[must_use]
pub const fn busy(locale: Locale) -> &'static str {
    words(locale).busy
}

/// Says that this member has too many queued questions.
#[must_use]
pub const fn lane_full(locale: Locale) -> &'static str {
    words(locale).lane_full
}

/// Says that a second question is not accepted during the first.
#[must_use]
pub const fn lane_busy(locale: Locale) -> &'static str {
    words(locale).lane_busy
}

/// Says that tools are running for an answer.
#[must_use]
pub const fn tools_at_work(locale: Locale) -> &'static str {
    words(locale).tools_at_work
}

/// Says that a tool failed, by the category of its failure.
#[must_use]
pub const fn tool_failed(failure: ToolFailure, locale: Locale) -> &'static str {
    let words = words(locale);
    match failure {
        ToolFailure::Access => words.tool_access,
        ToolFailure::Timeout => words.tool_timeout,
        ToolFailure::NotFound => words.tool_not_found,
        ToolFailure::Other => words.tool_failed,
    }
}

/// Says that a restart interrupted an answer.
#[must_use]
pub const fn interrupted(locale: Locale) -> &'static str {
    words(locale).interrupted
}

/// Returns the status line for problems of the bot.
#[must_use]
pub const fn unwell() -> &'static str {
    "I have a problem right now: answers may be slow or missing."
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
            Apology::TooLong,
            Apology::Filtered,
            Apology::NotPosted,
            Apology::Interrupted,
            Apology::MayHaveActed,
            Apology::Internal,
        ];
        let mut notices: Vec<&str> = Vec::new();
        for locale in Locale::ALL {
            notices.extend(apologies.map(|why| apology(why, locale)));
            notices.extend([
                hint(locale),
                not_served(locale),
                busy(locale),
                lane_full(locale),
                lane_busy(locale),
                tools_at_work(locale),
                limit::wait(locale),
                workspace::not_invited(locale),
                workspace::not_asked(locale),
            ]);
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
        let defaults = include_str!("../../../config/default.toml");
        for sentence in [english::WORDS.limit_over, english::WORDS.restricted] {
            assert!(defaults.contains(&format!("notice = \"{sentence}\"")), "{sentence}");
        }
    }

    #[test]
    fn endings_find_their_apology() {
        for (why, apology) in [
            (Ending::Model(ModelErrorKind::Timeout), Apology::TimedOut),
            (Ending::Deadline, Apology::TimedOut),
            (Ending::Model(ModelErrorKind::RateLimited), Apology::ModelDown),
            (Ending::BreakersOpen, Apology::ModelDown),
            (Ending::Unusable, Apology::NoWords),
            (Ending::Model(ModelErrorKind::ContextOverflow), Apology::TooLong),
            (Ending::Filtered, Apology::Filtered),
            (Ending::Panicked, Apology::Internal),
        ] {
            assert_eq!(Apology::of(why), apology, "{why:?}");
        }
    }
}
