//! Access rules of tools: a table, evaluated first for the tools that a caller's model may see, and again for each
//! call.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::pattern::NamePattern;
use super::{Effect, Tool};
use crate::ids::{Person, Place};
pub use crate::wildcard::matches;

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Auto,
    /// The call requires approval.
    Ask,
    /// The call is denied.
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
    /// Returns the word in configuration and logs.
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
    /// The pattern of names in calls.
    pub tools: NamePattern,
    /// `read` or `write`.
    pub operation: Option<Operation>,
    /// A pattern of resources, such as tables or folders.
    pub resource: Option<String>,
    /// Ids of roles; the caller must hold one of them.
    pub roles: Vec<String>,
    /// Ids of callers.
    pub users: Vec<String>,
    /// Ids of places, or of their parents.
    pub channels: Vec<String>,
    /// Names of doors.
    pub doors: Vec<String>,
    /// Ids of roles whose holders are excluded from the rule. At a door whose role ids are unknown, no caller holds
    /// one.
    pub except: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Ids of roles that may approve; if empty, the caller approves.
    pub approvers: Vec<String>,
}

/// The operation of a call.
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
    /// Returns the operation of a tool that declares only its effect.
    #[must_use]
    pub const fn of(effect: Effect) -> Self {
        match effect {
            Effect::Reads => Self::Read,
            Effect::Idempotent | Effect::Changes => Self::Write,
        }
    }
}

/// The author of a call, with the place of the request.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The person who made the request.
    pub person: &'a Person,
    /// The ids of the person's roles.
    pub roles: &'a [String],
    /// The place of the request.
    pub place: &'a Place,
    /// The parent place.
    pub parent: Option<&'a Place>,
    /// True if the ids in rules belong to this door. At another door, equal ids may belong to other people, so a rule
    /// that lists ids matches no caller there unless it names the door.
    pub known: bool,
}

/// The content of a call that rules match.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name of the tool in calls.
    pub tool: &'a str,
    /// The operation.
    pub operation: Operation,
    /// The texts that may name its resources: each is matched against resource patterns.
    pub resources: &'a [&'a str],
    /// Further mentions: they can cause a denial, but never permit a call.
    pub mentions: &'a [String],
    /// True if these are all resources. If not, the rest counts as matching every rule that forbids and no rule that
    /// allows.
    pub complete: bool,
}

/// A verdict with its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// The verdict.
    pub verdict: Verdict,
    /// The index of the rule in the table; none if no rule matched.
    pub rule: Option<usize>,
}

/// The callers that may use a tool at all, regardless of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Audience {
    /// Every caller.
    #[default]
    Everyone,
    /// Operators of the bot only, at a door where their ids are known.
    Operators,
}

/// Returns the verdict if no rule matches: a destructive call requires approval.
#[must_use]
pub fn usual(tool: &Tool) -> Verdict {
    if tool.annotations.destructive == Some(true) { Verdict::Ask } else { Verdict::Auto }
}

/// Decides on one call. A rule that denies takes precedence at any position; otherwise the first match decides.
#[must_use]
pub fn decide(rules: &[Rule], caller: Caller<'_>, call: Call<'_>, usual: Verdict) -> Decided {
    let matching = |(_, rule): &(usize, &Rule)| rule.is_for(caller) && rule.matches(call);
    let denied = rules.iter().enumerate().filter(|(_, rule)| rule.verdict == Verdict::Deny).find(matching);
    match denied.or_else(|| rules.iter().enumerate().find(matching)) {
        Some((index, rule)) => Decided { verdict: rule.verdict, rule: Some(index) },
        None => Decided { verdict: usual, rule: None },
    }
}

/// Tools that are hidden from a caller's model because every call of them is denied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hidden {
    /// The pattern of their names.
    tools: NamePattern,
    /// The operation of their calls; none for every operation.
    operation: Option<Operation>,
    /// The audience of the tools; none for every audience.
    audience: Option<Audience>,
}

impl Hidden {
    /// Selects the tools whose names match a pattern.
    #[must_use]
    pub fn of(tools: &str) -> Self {
        Self::named(NamePattern::wildcard(tools))
    }

    const fn named(tools: NamePattern) -> Self {
        Self { tools, operation: None, audience: None }
    }

    /// Selects the tools that only operators may use.
    #[must_use]
    pub fn for_operators() -> Self {
        Self { audience: Some(Audience::Operators), ..Self::of("*") }
    }

    /// True if tool names must be compared with a pattern.
    #[must_use]
    pub fn reads_names(&self) -> bool {
        self.tools.as_str() != "*"
    }

    /// True if the tool with this name, effect and audience is selected. All calls of a tool have the operation of its
    /// effect.
    #[must_use]
    pub fn fits(&self, tool: &str, effect: Effect, audience: Audience) -> bool {
        self.audience.is_none_or(|only| only == audience)
            && self.operation.is_none_or(|operation| operation == Operation::of(effect))
            && self.tools.matches(tool)
    }
}

/// Returns the tools that are hidden from a caller's model because every call of them would be denied.
pub fn hides<'a>(rules: &'a [Rule], caller: Caller<'a>) -> impl Iterator<Item = Hidden> {
    let always = |rule: &&Rule| rule.verdict == Verdict::Deny && rule.resource.is_none();
    let hidden = |rule: &Rule| Hidden { operation: rule.operation, ..Hidden::named(rule.tools.clone()) };
    rules.iter().filter(always).filter(move |rule| rule.is_for(caller)).map(hidden)
}

impl Rule {
    /// Builds a rule about these tools for every caller and resource; if it requires approval, the caller may approve.
    #[must_use]
    pub fn everywhere(tools: &str, verdict: Verdict) -> Self {
        Self::of(NamePattern::wildcard(tools), verdict)
    }

    /// Builds the same rule about the tools of this pattern.
    #[must_use]
    pub const fn of(tools: NamePattern, verdict: Verdict) -> Self {
        Self {
            tools,
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

    /// True if the rule applies to this caller.
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

    /// Matches the resources. A rule that denies or requires approval matches if one resource matches; a rule that
    /// allows, only if all resources match.
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
        resource && self.operation.is_none_or(|operation| operation == call.operation) && self.tools.matches(call.tool)
    }
}

#[cfg(test)]
mod tests;
