use std::collections::BTreeMap;

use secrecy::ExposeSecret;

use super::*;
use settings::sources::Sources;

/// Returns settings that name these files.
fn settings(files: &[(&str, &Path)]) -> Settings {
    let mut environment: BTreeMap<String, String> =
        files.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string())).collect();
    environment.insert("LITELLM_MODEL".to_owned(), "m".to_owned());
    let there = files.iter().map(|(_, path)| (path.to_path_buf(), String::new())).collect();
    let loaded = settings::load(&Sources::from_maps(environment, there));
    loaded.unwrap_or_else(|problems| panic!("{problems:?}")).settings
}

fn configured(settings: Settings) -> Configured {
    let lookup: crate::app::configured::Lookup = Arc::new(|name| (name == "ROW_KEY").then(|| "sk-of-the-row".into()));
    Configured { settings, lookup, redaction: telemetry::Redaction::default() }
}

#[test]
fn files_that_a_reload_names_for_the_first_time_are_watched_from_then_on() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    for prompts in [&old, &new] {
        std::fs::create_dir(prompts).unwrap();
    }
    let before = settings(&[("STAFFAI_PROMPTS_DIR", &old)]);
    let after = settings(&[("STAFFAI_PROMPTS_DIR", &new)]);
    let watched = Watched::new(Arc::new(move || Ok(configured(after.clone()))), [], &before);
    let first = watched.fingerprints();
    std::fs::write(new.join("personality_prompt.txt"), "You are new.").unwrap();
    assert_eq!(watched.fingerprints(), first, "nobody named that folder yet");

    let (seen, running) = watched.read();
    assert_eq!(&*running.unwrap_or_else(|mistakes| panic!("{mistakes:?}")).prompts.personality, "You are new.");
    assert_eq!(watched.fingerprints(), seen, "what was read is no news");
    std::fs::write(old.join("personality_prompt.txt"), "You are old.").unwrap();
    assert_eq!(watched.fingerprints(), seen, "nobody names that folder any more");
    std::fs::write(new.join("personality_prompt.txt"), "  ").unwrap();
    assert_ne!(watched.fingerprints(), seen);

    let (seen, running) = watched.read();
    assert!(running.is_err_and(|mistakes| mistakes[0].contains("new/personality_prompt.txt")));
    std::fs::write(new.join("personality_prompt.txt"), "You are mended.").unwrap();
    assert_ne!(watched.fingerprints(), seen, "a mended file is looked at again");
}

#[test]
fn keys_that_only_rows_name_are_known_to_the_log() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("models.json");
    std::fs::write(&rows, r#"{"models": {"m": {"host": "http://a", "env_key": "ROW_KEY"}}}"#).unwrap();
    let configured = configured(settings(&[("STAFFAI_MODELS", &rows)]));
    let (registry, _) = crate::app::rows::configured(&configured.settings, &configured.lookup).unwrap();
    let keys: Vec<_> = registry.secrets().iter().map(|key| key.expose_secret().to_owned()).collect();
    assert_eq!(keys, ["sk-of-the-row"]);
    let redaction = configured.redaction.clone();
    running(configured).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    assert_eq!(redaction.masked("the key sk-of-the-row was refused"), "the key *** was refused");
}

#[test]
fn every_broken_prompt_of_a_channel_is_named_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let channels = folder.path().join("channels");
    for (name, text) in [
        ("1/personality_prompt.txt", &b"You are one."[..]),
        ("1/notes.md", b"anything"),
        ("2/personality_prompt.txt", b"\n"),
        ("2/interjection_prompt.txt", b"\xff"),
        ("general/personality_prompt.txt", b"You are lost."),
        (".git/personality_prompt.txt", b""),
    ] {
        let path = channels.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let settings = settings(&[("STAFFAI_PROMPTS_DIR", folder.path())]);
    let mut mistakes = crate::app::setting_files::prompts(&settings).unwrap_err();
    mistakes.sort();
    let told = mistakes.join("\n").replace(&channels.display().to_string(), "channels");
    insta::assert_snapshot!(told, @r"
    channels/2/interjection_prompt.txt: not utf-8 at byte 0
    channels/2/personality_prompt.txt: the prompt is empty; write one or remove the file
    channels/general: the folder's name is no channel id; name it by the id or remove it
    ");
    for wrong in ["2", "general"] {
        std::fs::remove_dir_all(channels.join(wrong)).unwrap();
    }
    let prompts = crate::app::setting_files::prompts(&settings).unwrap();
    assert_eq!(prompts.channels.len(), 1);
    let known = prompts.channels.values().next().unwrap();
    assert_eq!((known.personality.as_deref(), known.interjection.as_deref()), (Some("You are one."), None));
}
