//! The files that belong to the settings: prompts and the reply schema. Each has a default that is compiled in.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::app::system::random_bits;
use crate::config::Settings;
use crate::discord;
use crate::domain::ids::Place;
use crate::domain::prompt::{ChannelPrompts, Prompts};
use crate::domain::reply::Schema;

/// The longest file of settings that is read, in bytes.
const FILE_MAX: u64 = 1024 * 1024;
/// The longest prompt, in bytes: more than any model should be told before a question.
const PROMPT_MAX: u64 = 256 * 1024;
/// The most channels that have a folder of prompts.
const CHANNELS_MAX: usize = 1_000;
/// Who we are.
const PERSONALITY_FILE: &str = "personality_prompt.txt";
/// How we join in.
const INTERJECTION_FILE: &str = "interjection_prompt.txt";
/// How the line of status is written, where the settings name no file of their own that is there.
const ACTIVITY_FILE: &str = "base_activity_system_prompt.txt";
/// The folder of the channels' own prompts.
const CHANNELS_FOLDER: &str = "channels";
/// The bot's name in its own prompts when no alias is configured.
const OUR_NAME: &str = "staffai";
const PERSONALITY: &str = include_str!("../../prompts/personality_prompt.txt");
const INTERJECTION: &str = include_str!("../../prompts/interjection_prompt.txt");
const ACTIVITY: &str = include_str!("../../prompts/base_activity_system_prompt.txt");
const SCHEMA: &str = include_str!("../../response_schema.json");

/// Reads the prompts: those for everywhere, and those of single channels.
///
/// # Errors
/// For each file that is wrong a sentence that names it and the fix.
pub fn prompts(settings: &Settings) -> Result<Prompts, Vec<String>> {
    let dir = &settings.prompts.dir;
    let mut mistakes = Vec::new();
    let mut whole = |name: &str, built_in: &str| match prompt(&dir.join(name)) {
        Ok(text) => text.unwrap_or_else(|| built_in.into()),
        Err(mistake) => {
            mistakes.push(mistake);
            built_in.into()
        }
    };
    let (personality, interjection) = (whole(PERSONALITY_FILE, PERSONALITY), whole(INTERJECTION_FILE, INTERJECTION));
    let activity = whole(ACTIVITY_FILE, ACTIVITY);
    let activity = match prompt(&settings.presence.prompt) {
        Ok(own) => own.unwrap_or(activity),
        Err(mistake) => {
            mistakes.push(mistake);
            activity
        }
    };
    let channels = channels(&dir.join(CHANNELS_FOLDER), &mut mistakes);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let bot_name = settings.members.aliases.first().map_or(OUR_NAME, String::as_str).into();
    let (words, channels) = (settings.llm.words, Arc::new(channels));
    Ok(Prompts { personality, interjection, activity, channels, bot_name, words })
}

/// The folders of single channels, each named by its channel's id. Names that begin with a dot are left alone.
fn channels(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<Place, ChannelPrompts> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten(),
        Err(error) if error.kind() == ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => {
            mistakes.push(format!("{}: {error}", folder.display()));
            return BTreeMap::new();
        }
    };
    let mut channels = BTreeMap::new();
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if !path.is_dir() || name.starts_with('.') {
            continue;
        }
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            mistakes.push(format!(
                "{}: the folder's name is no channel id; name it by the id or remove it",
                path.display()
            ));
            continue;
        }
        if channels.len() == CHANNELS_MAX {
            mistakes.push(format!("{}: has more than the {CHANNELS_MAX} folders that are read", folder.display()));
            break;
        }
        match channel(&path) {
            Ok(prompts) => drop(channels.insert(Place::new(discord::DOOR, name.as_ref()), prompts)),
            Err(more) => mistakes.extend(more),
        }
    }
    channels
}

fn channel(folder: &Path) -> Result<ChannelPrompts, Vec<String>> {
    let (personality, interjection) = (prompt(&folder.join(PERSONALITY_FILE)), prompt(&folder.join(INTERJECTION_FILE)));
    match (personality, interjection) {
        (Ok(personality), Ok(interjection)) => Ok(ChannelPrompts { personality, interjection }),
        (personality, interjection) => Err([personality.err(), interjection.err()].into_iter().flatten().collect()),
    }
}

/// One prompt; none when there is no such file.
fn prompt(path: &Path) -> Result<Option<Arc<str>>, String> {
    let Some(text) = read_at_most(path, PROMPT_MAX)? else { return Ok(None) };
    if text.trim().is_empty() {
        return Err(format!("{}: the prompt is empty; write one or remove the file", path.display()));
    }
    Ok(Some(text.into()))
}

/// Reads and compiles the reply schema.
///
/// # Errors
/// A sentence that names the file, the place in it and the fix.
pub fn schema(settings: &Settings) -> Result<Arc<Schema>, String> {
    let path = &settings.llm.schema;
    let text = read(path)?.unwrap_or_else(|| SCHEMA.to_owned());
    let document = serde_json::from_str(&text).map_err(|error| {
        format!("{}: not json: {error}; mend the file or remove it to use the built-in one", path.display())
    })?;
    let schema = Schema::compile(&document).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Arc::new(schema))
}

/// Where the text of a file with a built-in default comes from, in words.
pub fn origin(path: &Path) -> String {
    if path.exists() { format!("from {}", path.display()) } else { "built in".to_owned() }
}

/// Replaces a file as a whole, so that nobody ever reads half of it. It may hold keys, so others may not read it.
///
/// # Errors
/// The file cannot be written; what was there stays.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    // What a killed process left is in nobody's way; in a container each process may have the same number.
    name.push(format!(".{:016x}", u64::from_ne_bytes(random_bits())));
    let beside = path.with_file_name(name);
    let mode = fs::metadata(&path).ok();
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let written = written.and_then(|()| match mode {
        Some(before) => fs::set_permissions(&beside, before.permissions()),
        None => Ok(()),
    });
    let saved = written.and_then(|()| fs::rename(&beside, &path));
    if saved.is_err() {
        // What is left of it is of no use; the error that matters is the first.
        let _ = fs::remove_file(&beside);
    }
    saved
}

/// The text of a file; none when there is no such file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    read_at_most(path, FILE_MAX)
}

fn read_at_most(path: &Path, most: u64) -> Result<Option<String>, String> {
    match std::fs::metadata(path) {
        Ok(about) if about.len() > most => {
            return Err(format!("{}: {} bytes are more than the {most} that are read", path.display(), about.len()));
        }
        Ok(_) => {}
        // Below a file there is nothing either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("{}: not utf-8 at byte {}", path.display(), error.utf8_error().valid_up_to()))?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}
