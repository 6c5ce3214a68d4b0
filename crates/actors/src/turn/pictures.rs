//! The pictures that tools return: held only with a memory permit, from the end of their call until the answer is known.

use super::TurnTask;
use super::tools::{Ran, Tools};
use domain::outgoing::Part;
use domain::tool::Image;
use domain::tool::pictures::{PictureOutcome, Pictures};
use domain::tool::turn_tools::ShownResult;
use ports::shares::Share;

/// A picture of a result, with its memory permit.
pub(super) struct HeldPicture {
    image: Image,
    room: Share,
}

/// Pictures to post with the answer, with their memory permits.
#[derive(Default)]
pub(super) struct ShownPictures {
    pictures: Pictures,
    room: Vec<Share>,
}

impl Tools {
    /// Returns the pictures from tools.
    pub fn pictures(&self) -> Vec<Part> {
        self.pictures.lock().pictures.to_parts()
    }
}

impl TurnTask<'_> {
    /// Holds the pictures of a result while other calls of its round run, as far as memory permits are free. A turn does
    /// not queue for memory that others need: a picture without a permit is only named.
    pub(super) fn held_pictures(&self, images: &[Image]) -> Vec<HeldPicture> {
        let held = |image: &Image| {
            if !self.tools.pictures.lock().pictures.has_room(image.bytes.len()) {
                return None;
            }
            let kib = image.bytes.len().div_ceil(1024);
            let room = self.parts.files.kib.take_many(Some(&self.turn.person), kib)?;
            Some(HeldPicture { image: image.clone(), room })
        };
        images.iter().filter_map(held).collect()
    }

    /// Keeps the pictures of a result for the answer.
    pub(super) fn with_pictures(&self, Ran { told, tool, pictures, call: _ }: Ran) -> ShownResult {
        let shown = &mut *self.tools.pictures.lock();
        let mut kept = 0;
        for HeldPicture { image, room } in pictures {
            match shown.pictures.take(&tool, &image) {
                PictureOutcome::Added => {
                    shown.room.push(room);
                    kept += 1;
                }
                PictureOutcome::Known => kept += 1,
                PictureOutcome::LeftOut => {}
            }
        }
        ShownResult { pictures: told.pictures + kept, ..told }
    }
}
