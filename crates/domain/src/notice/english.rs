//! The notices in English.

use super::Words;

pub(super) const WORDS: Words = Words {
    hint: "Hi! Write your question in the same message and I will answer it.",
    not_served: "Sorry, my operators have not enabled me in this community, so I cannot answer here.",
    model_down: "Sorry, a problem on my side keeps me from answering right now; please ask me again in a few minutes.",
    timed_out: "Sorry, that took me too long; please ask me again, perhaps in simpler words.",
    no_answer: "Sorry, I could not find a good answer to that; please try to ask it differently.",
    too_long: "Sorry, that is more than I can read at once; please ask again with less text.",
    filtered: "Sorry, I may not answer that; please ask me something else.",
    not_posted: "Sorry, I was not allowed to write here for a moment; please ask me again.",
    post_refused: "Sorry, I have an answer, but it could not be posted here; please ask me again.",
    interrupted: "Sorry, I was interrupted while I worked on your message; please ask me again.",
    may_have_acted: "Sorry, I was interrupted. What you asked for may have happened already; please check before you ask again.",
    internal: "Sorry, something went wrong on my side; please ask me again.",
    tools_at_work: "One moment, I am using my tools for this.",
    busy: "Sorry, too many people are asking me things right now; please try again in a minute.",
    lane_full: "I am still working on your earlier messages; please wait for those answers first.",
    lane_busy: "I am still working on your last message; please ask again when I have answered it.",
    limit_over: "You have reached the limit for now. I can answer you again {retry_at}. Until {until}, I answer you only in <#{channel_id}>.",
    limit_over_for_now: "You have reached the limit for now; I can answer again {retry_at}.",
    limit_over_nowhere: "You have reached the limit; I cannot answer you until {until}.",
    limit_never: "I may not answer you here.",
    limit_shared: "The limit that all members share here is used up; I can answer again {retry_at}.",
    limit_wait: "One moment please: your earlier messages may use up your limit. Ask me again when I have answered them.",
    restricted: "For now I can only answer you in <#{channel_id}>, until {until}.",
    restricted_without_channel: "I cannot answer you for now, until {until}.",
    restricted_elsewhere: "Another account of yours is restricted, so I cannot answer you here until that ends.",
    until_lifted: "a moderator lifts it",
    later: "later",
};
