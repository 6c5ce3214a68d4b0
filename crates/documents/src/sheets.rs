//! Spreadsheets: each sheet is a table of values. Formulas are shown by their stored results; none is computed.

use std::io::Cursor;

use calamine::{
    Data, ExcelDateTime, Ods, OdsError, Reader, Sheet, SheetType, SheetVisible, Xls, XlsError, Xlsb, XlsbError, Xlsx,
    XlsxError,
};

use super::archive::Archive;
use super::flow::COLUMNS_MAX;
use super::output::Output;
use domain::attachment::Unread;

/// Maximum number of cells that are read, empty ones included where the file contains them.
const CELLS_MAX: usize = 1_000_000;

type Bytes<'a> = Cursor<&'a [u8]>;

/// Reads a spreadsheet in a ZIP archive. Returns the number of sheets.
///
/// # Errors
/// The spreadsheet is damaged, or has a password.
pub(crate) fn read(archive: &Archive<'_>, bytes: &[u8], output: &mut Output) -> Result<usize, Unread> {
    if archive.has("xl/workbook.xml") {
        return streamed(bytes, output);
    }
    if archive.has("xl/workbook.bin") {
        let book = Xlsb::new(Cursor::new(bytes)).map_err(|error| match error {
            XlsbError::Password => Unread::Protected,
            _ => Unread::Damaged,
        })?;
        return Ok(whole(book, output));
    }
    let book = Ods::new(Cursor::new(bytes)).map_err(|error| match error {
        OdsError::Password => Unread::Protected,
        _ => Unread::Damaged,
    })?;
    Ok(whole(book, output))
}

/// Reads a spreadsheet of an older Excel. Returns the number of sheets.
///
/// # Errors
/// The file is damaged, has a password, or is another document of the older formats.
pub(crate) fn read_compound(bytes: &[u8], output: &mut Output) -> Result<usize, Unread> {
    if contains_name(bytes, "EncryptedPackage") {
        return Err(Unread::Protected);
    }
    if !contains_name(bytes, "Workbook") && !contains_name(bytes, "Book") {
        return Err(Unread::Kind);
    }
    let book = Xls::new(Cursor::new(bytes)).map_err(|error| match error {
        XlsError::Password => Unread::Protected,
        _ => Unread::Damaged,
    })?;
    Ok(whole(book, output))
}

/// True if a compound file has an entry of this name, which it stores in UTF-16.
fn contains_name(bytes: &[u8], name: &str) -> bool {
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.windows(name.len()).any(|window| window == name)
}

/// Reads the cells one by one, so that distant cells cost nothing.
fn streamed(bytes: &[u8], output: &mut Output) -> Result<usize, Unread> {
    let mut book: Xlsx<Bytes<'_>> = Xlsx::new(Cursor::new(bytes)).map_err(|error| match error {
        XlsxError::Password => Unread::Protected,
        _ => Unread::Damaged,
    })?;
    let sheets = tables(book.sheets_metadata());
    let mut left = CELLS_MAX;
    for sheet in &sheets {
        if output.is_full() {
            break;
        }
        heading(sheet, output);
        let mut cells = book.worksheet_cells_reader(&sheet.name).map_err(|_| Unread::Damaged)?;
        let mut table = Table::default();
        while let Some(cell) = cells.next_cell().map_err(|_| Unread::Damaged)? {
            left = left.saturating_sub(1);
            if left == 0 {
                output.cut();
            }
            if output.is_full() {
                break;
            }
            let (row, column) = cell.get_position();
            table.put(row, column, &Data::from(cell.get_value().clone()), output);
        }
        table.end_row(output);
    }
    Ok(sheets.len())
}

/// Reads each sheet at once.
fn whole<'a, R: Reader<Bytes<'a>>>(mut book: R, output: &mut Output) -> usize {
    let sheets = tables(book.sheets_metadata());
    for sheet in &sheets {
        if output.is_full() {
            break;
        }
        heading(sheet, output);
        let Ok(range) = book.worksheet_range(&sheet.name) else { continue };
        let mut table = Table::default();
        for (row, column, value) in range.used_cells() {
            let at = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
            table.put(at(row), at(column), value, output);
            if output.is_full() {
                break;
            }
        }
        table.end_row(output);
    }
    sheets.len()
}

/// Returns the sheets with cells.
fn tables(sheets: &[Sheet]) -> Vec<Sheet> {
    sheets.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet).cloned().collect()
}

fn heading(sheet: &Sheet, output: &mut Output) {
    let hidden = if sheet.visible == SheetVisible::Visible { "" } else { " (hidden)" };
    output.heading(2, &format!("Sheet {}{hidden}", sheet.name));
}

/// A sheet whose rows are written as they end.
#[derive(Default)]
struct Table {
    rows: usize,
    row: u32,
    cells: Vec<String>,
    columns_left_out: bool,
}

impl Table {
    fn put(&mut self, row: u32, column: u32, value: &Data, output: &mut Output) {
        let text = shown(value);
        if text.is_empty() {
            return;
        }
        if row != self.row {
            self.end_row(output);
            self.row = row;
        }
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        if column >= COLUMNS_MAX {
            self.columns_left_out = true;
            return;
        }
        if self.cells.len() <= column {
            self.cells.resize(column + 1, String::new());
        }
        self.cells[column] = text;
    }

    fn end_row(&mut self, output: &mut Output) {
        let cells = std::mem::take(&mut self.cells);
        if !cells.is_empty() {
            self.rows += 1;
            output.row(&cells, self.rows == 1);
        }
        if std::mem::take(&mut self.columns_left_out) {
            output.line(&format!("(A row has more than {COLUMNS_MAX} columns; the others are left out.)"));
        }
    }
}

/// Returns the text of a cell.
fn shown(value: &Data) -> String {
    match value {
        Data::DateTime(date) => moment(date),
        other => other.to_string(),
    }
}

/// Formats a date, a time or a duration.
fn moment(date: &ExcelDateTime) -> String {
    let (year, month, day, hour, minute, second, _) = date.to_ymd_hms_milli();
    if date.is_duration() {
        let hours = (date.as_f64() * 24.0).trunc();
        return format!("{hours}:{minute:02}:{second:02}");
    }
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    let days = date.as_f64();
    if (0.0..1.0).contains(&days) {
        time
    } else if (hour, minute, second) == (0, 0, 0) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02} {time}")
    }
}
