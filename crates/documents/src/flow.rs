//! Paragraphs and tables of an XML member. Word documents and presentations use the same local names for them.

use std::collections::HashMap;
use std::io::BufRead;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::output::Output;
use domain::attachment::Unread;

/// The deepest nesting of elements; documents of office programs have some dozens.
const DEPTH_MAX: usize = 256;
/// The columns of a table that are shown.
pub(crate) const COLUMNS_MAX: usize = 256;
/// Elements whose text is not part of the document: removed text, the copy for older programs, positions of tabulators.
const SKIPPED: [&str; 4] = ["moveFrom", "del", "Fallback", "tabs"];
/// Placeholders of a slide that are the same on each one: number, date, footer, header.
const REPEATED: [&str; 4] = ["sldNum", "dt", "ftr", "hdr"];

/// Calls `each` for each event of a member. Entities that a document declares are not expanded.
///
/// # Errors
/// The XML is damaged, too deep, or declares a document type, which office formats forbid.
pub(crate) fn events(
    member: impl BufRead,
    mut each: impl FnMut(&Event<'_>) -> Result<Next, Unread>,
) -> Result<(), Unread> {
    let (mut reader, mut buffer, mut depth) = (Reader::from_reader(member), Vec::new(), 0_usize);
    loop {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer).map_err(|_| Unread::Damaged)?;
        match &event {
            Event::Eof => return Ok(()),
            Event::DocType(_) => return Err(Unread::Damaged),
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(Unread::Complex);
        }
        if each(&event)? == Next::Stop {
            return Ok(());
        }
    }
}

/// The continuation after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read on.
    Go,
    /// Leave the rest out.
    Stop,
}

/// Returns an attribute by its name without a prefix.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
}

/// The headings of a document: its styles by id, with their levels. Level 0 is an item of a list.
pub(crate) type Headings = HashMap<String, usize>;

/// A reader of paragraphs and tables.
pub(crate) struct Flow<'a> {
    output: &'a mut Output,
    headings: &'a Headings,
    /// The paragraph that is read.
    text: String,
    level: Option<usize>,
    is_item: bool,
    /// True between the tags of text, outside of which there is only formatting.
    in_text: bool,
    /// The number of open elements since one that is skipped, itself included.
    skipping: usize,
    shape: Shape,
    tables: Vec<Table>,
}

/// The role of the shape of a slide that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Body,
    Title,
    /// The same on each slide, so that its text is left out.
    Repeated,
}

/// A table whose rows are read.
#[derive(Default)]
struct Table {
    rows: usize,
    cells: Vec<String>,
    cell: String,
}

impl<'a> Flow<'a> {
    pub(crate) fn new(output: &'a mut Output, headings: &'a Headings) -> Self {
        Self {
            output,
            headings,
            text: String::new(),
            level: None,
            is_item: false,
            in_text: false,
            skipping: 0,
            shape: Shape::Body,
            tables: Vec::new(),
        }
    }

    /// Reads a member.
    ///
    /// # Errors
    /// See [`events`].
    pub(crate) fn read(mut self, member: impl BufRead) -> Result<(), Unread> {
        events(member, |event| {
            match event {
                Event::Start(element) if self.skipping > 0 || SKIPPED.contains(&element.local_name().as_ref()) => {
                    self.skipping += 1;
                }
                Event::End(_) if self.skipping > 0 => self.skipping -= 1,
                _ if self.skipping > 0 => {}
                Event::Start(element) => self.open(element),
                Event::Empty(element) => {
                    self.open(element);
                    self.close(element.local_name().as_ref());
                }
                Event::End(element) => self.close(element.local_name().as_ref()),
                Event::Text(text) => self.add(&text.xml10_content()),
                Event::CData(text) => self.add(&text.xml10_content()),
                Event::GeneralRef(entity) => {
                    let character = entity.resolve_char_ref().ok().flatten().map(String::from);
                    let named = || resolve_predefined_entity(&entity.xml10_content()).map(str::to_owned);
                    self.add(&character.or_else(named).unwrap_or_default());
                }
                _ => {}
            }
            Ok(if self.output.is_full() { Next::Stop } else { Next::Go })
        })?;
        self.paragraph();
        Ok(())
    }

    fn add(&mut self, text: &str) {
        if self.in_text && self.shape != Shape::Repeated {
            self.text.push_str(text);
            if self.is_too_long() {
                self.stop();
            }
        }
    }

    /// True if the text that is held exceeds what the output takes.
    fn is_too_long(&self) -> bool {
        let cells = |table: &Table| table.cell.len() + table.cells.iter().map(String::len).sum::<usize>();
        let held = self.text.len() + self.tables.last().map_or(0, cells);
        held > self.output.room().saturating_mul(4).saturating_add(4_096)
    }

    /// Writes what is held, because the rest does not fit.
    fn stop(&mut self) {
        self.paragraph();
        while !self.tables.is_empty() {
            self.close("tc");
            self.close("tbl");
        }
        self.output.cut();
    }

    fn open(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "p" => self.paragraph(),
            "pStyle" => {
                self.level = attribute(element, "val").and_then(|style| self.headings.get(&style).copied());
            }
            "numPr" => self.is_item = true,
            "t" => self.in_text = true,
            "tab" => self.blank('\t'),
            "br" | "cr" => self.blank('\n'),
            "tbl" => {
                self.paragraph();
                self.tables.push(Table::default());
            }
            "ph" => {
                let kind = attribute(element, "type").unwrap_or_default();
                self.shape = match kind.as_str() {
                    "title" | "ctrTitle" => Shape::Title,
                    kind if REPEATED.contains(&kind) => Shape::Repeated,
                    _ => Shape::Body,
                };
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" => self.paragraph(),
            "t" => self.in_text = false,
            "sp" => self.shape = Shape::Body,
            "tc" => {
                if let Some(table) = self.tables.last_mut() {
                    let cell = std::mem::take(&mut table.cell);
                    if table.cells.len() < COLUMNS_MAX {
                        table.cells.push(cell);
                    }
                }
            }
            "tr" => self.row(),
            "tbl" => {
                self.row();
                if self.tables.pop().is_some() && self.tables.is_empty() {
                    self.output.line("");
                }
            }
            _ => {}
        }
    }

    fn blank(&mut self, blank: char) {
        if !self.text.is_empty() {
            self.text.push(blank);
        }
    }

    /// Ends a row. Rows of a table within a cell become lines of the cell.
    fn row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let cells = std::mem::take(&mut table.cells);
        if cells.iter().all(|cell| cell.trim().is_empty()) {
            return;
        }
        table.rows += 1;
        let is_first = table.rows == 1;
        match self.tables.len().checked_sub(2).and_then(|outer| self.tables.get_mut(outer)) {
            Some(outer) => {
                outer.cell.push_str(&cells.join("; "));
                outer.cell.push('\n');
            }
            None => self.output.row(&cells, is_first),
        }
    }

    /// Ends a paragraph.
    fn paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        let (level, is_item) = (self.level.take(), std::mem::take(&mut self.is_item));
        let text = text.trim_end();
        if text.trim().is_empty() {
            return;
        }
        if let Some(table) = self.tables.last_mut() {
            table.cell.push_str(text);
            table.cell.push('\n');
            return;
        }
        match level {
            _ if self.shape == Shape::Title => self.output.line(&format!("**{}**", text.trim())),
            Some(level @ 1..) => self.output.heading(level, text.trim()),
            level if is_item || level.is_some() => self.output.line(&format!("- {text}")),
            _ => self.output.line(text),
        }
    }
}
