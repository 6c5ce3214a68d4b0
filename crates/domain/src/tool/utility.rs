//! The methods of a tool server beside its tools, which are offered as tools: its resources and its prompts.

use serde::{Deserialize, Serialize};

/// A method of a tool server that reads its resources or prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Utility {
    /// Lists resources.
    ListResources,
    /// Lists forms of addresses of resources.
    ListResourceTemplates,
    /// Reads one resource.
    ReadResource,
    /// Lists prompts.
    ListPrompts,
    /// Fills in one prompt.
    GetPrompt,
}

impl Utility {
    /// All utilities, in the order in which they are offered.
    pub const ALL: [Self; 5] =
        [Self::ListResources, Self::ListResourceTemplates, Self::ReadResource, Self::ListPrompts, Self::GetPrompt];

    /// Returns the name of its tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ListResourceTemplates => "list_resource_templates",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }
}
