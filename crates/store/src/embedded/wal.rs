//! The write-ahead log: a batch is durable once its record is in this file, before it is in the tables.
//!
//! A record has a length, a checksum, and the resulting row of each key, so that replaying it is idempotent. Records
//! are numbered. After a checkpoint the file is overwritten from its beginning: remaining older records have lower
//! numbers, and a torn record fails its checksum. Reading stops at the first record that is not the successor of the
//! previous one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::memtable::Row;
use crate::Ticket;

/// The bytes of length and checksum before each record.
const HEAD: usize = 8;

/// The result of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Its number: one above that of the previous record.
    pub sequence: u64,
    /// The ticket of the increments counted in it.
    pub ticket: Option<Ticket>,
    pub rows: Vec<(String, Row)>,
}

#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    /// The position of the next record.
    at: u64,
    /// The number of the next record.
    next: u64,
    buffer: Vec<u8>,
    /// True after a failed write: the contents of the file are unknown until it is read again.
    failed: bool,
}

impl Wal {
    /// Returns the records after number `after`, and the file for further ones.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(mut file: File, after: u64) -> io::Result<(Self, Vec<Record>)> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let records = records(&bytes, after);
        let next = records.last().map_or(after, |record| record.sequence) + 1;
        Ok((Self { file, at: 0, next, buffer: Vec::new(), failed: false }, records))
    }

    /// Writes a record with these rows durably and returns it.
    ///
    /// # Errors
    /// The record may or may not be in the file, which rejects further records until it is reopened.
    pub fn append(&mut self, ticket: Option<Ticket>, rows: Vec<(String, Row)>) -> io::Result<Record> {
        if self.failed {
            return Err(io::Error::other("the log failed before"));
        }
        let record = Record { sequence: self.next, ticket, rows };
        self.buffer.clear();
        encode(&record, &mut self.buffer)?;
        self.failed = true;
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.write_all(&self.buffer)?;
        self.file.sync_data()?;
        self.failed = false;
        self.at += self.buffer.len() as u64;
        self.next += 1;
        self.buffer.shrink_to(64 * 1024);
        Ok(record)
    }

    /// Returns the number of the last record.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Starts again at the beginning of the file, after a checkpoint.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// Empties the file after the last checkpoint.
    ///
    /// # Errors
    /// The file cannot be truncated.
    pub fn clear(&mut self) -> io::Result<()> {
        self.at = 0;
        self.file.set_len(0)
    }
}

// === The format of a record ===

fn encode(record: &Record, out: &mut Vec<u8>) -> io::Result<()> {
    out.extend_from_slice(&[0; HEAD]);
    out.extend_from_slice(&record.sequence.to_le_bytes());
    match &record.ticket {
        None => out.push(0),
        Some(ticket) => {
            out.push(1);
            put_text(out, &ticket.writer)?;
            out.extend_from_slice(&ticket.number.to_le_bytes());
        }
    }
    for (key, row) in &record.rows {
        put_text(out, key)?;
        out.extend_from_slice(&row.end.to_le_bytes());
        match &row.text {
            None => out.push(0),
            Some(text) => {
                out.push(1);
                put_text(out, text)?;
            }
        }
    }
    let length = length_of(out.len() - HEAD)?;
    let sum = checksum(&out[HEAD..]);
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4..HEAD].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    out.extend_from_slice(&length_of(text.len())?.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn length_of(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("a batch of the store is too large"))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// Returns the consecutive records from the beginning of the file whose numbers are above `after`.
fn records(bytes: &[u8], after: u64) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    let mut rest = bytes;
    let mut last = None;
    while let Some((record, behind)) = decode(rest) {
        if last.is_some_and(|last| record.sequence != last + 1) {
            break;
        }
        last = Some(record.sequence);
        rest = behind;
        if record.sequence > after {
            found.push(record);
        }
    }
    found
}

/// Returns the first record and the remaining bytes; `None` without a complete record.
fn decode(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let mut head = Cursor(bytes);
    let (length, sum) = (head.number()?, head.number()?);
    let body = head.bytes(length)?;
    let behind = head.0;
    if checksum(body) != sum {
        return None;
    }
    let mut body = Cursor(body);
    let sequence = body.long()?;
    let ticket = if body.flag()? { Some(Ticket { writer: body.text()?.into(), number: body.long()? }) } else { None };
    let mut rows = Vec::new();
    while !body.0.is_empty() {
        let (key, end) = (body.text()?.to_owned(), body.long()?);
        let text = if body.flag()? { Some(body.text()?.to_owned()) } else { None };
        rows.push((key, Row { end, text }));
    }
    Some((Record { sequence, ticket, rows }, behind))
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*taken))
    }

    fn long(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*taken))
    }

    fn flag(&mut self) -> Option<bool> {
        self.bytes(1).map(|flag| flag != [0])
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64, keys: &[&str]) -> Record {
        let ticket = sequence.is_multiple_of(2).then(|| Ticket { writer: "w".into(), number: sequence });
        let row = |(index, key): (usize, &&str)| {
            let text = (index != 1).then(|| format!("{key} \u{fc} {sequence}"));
            ((*key).to_owned(), Row { end: sequence * 10, text })
        };
        Record { sequence, ticket, rows: keys.iter().enumerate().map(row).collect() }
    }

    fn encoded(records: &[Record]) -> Vec<u8> {
        let mut whole = Vec::new();
        for record in records {
            let mut one = Vec::new();
            encode(record, &mut one).unwrap();
            whole.extend(one);
        }
        whole
    }

    #[test]
    fn whatever_a_crash_cuts_off_the_whole_records_before_it_are_read() {
        let all = [record(7, &["a", "b", "c"]), record(8, &[]), record(9, &["a"])];
        let whole = encoded(&all);
        let ends: Vec<usize> = (1..=all.len()).map(|many| encoded(&all[..many]).len()).collect();
        for cut in 0..=whole.len() {
            let complete = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(records(&whole[..cut], 0), all[..complete], "cut at {cut}");
        }
    }

    #[test]
    fn a_byte_that_changed_ends_the_reading_before_its_record() {
        let all = [record(1, &["a"]), record(2, &["b"])];
        let first = encoded(&all[..1]).len();
        let whole = encoded(&all);
        for at in 0..whole.len() {
            let mut spoiled = whole.clone();
            spoiled[at] ^= 0x55;
            assert_eq!(records(&spoiled, 0), all[..usize::from(at >= first)], "byte {at}");
        }
    }

    #[test]
    fn records_that_the_tables_have_and_leftovers_of_earlier_ones_are_passed_over() {
        let all: Vec<Record> = (1..=6).map(|number| record(number, &["key"])).collect();
        let whole = encoded(&all);
        assert_eq!(records(&whole, 4), all[4..]);
        assert_eq!(records(&whole, 6), []);
        let each = encoded(&all[..1]).len().max(encoded(&all[1..2]).len());
        // The next two records overwrite the beginning; old ones, complete or torn, remain behind them.
        for many in 1..=2 {
            let next: Vec<Record> = (7..7 + many).map(|number| record(number, &["key"])).collect();
            let mut over = encoded(&next);
            for behind in 0..each {
                over.truncate(encoded(&next).len());
                over.extend_from_slice(&whole[over.len() + behind..]);
                assert_eq!(records(&over, 6), next);
            }
        }
    }

    #[test]
    fn a_length_out_of_this_world_is_no_record() {
        assert_eq!(records(&[0xff; 64], 0), []);
        assert_eq!(records(&[0; 64], 0), []);
    }

    #[test]
    fn a_file_is_written_again_from_its_beginning() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let open = |after| {
            let file = File::options().read(true).write(true).open(path.path()).unwrap();
            Wal::open(file, after).unwrap()
        };
        let (mut wal, before) = open(4);
        assert_eq!(before, []);
        let rows = record(5, &["a", "b"]).rows;
        let five = wal.append(None, rows.clone()).unwrap();
        let six = wal.append(Some(Ticket { writer: "w".into(), number: 1 }), rows.clone()).unwrap();
        assert_eq!((five.sequence, open(4).1), (5, vec![five.clone(), six.clone()]));
        wal.rewind();
        let seven = wal.append(None, rows).unwrap();
        assert_eq!(open(6).1, [seven]);
        wal.clear().unwrap();
        let (wal, left) = open(7);
        assert_eq!((left, wal.next), (Vec::new(), 8));
    }

    /// A target of the fuzzer: a log after a crash.
    #[test]
    fn fuzz_torn_logs() {
        bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
            let read = records(bytes, 0);
            assert_eq!(records(&encoded(&read), 0).len(), read.len(), "whole records are written as they were read");
        });
    }
}
