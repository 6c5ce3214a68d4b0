//! Multipart forms (`multipart/form-data`, RFC 7578), encoded as browsers do.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use http::HeaderValue;

/// A form under construction.
pub struct Form {
    boundary: String,
    bytes: Vec<u8>,
}

impl Form {
    /// Creates an empty form with a random boundary.
    pub fn without_parts() -> Self {
        // Random, and drawn after the files were written, so a file contains it only by chance.
        let [one, other] = [(); 2].map(|()| RandomState::new().hash_one(0_u8));
        Self { boundary: format!("staffai-{one:016x}{other:016x}"), bytes: Vec::new() }
    }

    /// Adds a part. Quotes and line ends in names are escaped as browsers do.
    ///
    /// # Errors
    /// The content type is not a valid header value.
    pub fn part(
        &mut self,
        name: &str,
        file_name: Option<&str>,
        content_type: &str,
        bytes: &[u8],
    ) -> Result<(), String> {
        if HeaderValue::from_str(content_type).is_err() {
            return Err("the content type of a part cannot be written".to_owned());
        }
        let file_name = file_name.map_or_else(String::new, |name| format!("; filename=\"{}\"", escaped(name)));
        let (boundary, name) = (&self.boundary, escaped(name));
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{file_name}\r\nContent-Type: {content_type}\r\n\r\n"
        );
        self.bytes.reserve(head.len() + bytes.len() + 2);
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Returns the content type of the form and its bytes.
    #[must_use]
    pub fn finish(self) -> (HeaderValue, Bytes) {
        let Self { boundary, mut bytes } = self;
        bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let content_type = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
        (content_type.unwrap_or_else(|_| HeaderValue::from_static("multipart/form-data")), bytes.into())
    }
}

fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_written_as_browsers_do() {
        let mut form = Form::without_parts();
        form.part("payload_json", None, "application/json", b"{}").unwrap();
        form.part("files[0]", Some("é\"\r\n.png"), "image/png", b"\x00\r\n--").unwrap();
        assert!(form.part("x", None, "text/plain\r\nx: y", b"").is_err());
        let (content_type, bytes) = form.finish();
        let boundary =
            content_type.to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"payload_json\"\r\nContent-Type: application/json\r\n\r\n{{}}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"é%22%0D%0A.png\"\r\n\
             Content-Type: image/png\r\n\r\n\u{0}\r\n--\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(bytes.to_vec()).unwrap(), expected);
        assert_ne!(Form::without_parts().boundary, Form::without_parts().boundary);
    }
}
