//! Who may use which tool: a table of rules, asked twice: for what a caller's model may see, and again for each call.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Effect, Tool};
use crate::ids::{Person, Place};
pub use crate::wildcard::matches;

/// What is decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Auto,
    /// A person is asked first.
    Ask,
    /// It does not run.
    Deny,
}

impl FromStr for Verdict {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let all = [Self::Auto, Self::Ask, Self::Deny];
        all.into_iter().find(|verdict| verdict.as_str() == word).ok_or("auto, ask or deny")
    }
}

impl Verdict {
    /// The word in configuration and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One row of the table. An empty list or an absent value matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The name in calls, or a pattern in which `*` stands for any text.
    pub tools: String,
    /// `read` or `write`.
    pub operation: Option<Operation>,
    /// What the call is about, such as a table or a folder; a pattern.
    pub resource: Option<String>,
    /// Ids of roles, one of which the caller has.
    pub roles: Vec<String>,
    /// Ids of callers.
    pub users: Vec<String>,
    /// Ids of places, or of the places above them.
    pub channels: Vec<String>,
    /// Names of doors.
    pub doors: Vec<String>,
    /// Ids of roles whose holders the rule is not about. At a door whose role ids are unknown, no caller holds one.
    pub except: Vec<String>,
    /// What is decided.
    pub verdict: Verdict,
    /// Ids of roles that may approve; none leaves it to the caller.
    pub approvers: Vec<String>,
}

/// Whether a call reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

impl FromStr for Operation {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            _ => Err("read or write"),
        }
    }
}

impl Operation {
    /// The operation of a tool that does not say more than its effect.
    #[must_use]
    pub const fn of(effect: Effect) -> Self {
        match effect {
            Effect::Reads => Self::Read,
            Effect::Idempotent | Effect::Changes => Self::Write,
        }
    }
}

/// Whose call it is, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Who asked.
    pub person: &'a Person,
    /// Ids of their roles.
    pub roles: &'a [String],
    /// Where they asked.
    pub place: &'a Place,
    /// The place above it.
    pub parent: Option<&'a Place>,
    /// Ids in rules are those of this door. At another door they could be anybody's, so a rule that lists ids concerns nobody there,
    /// unless it names the door.
    pub known: bool,
}

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name of the tool in calls.
    pub tool: &'a str,
    /// What it does.
    pub operation: Operation,
    /// The texts that it may be about: each is matched against patterns of resources.
    pub resources: &'a [&'a str],
    /// What it mentions besides: it can be forbidden, and allows nothing.
    pub mentions: &'a [String],
    /// These are all. If not, the rest could be what a rule forbids, and is not what it allows.
    pub complete: bool,
}

/// A decision, and the row that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// What is decided.
    pub verdict: Verdict,
    /// The place of the rule in the table; none when no rule matched.
    pub rule: Option<usize>,
}

/// Who may call a tool at all, whatever the rules allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Audience {
    /// Every caller.
    #[default]
    Everyone,
    /// Operators of the bot alone, at a door where their ids are known.
    Operators,
}

/// What a tool is when no rule says otherwise: a person is asked before it destroys something.
#[must_use]
pub fn usual(tool: &Tool) -> Verdict {
    if tool.annotations.destructive == Some(true) { Verdict::Ask } else { Verdict::Auto }
}

/// Decides about one call. A rule that denies wins wherever it stands; of the others the first that matches decides.
#[must_use]
pub fn decide(rules: &[Rule], caller: Caller<'_>, call: Call<'_>, usual: Verdict) -> Decided {
    let matching = |(_, rule): &(usize, &Rule)| rule.is_for(caller) && rule.matches(call);
    let denied = rules.iter().enumerate().filter(|(_, rule)| rule.verdict == Verdict::Deny).find(matching);
    match denied.or_else(|| rules.iter().enumerate().find(matching)) {
        Some((index, rule)) => Decided { verdict: rule.verdict, rule: Some(index) },
        None => Decided { verdict: usual, rule: None },
    }
}

/// Tools that a caller's model is not told of, because each call of them is denied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hidden {
    /// The pattern of their names.
    tools: String,
    /// The operation of their calls; none for every one.
    operation: Option<Operation>,
    /// For whom they are; none for everyone.
    audience: Option<Audience>,
}

impl Hidden {
    /// Tools whose names fit a pattern.
    #[must_use]
    pub fn of(tools: &str) -> Self {
        Self { tools: tools.to_owned(), operation: None, audience: None }
    }

    /// Tools that are for operators alone.
    #[must_use]
    pub fn for_operators() -> Self {
        Self { audience: Some(Audience::Operators), ..Self::of("*") }
    }

    /// True if the name of each tool has to be compared with a pattern.
    #[must_use]
    pub fn reads_names(&self) -> bool {
        self.tools != "*"
    }

    /// True if the tool of this name, effect and audience is one of them. All calls of a tool have the operation of its effect.
    #[must_use]
    pub fn fits(&self, tool: &str, effect: Effect, audience: Audience) -> bool {
        self.audience.is_none_or(|only| only == audience)
            && self.operation.is_none_or(|operation| operation == Operation::of(effect))
            && matches(&self.tools, tool)
    }
}

/// The tools that a caller's model is not told of, because each call of them would be denied.
pub fn hides<'a>(rules: &'a [Rule], caller: Caller<'a>) -> impl Iterator<Item = Hidden> {
    let always = |rule: &&Rule| rule.verdict == Verdict::Deny && rule.resource.is_none();
    let hidden = |rule: &Rule| Hidden { operation: rule.operation, ..Hidden::of(&rule.tools) };
    rules.iter().filter(always).filter(move |rule| rule.is_for(caller)).map(hidden)
}

impl Rule {
    /// A row about these tools that holds for everybody and everything; where it asks, the caller may approve.
    #[must_use]
    pub fn everywhere(tools: &str, verdict: Verdict) -> Self {
        Self {
            tools: tools.to_owned(),
            operation: None,
            resource: None,
            roles: Vec::new(),
            users: Vec::new(),
            channels: Vec::new(),
            doors: Vec::new(),
            except: Vec::new(),
            verdict,
            approvers: Vec::new(),
        }
    }

    /// Returns true if the rule is about this caller.
    #[must_use]
    pub fn is_for(&self, caller: Caller<'_>) -> bool {
        let any = |ids: &[String], wanted: &str| ids.iter().any(|id| id == wanted);
        let known = caller.known || any(&self.doors, caller.place.door.as_str());
        let in_place = any(&self.channels, &caller.place.id)
            || caller.parent.is_some_and(|parent| any(&self.channels, &parent.id));
        let lists = !(self.roles.is_empty() && self.users.is_empty() && self.channels.is_empty());
        (known || !lists)
            && !(known && caller.roles.iter().any(|role| any(&self.except, role)))
            && (self.roles.is_empty() || caller.roles.iter().any(|role| any(&self.roles, role)))
            && (self.users.is_empty() || any(&self.users, &caller.person.id))
            && (self.channels.is_empty() || in_place)
            && (self.doors.is_empty() || any(&self.doors, caller.place.door.as_str()))
    }

    /// What forbids or asks matches when one of the resources does; what allows, only when all of them do.
    fn matches(&self, call: Call<'_>) -> bool {
        let resource = self.resource.as_ref().is_none_or(|pattern| match self.verdict {
            Verdict::Ask | Verdict::Deny => {
                !call.complete
                    || call.resources.iter().any(|resource| matches(pattern, resource))
                    || call.mentions.iter().any(|mention| matches(pattern, mention))
            }
            Verdict::Auto => {
                call.complete
                    && !call.resources.is_empty()
                    && call.resources.iter().all(|resource| matches(pattern, resource))
            }
        });
        resource
            && self.operation.is_none_or(|operation| operation == call.operation)
            && matches(&self.tools, call.tool)
    }
}

#[cfg(test)]
mod tests;
