//! The access rules of one caller.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::catalogue::CatalogueEntry;
use super::rights::{Audience, Call, Caller, Decided, Hidden, Operation, Rule, Verdict, decide, hides};
use super::{Effect, Source, ToolKind};
use crate::caller::Operators;
use crate::ids::{Person, Place};
use crate::turn::Turn;

/// The maximum number of texts in a call's arguments that are matched against resource patterns.
const RESOURCES_MAX: usize = 256;

/// The argument in which a call of a built-in tool names its resources. The tool ensures that the list is complete.
pub const RESOURCES: &str = "tables";

/// True if calls of the tool name their resources in [`RESOURCES`] and nowhere else.
fn names_resources(entry: &CatalogueEntry) -> bool {
    entry.tool.source == Source::BuiltIn && entry.tool.kind == ToolKind::Db
}

/// The caller's status at a door, beside name and roles.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    /// True if the ids in rules belong to this door.
    pub known: bool,
    /// True if the caller operates the bot.
    pub operator: bool,
}

/// The rights of one caller in one place.
#[derive(Debug, Clone)]
pub struct Access {
    rules: Arc<[Rule]>,
    person: Person,
    roles: Vec<String>,
    place: Place,
    parent: Option<Place>,
    standing: Standing,
    /// The tools of which each call of the caller is denied.
    hides: Arc<[Hidden]>,
}

impl Access {
    /// Builds the rights of a person with these roles, in a place and its parent.
    #[must_use]
    pub fn new(
        rules: Arc<[Rule]>,
        person: Person,
        roles: Vec<String>,
        place: Place,
        parent: Option<Place>,
        standing: Standing,
    ) -> Self {
        let mut access = Self { rules, person, roles, place, parent, standing, hides: Arc::from([]) };
        let operators = (!standing.operator).then(Hidden::for_operators);
        access.hides = operators.into_iter().chain(hides(&access.rules, access.caller())).collect();
        access
    }

    /// Builds the rights of the member of a turn. `operators`: the operators at its door; none if no ids are known.
    #[must_use]
    pub fn of(turn: &Turn, rules: Arc<[Rule]>, operators: Option<Operators<'_>>) -> Self {
        let Turn { person, roles, place, parent, .. } = turn;
        let standing = Standing { known: operators.is_some(), operator: turn.is_of_operator(operators) };
        Self::new(rules, person.clone(), roles.clone(), place.clone(), parent.clone(), standing)
    }

    /// Leaves out the tools whose names match one of these patterns.
    #[must_use]
    pub fn without(mut self, patterns: &[String]) -> Self {
        if !patterns.is_empty() {
            let left_out = patterns.iter().map(|pattern| Hidden::of(pattern));
            self.hides = self.hides.iter().cloned().chain(left_out).collect();
        }
        self
    }

    /// Builds the rights of a member without roles.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_a_member(rules: Vec<Rule>) -> Self {
        let door = crate::ids::Door::new("discord");
        let (person, place) = (Person::new(door.clone(), "7"), Place::new(door, "42"));
        let standing = Standing { known: true, operator: false };
        Self::new(rules.into(), person, Vec::new(), place, None, standing)
    }

    /// True if the caller's model may see this tool.
    #[must_use]
    pub fn sees(&self, entry: &CatalogueEntry) -> bool {
        !self.hides.iter().any(|hidden| hidden.fits(&entry.name, entry.effect, entry.audience))
    }

    /// Returns the tools hidden from the caller's model.
    #[must_use]
    pub const fn hides(&self) -> &Arc<[Hidden]> {
        &self.hides
    }

    /// Decides on one call. The texts in its arguments are its resources; if the tool names them in [`RESOURCES`], only
    /// the texts there. Numbers, the names of nested fields, and all other texts are only mentions.
    #[must_use]
    pub fn decide(&self, entry: &CatalogueEntry, arguments: &Map<String, Value>) -> Decided {
        if entry.audience == Audience::Operators && !self.standing.operator {
            return Decided { verdict: Verdict::Deny, rule: None };
        }
        let (mut about, mut beside) = (Found::default(), Found::default());
        let complete = arguments.iter().all(|(name, value)| {
            if names_resources(entry) && name != RESOURCES { beside.take(value) } else { about.take(value) }
        });
        let Found { texts, mut mentions } = about;
        mentions.extend(beside.mentions);
        mentions.extend(beside.texts.into_iter().map(str::to_owned));
        let operation = Operation::of(entry.effect);
        let call = Call { tool: &entry.name, operation, resources: &texts, mentions: &mentions, complete };
        decide(&self.rules, self.caller(), call, entry.usual)
    }

    /// True if each call of the tool runs without approval, with any arguments.
    #[must_use]
    pub fn always_runs(&self, entry: &CatalogueEntry) -> bool {
        let permitted = entry.audience == Audience::Everyone || self.standing.operator;
        permitted && self.sees(entry) && self.runs_any(&entry.name, Operation::of(entry.effect), entry.usual)
    }

    /// True if each call of a reading tool that is not in the catalogue runs without approval.
    #[must_use]
    pub fn always_runs_named(&self, name: &str) -> bool {
        let hidden = |hidden: &Hidden| hidden.fits(name, Effect::Reads, Audience::Everyone);
        !self.hides.iter().any(hidden) && self.runs_any(name, Operation::Read, Verdict::Auto)
    }

    /// Decides on a call whose resources are unknown.
    fn runs_any(&self, tool: &str, operation: Operation, usual: Verdict) -> bool {
        let call = Call { tool, operation, resources: &[], mentions: &[], complete: false };
        decide(&self.rules, self.caller(), call, usual).verdict == Verdict::Auto
    }

    /// Returns the ids of the roles that the deciding rule names as approvers; if empty, the caller approves.
    #[must_use]
    pub fn approvers(&self, decided: Decided) -> &[String] {
        decided.rule.and_then(|rule| self.rules.get(rule)).map_or(&[], |rule| &rule.approvers)
    }

    /// True if the ids in rules belong to this door.
    #[must_use]
    pub const fn knows_ids(&self) -> bool {
        self.standing.known
    }

    fn caller(&self) -> Caller<'_> {
        let Self { person, roles, place, parent, standing, .. } = self;
        Caller { person, roles, place, parent: parent.as_ref(), known: standing.known }
    }
}

/// The possible resources of a call.
#[derive(Default)]
struct Found<'a> {
    texts: Vec<&'a str>,
    mentions: Vec<String>,
}

impl<'a> Found<'a> {
    /// Collects the texts in a value. Returns false if there are more than the maximum.
    fn take(&mut self, value: &'a Value) -> bool {
        if self.texts.len() + self.mentions.len() >= RESOURCES_MAX {
            return matches!(value, Value::Null | Value::Bool(_));
        }
        match value {
            Value::String(text) => self.texts.push(text),
            Value::Number(number) => self.mentions.push(number.to_string()),
            Value::Array(items) => return items.iter().all(|item| self.take(item)),
            Value::Object(fields) => {
                return fields.iter().all(|(name, field)| {
                    self.mentions.push(name.clone());
                    self.take(field)
                });
            }
            Value::Null | Value::Bool(_) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalogue::{Catalogue, Offer};
    use super::super::rights::Verdict;
    use super::super::testing::tool;
    use super::super::{Tool, ToolKind};
    use super::*;

    fn entry() -> Arc<CatalogueEntry> {
        entry_of(Tool { kind: ToolKind::Db, ..tool("db", "query", "") })
    }

    fn entry_of(tool: Tool) -> Arc<CatalogueEntry> {
        let offer = Offer { tools: vec![Arc::new(tool)], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        Arc::clone(&all.entries()[0])
    }

    fn rule(resource: &str, verdict: Verdict) -> Rule {
        Rule { resource: Some(resource.to_owned()), ..Rule::everywhere("db__*", verdict) }
    }

    fn decided(rules: Vec<Rule>, arguments: &Value) -> Verdict {
        let access = Access::of_a_member(rules);
        assert!(access.sees(&entry()), "a rule about a resource hides no tool");
        access.decide(&entry(), arguments.as_object().unwrap()).verdict
    }

    #[test]
    fn a_tool_of_which_each_call_is_denied_is_hidden_whatever_the_rule_goes_by() {
        let deny = |operation| Rule { operation, resource: None, ..rule("", Verdict::Deny) };
        for (operation, sees) in [(None, false), (Some(Operation::Write), false), (Some(Operation::Read), true)] {
            let access = Access::of_a_member(vec![deny(operation)]);
            let denied = access.decide(&entry(), &Map::new()).verdict == Verdict::Deny;
            assert_eq!((access.sees(&entry()), denied), (sees, !sees), "{operation:?}");
        }
    }

    #[test]
    fn a_tool_for_operators_is_hidden_from_others_and_denied_to_them_whatever_the_rules_say() {
        let tools = vec![Arc::new(tool("s", "change", "")), Arc::new(tool("s", "look", ""))];
        let offer = Offer { tools, operators: vec!["change".into()], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        let rules: Arc<[Rule]> = vec![Rule::everywhere("*", Verdict::Auto)].into();
        for operator in [false, true] {
            let door = crate::ids::Door::new("discord");
            let (person, place) = (Person::new(door.clone(), "7"), Place::new(door, "7"));
            let standing = Standing { known: true, operator };
            let access = Access::new(Arc::clone(&rules), person, Vec::new(), place, None, standing);
            let view = crate::tool::view::View::of(&all, access.hides());
            let verdicts = all.entries().iter().map(|entry| access.decide(entry, &Map::new()).verdict);
            let seen = all.entries().iter().map(|entry| access.sees(entry));
            let change = if operator { Verdict::Auto } else { Verdict::Deny };
            assert_eq!(verdicts.collect::<Vec<_>>(), [change, Verdict::Auto]);
            assert_eq!(seen.collect::<Vec<_>>(), [operator, true]);
            assert_eq!((view.shows(0), view.shows(1)), (operator, true));
        }
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
    fn a_call_of_our_own_for_a_database_is_about_the_tables_that_it_names() {
        let entry = entry_of(Tool { kind: ToolKind::Db, source: Source::BuiltIn, ..tool("db", "db_query", "") });
        let decided = |rules: Vec<Rule>, tables: &[&str]| {
            let tools = crate::tool::pattern::NamePattern::wildcard("db_query");
            let rules = rules.into_iter().map(|rule| Rule { tools: tools.clone(), ..rule }).collect();
            let arguments = json!({"database": "shop", "tables": tables, "sql": "SELECT 1 FROM orders"});
            Access::of_a_member(rules).decide(&entry, arguments.as_object().unwrap()).verdict
        };
        let open = || vec![rule("shop.*", Verdict::Auto), Rule { resource: None, ..rule("", Verdict::Ask) }];
        assert_eq!(decided(open(), &["shop.orders", "shop.items"]), Verdict::Auto, "its words are no resource");
        assert_eq!(decided(open(), &["shop.orders", "staff.pay"]), Verdict::Ask);
        assert_eq!(decided(open(), &[]), Verdict::Ask);
        assert_eq!(decided(vec![rule("shop.orders", Verdict::Deny)], &["shop.items", "shop.orders"]), Verdict::Deny);
        assert_eq!(
            decided(vec![rule("*orders*", Verdict::Deny)], &["shop.items"]),
            Verdict::Deny,
            "what it mentions counts"
        );
    }

    #[test]
    fn what_forbids_cannot_be_hidden_behind_many_texts() {
        let deny = || vec![rule("payroll", Verdict::Deny)];
        let many: Vec<String> = (0..=RESOURCES_MAX).map(|number| number.to_string()).collect();
        assert_eq!(decided(deny(), &json!({"tables": many})), Verdict::Deny);
        assert_eq!(decided(deny(), &json!({"tables": many[..RESOURCES_MAX]})), Verdict::Auto);
    }

    #[test]
    fn what_allows_is_no_match_for_more_than_was_looked_at() {
        let rules = || vec![rule("public*", Verdict::Auto), Rule { resource: None, ..rule("", Verdict::Ask) }];
        let mut tables = vec!["public"; RESOURCES_MAX];
        assert_eq!(decided(rules(), &json!({"tables": tables})), Verdict::Auto);
        tables.push("payroll");
        assert_eq!(decided(rules(), &json!({"tables": tables})), Verdict::Ask);
    }

    #[test]
    fn numbers_and_the_names_of_fields_can_be_forbidden_and_allow_nothing() {
        for arguments in [json!({"id": 42}), json!({"set": {"42": "x"}})] {
            assert_eq!(decided(vec![rule("42", Verdict::Deny)], &arguments), Verdict::Deny, "{arguments}");
        }
        let rules = vec![rule("public*", Verdict::Auto), Rule { resource: None, ..rule("", Verdict::Ask) }];
        assert_eq!(decided(rules, &json!({"table": "public", "limit": 10})), Verdict::Auto);
    }

    #[test]
    fn ids_of_another_door_are_nobody_that_a_rule_names() {
        let rules: Arc<[Rule]> = vec![
            Rule { resource: None, users: vec!["7".to_owned()], ..rule("", Verdict::Auto) },
            Rule { resource: None, ..rule("", Verdict::Ask) },
        ]
        .into();
        let access = |door: &'static str, known| {
            let door = crate::ids::Door::new(door);
            let (person, place) = (Person::new(door.clone(), "7"), Place::new(door, "7"));
            let standing = Standing { known, operator: false };
            Access::new(Arc::clone(&rules), person, Vec::new(), place, None, standing)
        };
        assert_eq!(access("discord", true).decide(&entry(), &Map::new()).verdict, Verdict::Auto);
        assert_eq!(access("terminal", false).decide(&entry(), &Map::new()).verdict, Verdict::Ask);
    }
}
