//! A log file of bounded size for several processes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The size in bytes at which the file is rotated. One earlier file is kept.
const BYTES_MAX: u64 = 8 << 20;

/// The suffix of the rotated file's name.
const EARLIER: &str = "1";

/// A log file. Each write appends whole lines, so lines of several processes are never interleaved.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    most: u64,
}

impl LogFile {
    /// Opens the file, or creates it readable only by its owner.
    ///
    /// # Errors
    /// A sentence with the file and the cause.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::bounded(path, BYTES_MAX)
    }

    fn bounded(path: &Path, most: u64) -> Result<Self, String> {
        let file = open(path).map_err(|error| format!("the log file {} cannot be written: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, most })
    }

    /// Rotates a full file. If another process has done so, its new file is used.
    fn turn_over(&mut self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        let there = fs::metadata(&self.path).ok();
        let same = there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        if same && ours.len() < self.most {
            return Ok(());
        }
        if same {
            fs::rename(&self.path, earlier(&self.path))?;
        }
        self.file = open(&self.path)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.turn_over()?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn earlier(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(EARLIER);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_share_a_file_and_a_full_one_is_set_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let (mut one, mut other) = (LogFile::bounded(&path, 20).unwrap(), LogFile::bounded(&path, 20).unwrap());
        one.write_all(b"0123456789\n").unwrap();
        other.write_all(b"abcdefghij\n").unwrap();
        one.write_all(b"next\n").unwrap();
        other.write_all(b"last\n").unwrap();
        assert_eq!(fs::read_to_string(earlier(&path)).unwrap(), "0123456789\nabcdefghij\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "next\nlast\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = LogFile::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        log.write_all(b"here\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "here\n");
    }
}
