//! Estimates the cost of drawing before anything is drawn. A short formula can repeat large rectangles, lines and
//! arrows thousands of times.
//!
//! The unit is the cost of one pixel of a filled area, about 0.4 ns in a release build.

use std::fmt::{self, Write as _};

use ratex_parser::ParseNode;
use ratex_types::display_item::{DisplayItem, DisplayList};
use ratex_types::path_command::PathCommand;

/// The most work of one drawing, about 50 ms. A full page of formulas has a fifth.
const WORK_MAX: f64 = 125_000_000.0;
/// The most bytes of the debug output of a parsed formula, which is in proportion to the work of its layout. The
/// longest formulas without macros have fewer.
const NODES_BYTES: usize = 500_000;
/// Work for each item.
const ITEM: f64 = 5_000.0;
/// Work for each row and for each column of an area: its edges are blended.
const ROW: f64 = 500.0;
const COLUMN: f64 = 100.0;
/// Work for each pixel of the square of a letter.
const LETTER_PIXEL: f64 = 50.0;
/// Work for each command of a path.
const COMMAND: f64 = 250.0;

/// True if the layout of a parsed formula is bounded: macros and nested commands can multiply its nodes.
pub(super) fn can_be_laid_out(nodes: &[ParseNode]) -> bool {
    write!(Room(NODES_BYTES), "{nodes:?}").is_ok()
}

/// Counts bytes, and fails when there is no room for them.
struct Room(usize);

impl fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// True if the drawing of these items with letters of `em` pixels is bounded.
pub(super) fn can_be_drawn(list: &DisplayList, em: f64) -> bool {
    let mut work = 0.0;
    list.items.iter().all(|item| {
        work += ITEM + work_of(item, list, em);
        work <= WORK_MAX
    })
}

/// Estimates the work of an item. Parts outside of the picture count as if they were in it.
fn work_of(item: &DisplayItem, list: &DisplayList, em: f64) -> f64 {
    let area = |width: f64, height: f64| {
        // A length that is no number is drawn as nothing.
        let width = width.min(list.width).max(0.0) * em + 2.0;
        let height = height.min(list.total_height()).max(0.0) * em + 2.0;
        width * height + ROW * height + COLUMN * width
    };
    match item {
        DisplayItem::GlyphPath { scale, .. } => LETTER_PIXEL * (scale * em).powi(2).max(0.0),
        DisplayItem::Line { width, thickness, .. } => area(*width, *thickness),
        DisplayItem::Rect { width, height, .. } => area(*width, *height),
        DisplayItem::Path { commands, .. } => {
            let (width, height) = extent(commands);
            #[expect(clippy::cast_precision_loss, reason = "paths have some thousand commands")]
            let each = COMMAND * commands.len() as f64;
            each + area(width, height)
        }
    }
}

/// The width and the height of a path.
fn extent(commands: &[PathCommand]) -> (f64, f64) {
    let (mut x, mut y) = ((f64::MAX, f64::MIN), (f64::MAX, f64::MIN));
    let mut covers = |at: f64, height: f64| {
        x = (x.0.min(at), x.1.max(at));
        y = (y.0.min(height), y.1.max(height));
    };
    for command in commands {
        match *command {
            PathCommand::MoveTo { x, y } | PathCommand::LineTo { x, y } => covers(x, y),
            PathCommand::QuadTo { x1, y1, x, y } => {
                covers(x1, y1);
                covers(x, y);
            }
            PathCommand::CubicTo { x1, y1, x2, y2, x, y } => {
                covers(x1, y1);
                covers(x2, y2);
                covers(x, y);
            }
            PathCommand::Close => {}
        }
    }
    (x.1 - x.0, y.1 - y.0)
}
