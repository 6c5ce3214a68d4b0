//! Reads the text of `/proc/<pid>/smaps`.

/// A mapped part of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: usize,
    /// The length in bytes.
    pub length: usize,
    /// The resident bytes.
    pub resident: u64,
}

/// Returns the segments of the file `program` that are private, read-only and have no private page. Incomplete
/// mappings are skipped.
pub fn clean_segments(smaps: &str, program: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut current: Option<Segment> = None;
    for line in smaps.lines() {
        if let Some(mapping) = mapping(line) {
            current = (mapping.path == program && mapping.unwritable_private).then_some(Segment {
                start: mapping.start,
                length: mapping.end - mapping.start,
                resident: 0,
            });
        } else if let Some(bytes) = field(line, "Rss:") {
            if let Some(segment) = &mut current {
                segment.resident = bytes;
            }
        } else if field(line, "Anonymous:") == Some(0) {
            segments.extend(current.take());
        }
    }
    segments
}

struct Mapping<'a> {
    start: usize,
    end: usize,
    unwritable_private: bool,
    path: &'a str,
}

/// Reads the first line of a mapping: `start-end perms offset device inode path`.
fn mapping(line: &str) -> Option<Mapping<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let permissions = rest.get(..4)?;
    let unwritable_private = permissions.starts_with('r') && !permissions.contains('w') && permissions.ends_with('p');
    // The path is the last field, after offset, device and inode, and may contain spaces.
    let path = rest.splitn(5, ' ').nth(4).unwrap_or_default().trim_start();
    (start < end).then_some(Mapping { start, end, unwritable_private, path })
}

/// The bytes of a line such as `Rss:      1408 kB`.
fn field(line: &str, name: &str) -> Option<u64> {
    let kibibytes = line.strip_prefix(name)?.trim().strip_suffix(" kB")?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{Segment, clean_segments};

    fn entry(head: &str, resident: u64, anonymous: u64) -> String {
        format!(
            "{head}\nSize: 40 kB\nRss:        {resident} kB\nAnonymous:        {anonymous} kB\nVmFlags: rd ex mr mw me\n"
        )
    }

    #[test]
    fn only_clean_read_only_segments_of_the_program_are_taken() {
        let smaps = [
            entry("1000-3000 r--p 00000000 fe:00 77                         /opt/a bot/staffai", 8, 0),
            entry("3000-9000 r-xp 00002000 fe:00 77                         /opt/a bot/staffai", 20, 0),
            // Relocated, thus private pages.
            entry("9000-a000 r--p 00008000 fe:00 77                         /opt/a bot/staffai", 4, 4),
            entry("a000-b000 rw-p 00009000 fe:00 77                         /opt/a bot/staffai", 4, 0),
            entry("b000-c000 r--s 00000000 fe:00 77                         /opt/a bot/staffai", 4, 0),
            entry("c000-d000 r-xp 00000000 fe:00 78                         /usr/lib/libc.so.6", 4, 0),
            entry("d000-e000 ---p 00000000 00:00 0 ", 0, 0),
        ]
        .concat();
        let expected = [
            Segment { start: 0x1000, length: 0x2000, resident: 8 * 1024 },
            Segment { start: 0x3000, length: 0x6000, resident: 20 * 1024 },
        ];
        assert_eq!(clean_segments(&smaps, "/opt/a bot/staffai"), expected);
    }

    #[test]
    fn a_description_without_its_private_pages_is_left_out() {
        let smaps = "1000-3000 r-xp 00000000 fe:00 77 /staffai\nRss: 8 kB\n";
        assert_eq!(clean_segments(smaps, "/staffai"), []);
        assert_eq!(clean_segments("3000-1000 r-xp 0 fe:00 77 /staffai\nRss: 8 kB\nAnonymous: 0 kB\n", "/staffai"), []);
    }
}
