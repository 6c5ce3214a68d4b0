//! The files that settings name: prompts, the reply schema, tool servers. Prompts and the schema have compiled-in
//! defaults.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::configured::Lookup;
use crate::app::doors::NAMES;
use crate::app::files::{read, read_at_most};
use domain::ids::{Door, Place};
use domain::prompt::sections::{self, Sections};
use domain::prompt::{ChannelPrompts, Prompts};
use domain::reply::Schema;
use settings::Settings;

/// The maximum size of a prompt, in bytes: more than a model should receive before a question.
const PROMPT_MAX: u64 = 256 * 1024;
/// The maximum number of channels with a folder of prompts.
const CHANNELS_MAX: usize = 1_000;
/// The prompt of the bot's personality.
const PERSONALITY_FILE: &str = "personality_prompt.txt";
/// The prompt of interjections.
const INTERJECTION_FILE: &str = "interjection_prompt.txt";
/// The prompt of the status line, unless the settings name another existing file.
const ACTIVITY_FILE: &str = "base_activity_system_prompt.txt";
/// The folder of the sections that prompts may include.
const SECTIONS_FOLDER: &str = "sections";
/// The folder of the profiles that messages may select.
const PROFILES_FOLDER: &str = "profiles";
/// The maximum number of profiles.
const PROFILES_MAX: usize = 64;
/// The folder of prompts for single doors.
const DOORS_FOLDER: &str = "doors";
/// The maximum number of sections.
const SECTIONS_MAX: usize = 64;
/// The maximum length of a section's name, in bytes.
const SECTION_NAME_MAX: usize = 40;
/// The folder of prompts for single channels.
const CHANNELS_FOLDER: &str = "channels";
/// The bot's name in its own prompts if no alias is configured.
const OUR_NAME: &str = "staffai";
const PERSONALITY: &str = include_str!("../../prompts/personality_prompt.txt");
const INTERJECTION: &str = include_str!("../../prompts/interjection_prompt.txt");
const ACTIVITY: &str = include_str!("../../prompts/base_activity_system_prompt.txt");
const SCHEMA: &str = include_str!("../../response_schema.json");

/// Reads the prompts: the general ones, and those of single channels.
///
/// # Errors
/// A sentence for each wrong file, with its name and the fix.
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
    let doors = doors(&dir.join(DOORS_FOLDER), &mut mistakes);
    let profiles = Arc::new(profiles(&dir.join(PROFILES_FOLDER), &mut mistakes));
    let sections = sections(&dir.join(SECTIONS_FOLDER), &mut mistakes);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let bot_name = settings.members.aliases.first().map_or(OUR_NAME, String::as_str).into();
    let (words, channels) = (settings.llm.words, Arc::new(channels));
    let (doors, sections) = (Arc::new(doors), Arc::new(sections));
    let prompts = Prompts { personality, interjection, activity, channels, doors, profiles, sections, bot_name, words };
    let mistakes = wrong_sections(dir, &prompts);
    if mistakes.is_empty() { Ok(prompts) } else { Err(mistakes) }
}

/// Returns each prompt with a missing section, once.
fn wrong_sections(dir: &Path, prompts: &Prompts) -> Vec<String> {
    let whole = [
        (PERSONALITY_FILE.to_owned(), Some(&prompts.personality)),
        (INTERJECTION_FILE.to_owned(), Some(&prompts.interjection)),
    ];
    let special = |folder: String, special: &ChannelPrompts| {
        let ChannelPrompts { personality, interjection } = special.clone();
        [(format!("{folder}/{PERSONALITY_FILE}"), personality), (format!("{folder}/{INTERJECTION_FILE}"), interjection)]
    };
    let channels =
        prompts.channels.iter().flat_map(|(place, own)| special(format!("{CHANNELS_FOLDER}/{}", place.id), own));
    let doors = prompts.doors.iter().flat_map(|(door, own)| special(format!("{DOORS_FOLDER}/{door}"), own));
    let profiles = prompts.profiles.iter().flat_map(|(name, own)| special(format!("{PROFILES_FOLDER}/{name}"), own));
    let whole = whole.into_iter().map(|(name, text)| (name, text.cloned()));
    let all = whole.chain(channels).chain(doors).chain(profiles).filter_map(|(name, text)| Some((name, text?)));
    let wrong = |(name, text): (String, Arc<str>)| {
        sections::check(&text, &prompts.sections)
            .err()
            .map(|mistake| format!("{}: {mistake}", dir.join(name).display()))
    };
    all.filter_map(wrong).collect()
}

/// Returns the sections that prompts may include, each from the file of its name.
fn sections(folder: &Path, mistakes: &mut Vec<String>) -> Sections {
    let mut sections = Sections::new();
    for (path, name) in entries(folder, mistakes) {
        let Some(name) = name.strip_suffix(".txt").filter(|_| path.is_file()) else { continue };
        if !is_name(name) {
            let fix = format!("use 1 to {SECTION_NAME_MAX} small letters, digits, - or _, or remove the file");
            mistakes.push(format!("{}: the name is none of a section; {fix}", path.display()));
            continue;
        }
        if sections.len() == SECTIONS_MAX {
            mistakes.push(format!("{}: has more than the {SECTIONS_MAX} sections that are read", folder.display()));
            break;
        }
        match prompt(&path) {
            Ok(text) => drop(text.map(|text| sections.insert(name.to_owned(), text))),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    sections
}

/// True if a section or a profile may have this name.
fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= SECTION_NAME_MAX && name.chars().all(usable)
}

/// Returns the profiles, each from the folder of its name.
fn profiles(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<String, ChannelPrompts> {
    let mut profiles = BTreeMap::new();
    for (path, name) in folders(folder, mistakes) {
        let shown = path.display();
        match prompt(&path.join(PERSONALITY_FILE)) {
            Ok(_) if !is_name(&name) => {
                let fix = format!("use 1 to {SECTION_NAME_MAX} small letters, digits, - or _, or remove the folder");
                mistakes.push(format!("{shown}: the name is none of a profile; {fix}"));
            }
            Ok(None) => mistakes.push(format!("{shown}: has no {PERSONALITY_FILE}; write it or remove the folder")),
            Ok(Some(_)) if profiles.len() == PROFILES_MAX => {
                mistakes.push(format!("{}: has more than the {PROFILES_MAX} profiles that are read", folder.display()));
                break;
            }
            Ok(personality) => {
                drop(profiles.insert(name, ChannelPrompts { personality, interjection: None }));
            }
            Err(mistake) => mistakes.push(mistake),
        }
    }
    profiles
}

/// Returns the prompts of single doors, each from the folder of its name.
fn doors(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<Door, ChannelPrompts> {
    let mut doors = BTreeMap::new();
    for (path, name) in folders(folder, mistakes) {
        let door = NAMES.into_iter().find(|door| door.as_str() == name);
        match (door, channel(&path)) {
            (Some(door), Ok(prompts)) => drop(doors.insert(door, prompts)),
            (None, Ok(_)) => {
                let known = NAMES.map(|door| door.to_string()).join(", ");
                mistakes.push(format!("{}: the folder's name is no door; there are {known}", path.display()));
            }
            (_, Err(more)) => mistakes.extend(more),
        }
    }
    doors
}

/// Returns the entries of a folder by path, or an empty map if the folder does not exist.
fn entries(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<PathBuf, String> {
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            entries.flatten().map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned())).collect()
        }
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            mistakes.push(format!("{}: {error}", folder.display()));
            BTreeMap::new()
        }
    }
}

/// Returns the folders in a folder by path. Names that begin with a dot are ignored.
fn folders(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<PathBuf, String> {
    let mut folders = entries(folder, mistakes);
    folders.retain(|path, name| path.is_dir() && !name.starts_with('.'));
    folders
}

/// Returns the prompts of single channels, each from the folder named by the channel's id.
fn channels(folder: &Path, mistakes: &mut Vec<String>) -> BTreeMap<Place, ChannelPrompts> {
    let mut channels = BTreeMap::new();
    for (path, name) in folders(folder, mistakes) {
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
            Ok(prompts) => drop(channels.insert(Place::new(discord::DOOR, name), prompts)),
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

/// Reads one prompt. Returns `None` if the file does not exist.
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
/// A sentence with the file, the place in it and the fix.
pub fn schema(settings: &Settings) -> Result<Arc<Schema>, String> {
    let path = &settings.llm.schema;
    let text = read(path)?.unwrap_or_else(|| SCHEMA.to_owned());
    let document = serde_json::from_str(&text).map_err(|error| {
        format!("{}: not json: {error}; mend the file or remove it to use the built-in one", path.display())
    })?;
    let schema = Schema::compile(&document).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Arc::new(schema))
}

/// Returns the origin of the text of a file with a built-in default, in words.
pub fn origin(path: &Path) -> String {
    if path.exists() { format!("from {}", path.display()) } else { "built in".to_owned() }
}

/// Returns the configured tool servers and the text of their file.
///
/// # Errors
/// The file cannot be read, or is not a file of tool servers.
pub(crate) fn servers(settings: &Settings, lookup: &Lookup) -> Result<(mcp::config::Configured, String), String> {
    let tools = &settings.tools;
    let text = tools.mcp_config.as_ref().map(|path| read(path)).transpose()?.flatten();
    let path = tools.mcp_config.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let file = text.as_deref().map(|text| mcp::config::File { path: &path, text });
    let mut servers = mcp::config::read(file, &tools.mcp_servers, lookup.as_ref())?;
    servers.servers.entries.extend(tools.brought.iter().cloned());
    Ok((servers, text.unwrap_or_default()))
}
