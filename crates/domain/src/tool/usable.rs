//! The tools that a caller may use, as reported to a program.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Map;

use super::Effect;
use super::access::Access;
use super::catalogue::Catalogue;
use super::rights::Verdict;
use crate::completion::{ToolSpec, WrittenJson};

/// A tool that a caller may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableTool {
    /// The definition shown to models.
    pub spec: Arc<ToolSpec>,
    /// The effect of a call.
    pub effect: Effect,
    /// True if a call requires approval, unless a rule about its resource decides otherwise.
    pub asks: bool,
}

impl Serialize for UsableTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a WrittenJson,
            effect: Effect,
            asks: bool,
        }
        let Self { spec, effect, asks } = self;
        let ToolSpec { name, description, parameters } = &**spec;
        Told { name, description, parameters, effect: *effect, asks: *asks }.serialize(serializer)
    }
}

/// Returns the tools of a catalogue whose calls are not all denied to this caller, in catalogue order. Definitions in
/// `outlined` replace those of the catalogue.
#[must_use]
pub fn usable(catalogue: &Catalogue, access: &Access, outlined: &[Arc<ToolSpec>]) -> Vec<UsableTool> {
    let seen = catalogue.entries().iter().filter(|entry| access.sees(entry));
    let told = seen.filter_map(|entry| {
        let verdict = access.decide(entry, &Map::new()).verdict;
        let asks = verdict == Verdict::Ask;
        let spec = outlined.iter().find(|spec| spec.name == *entry.name).unwrap_or(&entry.spec);
        (verdict != Verdict::Deny).then(|| UsableTool { spec: Arc::clone(spec), effect: entry.effect, asks })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalogue::Offer;
    use super::super::rights::{Operation, Rule};
    use super::super::testing::tool;
    use super::*;

    #[test]
    fn what_every_call_is_denied_of_is_no_tool_of_the_caller() {
        let tools = ["roll", "hide", "write"].map(|name| Arc::new(tool("s", name, "")));
        let offer = Offer { tools: tools.into(), ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        let names = |rules: Vec<Rule>| -> Vec<(String, bool)> {
            let of = |tool: UsableTool| (tool.spec.name.clone(), tool.asks);
            usable(&all, &Access::of_a_member(rules), &[]).into_iter().map(of).collect()
        };
        let named = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
            names.iter().map(|(name, asks)| ((*name).to_owned(), *asks)).collect()
        };
        assert_eq!(names(Vec::new()), named(&[("s__hide", false), ("s__roll", false), ("s__write", false)]));
        let write = Rule { operation: Some(Operation::Write), ..Rule::everywhere("s__write", Verdict::Deny) };
        let about = Rule { resource: Some("x".to_owned()), ..Rule::everywhere("s__roll", Verdict::Deny) };
        let rules =
            vec![Rule::everywhere("s__hide", Verdict::Deny), write, about, Rule::everywhere("s__roll", Verdict::Ask)];
        assert_eq!(names(rules), named(&[("s__roll", true)]));
    }
}
