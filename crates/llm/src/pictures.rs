//! Pictures and files in requests, as data URLs: the provider never fetches an address on a member's behalf.

use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use domain::completion::{InputFile, Picture, Request};

/// The most bytes of pictures and files encoded on the sending task; more would block its thread for too long.
const PICTURE_BYTES: usize = 256 * 1024;

/// Serialises a request with large pictures or files while other tasks of this thread move elsewhere. Returns `None` for other
/// bodies, and on a runtime without further threads.
pub fn written(request: &Request, body: &impl Serialize) -> Option<Box<RawValue>> {
    let pictures = request.messages.iter().flat_map(|item| &item.pictures).map(|picture| picture.bytes.len());
    let files = request.messages.iter().flat_map(|item| &item.files).map(|file| file.bytes.len());
    let is_large = pictures.chain(files).sum::<usize>() > PICTURE_BYTES;
    let has_threads = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    (is_large && has_threads()).then(|| block_in_place(|| serde_json::value::to_raw_value(body)).ok()).flatten()
}

/// The data URL of a picture or a file.
pub struct DataUrl<'a> {
    mime: &'static str,
    bytes: &'a [u8],
}

impl<'a> From<&'a Picture> for DataUrl<'a> {
    fn from(picture: &'a Picture) -> Self {
        Self { mime: picture.mime, bytes: &picture.bytes }
    }
}

impl<'a> From<&'a InputFile> for DataUrl<'a> {
    fn from(file: &'a InputFile) -> Self {
        Self { mime: InputFile::MIME, bytes: &file.bytes }
    }
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.mime, Base64Display::new(self.bytes, &STANDARD))
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
