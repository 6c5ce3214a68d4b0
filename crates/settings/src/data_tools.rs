//! Tools for external data; each is offered only if configured.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[url_extract]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlExtract {
    /// True if the tool is offered.
    #[serde(deserialize_with = "read::flag")]
    pub enabled: bool,
    /// The allowed ports.
    #[serde(deserialize_with = "read::ports")]
    pub ports: Vec<u16>,
    /// The allowed hosts, each with its subdomains; empty allows all public ones.
    #[serde(deserialize_with = "read::texts")]
    pub allow: Vec<String>,
    /// The forbidden hosts, each with its subdomains.
    #[serde(deserialize_with = "read::texts")]
    pub deny: Vec<String>,
    /// The size in bytes to which a page is truncated.
    #[serde(deserialize_with = "read::at_least_one")]
    pub bytes: usize,
    /// The timeout of one page.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

/// `[google_drive]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogleDrive {
    /// The JSON of the credentials; without it, the tools are not offered.
    #[serde(deserialize_with = "read::secret")]
    pub credentials: Option<SecretString>,
    /// The identifier of the only folder that is used.
    #[serde(deserialize_with = "read::text")]
    pub folder: Option<String>,
    /// True if files may be created, extended and deleted.
    #[serde(deserialize_with = "read::flag")]
    pub changes: bool,
    /// The address of the API.
    #[serde(deserialize_with = "read::web_address")]
    pub url: String,
    /// The size in bytes to which the text of a file is truncated.
    #[serde(deserialize_with = "read::at_least_one")]
    pub bytes: usize,
    /// The timeout of one call.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

/// One `[[tools.web_search]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    /// The name of the provider.
    #[serde(deserialize_with = "read::some_text")]
    pub provider: String,
    /// An address instead of the provider's public one.
    #[serde(default, deserialize_with = "read::optional_web_address")]
    pub url: Option<String>,
    /// The key.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// The provider's name of the search engine.
    #[serde(default, deserialize_with = "read::text")]
    pub engine: Option<String>,
    /// The model, if the provider searches with one.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
    /// The timeout of one search.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(15)
}

/// One `[[tools.images]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageModel {
    /// The address of the API.
    #[serde(default = "usual_images", deserialize_with = "read::web_address")]
    pub url: String,
    /// The key.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// The model.
    #[serde(deserialize_with = "read::some_text")]
    pub model: String,
    /// True if it edits pictures, too.
    #[serde(default = "usually", deserialize_with = "read::flag")]
    pub edits: bool,
    /// The timeout of one picture.
    #[serde(default = "usual_image_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// The price of one picture in dollars; without it, pictures are not counted in dollars.
    #[serde(default, deserialize_with = "read::price")]
    pub price_per_picture: Option<f64>,
    /// The price in dollars per million tokens of a description, if the endpoint reports tokens.
    #[serde(default, deserialize_with = "read::price")]
    pub input_price_per_million: Option<f64>,
    /// The price in dollars per million tokens of a picture that is edited; by default, that of a description.
    #[serde(default, deserialize_with = "read::price")]
    pub input_picture_price_per_million: Option<f64>,
    /// The price in dollars per million tokens of a picture that is returned.
    #[serde(default, deserialize_with = "read::price")]
    pub output_price_per_million: Option<f64>,
}

impl ImageModel {
    /// Returns the secret, and the other fields, for comparisons.
    #[must_use]
    pub fn identity(&self) -> (Option<&SecretString>, impl PartialEq + use<>) {
        let Self { url, key, env_key, model, edits, timeout, price_per_picture, .. } = self;
        let tokens =
            [self.input_price_per_million, self.input_picture_price_per_million, self.output_price_per_million];
        (key.as_ref(), (url.clone(), env_key.clone(), model.clone(), *edits, *timeout, *price_per_picture, tokens))
    }
}

fn usual_images() -> String {
    "https://api.openai.com/v1".to_owned()
}

const fn usually() -> bool {
    true
}

const fn usual_image_timeout() -> Duration {
    Duration::from_secs(120)
}

/// One `[[tools.databases]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Its name for members.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// The address with credentials.
    #[serde(default, deserialize_with = "read::secret")]
    pub url: Option<SecretString>,
    /// The variable that holds the address.
    #[serde(default, deserialize_with = "read::text")]
    pub env_url: Option<String>,
    /// The tables that may be read.
    #[serde(default, deserialize_with = "read::texts")]
    pub read: Vec<String>,
    /// The tables that may be changed.
    #[serde(default, deserialize_with = "read::texts")]
    pub write: Vec<String>,
    /// The most rows of one answer.
    #[serde(default = "usual_rows", deserialize_with = "read::at_least_one")]
    pub rows: usize,
    /// The timeout of one statement.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_rows() -> usize {
    100
}
