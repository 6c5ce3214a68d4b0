use serde_json::json;

use super::*;
use crate::tool::testing;

fn tool(server: &str, name: &str) -> Arc<Tool> {
    let input_schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    let about = format!("{name} of {server}");
    Arc::new(Tool { input_schema: WrittenJson::new(&input_schema), ..testing::tool(server, name, &about) })
}

fn offer(tools: Vec<Arc<Tool>>) -> Offer {
    Offer { tools, ..Offer::default() }
}

fn catalogue(offers: &[Offer]) -> Catalogue {
    Catalogue::new(offers, &Catalogue::default(), |tool| tool.input_schema.to_value())
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.entries().iter().map(|entry| &*entry.name).collect()
}

#[test]
fn the_order_does_not_depend_on_who_answered_first() {
    let (one, other) = (offer(vec![tool("b", "y"), tool("b", "x")]), offer(vec![tool("a", "z")]));
    let expected = ["a__z", "b__x", "b__y"];
    assert_eq!(names(&catalogue(&[one.clone(), other.clone()])), expected);
    assert_eq!(names(&catalogue(&[other, one])), expected);
}

#[test]
fn a_name_that_is_taken_or_looks_like_another_is_refused_with_a_reason() {
    let all = catalogue(&[
        offer(vec![tool("a", "b__c"), tool("a", "b__c"), tool("github", "list")]),
        offer(vec![tool("a__b", "c")]),
        offer(vec![tool("g1thub", "list"), tool("g1thub", "other")]),
        offer(vec![tool("own", "list_items"), tool("own", "listItems")]),
    ]);
    assert_eq!(names(&all), ["a__b__c", "g1thub__other", "github__list", "own__listItems", "own__list_items"]);
    let reasons: Vec<String> =
        all.refused().iter().map(|refused| format!("{} {}", refused.tool, refused.reason)).collect();
    assert_eq!(
        reasons,
        [
            "b__c the name a__b__c is taken: rename one of the servers",
            "c the name a__b__c is taken: rename one of the servers",
            "list the name looks like github__list of another server: rename one of them",
        ]
    );
    let Source::Server(server) = &all.get("a__b__c").unwrap().tool.source else { panic!("of a server") };
    assert_eq!(server.as_str(), "a", "the first one stays");
}

#[test]
fn only_allowed_tools_are_taken_over() {
    let some = Offer { allowed: vec!["x".to_owned()], ..offer(vec![tool("a", "x"), tool("a", "y")]) };
    assert_eq!(names(&catalogue(&[some])), ["a__x"]);
}

#[test]
fn a_changed_tool_has_another_pin_and_an_unchanged_one_is_taken_over() {
    let before = catalogue(&[offer(vec![tool("a", "x"), tool("a", "y")])]);
    let changed = Arc::new(Tool { description: "something else".to_owned(), ..(*tool("a", "y")).clone() });
    let after = Catalogue::new(&[offer(vec![tool("a", "x"), changed])], &before, |tool| tool.input_schema.to_value());
    let same = |name| Arc::ptr_eq(before.get(name).unwrap(), after.get(name).unwrap());
    assert!(same("a__x") && !same("a__y"));
    assert_ne!(before.get("a__y").unwrap().pin, after.get("a__y").unwrap().pin);
    let asking = Offer { asks: true, ..offer(vec![tool("a", "x")]) };
    let asked = Catalogue::new(&[asking], &after, |tool| tool.input_schema.to_value());
    assert_eq!(asked.get("a__x").unwrap().usual, Verdict::Ask, "a change of the configuration counts as well");
}

#[test]
fn arguments_are_checked_against_the_schema_of_the_source() {
    let all = catalogue(&[offer(vec![tool("a", "x")])]);
    let entry = all.get("a__x").unwrap();
    assert_eq!(entry.check(&json!({"q": "rust"})), Ok(()));
    assert_eq!(entry.check(&json!(["rust"])).unwrap_err(), "the arguments must be one JSON object");
    assert_eq!(entry.check(&json!({})).unwrap_err(), "the arguments: \"q\" is a required property");
    assert_eq!(entry.check(&json!({"q": 5})).unwrap_err(), "/q: 5 is not of type \"string\"");
}

#[test]
fn a_tool_that_destroys_asks_unless_a_rule_says_otherwise() {
    let annotations = Annotations { destructive: Some(true), ..Annotations::default() };
    let drops = Arc::new(Tool { annotations, ..(*tool("a", "drop")).clone() });
    let all = catalogue(&[offer(vec![drops, tool("a", "x")])]);
    assert_eq!(all.get("a__drop").unwrap().usual, Verdict::Ask);
    assert_eq!(all.get("a__x").unwrap().usual, Verdict::Auto);
}
