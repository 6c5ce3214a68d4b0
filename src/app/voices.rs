//! The voices of `[[speech.voices]]`, and the rows of `[[speech.hearing]]`.

use std::collections::HashMap;
use std::sync::Arc;

use secrecy::SecretString;

use crate::app::configured::Lookup;
use crate::app::row_secret;
use actors::observation::turn_events::TurnEvents;
use actors::services::basics::Basics;
use discord::voice::Voice as Signals;
#[cfg(feature = "discord-voice")]
use discord_voice::Calls;
use domain::host::is_loopback;
use domain::open_to::OpenTo;
use domain::tool::failure::ToolFailure;
use ports::voice_calls::VoiceCalls;
use settings::Settings;
use settings::speech::{Ear as EarRow, EndpointRow, SourceRow, Voice as Row};
use speech::hearing::{Ear, Hearing};
use speech::synthesis::{Format, Synthesis, Voice};
use speech::{Announcement, Endpoint, Phrases, Source, Speech, Uncounted};

/// The address of the API without `url`.
const URL: &str = "https://api.openai.com/v1";
/// The model and the voice without others.
const MODEL: &str = "gpt-4o-mini-tts";
const VOICE: &str = "alloy";
/// The model of a row that hears without another.
const HEARING_MODEL: &str = "gpt-4o-mini-transcribe";

/// Returns the voices, in order.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn voices(settings: &Settings, lookup: &Lookup) -> Result<Vec<Voice>, Vec<String>> {
    each(settings, "speech.voices", &settings.speech.voices, |row| voice(row, lookup))
}

/// Returns the rows that hear, in order.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn ears(settings: &Settings, lookup: &Lookup) -> Result<Vec<Ear>, Vec<String>> {
    each(settings, "speech.hearing", &settings.speech.hearing, |row| ear(row, lookup))
}

fn each<R, T>(
    settings: &Settings,
    table: &str,
    rows: &[R],
    read: impl Fn(&R) -> Result<T, String>,
) -> Result<Vec<T>, Vec<String>> {
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    for (number, row) in settings.numbered(table, rows) {
        match read(row) {
            Ok(one) => all.push(one),
            Err(mistake) => mistakes.push(format!("{table}, row {number}: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

/// Returns the synthesis, the hearing, and the phrases that announce tools.
///
/// # Errors
/// As of [`voices`] and [`ears`], or TLS cannot be set up.
pub(crate) fn speech(settings: &Settings, lookup: &Lookup) -> Result<Uncounted, Vec<String>> {
    let (voices, ears) = match (voices(settings, lookup), ears(settings, lookup)) {
        (Ok(voices), Ok(ears)) => (voices, ears),
        (voices, ears) => return Err([voices.err(), ears.err()].into_iter().flatten().flatten().collect()),
    };
    let synthesis = Synthesis::new(voices).map_err(|mistake| vec![mistake])?;
    let hearing = Hearing::new(ears).map_err(|mistake| vec![mistake])?;
    Ok(Uncounted { synthesis, hearing, phrases: phrases(settings) })
}

/// The mistake of voice channels in a build without them.
const NO_CHANNELS: &str =
    "discord.voice: this build has no voice channels; build it with --features discord-voice, or set it to off";

/// Returns the mistake of settings that open voice channels, as a sentence with its place and fix.
pub(crate) fn channel_mistake(settings: &Settings) -> Option<String> {
    if settings.discord.token.is_none() || settings.discord.voice == OpenTo::Off {
        None
    } else if settings.speech.voices.is_empty() {
        Some("discord.voice needs a voice: set speech.voices".to_owned())
    } else if let Some((row, format)) = compressed(settings) {
        let fix = "set its format to wav or pcm, or discord.voice to off";
        Some(format!("speech.voices, row {row}: voice channels of Discord cannot play {format}; {fix}"))
    } else {
        (!cfg!(feature = "discord-voice")).then(|| NO_CHANNELS.to_owned())
    }
}

/// Returns the first voice with compressed audio: its row and its format.
fn compressed(settings: &Settings) -> Option<(usize, &str)> {
    let rows = settings.numbered("speech.voices", &settings.speech.voices);
    let formats = rows.filter_map(|(number, row)| Some((number, row.format.as_deref()?)));
    let is_compressed = |name: &str| Format::find(name).is_some_and(|format| !format.is_samples());
    formats.into_iter().find(|(_, name)| is_compressed(name))
}

/// Returns the voice channels that the bot may join; `None` without Discord, or if they are off.
///
/// # Errors
/// As of [`channel_mistake`], or TLS cannot be set up.
pub(crate) fn calls(
    settings: &Settings,
    signals: Option<Arc<Signals>>,
    parts: (&Speech, &TurnEvents, &Basics),
) -> Result<Option<Arc<dyn VoiceCalls>>, Vec<String>> {
    let Some(signals) = signals.filter(|_| settings.discord.voice != OpenTo::Off) else { return Ok(None) };
    joined(signals, parts).map(Some).map_err(|mistake| vec![mistake])
}

#[cfg(feature = "discord-voice")]
fn joined(
    signals: Arc<Signals>,
    (speech, events, basics): (&Speech, &TurnEvents, &Basics),
) -> Result<Arc<dyn VoiceCalls>, String> {
    let calls = Calls::new(signals, speech.clone(), Arc::new(events.clone()), Arc::clone(&basics.clock))?;
    Ok(Arc::new(calls))
}

#[cfg(not(feature = "discord-voice"))]
fn joined(_: Arc<Signals>, _: (&Speech, &TurnEvents, &Basics)) -> Result<Arc<dyn VoiceCalls>, String> {
    Err(NO_CHANNELS.to_owned())
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    let voices = settings.speech.voices.iter().map(|row| &row.source);
    let endpoints = voices.chain(settings.speech.hearing.iter().map(|row| &row.source)).filter_map(SourceRow::endpoint);
    endpoints.filter_map(|row| row_secret::find(row.env_key.as_deref(), row.key.as_ref(), lookup)).collect()
}

/// Returns the phrases of `[[speech.phrases]]`; of two rows with one language, the first applies.
fn phrases(settings: &Settings) -> Phrases {
    let mut all = HashMap::new();
    for row in settings.speech.phrases.iter().rev() {
        let code = row.language.to_lowercase();
        let words = [
            (Announcement::Running, &row.running),
            (Announcement::Failed(ToolFailure::Access), &row.access),
            (Announcement::Failed(ToolFailure::Timeout), &row.timeout),
            (Announcement::Failed(ToolFailure::NotFound), &row.not_found),
            (Announcement::Failed(ToolFailure::Other), &row.other),
        ];
        let set = words.into_iter().filter_map(|(announcement, words)| Some((announcement, words.clone()?)));
        all.extend(set.map(|(announcement, words)| ((code.clone(), announcement), words)));
    }
    Phrases(all)
}

fn voice(row: &Row, lookup: &Lookup) -> Result<Voice, String> {
    let Row { source: given, voice, format, timeout, price_per_million } = row;
    let name = format.as_deref().unwrap_or("wav");
    let unknown = || format!("there is no format {name:?}; there are {}", Format::names());
    let format = Format::find(name).ok_or_else(unknown)?;
    let source = source(given, "/audio/speech", MODEL, lookup)?;
    let voice = voice.clone().unwrap_or_else(|| VOICE.to_owned());
    Ok(Voice { source, voice, format, timeout: *timeout, price: *price_per_million })
}

fn ear(row: &EarRow, lookup: &Lookup) -> Result<Ear, String> {
    let EarRow { source: given, language, stream, timeout, price_per_minute } = row;
    let source = source(given, "/audio/transcriptions", HEARING_MODEL, lookup)?;
    Ok(Ear { source, language: language.clone(), streams: *stream, timeout: *timeout, price: *price_per_minute })
}

/// Returns a source, with the path of its endpoint and the usual model.
fn source(row: &SourceRow, path: &str, usual_model: &str, lookup: &Lookup) -> Result<Source, String> {
    let EndpointRow { url, key, env_key, model } = match row {
        SourceRow::OpenAi(endpoint) => endpoint,
        SourceRow::Command(words) => return Ok(Source::Command(words.clone())),
    };
    let base = url.as_deref().unwrap_or(URL).trim_end_matches('/');
    let url: http::Uri = format!("{base}{path}").parse().map_err(|_| "its url is no address".to_owned())?;
    let key = row_secret::key_for(&url, env_key.as_deref(), key.as_ref(), lookup)?;
    let (here, model) = (is_loopback(url.host().unwrap_or_default()), model.as_deref().unwrap_or(usual_model));
    Ok(Source::OpenAi(Endpoint { here, url, key, model: model.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use settings::sources::Sources;

    fn of(table: &str, row: &str) -> (Settings, Lookup) {
        let files = [("staffai.toml".into(), format!("[[speech.{table}]]\n{row}"))].into();
        let settings = settings::load(&Sources::from_maps([].into(), files)).unwrap().settings;
        (settings, Arc::new(|name: &str| (name == "SET").then(|| "k-1".into())))
    }

    fn read(row: &str) -> Result<Vec<Voice>, Vec<String>> {
        let (settings, lookup) = of("voices", row);
        voices(&settings, &lookup)
    }

    #[test]
    fn a_row_that_hears_is_an_endpoint_or_a_command() {
        let read = |row: &str| {
            let (settings, lookup) = of("hearing", row);
            ears(&settings, &lookup)
        };
        let ears = read("kind = 'openai'\nenv_key = 'SET'\nlanguage = 'de'\nstream = true").unwrap();
        let Ear { source: Source::OpenAi(endpoint), language, streams, .. } = &ears[0] else { panic!("{ears:?}") };
        assert_eq!(
            (endpoint.url.to_string().as_str(), endpoint.model.as_str(), language.as_deref(), *streams),
            ("https://api.openai.com/v1/audio/transcriptions", HEARING_MODEL, Some("de"), true)
        );
        let mistakes = read("kind = 'openai'\nenv_key = 'UNSET'").unwrap_err();
        assert!(mistakes[0].starts_with("speech.hearing, row 1: "), "{mistakes:?}");
    }

    #[test]
    fn a_row_is_an_endpoint_or_a_command() {
        let voices =
            read("kind = 'openai'\nurl = 'http://localhost:8000/v1/'\nenv_key = 'SET'\nformat = 'mp3'").unwrap();
        let Source::OpenAi(Endpoint { url, here, model, .. }) = &voices[0].source else { panic!("{voices:?}") };
        assert_eq!(
            (url.to_string().as_str(), *here, model.as_str()),
            ("http://localhost:8000/v1/audio/speech", true, MODEL)
        );
        assert!(
            matches!(&read("kind = 'command'\ncommand = ['flite']").unwrap()[0].source, Source::Command(words) if words == &["flite"])
        );
    }

    #[test]
    fn voice_channels_need_discord_a_voice_and_a_build_with_them() {
        let mistake = |token: &str, voice: &str, rows: &str| {
            let text = format!("[discord]\n{token}voice = '{voice}'\n{rows}");
            let files = [("staffai.toml".into(), text)].into();
            channel_mistake(&settings::load(&Sources::from_maps([].into(), files)).unwrap().settings)
        };
        let (token, row) = ("token = 't'\n", "[[speech.voices]]\nkind = 'command'\ncommand = ['flite']");
        assert_eq!((mistake("", "members", ""), mistake(token, "off", "")), (None, None));
        assert!(mistake(token, "members", "").unwrap().contains("set speech.voices"));
        let songs = "[[speech.voices]]\nkind = 'command'\ncommand = ['sing']\nformat = 'mp3'";
        let refused = mistake(token, "members", &format!("{row}\n{songs}")).unwrap();
        assert!(refused.starts_with("speech.voices, row 2: ") && refused.contains("mp3"), "{refused}");
        let built = mistake(token, "operators", row);
        assert_eq!(built.is_some(), !cfg!(feature = "discord-voice"), "{built:?}");
    }

    #[test]
    fn a_mistake_names_its_row_and_the_fix() {
        for (row, fix) in [
            ("kind = 'openai'\nformat = 'tape'", "wav, mp3"),
            ("kind = 'openai'\nenv_key = 'UNSET'", "the variable UNSET"),
            ("kind = 'openai'\nurl = 'http://voices.example/v1'\nkey = 'k'", "use https"),
        ] {
            let mistakes = read(row).unwrap_err();
            assert!(mistakes[0].starts_with("speech.voices, row 1: ") && mistakes[0].contains(fix), "{mistakes:?}");
        }
    }
}
