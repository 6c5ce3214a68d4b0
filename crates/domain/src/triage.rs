//! Triage: one pure decision for each message from a door: answer it, give a hint, join in unasked, or ignore it.

use std::collections::HashSet;

use super::clean::own_words;
use super::command::Operators;
use super::ids::{Person, TurnId};
use super::incoming::{AuthorKind, Posted};
use super::manners::{Draw, SuppressionReason};
use super::people::Linked;
use super::restriction;
use super::turn::{HistoryScope, LaneRule, Policy, Trigger, Turn};

/// The rules of a door, from its operator's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TriageRules {
    /// Names that address the bot without a mention: whole words, in any case.
    pub aliases: Vec<String>,
    /// Ids of roles whose holders are never answered.
    pub ignored_roles: HashSet<String>,
    /// Ids of bots and webhooks that are treated like members.
    pub allowed_bots: HashSet<String>,
    /// True if direct messages are answered.
    pub direct_messages: bool,
    /// Ids of the communities that are served. An empty set serves all.
    pub communities: HashSet<String>,
    /// Ids of the operators' accounts. Holders of super roles are operators as well.
    pub operators: HashSet<String>,
    /// Ids of roles whose holders are exempt from limits and restrictions.
    pub super_roles: HashSet<String>,
    /// The rules of restrictions. `None` disables them.
    pub restriction: Option<restriction::RestrictionRules>,
    /// The answer policy of the door.
    pub policy: Policy,
}

impl TriageRules {
    /// True if this community is served. Direct conversations always are.
    #[must_use]
    pub fn serves(&self, community: Option<&str>) -> bool {
        community.is_none_or(|community| self.communities.is_empty() || self.communities.contains(community))
    }

    /// True if a breach of a limit by this turn restricts its author: a member of a community who holds neither a super
    /// role nor the restriction role.
    #[must_use]
    pub fn restricts(&self, turn: &Turn) -> bool {
        let Some(restriction) = &self.restriction else { return false };
        let spared = |role: &String| *role == restriction.role || self.super_roles.contains(role);
        turn.guild.is_some() && !turn.roles.iter().any(spared)
    }

    /// Returns the operators of the bot.
    #[must_use]
    pub fn operators(&self) -> Operators<'_> {
        Operators { super_roles: &self.super_roles, accounts: &self.operators }
    }
}

/// The decision about one message.
#[derive(Debug, Clone, PartialEq)]
pub enum TriageDecision {
    /// A model answers it.
    Turn(Turn),
    /// It addresses the bot without a question. A short hint answers it; no model is called.
    Hint(Turn),
    /// It does not address the bot. The bot may join in, depending on these draws.
    Interjection(Turn, Draw),
    /// A restricted member addresses the bot in a place where restricted members are not answered.
    Restricted(Turn),
    /// A member addresses the bot, and another account of the same person is restricted.
    RestrictedElsewhere(Turn),
    /// A member of a community that is not served addresses the bot.
    NotServed(Turn),
    /// It is ignored.
    Ignore(Reason),
}

impl TriageDecision {
    /// Sets the accounts of the person who asked.
    #[must_use]
    pub fn with_links(mut self, linked: impl FnOnce(&Person) -> Linked) -> Self {
        match &mut self {
            Self::Turn(turn)
            | Self::Hint(turn)
            | Self::Interjection(turn, _)
            | Self::Restricted(turn)
            | Self::RestrictedElsewhere(turn)
            | Self::NotServed(turn) => turn.linked = linked(&turn.person),
            Self::Ignore(_) => {}
        }
        self
    }
}

/// The reason to ignore a message. The name is a log and metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The bot wrote it.
    Own,
    /// A bot that is not on the list wrote it.
    Bot,
    /// A webhook that is not on the list wrote it.
    Webhook,
    /// The platform wrote it.
    System,
    /// Its author holds an ignored role.
    IgnoredRole,
    /// It is a direct message, and those are disabled.
    DirectMessage,
    /// It does not address the bot.
    NotAddressed,
    /// The answers to another bot reached their limit in its window.
    PairWindow,
    /// Its author mentioned the bot without any words, and the recent hints to this author reached their limit.
    HintedEnough,
    /// It does not address the bot, and its author is restricted.
    Restricted,
    /// It does not address the bot, and the bot is degraded or busy.
    Unwell,
    /// It does not address the bot, and the rules of manners forbid joining in.
    Unasked(SuppressionReason),
    /// The bot has no permission to answer there.
    NoPermission,
    /// Its community is not served, and its author was told so before or did not address the bot.
    NotServed,
    /// Its door has no rules.
    UnknownDoor,
    /// It arrived before and was shed because too many turns were open.
    Repeated,
}

impl Reason {
    /// Returns the label for logs and metrics.
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

/// Returns the text of a member's message as turns and histories have it.
#[must_use]
pub fn words_of(text: &str, us: &Person) -> String {
    own_words(&fold(text, &us.id))
}

/// Decides about one message. `us` is the bot's account at the door of the message.
#[must_use]
pub fn triage(posted: &Posted, rules: &TriageRules, us: &Person) -> TriageDecision {
    if let Some(reason) = refusal(posted, rules, us) {
        return TriageDecision::Ignore(reason);
    }
    let Some(trigger) = trigger(posted, rules).or(unasked(posted)) else {
        return TriageDecision::Ignore(Reason::NotAddressed);
    };
    if !posted.may_answer {
        return TriageDecision::Ignore(Reason::NoPermission);
    }
    let text = words_of(&posted.text, us);
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
        linked: Linked::default(),
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

/// Returns the door's answer policy, refined by the choices of this message.
fn policy(posted: &Posted, door: &Policy) -> Policy {
    let (given, wanted) = (posted.given.as_ref(), &posted.models);
    let model = given.and_then(|given| given.model.clone()).or_else(|| wanted.row.clone());
    let among = given.map_or_else(|| wanted.among.clone(), |given| given.rows.clone());
    let model = model.or_else(|| door.model.clone());
    let (lineage, profile) = (posted.lineage.clone(), wanted.profile.clone().or_else(|| door.profile.clone()));
    let alone = door.alone || posted.guild.is_none();
    Policy { tools: door.tools && posted.tools, model, among, profile, lineage, alone, ..door.clone() }
}

/// True if the author is restricted and this is not a place where restricted members are answered.
fn is_confined(posted: &Posted, rules: &TriageRules) -> bool {
    let roles = &posted.author.roles;
    let exempt = roles.iter().any(|role| rules.super_roles.contains(role));
    let confined =
        |restriction: &restriction::RestrictionRules| restriction.confine(roles, &posted.place, posted.parent.as_ref());
    !exempt && rules.restriction.as_ref().is_some_and(confined)
}

/// Returns [`Trigger::Interjection`] for a member's text in a community that carries draws.
fn unasked(posted: &Posted) -> Option<Trigger> {
    let among_others = posted.guild.is_some() && posted.author.kind == AuthorKind::Member;
    let talk = among_others && posted.draw.is_some() && !posted.text.trim().is_empty();
    talk.then_some(Trigger::Interjection)
}

/// Builds an interjection: without history, without the quoted message, and refused if its lane is busy. The messages
/// of restricted members never get an interjection, in any place.
fn interjection(turn: Turn, draw: Draw, rules: &TriageRules) -> TriageDecision {
    if rules.restriction.as_ref().is_some_and(|restriction| turn.roles.contains(&restriction.role)) {
        return TriageDecision::Ignore(Reason::Restricted);
    }
    let policy = Policy { history: HistoryScope::Nothing, lane: LaneRule::Refuse, ..turn.policy };
    TriageDecision::Interjection(Turn { quoted: None, policy, ..turn }, draw)
}

/// Returns the reason why this author or place is never answered, independent of the text.
fn refusal(posted: &Posted, rules: &TriageRules, us: &Person) -> Option<Reason> {
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

/// Returns the trigger of the answer: the first that applies.
fn trigger(posted: &Posted, rules: &TriageRules) -> Option<Trigger> {
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

/// True if one of the bot's names is in the text as a whole word. Addresses and platform markup do not count.
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

/// True if the text holds only white space, or one of the bot's names with punctuation around it.
fn says_nothing(text: &str, aliases: &[String]) -> bool {
    let bare = text.trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation()).to_lowercase();
    let has_content = text.chars().any(|c| !c.is_whitespace());
    !has_content || (!bare.is_empty() && aliases.iter().any(|alias| alias.trim().to_lowercase() == bare))
}

/// Returns the text for the model: without mentions of the bot and with folded white space. Closed code blocks are
/// unchanged.
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

/// Folds each run of blanks to one blank and each run of empty lines to one empty line. Keeps the indentation of lines.
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
    // A trailing separator stays, so that the text does not join an adjacent code block.
    if line_breaks > 0 {
        folded.push('\n');
    } else if !blanks.is_empty() {
        folded.push(' ');
    }
    folded
}

#[cfg(test)]
mod tests;
