//! Formulas as pictures: parsed, laid out and drawn in this process with bundled fonts. Drawing opens no file and no
//! connection. Every step is bounded; a formula that exceeds a bound gets no picture.

mod work;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ratex_font::FontId;
use ratex_layout::{LayoutOptions, layout, to_display_list, validate_layout};
use ratex_render::{RenderOptions, render_to_png};
use ratex_types::color::Color;
use ratex_types::display_item::{DisplayItem, DisplayList};
use tiny_skia::{FillRule, FilterQuality, Paint, Path, PathBuilder, Pattern, Pixmap, SpreadMode, Transform};
use tokio::sync::Semaphore;

use domain::ids::Place;
use ports::shares::Shares;
use ports::{NotDrawn, Renderer};

/// The longest formula that is drawn, in Unicode scalar values.
pub const FORMULA_MAX: usize = 2_000;

/// The longest formula with chemical notation, in Unicode scalar values.
const CHEMISTRY_MAX: usize = 300;
/// The widest picture, in pixels.
pub const WIDTH_MAX: u32 = 2_400;
/// The highest picture, in pixels.
pub const HEIGHT_MAX: u32 = 1_600;
/// The most pixels of a picture: compression takes longer than drawing.
pub const PIXELS_MAX: u32 = 1_500_000;
/// The number of formulas drawn at once, shared by places. Drawing cannot be cancelled, so this bounds the threads in
/// use.
const AT_ONCE: usize = 2;
/// The timeout of one picture.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pixels of the letter M: twice the text size of a message, so that fine lines stay crisp.
const EM: f32 = 32.0;
/// The smallest legible size; below it the formula is not drawn.
const EM_MIN: f32 = 14.0;
/// Pixels between the formula and the edge of its card.
const PADDING: f32 = 22.0;
/// Pixels of the card's rounded corners.
const CORNER: f32 = 12.0;
/// The most items of a drawing. An ordinary formula has some dozens.
const ITEMS_MAX: usize = 10_000;

/// A card with a formula on it. The card has its own background, so that it is legible on dark and on light.
#[derive(Clone, Copy)]
struct Look {
    ground: Color,
    ink: Color,
}

/// Light on dark.
const SLATE: Look = Look { ground: Color::rgb(0.137, 0.149, 0.180), ink: Color::rgb(0.957, 0.965, 0.984) };
/// Dark on white, for formulas with colours of their own, which are made for paper.
const PAPER: Look = Look { ground: Color::WHITE, ink: Color::rgb(0.09, 0.10, 0.13) };

/// Draws formulas.
pub struct Latex {
    slots: Shares<Place>,
}

impl Default for Latex {
    fn default() -> Self {
        Self { slots: Shares::new(Arc::new(Semaphore::new(AT_ONCE))) }
    }
}

impl Renderer for Latex {
    fn formula<'a>(&'a self, place: &'a Place, formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>> {
        Box::pin(async move {
            tokio::time::timeout(TIMEOUT, self.draw(place, formula.to_owned())).await.unwrap_or(Err(NotDrawn::Late))
        })
    }
}

impl Latex {
    async fn draw(&self, place: &Place, formula: String) -> Result<Vec<u8>, NotDrawn> {
        let slot = self.slots.wait(Some(place)).await;
        let drawing = tokio::task::spawn_blocking(move || {
            // The slot is released when the work ends, even if the caller stopped waiting.
            let _slot = slot;
            draw(&formula).map_err(NotDrawn::Unable)
        });
        drawing.await.unwrap_or_else(|_| Err(NotDrawn::Unable("the renderer panicked".to_owned())))
    }
}

/// Draws one formula as a PNG picture.
///
/// # Errors
/// The reason why it was not drawn.
pub fn draw(formula: &str) -> Result<Vec<u8>, String> {
    let (look, list) = laid_out(formula)?;
    let font_size = size(&list)?;
    if !work::can_be_drawn(&list, f64::from(font_size)) {
        return Err("too much to draw".to_owned());
    }
    let options = RenderOptions {
        font_size,
        padding: PADDING,
        background_color: look.ground,
        font_dir: String::new(),
        device_pixel_ratio: 1.0,
    };
    rounded(&render_to_png(&list, &options)?)
}

/// True if a formula contains chemical notation (`\\ce`, `\\pu`), which takes more than linear time to read.
fn holds_chemistry(formula: &str) -> bool {
    let is_command = |rest: &str, name: &str| {
        rest.strip_prefix(name).is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    formula.split('\\').skip(1).any(|rest| is_command(rest, "ce") || is_command(rest, "pu"))
}

/// Lays a formula out and chooses its background.
fn laid_out(formula: &str) -> Result<(Look, DisplayList), String> {
    if formula.chars().nth(FORMULA_MAX).is_some() {
        return Err(format!("longer than {FORMULA_MAX} characters"));
    }
    if holds_chemistry(formula) && formula.chars().nth(CHEMISTRY_MAX).is_some() {
        return Err(format!("a chemical formula longer than {CHEMISTRY_MAX} characters"));
    }
    let nodes = ratex_parser::parse(formula).map_err(|error| error.to_string())?;
    if !work::can_be_laid_out(&nodes) {
        return Err("too much to lay out".to_owned());
    }
    let list_in = |ink: Color| -> Result<DisplayList, String> {
        let boxes = layout(&nodes, &LayoutOptions::default().with_color(ink));
        validate_layout(&boxes)?;
        Ok(to_display_list(&boxes))
    };
    let list = list_in(SLATE.ink)?;
    if list.items.is_empty() || list.items.len() > ITEMS_MAX {
        return Err(format!("{} items to draw", list.items.len()));
    }
    if let Some(letter) = list.items.iter().find_map(foreign_letter) {
        return Err(format!("no bundled font has the letter U+{letter:04X}"));
    }
    if list.items.iter().all(|item| *colour(item) == SLATE.ink) {
        return Ok((SLATE, list));
    }
    Ok((PAPER, list_in(PAPER.ink)?))
}

/// The largest size of the letter M, in pixels, at which the picture stays within its bounds.
fn size(list: &DisplayList) -> Result<f32, String> {
    let edges = 2.0 * f64::from(PADDING);
    let (width, height) = (list.width.max(0.01), list.total_height().max(0.01));
    let fits = |most: u32, ems: f64| (f64::from(most) - edges) / ems;
    // The positive solution of (width * size + sides) * (height * size + sides) = PIXELS_MAX. Sides are rounded up.
    let sides = edges + 1.0;
    let (half, rest) = (sides * (width + height) / 2.0, f64::from(PIXELS_MAX) - sides * sides);
    let fits_pixels = rest / (half + (half * half + width * height * rest).sqrt());
    let most = fits(WIDTH_MAX, width).min(fits(HEIGHT_MAX, height)).min(fits_pixels);
    #[expect(clippy::cast_possible_truncation, reason = "a size in pixels needs no more than the digits of a float")]
    let size = most.min(f64::from(EM)) as f32;
    if size.is_finite() && size >= EM_MIN { Ok(size) } else { Err("too large to be read in one picture".to_owned()) }
}

/// A letter that the bundled fonts lack. Drawing it would search the fonts of the system.
fn foreign_letter(item: &DisplayItem) -> Option<u32> {
    let DisplayItem::GlyphPath { font, char_code, .. } = item else { return None };
    let known = FontId::parse(font).is_some_and(|font| ratex_font::get_char_metrics(font, *char_code).is_some());
    (!known).then_some(*char_code)
}

fn colour(item: &DisplayItem) -> &Color {
    match item {
        DisplayItem::GlyphPath { color, .. }
        | DisplayItem::Line { color, .. }
        | DisplayItem::Rect { color, .. }
        | DisplayItem::Path { color, .. } => color,
    }
}

/// Cuts the picture to a card with rounded corners.
fn rounded(png: &[u8]) -> Result<Vec<u8>, String> {
    let square = Pixmap::decode_png(png).map_err(|error| error.to_string())?;
    let mut card = Pixmap::new(square.width(), square.height()).ok_or("an empty picture")?;
    #[expect(clippy::cast_precision_loss, reason = "pictures have a few thousand pixels a side")]
    let outline = outline(square.width() as f32, square.height() as f32).ok_or("an empty picture")?;
    let shader = Pattern::new(square.as_ref(), SpreadMode::Pad, FilterQuality::Nearest, 1.0, Transform::identity());
    let paint = Paint { shader, ..Paint::default() };
    card.fill_path(&outline, &paint, FillRule::Winding, Transform::identity(), None);
    card.encode_png().map_err(|error| error.to_string())
}

/// A rectangle with rounded corners.
fn outline(width: f32, height: f32) -> Option<Path> {
    let corner = CORNER.min(width / 2.0).min(height / 2.0);
    let mut path = PathBuilder::new();
    path.move_to(corner, 0.0);
    path.line_to(width - corner, 0.0);
    path.quad_to(width, 0.0, width, corner);
    path.line_to(width, height - corner);
    path.quad_to(width, height, width - corner, height);
    path.line_to(corner, height);
    path.quad_to(0.0, height, 0.0, height - corner);
    path.line_to(0.0, corner);
    path.quad_to(0.0, 0.0, corner, 0.0);
    path.close();
    path.finish()
}

#[cfg(test)]
mod tests;
