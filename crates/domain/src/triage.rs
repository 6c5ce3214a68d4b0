//! Who is answered. One pure decision for every message that a door shows us.

use std::collections::HashSet;

use super::clean::own_words;
use super::command::Operators;
use super::ids::{Person, TurnId};
use super::incoming::{AuthorKind, Posted};
use super::manners::{Draw, SuppressionReason};
use super::restriction;
use super::turn::{HistoryScope, LaneRule, Policy, Trigger, Turn};

/// What a door's operator decided about who is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Names that address us besides a mention: whole words, in any case.
    pub aliases: Vec<String>,
    /// Ids of roles whose holders are never answered.
    pub ignored_roles: HashSet<String>,
    /// Ids of bots and webhooks that are heard like members.
    pub allowed_bots: HashSet<String>,
    /// Direct messages are answered.
    pub direct_messages: bool,
    /// Ids of the communities that are served; empty serves all.
    pub communities: HashSet<String>,
    /// Ids of accounts that operate the bot, besides holders of super roles.
    pub operators: HashSet<String>,
    /// Ids of roles whose holders are bound by no limit and no restriction.
    pub super_roles: HashSet<String>,
    /// How members are restricted; none restricts nobody.
    pub restriction: Option<restriction::Rules>,
    /// What the door wants of each answer.
    pub policy: Policy,
}

impl Rules {
    /// Whether this community is served; direct conversations always are.
    #[must_use]
    pub fn serves(&self, community: Option<&str>) -> bool {
        community.is_none_or(|community| self.communities.is_empty() || self.communities.contains(community))
    }

    /// Whether breaking a limit with this turn restricts its author: a member of a community with roles who is not restricted yet.
    #[must_use]
    pub fn restricts(&self, turn: &Turn) -> bool {
        let Some(restriction) = &self.restriction else { return false };
        let spared = |role: &String| *role == restriction.role || self.super_roles.contains(role);
        turn.guild.is_some() && !turn.roles.iter().any(spared)
    }

    /// Who operates the bot.
    #[must_use]
    pub fn operators(&self) -> Operators<'_> {
        Operators { super_roles: &self.super_roles, accounts: &self.operators }
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum TriageDecision {
    /// It is answered by a model.
    Turn(Turn),
    /// We were addressed without a question: a short hint answers, no model is asked.
    Hint(Turn),
    /// Nobody addressed us; with these draws we may join in.
    Interjection(Turn, Draw),
    /// A restricted member addressed us where they are not answered.
    Restricted(Turn),
    /// A member of a community that is not served addressed us.
    NotServed(Turn),
    /// It is not for us.
    Ignore(Reason),
}

/// Why a message is not for us. The name is a log and metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// We wrote it.
    Own,
    /// A bot wrote it that is not on the list.
    Bot,
    /// A webhook wrote it that is not on the list.
    Webhook,
    /// The platform wrote it.
    System,
    /// Its author holds an ignored role.
    IgnoredRole,
    /// It is a direct message, and those are not answered.
    DirectMessage,
    /// Nobody addressed us.
    NotAddressed,
    /// Another bot was answered often enough in its window.
    PairWindow,
    /// Its author mentioned us without a word, and got enough hints lately.
    HintedEnough,
    /// Nobody addressed us, and its author is restricted.
    Restricted,
    /// Nobody addressed us, and we are not well or have enough to do.
    Unwell,
    /// Nobody addressed us, and manners speak against joining in.
    Unasked(SuppressionReason),
    /// We may not answer there.
    NoPermission,
    /// Its community is not served, and its author knows or did not address us.
    NotServed,
    /// It came through a door without rules.
    UnknownDoor,
    /// It came before, and was turned away because too many turns were open.
    Repeated,
}

impl Reason {
    /// The label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Bot => "bot",
            Self::Webhook => "webhook",
            Self::System => "system",
            Self::IgnoredRole => "ignored_role",
            Self::DirectMessage => "direct_message",
            Self::NotAddressed => "not_addressed",
            Self::PairWindow => "pair_window",
            Self::HintedEnough => "hinted_enough",
            Self::Restricted => "restricted",
            Self::Unwell => "unwell",
            Self::Unasked(silence) => silence.as_str(),
            Self::NoPermission => "no_permission",
            Self::NotServed => "not_served",
            Self::UnknownDoor => "unknown_door",
            Self::Repeated => "repeated",
        }
    }
}

/// Decides about one message; `us` is our own account at the door it came through.
#[must_use]
pub fn triage(posted: &Posted, rules: &Rules, us: &Person) -> TriageDecision {
    if let Some(reason) = refusal(posted, rules, us) {
        return TriageDecision::Ignore(reason);
    }
    let Some(trigger) = trigger(posted, rules).or(unasked(posted)) else {
        return TriageDecision::Ignore(Reason::NotAddressed);
    };
    if !posted.may_answer {
        return TriageDecision::Ignore(Reason::NoPermission);
    }
    let text = own_words(&fold(&posted.text, &us.id));
    let bare = posted.given.is_none()
        && posted.reply_to.is_none()
        && posted.attachments.is_empty()
        && says_nothing(&text, &rules.aliases);
    let turn = Turn {
        id: TurnId::of(&posted.id),
        place: posted.place.clone(),
        parent: posted.parent.clone(),
        guild: posted.guild.clone(),
        person: posted.author.person.clone(),
        name: posted.author.name.clone(),
        roles: posted.author.roles.clone(),
        trigger,
        text,
        quoted: posted.reply_to.clone(),
        attachments: posted.attachments.clone(),
        locale: posted.locale.clone(),
        at: posted.at,
        policy: policy(posted, &rules.policy),
        given: posted.given.clone(),
    };
    if !rules.serves(turn.guild.as_deref()) {
        return if trigger.is_asked() {
            TriageDecision::NotServed(turn)
        } else {
            TriageDecision::Ignore(Reason::NotServed)
        };
    }
    if !trigger.is_asked() {
        return posted
            .draw
            .map_or(TriageDecision::Ignore(Reason::NotAddressed), |draw| interjection(turn, draw, rules));
    }
    if is_confined(posted, rules) {
        TriageDecision::Restricted(turn)
    } else if bare {
        TriageDecision::Hint(turn)
    } else {
        TriageDecision::Turn(turn)
    }
}

/// What the door wants of an answer, with what this message asks for.
fn policy(posted: &Posted, door: &Policy) -> Policy {
    let (given, wanted) = (posted.given.as_ref(), &posted.models);
    let model = given.and_then(|given| given.model.clone()).or_else(|| wanted.row.clone());
    let among = given.map_or_else(|| wanted.among.clone(), |given| given.rows.clone());
    let model = model.or_else(|| door.model.clone());
    let (lineage, profile) = (posted.lineage.clone(), wanted.profile.clone().or_else(|| door.profile.clone()));
    Policy { tools: door.tools && posted.tools, model, among, profile, lineage, ..door.clone() }
}

/// Whether the author is restricted and this is not the place where they are answered.
fn is_confined(posted: &Posted, rules: &Rules) -> bool {
    let roles = &posted.author.roles;
    let exempt = roles.iter().any(|role| rules.super_roles.contains(role));
    let confined = |restriction: &restriction::Rules| restriction.confine(roles, &posted.place, posted.parent.as_ref());
    !exempt && rules.restriction.as_ref().is_some_and(confined)
}

/// A message of a person among others, for which somebody drew, may be answered by chance.
fn unasked(posted: &Posted) -> Option<Trigger> {
    let among_others = posted.guild.is_some() && posted.author.kind == AuthorKind::Member;
    let talk = among_others && posted.draw.is_some() && !posted.text.trim().is_empty();
    talk.then_some(Trigger::Interjection)
}

/// Nothing is remembered of it, one at a time is enough in a place, and what its message replied to is not its business.
/// Restricted members are not talked to unasked, also where they are answered.
fn interjection(turn: Turn, draw: Draw, rules: &Rules) -> TriageDecision {
    if rules.restriction.as_ref().is_some_and(|restriction| turn.roles.contains(&restriction.role)) {
        return TriageDecision::Ignore(Reason::Restricted);
    }
    let policy = Policy { history: HistoryScope::Nothing, lane: LaneRule::Refuse, ..turn.policy };
    TriageDecision::Interjection(Turn { quoted: None, policy, ..turn }, draw)
}

/// Why this author or place is never answered, whatever the message says.
fn refusal(posted: &Posted, rules: &Rules, us: &Person) -> Option<Reason> {
    let author = &posted.author;
    let listed = rules.allowed_bots.contains(author.person.id.as_str());
    match author.kind {
        AuthorKind::Ourselves => return Some(Reason::Own),
        _ if author.person == *us => return Some(Reason::Own),
        AuthorKind::System => return Some(Reason::System),
        AuthorKind::Bot if !listed => return Some(Reason::Bot),
        AuthorKind::Webhook if !listed => return Some(Reason::Webhook),
        AuthorKind::Member | AuthorKind::Bot | AuthorKind::Webhook => {}
    }
    if author.roles.iter().any(|role| rules.ignored_roles.contains(role)) {
        return Some(Reason::IgnoredRole);
    }
    (posted.guild.is_none() && !rules.direct_messages).then_some(Reason::DirectMessage)
}

/// Why we answer: the first that holds.
fn trigger(posted: &Posted, rules: &Rules) -> Option<Trigger> {
    let answers_us = posted.reply_to.as_ref().and_then(|quoted| quoted.seen.as_ref()).is_some_and(|seen| seen.ours);
    if answers_us {
        Some(Trigger::Reply)
    } else if posted.mentions_us {
        Some(Trigger::Mention)
    } else if names_us(&posted.text, &rules.aliases) {
        Some(Trigger::Alias)
    } else {
        posted.guild.is_none().then_some(Trigger::Direct)
    }
}

/// Whether one of our names stands in the text as a whole word. Addresses and platform markup do not count.
fn names_us(text: &str, aliases: &[String]) -> bool {
    if aliases.is_empty() {
        return false;
    }
    let spoken = text
        .split_whitespace()
        .filter(|word| {
            let markup = word.starts_with('<') && word.ends_with('>');
            !markup && !word.contains("://")
        })
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase();
    aliases.iter().any(|alias| has_word(&spoken, &alias.trim().to_lowercase()))
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    !word.is_empty()
        && text.match_indices(word).any(|(start, found)| {
            let before = text[..start].chars().next_back();
            let after = text[start + found.len()..].chars().next();
            !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
        })
}

/// Whether nothing is left of the text but one of our names and punctuation.
fn says_nothing(text: &str, aliases: &[String]) -> bool {
    let bare = text.trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation()).to_lowercase();
    let has_content = text.chars().any(|c| !c.is_whitespace());
    !has_content || (!bare.is_empty() && aliases.iter().any(|alias| alias.trim().to_lowercase() == bare))
}

/// The text for the model: mentions of us removed and white space folded, code blocks left as they are.
fn fold(text: &str, our_id: &str) -> String {
    const FENCE: &str = "```";
    let plain = format!("<@{our_id}>");
    let nickname = format!("<@!{our_id}>");
    let pieces: Vec<&str> = text.split(FENCE).collect();
    let last = pieces.len() - 1;
    let mut folded = String::with_capacity(text.len());
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            folded.push_str(FENCE);
        }
        let in_closed_block = index % 2 == 1 && index < last;
        if in_closed_block {
            folded.push_str(piece);
        } else {
            folded.push_str(&fold_prose(&piece.replace(&plain, " ").replace(&nickname, " ")));
        }
    }
    folded.trim().to_owned()
}

/// Folds runs of blanks to one and runs of empty lines to one, but keeps the indentation of lines.
fn fold_prose(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut line_breaks = 0;
    let mut blanks = String::new();
    for c in text.chars() {
        if c == '\n' {
            line_breaks += 1;
            blanks.clear();
        } else if c.is_whitespace() {
            blanks.push(c);
        } else {
            if line_breaks > 0 {
                folded.push_str(if line_breaks > 1 { "\n\n" } else { "\n" });
                folded.push_str(&blanks);
            } else if !blanks.is_empty() {
                folded.push(' ');
            }
            line_breaks = 0;
            blanks.clear();
            folded.push(c);
        }
    }
    // What stands before a code block or after it must not stick to it.
    if line_breaks > 0 {
        folded.push('\n');
    } else if !blanks.is_empty() {
        folded.push(' ');
    }
    folded
}

#[cfg(test)]
mod tests;
