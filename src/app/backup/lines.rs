//! A copy as it is written: its lines, and the check that it is whole.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use domain::hex::hex;
use settings::sources::open_regular;

/// The version of the file format.
pub(super) const VERSION: u32 = 1;
/// The maximum length of a line on restore, in bytes: larger than any stored value.
const LINE_MAX: u64 = 64 * 1024 * 1024;

/// One line of the file.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Line {
    Head {
        staffai_backup: u32,
        program: String,
        at: u64,
    },
    Row {
        key: String,
        value: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        end: Option<u64>,
    },
    File {
        file: String,
        text: String,
    },
    End {
        lines: u64,
        sha256: String,
    },
}

/// The fields of any line on restore. Values of other fields are skipped, never stored.
#[derive(Deserialize)]
struct Fields {
    staffai_backup: Option<u32>,
    program: Option<String>,
    at: Option<u64>,
    key: Option<String>,
    value: Option<String>,
    end: Option<u64>,
    file: Option<String>,
    text: Option<String>,
    lines: Option<u64>,
    sha256: Option<String>,
}

impl Line {
    /// Parses one line.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match fields {
            Fields { staffai_backup: Some(staffai_backup), program: Some(program), at: Some(at), .. } => {
                Ok(Self::Head { staffai_backup, program, at })
            }
            Fields { key: Some(key), value: Some(value), end, .. } => Ok(Self::Row { key, value, end }),
            Fields { file: Some(file), text: Some(text), .. } => Ok(Self::File { file, text }),
            Fields { lines: Some(lines), sha256: Some(sha256), .. } => Ok(Self::End { lines, sha256 }),
            _ => Err("it is none of a head, a key, a file and an end".to_owned()),
        }
    }
}

/// A copy opened for restore.
pub(crate) struct Copy<'a> {
    path: &'a Path,
    file: BufReader<fs::File>,
}

impl<'a> Copy<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, String> {
        let fix = "name the file that staffai backup made";
        let file = open_regular(path).map_err(|error| format!("{}: {error}; {fix}", path.display()))?;
        Ok(Self::of(path, file))
    }

    /// Reads an open file, which may have no name any more. `path` names it in errors.
    pub(crate) fn of(path: &'a Path, file: fs::File) -> Self {
        Self { path, file: BufReader::new(file) }
    }

    /// Returns the next line and its bytes, or `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<(Line, Vec<u8>)>, String> {
        let mut bytes = Vec::new();
        let mut bounded = std::io::Read::take(&mut self.file, LINE_MAX);
        let read = bounded.read_until(b'\n', &mut bytes);
        read.map_err(|error| self.broken(&error.to_string()))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let line = Line::parse(&bytes).map_err(|error| self.broken(&unreadable(&error)))?;
        Ok(Some((line, bytes)))
    }

    fn broken(&self, why: &str) -> String {
        format!("{}: {NOT_WHOLE}: {why}", self.path.display())
    }

    /// Checks the whole copy. Returns the number of lines.
    pub(crate) fn check(mut self) -> Result<u64, String> {
        let mut whole = WholeCheck::default();
        while let Some((line, bytes)) = self.next()? {
            whole.line(line, &bytes).map_err(|why| self.broken(why))?;
        }
        whole.end().map_err(|why| self.broken(why))
    }
}

/// The error of a copy that is truncated, changed or of another format.
const NOT_WHOLE: &str = "is no whole copy of staffai";

fn unreadable(error: &str) -> String {
    format!("a line cannot be read ({error})")
}

/// Checks that a copy has its head, its end, and the lines and hash that its end states.
#[derive(Default)]
struct WholeCheck {
    hash: Sha256,
    lines: u64,
    ended: bool,
}

impl WholeCheck {
    fn line(&mut self, line: Line, bytes: &[u8]) -> Result<(), &'static str> {
        const CHANGED: &str = "it was changed or damaged";
        match line {
            _ if self.ended => return Err(CHANGED),
            Line::Head { staffai_backup: VERSION, .. } if self.lines == 0 => {}
            Line::Head { .. } if self.lines == 0 => return Err("it is of a later version; use that program"),
            _ if self.lines == 0 => return Err("its head is missing"),
            Line::End { lines, sha256 } => {
                if lines != self.lines || sha256 != hex(&self.hash.clone().finalize()) {
                    return Err(CHANGED);
                }
                self.ended = true;
            }
            Line::Head { .. } | Line::Row { .. } | Line::File { .. } => {}
        }
        self.hash.update(bytes);
        self.lines += 1;
        Ok(())
    }

    /// Returns the number of lines.
    fn end(self) -> Result<u64, &'static str> {
        match self {
            Self { lines: 0, .. } => Err("its head is missing"),
            Self { ended: false, .. } => Err("its end is missing; make it again"),
            Self { lines, .. } => Ok(lines),
        }
    }
}

/// Checks a copy while it passes by in chunks.
#[derive(Default)]
pub(crate) struct PassingCheck {
    whole: WholeCheck,
    /// The begun line.
    begun: Vec<u8>,
}

impl PassingCheck {
    /// # Errors
    /// The reason why this is no whole copy.
    pub(crate) fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = Line::parse(&self.begun).map_err(|error| format!("{NOT_WHOLE}: {}", unreadable(&error)))?;
                self.whole.line(line, &self.begun).map_err(|why| format!("{NOT_WHOLE}: {why}"))?;
                self.begun.clear();
            } else if self.begun.len() as u64 > LINE_MAX {
                return Err(format!("{NOT_WHOLE}: a line is longer than {LINE_MAX} bytes"));
            }
        }
        Ok(())
    }

    /// Returns the number of lines.
    ///
    /// # Errors
    /// The reason why this is no whole copy.
    pub(crate) fn end(self) -> Result<u64, String> {
        let whole = if self.begun.is_empty() { self.whole.end() } else { Err("its end is missing; make it again") };
        whole.map_err(|why| format!("{NOT_WHOLE}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Copies;
    use super::*;
    use crate::app::system::SystemClock;
    use ports::Backups as _;
    use ports::testing::MemoryStore;

    /// Checks a copy as a file and in chunks of seven bytes; the two must agree.
    fn written(text: &str) -> Result<u64, String> {
        let mut passing = PassingCheck::default();
        let passed = text.as_bytes().chunks(7).try_for_each(|chunk| passing.chunk(chunk));
        let passed = passed.and_then(|()| passing.end());
        let read = read(text);
        match &read {
            Ok(_) => assert_eq!(passed, read),
            // A file may lack the last line break.
            Err(_) => assert!(passed.is_err(), "{text}"),
        }
        read
    }

    fn read(text: &str) -> Result<u64, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        fs::write(&path, text).unwrap();
        Copy::open(&path).and_then(Copy::check)
    }

    #[tokio::test]
    async fn a_copy_that_was_cut_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        store.put("a".to_owned(), "1".to_owned());
        let mut chunks =
            Copies { store: Arc::new(store), clock: Arc::new(SystemClock), dir: dir.path().to_owned() }.begin();
        let mut text = String::new();
        while let Some(chunk) = chunks.recv().await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        assert_eq!(written(&text), Ok(3), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        for (broken, why) in [
            (lines[..2].join("\n"), "its end is missing"),
            (text.replace("\"1\"", "\"2\""), "changed or damaged"),
            (format!("{}\n{}\n", lines[0], lines[2]), "changed or damaged"),
            (text.replace("\"staffai_backup\":1", "\"staffai_backup\":2"), "of a later version"),
            (lines[1..].join("\n"), "its head is missing"),
            (String::new(), "its head is missing"),
            (format!("{text}{}\n", lines[1]), "changed or damaged"),
            ("no JSON\n".to_owned(), "cannot be read"),
        ] {
            let refused = written(&broken).unwrap_err();
            assert!(refused.contains(why), "{refused} should say {why}");
        }
    }
}
