//! The files that belong to the settings: prompts and the reply schema. Each has a compiled-in default.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::configured::Lookup;
use crate::app::system::random_bits;
use domain::ids::{Door, Place};
use domain::prompt::sections::{self, Sections};
use domain::prompt::{ChannelPrompts, Prompts};
use domain::reply::Schema;
use settings::Settings;
use settings::sources::open_regular;

/// The maximum size of a settings file, in bytes.
const FILE_MAX: u64 = 1024 * 1024;
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
    for (path, name) in entries(folder, mistakes) {
        if !path.is_dir() || name.starts_with('.') {
            continue;
        }
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
    for (path, name) in entries(folder, mistakes) {
        if !path.is_dir() || name.starts_with('.') {
            continue;
        }
        // Parsed as part of a place of the door.
        let door = format!("{name}:any").parse::<Place>().map(|place| place.door);
        match (door, channel(&path)) {
            (Ok(door), Ok(prompts)) if crate::app::doors::NAMES.contains(&door) => drop(doors.insert(door, prompts)),
            (Ok(_) | Err(_), Ok(_)) => {
                let known = crate::app::doors::NAMES.map(|door| door.to_string()).join(", ");
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

/// Returns the prompts of single channels, each from the folder named by the channel's id. Names that begin with a dot
/// are ignored.
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

/// Creates a file beside this one that only its owner may read. Its name is random, and an existing file is never
/// opened: in a shared directory, another user could have placed a link or a file there.
///
/// # Errors
/// The file cannot be created.
pub fn new_beside(path: &Path) -> std::io::Result<(PathBuf, fs::File)> {
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    // A killed process may leave its file, and in a container each process may have the same id.
    name.push(format!(".{:016x}", u64::from_ne_bytes(random_bits())));
    let beside = path.with_file_name(name);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    Ok((beside, file))
}

/// Replaces a file atomically: no reader sees half of it. The file may hold keys, so only its owner may read it.
///
/// # Errors
/// The file cannot be written; the previous content stays.
pub fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // A symbolic link stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(&path).ok();
    let (beside, mut file) = new_beside(&path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let written = written.and_then(|()| match mode {
        Some(before) => fs::set_permissions(&beside, before.permissions()),
        None => Ok(()),
    });
    let saved = written.and_then(|()| fs::rename(&beside, &path));
    if saved.is_err() {
        // The remaining file is useless, and the first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    saved
}

/// Returns the text of a file, or `None` if it does not exist.
///
/// # Errors
/// The file exists and cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    read_at_most(path, FILE_MAX)
}

fn read_at_most(path: &Path, most: u64) -> Result<Option<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = match open_regular(path) {
        Ok(file) => file,
        // A path below a regular file does not exist either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    if length > most {
        return Err(format!("{}: {length} bytes are more than the {most} that are read", path.display()));
    }
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if read as u64 > most {
        return Err(format!("{}: has more than the {most} bytes that are read", path.display()));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("{}: not utf-8 at byte {}", path.display(), error.utf8_error().valid_up_to()))?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, Path::new("/dev/zero"), dir.path()] {
            assert!(read(path).unwrap_err().ends_with("is no regular file"), "{}", path.display());
        }
        let link = dir.path().join("link");
        fs::write(dir.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(read(&link), Ok(Some("text".to_owned())), "a link leads to its file");
        assert_eq!(read(&dir.path().join("none")), Ok(None));
    }

    #[test]
    fn a_file_that_says_nothing_of_its_length_is_read_to_the_bound() {
        // Files of the kernel report a length of 0.
        let text = read_at_most(Path::new("/proc/self/status"), 16).unwrap_err();
        assert!(text.ends_with("has more than the 16 bytes that are read"), "{text}");
    }
}
