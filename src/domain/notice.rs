//! Every sentence that the bot says by itself. Plain and friendly words; nothing that only an operator understands.

pub mod report;

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
            "timeout" => Self::TimedOut,
            "unusable_answer" | "filtered" => Self::NoWords,
            "connection" | "rate_limited" | "provider" | "malformed" | "refused" | "bad_request"
            | "context_overflow" => Self::ModelDown,
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
pub const fn hint() -> &'static str {
    "Hi! Write your question in the same message and I will answer it."
}

/// Says that there will be no answer, and why.
#[must_use]
pub const fn apology(why: Apology) -> &'static str {
    match why {
        Apology::ModelDown => "Sorry, I cannot think straight right now; please ask me again in a few minutes.",
        Apology::TimedOut => "Sorry, that took me too long; please ask me again, perhaps in simpler words.",
        Apology::NoWords => "Sorry, I could not find a good answer to that; please try to ask it differently.",
        Apology::NotPosted => "Sorry, I could not post my whole answer here; please ask me again.",
        Apology::Interrupted => interrupted(),
        Apology::Internal => "Sorry, something went wrong on my side; please ask me again.",
    }
}

/// Says that so many people are asking that this one cannot be served now.
#[must_use]
pub const fn busy() -> &'static str {
    "Sorry, too many people are asking me things right now; please try again in a minute."
}

/// Says that this person has more questions waiting than we keep.
#[must_use]
pub const fn lane_full() -> &'static str {
    "I am still working on your earlier messages; please wait for those answers first."
}

/// Says that a second question is not taken while the first is being answered.
#[must_use]
pub const fn lane_busy() -> &'static str {
    "I am still working on your last message; please ask again when I have answered it."
}

/// Says that a restart cut an answer short.
#[must_use]
pub const fn interrupted() -> &'static str {
    "Sorry, I was interrupted while I worked on your message; please ask me again."
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
    fn every_notice_is_one_plain_sentence() {
        let apologies = [
            Apology::ModelDown,
            Apology::TimedOut,
            Apology::NoWords,
            Apology::NotPosted,
            Apology::Interrupted,
            Apology::Internal,
        ];
        let mut notices: Vec<&str> = apologies.into_iter().map(apology).collect();
        notices.extend([hint(), busy(), lane_full(), lane_busy(), unwell()]);
        for (index, notice) in notices.iter().enumerate() {
            assert!(notice.len() < 120 && notice.ends_with('.'), "{notice}");
            assert!(!notices[..index].contains(notice), "said twice: {notice}");
            for word in ["error", "model", "timeout", "server", "token", "json", "@", "queue", "{"] {
                assert!(!notice.to_lowercase().contains(word), "{word} in: {notice}");
            }
        }
    }

    #[test]
    fn failures_find_their_apology() {
        assert_eq!(Apology::of_failure("timeout"), Apology::TimedOut);
        assert_eq!(Apology::of_failure("rate_limited"), Apology::ModelDown);
        assert_eq!(Apology::of_failure("unusable_answer"), Apology::NoWords);
        assert_eq!(Apology::of_failure("what"), Apology::Internal);
    }
}
