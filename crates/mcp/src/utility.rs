//! Resources and prompts of a server as tools for the model.

use serde_json::{Map, Value, json};

use super::exchange::Want;
use super::session::Features;
use domain::completion::WrittenJson;
use domain::tool::{Annotations, ResultLimits, ServerName, Source, Tool, ToolKind};

/// A tool made from another feature of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Utility {
    ListResources,
    ListResourceTemplates,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl Utility {
    const ALL: [Self; 5] =
        [Self::ListResources, Self::ListResourceTemplates, Self::ReadResource, Self::ListPrompts, Self::GetPrompt];

    /// Returns the utilities of a server with these features, except those whose name is one of its own tools.
    pub(super) fn of(features: Features, own: impl Fn(&str) -> bool) -> Vec<Self> {
        let has = |utility: &Self| match utility {
            Self::ListResources => features.resources,
            Self::ListResourceTemplates => features.templates,
            Self::ReadResource => features.resources || features.templates,
            Self::ListPrompts | Self::GetPrompt => features.prompts,
        };
        Self::ALL.into_iter().filter(|utility| has(utility) && !own(utility.name())).collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ListResourceTemplates => "list_resource_templates",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::ListResources => "resources/list",
            Self::ListResourceTemplates => "resources/templates/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
        }
    }

    pub(super) fn params(self, arguments: &Map<String, Value>) -> Value {
        let of = |keys: &[&str]| {
            let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), arguments.get(*key)?.clone())));
            Value::Object(given.collect())
        };
        match self {
            Self::ListResources | Self::ListResourceTemplates | Self::ListPrompts => of(&["cursor"]),
            Self::ReadResource => of(&["uri"]),
            Self::GetPrompt => of(&["name", "arguments"]),
        }
    }

    /// Returns the expected kind of answer.
    pub(super) const fn want(self, limits: ResultLimits) -> Want {
        match self {
            Self::ListResources | Self::ListResourceTemplates | Self::ListPrompts => Want::Data(limits),
            Self::ReadResource => Want::Resource(limits),
            Self::GetPrompt => Want::Prompt(limits),
        }
    }

    /// Returns its tool definition. All utilities are read-only.
    pub(super) fn tool(self, server: &ServerName) -> Tool {
        let cursor = json!({"type": "string", "description": "Where the next page begins, as the page before says."});
        let (description, properties, required) = match self {
            Self::ListResources => {
                ("Lists the resources of this server with their addresses.", json!({ "cursor": cursor }), json!([]))
            }
            Self::ListResourceTemplates => (
                "Lists the forms of addresses of this server's resources; filled in, they are read like any other.",
                json!({ "cursor": cursor }),
                json!([]),
            ),
            Self::ListPrompts => {
                ("Lists the prompts of this server with their arguments.", json!({ "cursor": cursor }), json!([]))
            }
            Self::ReadResource => (
                "Reads one resource of this server.",
                json!({"uri": {"type": "string", "description": "Its address, from list_resources or list_resource_templates."}}),
                json!(["uri"]),
            ),
            Self::GetPrompt => (
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
            name: self.name().into(),
            title: None,
            description: description.to_owned(),
            input_schema: WrittenJson::new(&schema),
            annotations,
            kind: ToolKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_it_has_and_its_own_names_win() {
        let features = Features { tools: true, resources: true, templates: true, prompts: false };
        let names =
            |own: &str| Utility::of(features, |name| name == own).into_iter().map(Utility::name).collect::<Vec<_>>();
        assert_eq!(names(""), ["list_resources", "list_resource_templates", "read_resource"]);
        assert_eq!(names("read_resource"), ["list_resources", "list_resource_templates"]);
        let templates = Features { templates: true, ..Features::default() };
        let names = |features| Utility::of(features, |_| false).into_iter().map(Utility::name).collect::<Vec<_>>();
        assert_eq!(names(templates), ["list_resource_templates", "read_resource"]);
        assert_eq!(Utility::of(Features::default(), |_| false), []);
    }

    #[test]
    fn only_known_parameters_go_out() {
        let arguments = json!({"uri": "x:1", "secret": 1});
        assert_eq!(Utility::ReadResource.params(arguments.as_object().unwrap()), json!({"uri": "x:1"}));
        assert_eq!(Utility::ListPrompts.params(&Map::new()), json!({}));
    }
}
