//! The sources of the configuration: the environment as a map, and a view of the files. Only this module reads the real
//! environment.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;

use super::dotenv;

/// The file read without `--config`.
pub const CONFIG_FILE: &str = "staffai.toml";
/// The file of variables.
pub const ENV_FILE: &str = ".env";
/// The folder in which container runtimes mount secrets.
pub const SECRETS_DIR: &str = "/run/secrets";
/// The largest file, in bytes; larger ones are refused.
const LONGEST_FILE: u64 = 1024 * 1024;

/// A view of files, so that tests need no disk.
pub trait Files: Send + Sync {
    /// Reads a file as text. An error of kind `NotFound` means that it does not exist.
    ///
    /// # Errors
    /// The file is missing, unreadable, too large or not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Checks that there is a readable file or folder at this path.
    ///
    /// # Errors
    /// It is missing or not readable.
    fn probe(&self, path: &Path) -> io::Result<()>;
}

/// The real disk.
#[derive(Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        open_regular(path)?.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LONGEST_FILE {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
        }
        Ok(text)
    }

    fn probe(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return std::fs::read_dir(path).map(|_| ());
        }
        open_regular(path).map(|_| ())
    }
}

/// Opens a regular file for reading. Opening a pipe blocks until a writer opens it, a device may be endless, and
/// neither returns its content again at a reload.
///
/// # Errors
/// The file is missing or unreadable, or it is a pipe, a device or a folder (`InvalidInput`).
pub fn open_regular(path: &Path) -> io::Result<std::fs::File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    std::fs::File::open(path)
}

impl Files for BTreeMap<PathBuf, String> {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn probe(&self, path: &Path) -> io::Result<()> {
        let found = self.keys().any(|known| known.starts_with(path));
        if found { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The service: all settings apply.
    Service,
    /// The playground: settings of Discord, Redis and the file of MCP servers are ignored, and the store has its own
    /// folder.
    Playground,
}

/// All sources.
#[derive(Clone)]
pub struct Sources {
    /// Files given with `--config`, weakest first; empty means `staffai.toml` if it exists.
    pub config_files: Vec<PathBuf>,
    /// The process environment.
    pub environment: BTreeMap<String, String>,
    /// The files.
    pub files: Arc<dyn Files>,
    /// The purpose.
    pub purpose: Purpose,
    /// Keys set by command line options, which take precedence over all else.
    pub options: Vec<(&'static str, String)>,
}

impl Sources {
    /// Creates the sources of this process: its environment, and files relative to the working directory.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    pub fn from_process(config_files: Vec<PathBuf>) -> Self {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Self { config_files, environment, files: Arc::new(Disk), purpose: Purpose::Service, options: Vec::new() }
    }

    /// Creates sources from these variables and files alone.
    #[must_use]
    pub fn from_maps(environment: BTreeMap<String, String>, files: BTreeMap<PathBuf, String>) -> Self {
        let files = Arc::new(files);
        Self { config_files: Vec::new(), environment, files, purpose: Purpose::Service, options: Vec::new() }
    }

    /// Sets the purpose to the playground.
    #[must_use]
    pub fn for_playground(self) -> Self {
        Self { purpose: Purpose::Playground, ..self }
    }

    /// Adds a command line option, such as `("log.format", "json")`.
    #[must_use]
    pub fn with_option(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.options.push((key, value.into()));
        self
    }
}

/// Variables by name, for configuration files that refer to one: `env_key` of a model row, `${NAME}` in the file of MCP
/// servers.
#[derive(Clone)]
pub struct Variables {
    environment: Arc<BTreeMap<String, String>>,
    dotenv: Arc<dotenv::DotEnv>,
    files: Arc<dyn Files>,
}

impl Variables {
    /// Creates the variables of these sources, with their parsed `.env`.
    #[must_use]
    pub(super) fn new(sources: &Sources, dotenv: Arc<dotenv::DotEnv>) -> Self {
        let environment = Arc::new(sources.environment.clone());
        Self { environment, dotenv, files: Arc::clone(&sources.files) }
    }

    /// Returns the value of a name from a secret file, the environment or `.env`. Empty and unreadable ones count as
    /// not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<SecretString> {
        // The name becomes part of a path, and foreign files may choose it.
        if name.contains(['/', '\\']) {
            return None;
        }
        let named = |name: &str| {
            let own = || self.dotenv.values.get(name).map(|(value, _)| value);
            self.environment.get(name).filter(|value| !value.trim().is_empty()).or_else(own)
        };
        let read = |path: &Path| self.files.read(path).ok().map(|text| text.trim().to_owned());
        let value = named(&format!("{name}_FILE"))
            .and_then(|path| read(Path::new(path.trim())))
            .or_else(|| read(&secret_path(name)))
            .or_else(|| named(name).cloned())?;
        Some(value).filter(|value| !value.trim().is_empty()).map(SecretString::from)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Variables({} names)", self.environment.len() + self.dotenv.values.len())
    }
}

/// Returns the path at which a variable's secret is mounted.
#[must_use]
pub fn secret_path(name: &str) -> PathBuf {
    Path::new(SECRETS_DIR).join(name.to_lowercase())
}
