//! The built-in tools that the settings enable.

pub(crate) mod agents;
pub(crate) mod databases;

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;

use crate::app::configured::Lookup;
use crate::app::row_secret;
use crate::app::system::{SystemClock, SystemDice};
use crate::app::voices;
use actors::services::clean_calls::OpenCalls;
use domain::fact::{FactId, FactMatches, NotKept, Remembered};
use domain::host::is_loopback;
use domain::lineage::Identity;
use domain::tool::OnBehalf;
use ports::{CleanCalls, Clock, Dice, Facts, PromptSections};
use settings::{Settings, data_tools};
use tools::google_drive::{self, Credentials};
use tools::images;
use tools::url_extract::{self, UrlExtract};
use tools::web_search::{self, Provider, WebSearch};
use tools::{self, BuiltInTool, BuiltIns};

/// Returns the tools that these settings enable and that need no part of the running bot. No tool opens anything before
/// its first call.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn configured(
    settings: &Settings,
    lookup: &Lookup,
    us: &Identity,
    clock: &Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
) -> Result<Vec<Box<dyn BuiltInTool>>, Vec<String>> {
    let mut offered = tools::simple(Arc::clone(clock), dice);
    let mut mistakes = Vec::new();
    match pages(&settings.url_extract) {
        Ok(options) if settings.url_extract.enabled => offered.push(Box::new(UrlExtract::new(options))),
        Ok(_) => {}
        Err(more) => mistakes.extend(more),
    }
    match searches(settings, lookup) {
        Ok(rows) if rows.is_empty() => {}
        Ok(rows) => offered.push(Box::new(WebSearch::new(rows))),
        Err(more) => mistakes.extend(more),
    }
    match drive(&settings.google_drive) {
        Ok(Some(options)) => offered.extend(google_drive::tools(options, Arc::clone(clock))),
        Ok(None) => {}
        Err(mistake) => mistakes.push(mistake),
    }
    match databases::tools(settings, lookup) {
        Ok(tools) => offered.extend(tools),
        Err(more) => mistakes.extend(more),
    }
    match agents::tools(settings, lookup, us, clock) {
        Ok(tools) => offered.extend(tools),
        Err(more) => mistakes.extend(more),
    }
    if mistakes.is_empty() { Ok(offered) } else { Err(mistakes) }
}

/// Returns all tools that these settings enable for the operator at the terminal, who is not a member.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn by_hand(settings: &Settings, lookup: &Lookup) -> Result<BuiltIns, Vec<String>> {
    let us = agents::identity(settings, &SystemDice);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let own = configured(settings, lookup, &us, &clock, Arc::new(SystemDice));
    let (mut own, pictures) = match (own, image_models(settings, lookup)) {
        (Ok(own), Ok(pictures)) => (own, pictures),
        (own, pictures) => return Err([own.err(), pictures.err()].into_iter().flatten().flatten().collect()),
    };
    own.extend(images::tools(pictures, &None));
    let none: Arc<dyn Facts> = Arc::new(NoFacts);
    own.extend(memory(settings, &none));
    let no_turns: Arc<dyn CleanCalls> = Arc::new(OpenCalls::default());
    own.extend(models(settings, &no_turns));
    Ok(BuiltIns::new(own))
}

/// The facts for a call by hand: none, as such a call belongs to no member.
struct NoFacts;

#[async_trait]
impl Facts for NoFacts {
    async fn remember(&self, _asked: &OnBehalf, _text: &str) -> Result<Remembered, NotKept> {
        Err(NotKept::Off)
    }

    async fn search(&self, _asked: &OnBehalf, _query: &str) -> Result<FactMatches, NotKept> {
        Err(NotKept::Off)
    }

    async fn forget(&self, _asked: &OnBehalf, _fact: &FactId) -> Result<bool, NotKept> {
        Err(NotKept::Off)
    }
}

/// Returns every mistake in these settings, by the part that `check` names.
pub(crate) fn mistakes(settings: &Settings, lookup: &Lookup) -> [(&'static str, Vec<String>); 7] {
    [
        ("speech", voices::voices(settings, lookup).err().unwrap_or_default()),
        ("url_extract", pages(&settings.url_extract).err().unwrap_or_default()),
        ("web_search", searches(settings, lookup).err().unwrap_or_default()),
        ("images", image_models(settings, lookup).err().unwrap_or_default()),
        ("google_drive", drive(&settings.google_drive).err().into_iter().collect()),
        ("database", databases::tools(settings, lookup).err().unwrap_or_default()),
        ("agents", agents::rows(settings, lookup).err().unwrap_or_default()),
    ]
}

/// Returns the tools for facts of members; none if these settings disable facts.
pub(crate) fn memory(settings: &Settings, facts: &Arc<dyn Facts>) -> Vec<Box<dyn BuiltInTool>> {
    if settings.memory.facts > 0 { tools::memory(facts) } else { Vec::new() }
}

/// Returns the tools that read and change the sections of prompts, if these settings enable them.
pub(crate) fn prompts(settings: &Settings, sections: &Arc<dyn PromptSections>) -> Vec<Box<dyn BuiltInTool>> {
    if settings.prompts.editable { tools::prompts(sections) } else { Vec::new() }
}

/// Returns the tools that ask other model rows, if these settings name rows for that.
pub(crate) fn models(settings: &Settings, calls: &Arc<dyn CleanCalls>) -> Vec<Box<dyn BuiltInTool>> {
    if settings.agents.models.is_empty() { Vec::new() } else { tools::models(calls) }
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    let key = |row: &data_tools::WebSearch| row_secret::find(row.env_key.as_deref(), row.key.as_ref(), lookup);
    let keys = settings.tools.web_search.iter().filter_map(key);
    let drawing = settings.tools.images.iter();
    let drawing = drawing.filter_map(|row| row_secret::find(row.env_key.as_deref(), row.key.as_ref(), lookup));
    let drive = settings.google_drive.credentials.clone();
    let rows = agents::secrets(settings, lookup).into_iter().chain(voices::secrets(settings, lookup));
    keys.chain(drawing).chain(drive).chain(databases::secrets(settings, lookup)).chain(rows).collect()
}

/// Returns the options of `url_extract`.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn pages(settings: &data_tools::UrlExtract) -> Result<url_extract::Options, Vec<String>> {
    let data_tools::UrlExtract { ports, allow, deny, bytes, timeout, .. } = settings;
    let mut mistakes = Vec::new();
    let mut hosts = |key: &str, written: &[String]| -> Vec<String> {
        let mut known = Vec::new();
        for host in written {
            match host_of(host) {
                Some(host) => known.push(host),
                None => {
                    mistakes.push(format!("url_extract.{key}: {host:?} is no host; write a name such as example.org"));
                }
            }
        }
        known
    };
    let (allow, deny) = (hosts("allow", allow), hosts("deny", deny));
    let reach = url_extract::Reach { ports: ports.clone(), allow, deny };
    if mistakes.is_empty() {
        Ok(url_extract::Options { reach, bytes: *bytes, timeout: *timeout })
    } else {
        Err(mistakes)
    }
}

/// Returns a host as it is normalised in addresses. A leading `*.` is redundant.
fn host_of(written: &str) -> Option<String> {
    let written = written.trim().trim_start_matches("*.");
    let url = reqwest::Url::parse(&format!("https://{written}/")).ok()?;
    let host = url.host_str()?;
    // Any text beside the host is part of the address as well; a default port is not.
    let alone = url.as_str() == format!("https://{host}/")
        && !written.ends_with(":443")
        && !written.contains(['*', '/', '\\', '@']);
    alone.then(|| host.to_owned())
}

/// Returns the search rows of `web_search`.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn searches(settings: &Settings, lookup: &Lookup) -> Result<Vec<web_search::Row>, Vec<String>> {
    let (mut rows, mut mistakes) = (Vec::new(), Vec::new());
    for (number, row) in settings.numbered("tools.web_search", &settings.tools.web_search) {
        match search(row, lookup) {
            Ok(row) => rows.push(row),
            Err(mistake) => mistakes.push(format!("tools.web_search, row {number}: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(rows) } else { Err(mistakes) }
}

fn search(row: &data_tools::WebSearch, lookup: &Lookup) -> Result<web_search::Row, String> {
    let name = row.provider.to_lowercase();
    let known = || format!("there is no provider {:?}; there are {}", row.provider, Provider::names());
    let provider = Provider::find(&name).ok_or_else(known)?;
    let url = row.url.as_deref().or(provider.url);
    let url = url.ok_or_else(|| format!("{name} has no address of its own; set url to that of your {name}"))?;
    let parsed: http::Uri = url.parse().map_err(|_| "its url is no address".to_owned())?;
    let host = parsed.host().unwrap_or_default();
    let key = row_secret::key_for(&parsed, row.env_key.as_deref(), row.key.as_ref(), lookup)?;
    if provider.needs_key() && key.is_none() {
        return Err(format!("{name} wants a key; set env_key to the name of the variable that holds it"));
    }
    if let (Some(what), None) = (provider.engine, &row.engine) {
        return Err(format!("{name} wants {what}; set engine to it"));
    }
    Ok(web_search::Row {
        provider,
        here: is_loopback(host),
        url: url.parse().map_err(|_| "its url is no address".to_owned())?,
        key,
        engine: row.engine.clone().unwrap_or_default(),
        model: row.model.clone().or(provider.model.map(str::to_owned)).unwrap_or_default(),
        timeout: row.timeout,
    })
}

/// Returns the image models.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn image_models(settings: &Settings, lookup: &Lookup) -> Result<Vec<images::Row>, Vec<String>> {
    let (mut rows, mut mistakes) = (Vec::new(), Vec::new());
    for (number, row) in settings.numbered("tools.images", &settings.tools.images) {
        match image_model(row, lookup) {
            Ok(row) => rows.push(row),
            Err(mistake) => mistakes.push(format!("tools.images, row {number}: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(rows) } else { Err(mistakes) }
}

fn image_model(row: &data_tools::ImageModel, lookup: &Lookup) -> Result<images::Row, String> {
    let parsed: http::Uri = row.url.parse().map_err(|_| "its url is no address".to_owned())?;
    let key = row_secret::key_for(&parsed, row.env_key.as_deref(), row.key.as_ref(), lookup)?;
    Ok(images::Row {
        here: is_loopback(parsed.host().unwrap_or_default()),
        url: row.url.parse().map_err(|_| "its url is no address".to_owned())?,
        key,
        model: row.model.clone(),
        edits: row.edits,
        timeout: row.timeout,
        prices: prices(row)?,
    })
}

/// Returns the prices of an image model.
///
/// # Errors
/// Prices of tokens without that of a picture.
fn prices(row: &data_tools::ImageModel) -> Result<Option<images::Prices>, String> {
    let (input, input_picture) = (row.input_price_per_million, row.input_picture_price_per_million);
    let output = row.output_price_per_million;
    match row.price_per_picture {
        Some(picture) => Ok(Some(images::Prices { picture, input, input_picture, output })),
        None if input.or(input_picture).or(output).is_none() => Ok(None),
        None => {
            let why = "it is reserved before the request, and is the cost if no tokens are reported";
            Err(format!("prices of tokens need price_per_picture: {why}"))
        }
    }
}

/// Returns the options of the tools for Google Drive; `None` without credentials.
///
/// # Errors
/// A mistake as a sentence with its place and fix.
pub(crate) fn drive(settings: &data_tools::GoogleDrive) -> Result<Option<google_drive::Options>, String> {
    let data_tools::GoogleDrive { credentials, folder, changes, url, bytes, timeout } = settings;
    let Some(credentials) = credentials else { return Ok(None) };
    let wrong = |mistake| format!("google_drive.credentials: {mistake}");
    let credentials = Credentials::parse(credentials).map_err(wrong)?;
    let url: reqwest::Url = url.parse().map_err(|_| "google_drive.url is no address")?;
    let here = url.host_str().is_some_and(is_loopback);
    if url.scheme() == "http" && !here {
        return Err("google_drive.url is http, where the token could be read on the way; use https".to_owned());
    }
    let (folder, changes, bytes, timeout) = (folder.clone(), *changes, *bytes, *timeout);
    Ok(Some(google_drive::Options { credentials, folder, changes, url, here, bytes, timeout }))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use settings::sources::Sources;

    fn settings(toml: &str) -> Settings {
        let files = [("staffai.toml".into(), toml.to_owned())].into();
        settings::load(&Sources::from_maps([].into(), files)).unwrap().settings
    }

    fn lookup() -> Lookup {
        Arc::new(|name| (name == "A_KEY").then(|| "very-secret".into()))
    }

    #[test]
    fn a_row_is_filled_from_what_is_known_of_its_provider() {
        let toml = r#"
            [[tools.web_search]]
            provider = "SearXNG"
            url = "http://searxng:8080/"
            timeout = "3s"
            [[tools.web_search]]
            provider = "xai"
            env_key = "A_KEY"
        "#;
        let rows = searches(&settings(toml), &lookup()).unwrap();
        assert_eq!((rows[0].url.as_str(), rows[0].timeout.as_secs()), ("http://searxng:8080/", 3));
        assert_eq!((rows[1].url.as_str(), rows[1].model.as_str()), ("https://api.x.ai/", "grok-4-fast"));
        assert_eq!(rows[1].key.as_ref().unwrap().expose_secret(), "very-secret");
        assert_eq!(secrets(&settings(toml), &lookup()).len(), 1);
    }

    #[test]
    fn prices_of_tokens_need_the_price_of_a_picture() {
        let row = |prices: &str| format!("[[tools.images]]\nmodel = \"m\"\nenv_key = \"A_KEY\"\n{prices}");
        let of = |prices: &str| image_models(&settings(&row(prices)), &lookup()).map(|rows| rows[0].prices);
        assert_eq!(of(""), Ok(None));
        let priced = of("price_per_picture = 0.06\noutput_price_per_million = 40").unwrap().unwrap();
        assert_eq!((priced.picture, priced.input, priced.output), (0.06, None, Some(40.0)));
        let mistakes = of("output_price_per_million = 40").unwrap_err();
        assert!(
            mistakes[0].starts_with("tools.images, row 1: prices of tokens need price_per_picture"),
            "{mistakes:?}"
        );
    }

    #[test]
    fn hosts_are_read_as_addresses_have_them() {
        for (written, host) in [
            ("Example.org", "example.org"),
            ("*.example.org", "example.org"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("[2606:4700::1]", "[2606:4700::1]"),
        ] {
            assert_eq!(host_of(written).as_deref(), Some(host), "{written}");
        }
        for wrong in [
            "https://evil.example",
            "evil.example/",
            "evil.example:443",
            "evil.example:8080",
            "a@b.example",
            "a b",
            "*",
        ] {
            assert_eq!(host_of(wrong), None, "{wrong}");
            let settings = settings(&format!("[url_extract]\ndeny = [{wrong:?}]"));
            let mistakes = pages(&settings.url_extract).unwrap_err();
            assert!(
                mistakes[0].starts_with("url_extract.deny: ") && mistakes[0].contains("such as example.org"),
                "{mistakes:?}"
            );
        }
    }

    #[test]
    fn each_mistake_in_a_row_names_its_fix() {
        for (row, fix) in [
            (r#"provider = "altavista""#, "there are searxng, tavily, xai, google, duckduckgo"),
            (r#"provider = "searxng""#, "set url to that of your searxng"),
            (r#"provider = "tavily""#, "set env_key to the name of the variable"),
            (r#"provider = "tavily", env_key = "NO_KEY""#, "the variable NO_KEY that env_key names is not set"),
            (r#"provider = "google", key = "very-secret""#, "set engine to it"),
            (r#"provider = "tavily", key = "very-secret", url = "http://tavily.example""#, "use https"),
        ] {
            let settings = settings(&format!("[tools]\nweb_search = [{{{row}}}]"));
            let mistakes = searches(&settings, &lookup()).unwrap_err();
            assert_eq!(mistakes.len(), 1);
            assert!(mistakes[0].starts_with("tools.web_search, row 1: ") && mistakes[0].contains(fix), "{mistakes:?}");
            assert!(!mistakes[0].contains("very-secret") && !format!("{settings:?}").contains("very-secret"));
        }
    }
}
