//! Search providers as rows of data: the request of each, and the paths of results in its response.

use serde_json::{Map, Value};

/// The API of one provider.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name in settings.
    pub name: &'static str,
    /// Its default address; `None` if each operator has another.
    pub url: Option<&'static str>,
    /// The path of the request.
    pub(super) path: &'static str,
    /// The request.
    pub(super) sends: Sends,
    /// The place of the API key, if one is used.
    pub(super) key: Option<KeyPlace>,
    /// Describes the setting `engine`, if it is required.
    pub engine: Option<&'static str>,
    /// The default model, if one is used.
    pub model: Option<&'static str>,
    /// The path of a free GET request that checks the key; `None` if a search is the only way.
    pub(super) costless: Option<&'static str>,
    /// Paths of a direct answer.
    pub(super) answers: &'static [&'static str],
    /// Paths of results; each result is an object.
    pub(super) results: &'static [&'static str],
    /// Names of a result's fields.
    pub(super) title: &'static str,
    pub(super) link: &'static str,
    pub(super) snippet: &'static str,
    /// Paths of error messages.
    pub(super) errors: &'static [&'static str],
}

/// The request. `{query}`, `{count}`, `{engine}` and `{model}` are placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// A GET request with these parameters.
    Parameters(&'static [(&'static str, &'static str)]),
    /// A POST request with this JSON.
    Json(&'static str),
}

/// The place of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// The header `Authorization`, as a bearer token.
    Bearer,
    /// A header of this name.
    Header(&'static str),
}

impl Provider {
    /// Returns the provider of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Returns all names.
    #[must_use]
    pub fn names() -> String {
        PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", ")
    }

    /// True if a key is required.
    #[must_use]
    pub const fn needs_key(&self) -> bool {
        self.key.is_some()
    }
}

/// All providers, after their documentation.
pub(super) const PROVIDERS: &[Provider] = &[
    Provider {
        // docs.searxng.org/dev/search_api.html; `json` must be in `search.formats` of its settings.
        name: "searxng",
        url: None,
        path: "/search",
        sends: Sends::Parameters(&[("q", "{query}"), ("format", "json"), ("safesearch", "1")]),
        key: None,
        engine: None,
        model: None,
        costless: None,
        answers: &["answers/*/answer", "answers/*"],
        results: &["results/*"],
        title: "title",
        link: "url",
        snippet: "content",
        errors: &["error"],
    },
    Provider {
        // docs.tavily.com/documentation/api-reference/endpoint/search
        name: "tavily",
        url: Some("https://api.tavily.com"),
        path: "/search",
        sends: Sends::Json(r#"{"query": "{query}", "max_results": "{count}", "search_depth": "basic"}"#),
        key: Some(KeyPlace::Bearer),
        engine: None,
        model: None,
        costless: Some("/usage"),
        answers: &["answer"],
        results: &["results/*"],
        title: "title",
        link: "url",
        snippet: "content",
        errors: &["detail/error", "detail", "error"],
    },
    Provider {
        // docs.x.ai/docs/guides/tools/search-tools
        name: "xai",
        url: Some("https://api.x.ai"),
        path: "/v1/responses",
        sends: Sends::Json(
            r#"{"model": "{model}", "input": [{"role": "user", "content": "{query}"}], "tools": [{"type": "web_search"}], "store": false}"#,
        ),
        key: Some(KeyPlace::Bearer),
        engine: None,
        model: Some("grok-4-fast"),
        costless: Some("/v1/models"),
        answers: &["output/*/content/*/text"],
        results: &["output/*/content/*/annotations/*"],
        title: "title",
        link: "url",
        snippet: "text",
        errors: &["error/message", "error"],
    },
    Provider {
        // developers.google.com/custom-search/v1/reference/rest/v1/cse/list
        name: "google",
        url: Some("https://customsearch.googleapis.com"),
        path: "/customsearch/v1",
        sends: Sends::Parameters(&[("q", "{query}"), ("cx", "{engine}"), ("num", "{count}"), ("safe", "active")]),
        key: Some(KeyPlace::Header("x-goog-api-key")),
        engine: Some("the id of a programmable search engine (cx)"),
        model: None,
        costless: None,
        answers: &[],
        results: &["items/*"],
        title: "title",
        link: "link",
        snippet: "snippet",
        errors: &["error/message"],
    },
    Provider {
        // duckduckgo.com/api: instant answers about topics, not results of the whole web.
        name: "duckduckgo",
        url: Some("https://api.duckduckgo.com"),
        path: "/",
        sends: Sends::Parameters(&[("q", "{query}"), ("format", "json"), ("no_html", "1"), ("skip_disambig", "1")]),
        key: None,
        engine: None,
        model: None,
        costless: None,
        answers: &["Answer", "AbstractText", "Definition"],
        results: &["Results/*", "RelatedTopics/*", "RelatedTopics/*/Topics/*"],
        title: "Text",
        link: "FirstURL",
        snippet: "",
        errors: &[],
    },
];

/// The values of the placeholders.
pub(super) struct Filled<'a> {
    pub query: &'a str,
    pub count: usize,
    pub engine: &'a str,
    pub model: &'a str,
}

impl Filled<'_> {
    pub(super) fn text(&self, written: &str) -> String {
        match self.value(written) {
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => written.to_owned(),
        }
    }

    pub(super) fn json(&self, written: &str) -> Value {
        let mut value = serde_json::from_str(written).unwrap_or(Value::Null);
        self.fill(&mut value);
        value
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(filled) = self.value(text) {
                    *value = filled;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => Map::values_mut(fields).for_each(|field| self.fill(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn value(&self, written: &str) -> Option<Value> {
        Some(match written {
            "{query}" => self.query.into(),
            "{count}" => self.count.into(),
            "{engine}" => self.engine.into(),
            "{model}" => self.model.into(),
            _ => return None,
        })
    }
}
