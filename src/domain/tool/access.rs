//! The table of rules together with the caller that it is asked about.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::catalogue::Entry;
use super::rights::{Call, Caller, Decided, Operation, Rule, decide, is_visible, matches};
use crate::domain::ids::{Person, Place};
use crate::domain::turn::Turn;

/// The most texts of a call's arguments that are matched against patterns of resources.
const RESOURCES_MAX: usize = 256;

/// What one caller may do, from one place.
#[derive(Debug, Clone)]
pub struct Access {
    rules: Arc<[Rule]>,
    person: Person,
    roles: Vec<String>,
    place: Place,
    parent: Option<Place>,
}

impl Access {
    /// The rights of whoever asked this turn.
    #[must_use]
    pub fn of(turn: &Turn, rules: Arc<[Rule]>) -> Self {
        let Turn { person, roles, place, parent, .. } = turn.clone();
        Self { rules, person, roles, place, parent }
    }

    /// The rights of a member of no role.
    #[cfg(test)]
    pub fn of_a_member(rules: Vec<Rule>) -> Self {
        let door = crate::domain::ids::Door::new("discord");
        let (person, place) = (Person::new(door.clone(), "7"), Place::new(door, "42"));
        Self { rules: rules.into(), person, roles: Vec::new(), place, parent: None }
    }

    /// Whether the caller's model is told of this tool.
    #[must_use]
    pub fn sees(&self, entry: &Entry) -> bool {
        is_visible(&self.rules, self.caller(), &entry.name)
    }

    /// Decides about one call. What it is about are the texts in its arguments.
    #[must_use]
    pub fn decide(&self, entry: &Entry, arguments: &Map<String, Value>) -> Decided {
        let mut resources = Vec::new();
        let whole = arguments.values().all(|value| texts(value, &mut resources));
        let call = Call { tool: &entry.name, operation: Operation::of(entry.effect), resources: &resources };
        let decided = decide(&self.rules, self.caller(), call, entry.usual);
        if whole {
            return decided;
        }
        // What was not looked at could be what a rule forbids.
        let about =
            |rule: &&Rule| rule.resource.is_some() && rule.is_for(self.caller()) && matches(&rule.tools, &entry.name);
        let verdict = self.rules.iter().filter(about).map(|rule| rule.verdict).fold(decided.verdict, Ord::max);
        Decided { verdict, ..decided }
    }

    fn caller(&self) -> Caller<'_> {
        let Self { person, roles, place, parent, .. } = self;
        Caller { person, roles, place, parent: parent.as_ref() }
    }
}

/// Gathers the texts of a value; false when there are more than are looked at.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) -> bool {
    match value {
        Value::String(text) if found.len() < RESOURCES_MAX => {
            found.push(text);
            true
        }
        Value::String(_) => false,
        Value::Array(items) => items.iter().all(|item| texts(item, found)),
        Value::Object(fields) => fields.values().all(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalogue::{Catalogue, Offer};
    use super::super::rights::Verdict;
    use super::super::{Annotations, ServerName, Source, Tool, ToolKind};
    use super::*;

    fn entry() -> Arc<Entry> {
        let tool = Tool {
            source: Source::Server(ServerName::new("db")),
            name: "query".into(),
            title: None,
            description: String::new(),
            input_schema: Arc::new(json!({"type": "object"})),
            annotations: Annotations::default(),
            kind: ToolKind::Db,
        };
        let tools = vec![Arc::new(tool)];
        let offer = Offer { tools, allowed: Vec::new(), side_effects: None, trusted: false, asks: false };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        Arc::clone(all.get("db__query").unwrap())
    }

    fn rule(resource: &str, verdict: Verdict) -> Rule {
        Rule {
            tools: "db__*".to_owned(),
            operation: None,
            resource: Some(resource.to_owned()),
            roles: Vec::new(),
            users: Vec::new(),
            channels: Vec::new(),
            doors: Vec::new(),
            verdict,
            approvers: Vec::new(),
        }
    }

    fn decided(rules: Vec<Rule>, arguments: &Value) -> Verdict {
        let access = Access::of_a_member(rules);
        assert!(access.sees(&entry()), "a rule about a resource hides no tool");
        access.decide(&entry(), arguments.as_object().unwrap()).verdict
    }

    #[test]
    fn what_a_call_is_about_are_the_texts_in_its_arguments_at_any_depth() {
        let deny = || vec![rule("payroll*", Verdict::Deny)];
        assert_eq!(decided(deny(), &json!({"table": "people"})), Verdict::Auto);
        for arguments in [json!({"table": "payroll"}), json!({"tables": [{"name": "payroll_2024"}, "people"]})] {
            assert_eq!(decided(deny(), &arguments), Verdict::Deny, "{arguments}");
        }
    }

    #[test]
    fn what_forbids_cannot_be_hidden_behind_many_texts() {
        let deny = || vec![rule("payroll", Verdict::Deny)];
        let many: Vec<String> = (0..=RESOURCES_MAX).map(|number| number.to_string()).collect();
        assert_eq!(decided(deny(), &json!({"tables": many})), Verdict::Deny);
        assert_eq!(decided(deny(), &json!({"tables": many[..RESOURCES_MAX]})), Verdict::Auto);
    }
}
