//! Files: reads within a bound, atomic replacement, locks.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::app::system::random_bits;
use settings::sources::open_regular;

/// The maximum size of a file, in bytes.
const FILE_MAX: u64 = 1024 * 1024;

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
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
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

/// Creates the file with the lock of a folder, and the folder if it is missing. The lock is not held yet.
///
/// # Errors
/// The file cannot be created.
pub fn lock_file(folder: &Path, name: &str) -> std::io::Result<fs::File> {
    fs::create_dir_all(folder)?;
    fs::File::create(folder.join(name))
}

/// Returns the text of a file, or `None` if it does not exist.
///
/// # Errors
/// The file exists and cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    read_at_most(path, FILE_MAX)
}

/// Returns the text of a file of at most so many bytes, or `None` if it does not exist.
///
/// # Errors
/// The file exists and cannot be read, or is larger.
pub fn read_at_most(path: &Path, most: u64) -> Result<Option<String>, String> {
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
