//! The endpoint configuration for the HTTP library. The library's own configuration types would read the environment.

use async_openai::config::Config;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

/// The address of requests, and their key.
#[derive(Clone)]
pub struct Account {
    base: String,
    key: SecretString,
    headers: HeaderMap,
}

impl Account {
    /// Creates an account at this address.
    ///
    /// # Errors
    /// The key has characters that are invalid in a header.
    pub fn new(base: String, key: Option<SecretString>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_| "the key has characters that are invalid in a header".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { base, key: key.unwrap_or_default(), headers })
    }
}

impl Config for Account {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}
