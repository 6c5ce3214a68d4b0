//! The files that belong to the settings: prompts and the reply schema. Each has a default that is compiled in.

use std::path::Path;
use std::sync::Arc;

use crate::config::Settings;
use crate::domain::prompt::Prompts;
use crate::domain::reply::Schema;

/// The longest prompt or schema file that is read, in bytes.
const FILE_MAX: u64 = 1024 * 1024;
/// The bot's name in its own prompts when no alias is configured.
const OUR_NAME: &str = "staffai";
const PERSONALITY: &str = include_str!("../../prompts/personality_prompt.txt");
const INTERJECTION: &str = include_str!("../../prompts/interjection_prompt.txt");
const ACTIVITY: &str = include_str!("../../prompts/base_activity_system_prompt.txt");
const SCHEMA: &str = include_str!("../../response_schema.json");

/// Reads the prompts.
///
/// # Errors
/// A sentence that names the file and the fix.
pub fn prompts(settings: &Settings) -> Result<Prompts, String> {
    let path = settings.prompts.dir.join("personality_prompt.txt");
    let personality = read(&path)?.unwrap_or_else(|| PERSONALITY.to_owned());
    if personality.trim().is_empty() {
        return Err(format!("{}: the personality prompt is empty; write one or remove the file", path.display()));
    }
    let bot_name = settings.members.aliases.first().map_or(OUR_NAME, String::as_str);
    Ok(Prompts {
        personality: personality.into(),
        interjection: interjection(settings)?.into(),
        activity: activity(settings)?.into(),
        bot_name: bot_name.into(),
        words: settings.llm.words,
    })
}

/// How we join in.
fn interjection(settings: &Settings) -> Result<String, String> {
    let path = settings.prompts.dir.join("interjection_prompt.txt");
    filled(&path, read(&path)?.unwrap_or_else(|| INTERJECTION.to_owned()))
}

/// How the line of status is written: by the file that was named, else by the one in the folder of prompts.
fn activity(settings: &Settings) -> Result<String, String> {
    let named = &settings.presence.prompt;
    if let Some(text) = read(named)? {
        return filled(named, text);
    }
    let path = settings.prompts.dir.join("base_activity_system_prompt.txt");
    filled(&path, read(&path)?.unwrap_or_else(|| ACTIVITY.to_owned()))
}

fn filled(path: &Path, text: String) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(format!("{}: the prompt is empty; write one or remove the file", path.display()));
    }
    Ok(text)
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

/// The text of a file; none when there is no such file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    match std::fs::metadata(path) {
        Ok(about) if about.len() > FILE_MAX => {
            return Err(format!(
                "{}: {} bytes are more than the {FILE_MAX} that are read",
                path.display(),
                about.len()
            ));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("{}: not utf-8 at byte {}", path.display(), error.utf8_error().valid_up_to()))?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}
