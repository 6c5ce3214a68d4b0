//! The voices of `[[speech.voices]]`, and the rows of `[[speech.hearing]]`.

use std::collections::HashMap;
use std::sync::Arc;

use secrecy::SecretString;

use crate::app::configured::Lookup;
use crate::app::row_secret;
use actors::observation::turn_events::TurnEvents;
use actors::services::basics::Basics;
use actors::services::speech_costs::SpeechCosts;
use discord::voice::Voice as Signals;
#[cfg(feature = "discord-voice")]
use discord_voice::Calls;
use domain::host::is_loopback;
use domain::tool::failure::ToolFailure;
use ports::voice_calls::VoiceCalls;
use ports::{Limiter, SpeechMetering};
use settings::Settings;
use settings::edges::VoiceChannels;
use settings::speech::{Ear as EarRow, Voice as Row};
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

/// Returns speech whose costs count in limits and in the ledger.
pub(crate) fn counted(speech: Uncounted, basics: &Basics, limiter: &Arc<dyn Limiter>) -> Speech {
    let Basics { live, store, clock, .. } = basics.clone();
    let costs = SpeechCosts { live, limiter: Arc::clone(limiter), store, clock, numbers: Arc::default() };
    speech.counted_by(&(Arc::new(costs) as Arc<dyn SpeechMetering>))
}

/// Returns the voice channels that the bot may join; `None` without Discord, or if they are off.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn calls(
    settings: &Settings,
    signals: Option<Arc<Signals>>,
    parts: (&Speech, &TurnEvents, &Basics),
) -> Result<Option<Arc<dyn VoiceCalls>>, Vec<String>> {
    let Some(signals) = signals.filter(|_| settings.discord.voice != VoiceChannels::Off) else { return Ok(None) };
    if parts.0.synthesis.is_silent() {
        return Err(vec!["discord.voice needs a voice: set speech.voices".to_owned()]);
    }
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
    Err("discord.voice: this build has no voice channels; build it with --features discord-voice, or set it to off"
        .to_owned())
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    let voices = settings.speech.voices.iter().map(|row| (&row.env_key, &row.key));
    let ears = settings.speech.hearing.iter().map(|row| (&row.env_key, &row.key));
    let rows = voices.chain(ears);
    rows.filter_map(|(env_key, key)| row_secret::find(env_key.as_deref(), key.as_ref(), lookup)).collect()
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
    let Row { kind, url, key, env_key, model, voice, command, format, timeout, price_per_million } = row;
    let name = format.as_deref().unwrap_or("wav");
    let unknown = || format!("there is no format {name:?}; there are {}", Format::names());
    let format = Format::find(name).ok_or_else(unknown)?;
    let usual = Usual { path: "/audio/speech", model: MODEL, command: r#"["espeak-ng", "--stdin", "--stdout"]"# };
    let source = Given { kind, url, key, env_key, model, command }.source(&usual, lookup)?;
    let voice = voice.clone().unwrap_or_else(|| VOICE.to_owned());
    Ok(Voice { source, voice, format, timeout: *timeout, price: *price_per_million })
}

fn ear(row: &EarRow, lookup: &Lookup) -> Result<Ear, String> {
    let EarRow { kind, url, key, env_key, model, language, stream, command, timeout, price_per_minute } = row;
    let usual = Usual {
        path: "/audio/transcriptions",
        model: HEARING_MODEL,
        command: r#"["pocketsphinx_continuous", "-infile", "/dev/stdin"]"#,
    };
    let source = Given { kind, url, key, env_key, model, command }.source(&usual, lookup)?;
    Ok(Ear { source, language: language.clone(), streams: *stream, timeout: *timeout, price: *price_per_minute })
}

/// The parts of a source that its row leaves out: the path of its endpoint, the model, and a command as an example.
struct Usual {
    path: &'static str,
    model: &'static str,
    command: &'static str,
}

/// The fields of a row that name its source.
struct Given<'a> {
    kind: &'a str,
    url: &'a Option<String>,
    key: &'a Option<SecretString>,
    env_key: &'a Option<String>,
    model: &'a Option<String>,
    command: &'a [String],
}

impl Given<'_> {
    fn source(&self, usual: &Usual, lookup: &Lookup) -> Result<Source, String> {
        match self.kind {
            "openai" => self.endpoint(usual.path, usual.model, lookup).map(Source::OpenAi),
            "command" if self.command.is_empty() => Err(format!("it has no command; set command = {}", usual.command)),
            "command" => Ok(Source::Command(self.command.to_vec())),
            kind => Err(format!("there is no kind {kind:?}; write openai or command")),
        }
    }

    fn endpoint(&self, path: &str, model: &str, lookup: &Lookup) -> Result<Endpoint, String> {
        let base = self.url.as_deref().unwrap_or(URL).trim_end_matches('/');
        let url: http::Uri = format!("{base}{path}").parse().map_err(|_| "its url is no address".to_owned())?;
        let host = url.host().unwrap_or_default();
        let key = row_secret::key_for(&url, self.env_key.as_deref(), self.key.as_ref(), lookup)?;
        let model = self.model.clone().unwrap_or_else(|| model.to_owned());
        Ok(Endpoint { here: is_loopback(host), url, key, model })
    }
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
        let mistakes = read("kind = 'command'").unwrap_err();
        assert!(
            mistakes[0].starts_with("speech.hearing, row 1: ") && mistakes[0].contains("pocketsphinx"),
            "{mistakes:?}"
        );
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
