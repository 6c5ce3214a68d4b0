//! Credentials and the access token that they yield.
//!
//! Source: Google Identity, "Using OAuth 2.0 for Server to Server Applications" (a signed JWT, RFC 7523) and "for Web
//! Server Applications" (a refresh token, RFC 6749 section 6).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::api::{Failure, body, complaint};
use crate::client::{parsed, reason};
use domain::host::is_loopback;
use ports::Clock;

/// The permission that the tools request: all files that the account reaches.
const SCOPE: &str = "https://www.googleapis.com/auth/drive";
/// Google's address of tokens, if the credentials name no other.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// The lifetime of a signed assertion in seconds; Google accepts at most this.
const ASSERTION_SECONDS: u64 = 3_600;
/// The time before its end at which a token is replaced.
const MARGIN: Duration = Duration::from_secs(60);
/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum size of a response with a token, in bytes.
const TOKEN_BYTES: usize = 64 * 1024;

/// The credentials of an account, as Google's tools write them in JSON.
pub struct Credentials {
    account: Account,
    token_url: Url,
}

enum Account {
    /// A robot with a key of its own.
    Service { email: String, key: SecretString },
    /// A person who permitted the access once.
    Person { client_id: String, client_secret: SecretString, refresh_token: SecretString },
}

#[derive(Deserialize)]
struct Written {
    #[serde(default, rename = "type")]
    kind: String,
    client_email: Option<String>,
    private_key: Option<SecretString>,
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    refresh_token: Option<SecretString>,
    token_uri: Option<String>,
}

impl Credentials {
    /// Reads the JSON of a service account or an authorized user.
    ///
    /// # Errors
    /// A sentence that says what is missing. It contains nothing of the credentials.
    pub fn parse(json: &SecretString) -> Result<Self, String> {
        let written: Written = serde_json::from_str(json.expose_secret())
            .map_err(|_| "they are not JSON; use the file that Google's console writes for a service account")?;
        let Written { kind, client_email, private_key, client_id, client_secret, refresh_token, token_uri } = written;
        let account = match kind.as_str() {
            "service_account" => {
                let wants = "a service account needs client_email and private_key";
                let (email, key) = client_email.zip(private_key).ok_or(wants)?;
                signing_key(&key)?;
                Account::Service { email, key }
            }
            "authorized_user" => {
                let wants = "an authorized user needs client_id, client_secret and refresh_token";
                let (client_id, client_secret) = client_id.zip(client_secret).ok_or(wants)?;
                Account::Person { client_id, client_secret, refresh_token: refresh_token.ok_or(wants)? }
            }
            _ => return Err("their type must be service_account or authorized_user".to_owned()),
        };
        let token_url: Url =
            token_uri.as_deref().unwrap_or(TOKEN_URL).parse().map_err(|_| "their token_uri is no address")?;
        if token_url.scheme() != "https" && !token_url.host_str().is_some_and(is_loopback) {
            return Err("their token_uri must be https: the credentials could be read on the way".to_owned());
        }
        Ok(Self { account, token_url })
    }

    /// Returns the form of a request for a token.
    fn form(&self, now: u64) -> Result<Vec<(&'static str, String)>, String> {
        Ok(match &self.account {
            Account::Service { email, key } => vec![
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned()),
                ("assertion", self.assertion(email, key, now)?),
            ],
            Account::Person { client_id, client_secret, refresh_token } => vec![
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", client_id.clone()),
                ("client_secret", client_secret.expose_secret().to_owned()),
                ("refresh_token", refresh_token.expose_secret().to_owned()),
            ],
        })
    }

    fn assertion(&self, email: &str, key: &SecretString, now: u64) -> Result<String, String> {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": "RS256", "typ": "JWT"}));
        let claims = part(json!({
            "iss": email, "scope": SCOPE, "aud": self.token_url.as_str(), "iat": now, "exp": now + ASSERTION_SECONDS,
        }));
        let signed = format!("{header}.{claims}");
        let signer = signing_key(key)?.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
        let signer = signer.ok_or("the private_key is no RSA key")?;
        let signature = signer.sign(signed.as_bytes()).map_err(|error| error.to_string())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("token_url", &self.token_url.as_str()).finish_non_exhaustive()
    }
}

fn signing_key(key: &SecretString) -> Result<Arc<dyn rustls::sign::SigningKey>, String> {
    let provider = CryptoProvider::get_default().ok_or("no TLS provider is installed in this process")?;
    let der = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        .map_err(|_| "the private_key is not in PEM format")?;
    provider.key_provider.load_private_key(der).map_err(|_| "the private_key cannot be used".to_owned())
}

/// The access token of some credentials, requested when it is needed and kept until shortly before its end.
pub(super) struct Token {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    kept: Mutex<Option<(SecretString, Instant)>>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: SecretString,
    #[serde(default)]
    expires_in: u64,
}

impl Token {
    pub(super) fn new(credentials: Credentials, clock: Arc<dyn Clock>) -> Self {
        Self { credentials, clock, kept: Mutex::default() }
    }

    /// Returns a valid token. Concurrent calls share one request.
    pub(super) async fn get(&self, client: &Client) -> Result<SecretString, Failure> {
        let mut kept = self.kept.lock().await;
        if let Some((token, until)) = &*kept
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let asked = Instant::now();
        let Granted { access_token, expires_in } = self.request(client).await.map_err(Failure::told)?;
        let lives = Duration::from_secs(expires_in).saturating_sub(MARGIN);
        *kept = asked.checked_add(lives).map(|until| (access_token.clone(), until));
        Ok(access_token)
    }

    /// Forgets the token, which Drive rejected.
    pub(super) async fn forget(&self) {
        *self.kept.lock().await = None;
    }

    async fn request(&self, client: &Client) -> Result<Granted, String> {
        let form = self.credentials.form(self.clock.now().0 / 1_000)?;
        // The query of an address has the encoding of a form.
        let mut encoded = self.credentials.token_url.clone();
        encoded.query_pairs_mut().clear().extend_pairs(&form);
        let form = encoded.query().unwrap_or_default().to_owned();
        let request = client.post(self.credentials.token_url.clone()).header(CONTENT_TYPE, FORM).body(form);
        let sent = request.send();
        let response = sent.await.map_err(|error| format!("no token: {}", reason(&error)))?;
        let status = response.status();
        let body = body(response, TOKEN_BYTES).await.map_err(|failure| format!("no token: {}", failure.message))?.bytes;
        if !status.is_success() {
            return Err(format!("no token: status {}{}", status.as_u16(), complaint(&body)));
        }
        parsed(&body).map_err(|why| format!("no token: {why}"))
    }
}
