//! Resources and prompts of a server as tools for the model.

use serde_json::{Map, Value, json};

use super::exchange::Want;
use super::session::Features;
use domain::completion::WrittenJson;
use domain::tool::utility::Utility;
use domain::tool::{Annotations, ResultLimits, ServerName, Source, Tool, ToolKind};

/// Returns the utilities of a server with these features, except those whose name is one of its own tools.
pub(super) fn of(features: Features, own: impl Fn(&str) -> bool) -> Vec<Utility> {
    let has = |utility: &Utility| match utility {
        Utility::ListResources => features.resources,
        Utility::ListResourceTemplates => features.templates,
        Utility::ReadResource => features.resources || features.templates,
        Utility::ListPrompts | Utility::GetPrompt => features.prompts,
    };
    Utility::ALL.into_iter().filter(|utility| has(utility) && !own(utility.name())).collect()
}

pub(super) const fn method(utility: Utility) -> &'static str {
    match utility {
        Utility::ListResources => "resources/list",
        Utility::ListResourceTemplates => "resources/templates/list",
        Utility::ReadResource => "resources/read",
        Utility::ListPrompts => "prompts/list",
        Utility::GetPrompt => "prompts/get",
    }
}

pub(super) fn params(utility: Utility, arguments: &Map<String, Value>) -> Value {
    let of = |keys: &[&str]| {
        let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), arguments.get(*key)?.clone())));
        Value::Object(given.collect())
    };
    match utility {
        Utility::ListResources | Utility::ListResourceTemplates | Utility::ListPrompts => of(&["cursor"]),
        Utility::ReadResource => of(&["uri"]),
        Utility::GetPrompt => of(&["name", "arguments"]),
    }
}

/// Returns the expected kind of answer.
pub(super) const fn want(utility: Utility, limits: ResultLimits) -> Want {
    match utility {
        Utility::ListResources | Utility::ListResourceTemplates | Utility::ListPrompts => Want::Data(limits),
        Utility::ReadResource => Want::Resource(limits),
        Utility::GetPrompt => Want::Prompt(limits),
    }
}

/// Returns the tool definition of a utility. All utilities are read-only.
pub(super) fn tool(utility: Utility, server: &ServerName) -> Tool {
    let cursor = json!({"type": "string", "description": "Where the next page begins, as the page before says."});
    let (description, properties, required) = match utility {
        Utility::ListResources => {
            ("Lists the resources of this server with their addresses.", json!({ "cursor": cursor }), json!([]))
        }
        Utility::ListResourceTemplates => (
            "Lists the forms of addresses of this server's resources; filled in, they are read like any other.",
            json!({ "cursor": cursor }),
            json!([]),
        ),
        Utility::ListPrompts => {
            ("Lists the prompts of this server with their arguments.", json!({ "cursor": cursor }), json!([]))
        }
        Utility::ReadResource => (
            "Reads one resource of this server.",
            json!({"uri": {"type": "string", "description": "Its address, from list_resources or list_resource_templates."}}),
            json!(["uri"]),
        ),
        Utility::GetPrompt => (
            "Gives one prompt of this server with its arguments filled in.",
            json!({
                "name": {"type": "string", "description": "Its name, from list_prompts."},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            }),
            json!(["name"]),
        ),
    };
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false
    });
    let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
    Tool {
        source: Source::Server(server.clone()),
        name: utility.name().into(),
        title: None,
        description: description.to_owned(),
        input_schema: WrittenJson::new(&schema),
        annotations,
        kind: ToolKind::Other,
        utility: Some(utility),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_it_has_and_its_own_names_win() {
        let features = Features { tools: true, resources: true, templates: true, prompts: false };
        let names = |own: &str| of(features, |name| name == own).into_iter().map(Utility::name).collect::<Vec<_>>();
        assert_eq!(names(""), ["list_resources", "list_resource_templates", "read_resource"]);
        assert_eq!(names("read_resource"), ["list_resources", "list_resource_templates"]);
        let templates = Features { templates: true, ..Features::default() };
        let names = |features| of(features, |_| false).into_iter().map(Utility::name).collect::<Vec<_>>();
        assert_eq!(names(templates), ["list_resource_templates", "read_resource"]);
        assert_eq!(of(Features::default(), |_| false), []);
    }

    #[test]
    fn only_known_parameters_go_out() {
        let arguments = json!({"uri": "x:1", "secret": 1});
        assert_eq!(params(Utility::ReadResource, arguments.as_object().unwrap()), json!({"uri": "x:1"}));
        assert_eq!(params(Utility::ListPrompts, &Map::new()), json!({}));
    }
}
