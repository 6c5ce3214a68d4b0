//! The voices of `[[speech.voices]]`.

use std::sync::Arc;

use secrecy::SecretString;

use crate::app::configured::Lookup;
use domain::host::is_loopback;
use settings::Settings;
use settings::address::is_remote;
use settings::speech::Voice as Row;
use speech::synthesis::{Format, Source, Synthesis, Voice};

/// The address of the API without `url`.
const URL: &str = "https://api.openai.com/v1";
/// The model and the voice without others.
const MODEL: &str = "gpt-4o-mini-tts";
const VOICE: &str = "alloy";

/// Returns the voices, in order.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn voices(settings: &Settings, lookup: &Lookup) -> Result<Vec<Voice>, Vec<String>> {
    let (mut voices, mut mistakes) = (Vec::new(), Vec::new());
    for (number, row) in settings.numbered("speech.voices", &settings.speech.voices) {
        match voice(row, lookup) {
            Ok(voice) => voices.push(voice),
            Err(mistake) => mistakes.push(format!("speech.voices, row {number}: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(voices) } else { Err(mistakes) }
}

/// Returns their synthesis.
///
/// # Errors
/// As of [`voices`], or TLS cannot be set up.
pub(crate) fn synthesis(settings: &Settings, lookup: &Lookup) -> Result<Arc<Synthesis>, Vec<String>> {
    Synthesis::new(voices(settings, lookup)?).map(Arc::new).map_err(|mistake| vec![mistake])
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    settings.speech.voices.iter().filter_map(|row| key(row, lookup)).collect()
}

fn voice(row: &Row, lookup: &Lookup) -> Result<Voice, String> {
    let name = row.format.as_deref().unwrap_or("wav");
    let unknown = || format!("there is no format {name:?}; there are {}", Format::names());
    let format = Format::find(name).ok_or_else(unknown)?;
    let source = match row.kind.as_str() {
        "openai" => endpoint(row, lookup)?,
        "command" if row.command.is_empty() => {
            return Err("it has no command; set command = [\"espeak-ng\", \"--stdin\", \"--stdout\"]".to_owned());
        }
        "command" => Source::Command(row.command.clone()),
        kind => return Err(format!("there is no kind {kind:?}; write openai or command")),
    };
    Ok(Voice { source, format, timeout: row.timeout })
}

fn endpoint(row: &Row, lookup: &Lookup) -> Result<Source, String> {
    let base = row.url.as_deref().unwrap_or(URL).trim_end_matches('/');
    let url: http::Uri = format!("{base}/audio/speech").parse().map_err(|_| "its url is no address".to_owned())?;
    let host = url.host().unwrap_or_default();
    let key = key(row, lookup);
    if let (Some(variable), None) = (&row.env_key, &key) {
        return Err(format!("the variable {variable} that env_key names is not set"));
    }
    if url.scheme_str() == Some("http") && is_remote(host) && key.is_some() {
        return Err("its url is http to another network, where the key could be read on the way; use https".to_owned());
    }
    let named = |name: &Option<String>, usual: &str| name.clone().unwrap_or_else(|| usual.to_owned());
    let (here, model, voice) = (is_loopback(host), named(&row.model, MODEL), named(&row.voice, VOICE));
    Ok(Source::OpenAi { url, here, key, model, voice })
}

fn key(row: &Row, lookup: &Lookup) -> Option<SecretString> {
    row.env_key.as_deref().map_or_else(|| row.key.clone(), |variable| lookup(variable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::Sources;

    fn read(row: &str) -> Result<Vec<Voice>, Vec<String>> {
        let files = [("staffai.toml".into(), format!("[[speech.voices]]\n{row}"))].into();
        let settings = settings::load(&Sources::from_maps([].into(), files)).unwrap().settings;
        voices(&settings, &(Arc::new(|name: &str| (name == "SET").then(|| "k-1".into())) as Lookup))
    }

    #[test]
    fn a_row_is_an_endpoint_or_a_command() {
        let voices =
            read("kind = 'openai'\nurl = 'http://localhost:8000/v1/'\nenv_key = 'SET'\nformat = 'mp3'").unwrap();
        let Source::OpenAi { url, here, model, .. } = &voices[0].source else { panic!("{voices:?}") };
        assert_eq!(
            (url.to_string().as_str(), *here, model.as_str()),
            ("http://localhost:8000/v1/audio/speech", true, MODEL)
        );
        assert!(
            matches!(&read("kind = 'command'\ncommand = ['flite']").unwrap()[0].source, Source::Command(words) if words == &["flite"])
        );
    }

    #[test]
    fn a_mistake_names_its_row_and_the_fix() {
        for (row, fix) in [
            ("kind = 'flute'", "write openai or command"),
            ("kind = 'command'", "espeak-ng"),
            ("kind = 'openai'\nformat = 'tape'", "wav, mp3"),
            ("kind = 'openai'\nenv_key = 'UNSET'", "the variable UNSET"),
            ("kind = 'openai'\nurl = 'http://voices.example/v1'\nkey = 'k'", "use https"),
        ] {
            let mistakes = read(row).unwrap_err();
            assert!(mistakes[0].starts_with("speech.voices, row 1: ") && mistakes[0].contains(fix), "{mistakes:?}");
        }
    }
}
