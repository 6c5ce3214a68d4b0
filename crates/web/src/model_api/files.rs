//! Files in requests: `data:` URLs or base64, decoded while the body is parsed, and read as text into their message.

use base64::Engine;
use serde::{Deserialize, Deserializer};

use super::failure::Failure;
use super::pictures::BASE64;
use super::room::RoomReservation;
use super::{DOOR, ModelApi};
use domain::api_key::Caller;
use domain::attachment::{Attachment, MAX_READ, MAX_READ_BYTES, Unread};
use domain::given::Message;
use domain::ids::Person;
use ports::SentFile;

/// The remedy for ids and addresses of files.
const SEND_IT: &str = "send the file itself as file_data, a data: URL; ids and addresses are not fetched";

/// A file of a request, as clients write it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WireFile {
    /// The file name.
    #[serde(default)]
    pub filename: Option<String>,
    /// The content.
    #[serde(default)]
    pub file_data: Option<FileData>,
}

/// The content of a file. It is decoded while the body is parsed, on a thread for blocking work if the body is long.
#[derive(Debug)]
pub(super) struct FileData(Result<Decoded, &'static str>);

#[derive(Debug)]
struct Decoded {
    /// The claimed media type.
    mime: Option<String>,
    bytes: Vec<u8>,
}

impl<'de> Deserialize<'de> for FileData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(decoded(&text)))
    }
}

/// Decodes a `data:` URL or base64 text.
fn decoded(text: &str) -> Result<Decoded, &'static str> {
    let scheme = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    if scheme.starts_with("http://") || scheme.starts_with("https://") {
        return Err(SEND_IT);
    }
    let (mime, text) = match text.split_once(',') {
        Some((head, text)) if scheme.starts_with("data:") && head.ends_with(";base64") => {
            let mime = head["data:".len()..].split(';').next().unwrap_or_default();
            (Some(mime.to_owned()).filter(|mime| !mime.is_empty()), text)
        }
        None if !scheme.starts_with("data:") => (None, text),
        _ => return Err("file_data must be a data: URL with the file in base64"),
    };
    let bytes = BASE64.decode(text).map_err(|_| "file_data is not valid base64")?;
    Ok(Decoded { mime, bytes })
}

impl WireFile {
    /// Returns the file with its claims.
    ///
    /// # Errors
    /// It has no content, or one that is not base64.
    pub fn read(self, place: &str) -> Result<SentFile, Failure> {
        let FileData(data) = self.file_data.ok_or_else(|| Failure::bad(place, SEND_IT))?;
        let Decoded { mime, bytes } = data.map_err(|why| Failure::bad(place, why))?;
        let name = self.filename.unwrap_or_default();
        Ok(SentFile { file: Attachment { name, ..Attachment::of_bytes(mime, bytes.len()) }, bytes })
    }
}

/// A file of a conversation.
#[derive(Debug)]
pub(super) struct GivenFile {
    /// The index of its message.
    pub message: usize,
    /// Its place in the request.
    pub place: String,
    /// The file.
    pub sent: SentFile,
}

impl ModelApi {
    /// Reads the files of a conversation, and adds their texts to their messages. At most [`MAX_READ`] files of
    /// [`MAX_READ_BYTES`] bytes together are read, and as many characters as the settings admit.
    ///
    /// # Errors
    /// The first file that is not read.
    pub(super) async fn enclose(
        &self,
        caller: &Caller,
        messages: &mut [Message],
        files: Vec<GivenFile>,
        room: &mut RoomReservation,
    ) -> Result<(), Failure> {
        if files.is_empty() {
            return Ok(());
        }
        Self::opens(caller)?;
        let (mut places, mut sent) = (Vec::new(), Vec::new());
        for GivenFile { message, place, sent: file } in files {
            places.push((message, place, file.file.name.clone()));
            sent.push(file);
        }
        let person = Person::new(DOOR, caller.name());
        let texts = self.parts.files.texts(&person, sent).await.map_err(|(at, why)| {
            let (_, place, name) = &places[at.min(places.len() - 1)];
            refused(place, name, why)
        })?;
        room.grow(texts.iter().map(String::len).sum()).await?;
        for ((message, ..), text) in places.into_iter().zip(texts) {
            if let Some(message) = messages.get_mut(message) {
                let gap = if message.text.is_empty() { "" } else { "\n\n" };
                message.text = format!("{}{gap}{text}", message.text);
            }
        }
        Ok(())
    }
}

/// Returns the failure for a file that is not read.
fn refused(place: &str, name: &str, why: Unread) -> Failure {
    let name: String = name.chars().take(80).collect();
    let because = match why {
        Unread::Busy => return Failure::Busy("too many files are being read; try again in a moment".to_owned()),
        Unread::Blind => "send pictures as parts of type image_url or input_image",
        Unread::TooMany => {
            let most = MAX_READ_BYTES >> 20;
            return Failure::bad(
                place,
                format!("send at most {MAX_READ} files of {most} MiB together; leave older ones out"),
            );
        }
        why => why.because(),
    };
    Failure::bad(place, format!("the file {name:?} is not read: {because}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(file: Value) -> Result<SentFile, String> {
        let wire: WireFile = serde_json::from_value(file).unwrap();
        wire.read("messages[0].content").map_err(|failure| failure.text())
    }

    #[test]
    fn files_are_read_from_data_urls_and_from_base64() {
        for (data, mime) in [
            ("data:text/csv;base64,YSxi", Some("text/csv")),
            ("DATA:text/csv;charset=utf-8;base64,YSxi", Some("text/csv")),
            ("data:;base64,YSxi", None),
            ("YSxi", None),
        ] {
            let SentFile { file, bytes } = read(json!({"filename": "a.csv", "file_data": data})).unwrap();
            assert_eq!((file.name.as_str(), file.mime.as_deref(), file.size), ("a.csv", mime, 3), "{data}");
            assert_eq!(bytes, b"a,b");
        }
        assert_eq!(read(json!({"file_data": "YQ"})).unwrap().bytes, b"a", "the padding may be missing");
    }

    #[test]
    fn ids_addresses_and_what_is_no_base64_are_refused_with_the_remedy() {
        for (file, why) in [
            (json!({"file_id": "file-7"}), "not fetched"),
            (json!({"filename": "a.pdf"}), "file_data"),
            (json!({"file_data": "https://files.example/a.pdf"}), "not fetched"),
            (json!({"file_data": "data:text/plain,abc"}), "base64"),
            (json!({"file_data": "data:"}), "base64"),
            (json!({"file_data": "***"}), "base64"),
        ] {
            let refused = read(file.clone()).unwrap_err();
            assert!(refused.contains(why), "{file}: {refused}");
        }
    }
}
