//! Requests of operator commands to the running service, and access to the store when none runs.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use secrecy::ExposeSecret;

use crate::app::commands::chat;
use crate::app::commands::own_service;
use crate::app::system::SystemClock;
use crate::app::{exit, opening};
use ports::Store;
use settings::stores::StoreChoice;
use settings::{Loaded, Settings};
use store::embedded::FILE;

/// The timeout between two pieces of the running service's answer.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// A sentence for the operator, and the exit code.
pub(crate) type Failed = (String, u8);

/// The answer of the running service.
pub(crate) struct Answer {
    response: reqwest::Response,
    source: Source,
}

/// The subject of error sentences.
pub(crate) struct Source {
    /// The address of the service, and the requested data.
    about: String,
}

impl Source {
    /// Returns the error sentence for a failure while the answer is read.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
    pub(crate) fn failed(&self, why: impl ToString) -> Failed {
        (format!("{}: {}", self.about, why.to_string()), exit::NEGATIVE)
    }
}

impl Answer {
    /// Returns the response, and the subject of its error sentences.
    pub(crate) fn into_parts(self) -> (reqwest::Response, Source) {
        (self.response, self.source)
    }

    /// Returns the body as text.
    pub(crate) async fn text(self) -> Result<String, Failed> {
        let Self { response, source } = self;
        response.text().await.map_err(|error| source.failed(error))
    }
}

/// Prints the text of a command, or the reason why there is none. Returns the exit code.
pub(crate) fn ended(result: Result<String, Failed>) -> u8 {
    match result {
        Ok(text) => {
            say!("{text}");
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

/// True if a service runs at the address of these settings.
pub(crate) async fn service_runs(loaded: &Loaded) -> bool {
    own_service::ask_health(loaded.settings.http.addr).await.is_ok()
}

/// Requests `what` from the running service at this path, with the first key of the settings.
///
/// # Errors
/// The request fails; the sentence gives the reason and the fix.
pub(crate) async fn ask_service(
    loaded: &Loaded,
    what: &str,
    path: &str,
    query: &[(&str, &str)],
) -> Result<Answer, Failed> {
    let address = own_service::reachable(loaded.settings.http.addr);
    let source = Source { about: format!("the service at http://{address}/ gave no {what}") };
    let key = loaded.settings.http.api_keys.first();
    if key.is_some() && !chat::is_own(address.ip()) {
        return Err(source.failed("it is on another machine, and the key would go there unencrypted"));
    }
    let client = reqwest::Client::builder().read_timeout(SILENT_MAX).no_proxy().build();
    let client = client.map_err(|error| source.failed(error))?;
    let mut url = reqwest::Url::parse(&format!("http://{address}{path}")).map_err(|error| source.failed(error))?;
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    let mut request = client.get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key.expose_secret());
    }
    let response = request.send().await.map_err(|error| source.failed(error))?;
    if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(source.failed("it requires a key with the right operate; set STAFFAI_API_KEYS to one"));
    }
    let response = response.error_for_status().map_err(|error| source.failed(error))?;
    Ok(Answer { response, source })
}

/// True if the embedded store has no file yet. Creating it here could give it the wrong owner.
pub(crate) fn is_new(settings: &Settings) -> bool {
    matches!(settings.chosen_store(), StoreChoice::Embedded(dir) if !dir.join(FILE).exists())
}

/// Opens the store while no service runs.
///
/// # Errors
/// The store is empty, or another process holds it.
pub(crate) async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, Failed> {
    if is_new(settings) {
        let dir = settings.store.dir.display();
        return Err((format!("no data is stored in {dir} yet, and no service answers"), exit::NEGATIVE));
    }
    let store = opening::open_store(settings, &(Arc::new(SystemClock) as _), None).await;
    store.map(|opened| opened.store).map_err(|error| (error.to_string(), exit::IN_USE))
}
