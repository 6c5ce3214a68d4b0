//! The sources of audio: an endpoint with the OpenAI speech API, or a command of this machine.

use std::process::Stdio;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Uri};
use http_client::{HttpClient, Outgoing, Settings};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::Failure;
use super::clip::Recorder;
use super::format::Format;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The size of reads from a command, in bytes.
const READ: usize = 16 * 1024;
/// The search path of commands, which inherit no variables.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// One voice.
#[derive(Debug, Clone)]
pub struct Voice {
    /// The source of its audio.
    pub source: Source,
    /// The format of its audio.
    pub format: Format,
    /// The timeout of one sentence.
    pub timeout: Duration,
}

/// The source of audio.
#[derive(Debug, Clone)]
pub enum Source {
    /// An endpoint with the OpenAI speech API.
    OpenAi {
        /// The address of `/audio/speech`.
        url: Uri,
        /// True if it is on this machine: proxies do not apply.
        here: bool,
        /// The key.
        key: Option<SecretString>,
        /// The model.
        model: String,
        /// The name of the voice.
        voice: String,
    },
    /// A program with its arguments, started without a shell: it reads the text and writes audio.
    Command(Vec<String>),
}

/// The HTTP clients of the voices.
#[derive(Default)]
pub(super) struct Clients {
    here: Option<HttpClient>,
    out: Option<HttpClient>,
}

impl Clients {
    pub(super) fn for_voices(voices: &[Voice]) -> Result<Self, String> {
        let is_used = |wanted: bool| {
            voices.iter().any(|voice| matches!(voice.source, Source::OpenAi { here, .. } if here == wanted))
        };
        let client = |here: bool| {
            let settings = Settings {
                user_agent: concat!("staffai/", env!("CARGO_PKG_VERSION")),
                connect_timeout: CONNECT_TIMEOUT,
                idle_timeout: IDLE_TIMEOUT,
                proxied: !here,
                encrypted: true,
            };
            is_used(here).then(|| HttpClient::new(settings)).transpose()
        };
        Ok(Self { here: client(true)?, out: client(false)? })
    }
}

impl Voice {
    /// Returns its name in logs: the model, or the program.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.source {
            Source::OpenAi { model, .. } => model,
            Source::Command(words) => words.first().map_or("", String::as_str),
        }
    }

    /// Records a text.
    pub(super) async fn record(&self, clients: &Clients, text: &str, recorder: &Recorder) -> Result<(), Failure> {
        match &self.source {
            Source::OpenAi { url, here, key, model, voice } => {
                let client = if *here { &clients.here } else { &clients.out };
                let client = client.as_ref().ok_or_else(|| Failure::Refused("it has no client".to_owned()))?;
                let format = self.format.name();
                let body = json!({"model": model, "voice": voice, "input": text, "response_format": format});
                self.request(client, url, key.as_ref(), body.to_string(), recorder).await?;
            }
            Source::Command(words) => self.run(words, text, recorder).await?,
        }
        recorder.complete()
    }

    async fn request(
        &self,
        client: &HttpClient,
        url: &Uri,
        key: Option<&SecretString>,
        body: String,
        recorder: &Recorder,
    ) -> Result<(), Failure> {
        let refused = |why: String| Failure::Refused(why);
        let mut request = Request::post(url).header(CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            let value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
            let mut value = value.map_err(|_| refused("the key has characters that no header may have".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Outgoing::Whole(body.into())).map_err(|error| refused(error.to_string()))?;
        let mut response = client.send(request).await.map_err(|failure| refused(failure.cause))?;
        if !response.status.is_success() {
            return Err(refused(format!("status {}", response.status.as_u16())));
        }
        while let Some(piece) = response.chunk().await.map_err(|failure| refused(failure.cause))? {
            recorder.push(self.format, &piece)?;
        }
        Ok(())
    }

    async fn run(&self, words: &[String], text: &str, recorder: &Recorder) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Failure::Refused(format!("{what}: {error}"));
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::Refused("the command is empty".to_owned()));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Also at the timeout, and when the audio is too long.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed("it did not start", &error))?;
        let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Refused("it has no pipes".to_owned()));
        };
        let write = async move {
            // A program that stops reading has ended, and its status says more.
            let _ = stdin.write_all(text.as_bytes()).await;
        };
        let read = async {
            let mut buffer = vec![0; READ];
            loop {
                let many = stdout.read(&mut buffer).await.map_err(|error| failed("its output was lost", &error))?;
                if many == 0 {
                    return Ok(());
                }
                recorder.push(self.format, &buffer[..many])?;
            }
        };
        // Audio that is too long ends the program at once, even if it does not read its input.
        let read = async {
            tokio::pin!(write, read);
            tokio::select! {
                result = &mut read => result,
                () = &mut write => read.await,
            }
        };
        read.await?;
        let status = child.wait().await.map_err(|error| failed("it did not end", &error))?;
        if status.success() { Ok(()) } else { Err(failed("it ended with", &status)) }
    }
}
