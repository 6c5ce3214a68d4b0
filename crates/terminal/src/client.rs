//! The client: a conversation with a running service, in the terminal.

mod editor;

mod markdown;

mod names;

mod reading;

mod refusal;

mod screen;

mod shown;

#[cfg(test)]
mod fuzz;

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use self::editor::{Editor, Typed};
use self::refusal::{refusal, unreachable};
use self::screen::Screen;
use self::shown::harmless;
use super::routes::{Submit, Submitted, SubmittedFile, no_profile};
use domain::locale::Locale;
use domain::notice;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a command's answer; the service's own timeout is shorter.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(45);

/// Timeout of stopping an answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the answer to a single question; the service's own timeout is shorter.
const ONCE_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);

/// The response to a request that waits for its answer.
#[derive(serde::Deserialize)]
struct Answered {
    #[serde(default)]
    status: String,
    #[serde(default)]
    text: String,
}

/// The choices that the service offers.
#[derive(serde::Deserialize)]
struct Choices {
    #[serde(default)]
    profiles: Vec<String>,
}

/// A session to continue.
#[derive(serde::Deserialize)]
struct Attached {
    session: String,
    number: u64,
    messages: Vec<SaidBefore>,
}

/// An earlier message.
#[derive(serde::Deserialize)]
struct SaidBefore {
    ours: bool,
    text: String,
    /// The id of the message that it answers.
    #[serde(default)]
    answers: String,
    /// True for an apology, which stands in for an answer.
    #[serde(default)]
    apology: bool,
}

/// The kind of input and output.
#[derive(Debug, Default)]
pub struct Manner {
    /// True if a person edits lines on a terminal; else lines are read unedited, and only answers are written.
    pub person: bool,
    /// True to colour answers.
    pub colors: bool,
    /// The file of the input history.
    pub history: Option<PathBuf>,
}

struct Person {
    editor: Editor,
    screen: Screen,
}

/// The result of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOutcome {
    /// Answered, or no answer was needed.
    Answered,
    /// An apology, or nothing.
    Unanswered,
    /// The user left before the end.
    Left,
}

/// A conversation with the service at one address.
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<SecretString>,
    session: String,
    /// The prompt profile for answers; `None` for the service's default.
    profile: Option<String>,
    colors: bool,
    person: Option<Person>,
    seen: u64,
}

impl Client {
    /// Creates a client of the service at `base`, in the session of this name.
    ///
    /// # Errors
    /// The HTTP client cannot be created, or the terminal cannot be configured.
    pub fn new(base: String, key: Option<SecretString>, session: String, manner: Manner) -> Result<Self, String> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().build();
        let http = http.map_err(|error| error.to_string())?;
        let Manner { person, colors, history } = manner;
        let person = if person {
            let editor = Editor::new(history, colors)?;
            Some(Person { editor, screen: Screen::take().map_err(|error| error.to_string())? })
        } else {
            None
        };
        Ok(Self { http, base, key, session, profile: None, colors, person, seen: 0 })
    }

    /// Selects the prompt profile for all answers.
    ///
    /// # Errors
    /// There is no such profile (the error lists the existing ones), or the service is unreachable or refuses the
    /// request.
    pub async fn choose(&mut self, profile: String) -> Result<(), String> {
        let request = self.authorized(self.http.get(format!("{}/api/v1/health", self.base)));
        let answer = request.timeout(CONNECT_TIMEOUT * 2).send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let Choices { profiles } = answer.json().await.map_err(unreachable)?;
        if !profiles.contains(&profile) {
            return Err(no_profile(&profile, &profiles));
        }
        self.profile = Some(profile);
        Ok(())
    }

    /// Reads messages and shows answers until the input ends or the user leaves. Returns false if a non-interactive run
    /// had a message without an answer, or with an apology.
    ///
    /// # Errors
    /// The service is unreachable or refuses the request.
    pub async fn talk(&mut self, out: &mut (impl Write + Send)) -> Result<bool, String> {
        let mut answered = true;
        while let Typed::Text(text) = self.typed().await? {
            match text.as_str() {
                "" => {}
                "/quit" | "/exit" | "!quit" | "!exit" => break,
                text => match attaches(text) {
                    Some(session) => self.attach(session, out).await?,
                    None => match self.ask(text, out).await? {
                        MessageOutcome::Answered => {}
                        MessageOutcome::Unanswered => answered = false,
                        MessageOutcome::Left => break,
                    },
                },
            }
        }
        // An interactive user has seen the failure.
        Ok(answered || self.person.is_some())
    }

    async fn typed(&mut self) -> Result<Typed, String> {
        if let Some(person) = &mut self.person {
            let typed = person.editor.read().await?;
            person.screen.quiet().map_err(|error| error.to_string())?;
            return Ok(typed);
        }
        let read = tokio::select! {
            read = read_line() => read?,
            () = interrupted() => None,
        };
        Ok(read.map_or(Typed::End, |line| Typed::Text(line.trim().to_owned())))
    }

    /// Sends one message with these files, and writes only the answer. Returns false if there was none, or an apology. Dropping the
    /// future cancels the turn.
    ///
    /// # Errors
    /// The service is unreachable or refuses the request.
    pub async fn once(
        &self,
        text: &str,
        attachments: Vec<SubmittedFile>,
        out: &mut (impl Write + Send),
    ) -> Result<bool, String> {
        let body = Submit {
            session: self.session.clone(),
            text: text.to_owned(),
            wait: true,
            timeout: Some(ONCE_TIMEOUT.as_secs()),
            cancel_when_gone: true,
            profile: self.profile.clone(),
            attachments,
            ..Submit::default()
        };
        let request = self.authorized(self.http.post(format!("{}/api/v1/submit", self.base)).json(&body));
        let answer = request.timeout(ONCE_TIMEOUT + CONNECT_TIMEOUT).send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let Answered { status, text } = answer.json().await.map_err(unreachable)?;
        writeln!(out, "{}", harmless(text.trim_end())).map_err(|error| error.to_string())?;
        Ok(status == "complete")
    }

    /// Switches to another session, and shows its messages.
    async fn attach(&mut self, session: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        let answer = self.session_of(session).await?;
        if !answer.status().is_success() {
            let why = refusal(answer).await;
            return writeln!(out, "{why}").map_err(|error| error.to_string());
        }
        let Attached { session, number, messages } = answer.json().await.map_err(unreachable)?;
        (self.session, self.seen) = (session, 0);
        for line in messages {
            let who = if line.ours { "bot" } else { "you" };
            writeln!(out, "{who}: {}", harmless(&line.text)).map_err(|error| error.to_string())?;
        }
        writeln!(out, "in session {number} {}", self.session).map_err(|error| error.to_string())
    }

    /// Requests a session's data.
    async fn session_of(&self, session: &str) -> Result<reqwest::Response, String> {
        let mut url = reqwest::Url::parse(&self.base).map_err(|error| error.to_string())?;
        url.set_path(&format!("/api/v1/sessions/{}", session.replace('/', "")));
        self.authorized(self.http.get(url)).timeout(CONNECT_TIMEOUT * 2).send().await.map_err(unreachable)
    }

    /// Sends one message and shows the whole answer.
    ///
    /// # Errors
    /// The service is unreachable or refuses the request.
    pub async fn ask(&mut self, text: &str, out: &mut (impl Write + Send)) -> Result<MessageOutcome, String> {
        let (session, profile) = (self.session.clone(), self.profile.clone());
        let body = Submit { session, text: text.to_owned(), profile, ..Submit::default() };
        let request = self.authorized(self.http.post(format!("{}/api/v1/submit", self.base)).json(&body));
        let mut sending = pin!(request.timeout(COMMAND_TIMEOUT).send());
        let answer = tokio::select! {
            answer = &mut sending => answer.map_err(unreachable)?,
            () = interrupted() => {
                // The message may have been accepted: it is cancelled before the client exits.
                tokio::select! {
                    answer = timeout(STOP_TIMEOUT, sending) => self.take_back(answer.ok().and_then(Result::ok)).await,
                    () = interrupted() => {}
                }
                return Ok(MessageOutcome::Left);
            }
        };
        let written = |error: std::io::Error| error.to_string();
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            writeln!(out, "{}", notice::busy(Locale::English)).map_err(written)?;
            return Ok(MessageOutcome::Unanswered);
        }
        if !answer.status().is_success() {
            // Only a missing key makes every further message useless.
            let ends = answer.status() == StatusCode::UNAUTHORIZED;
            let why = refusal(answer).await;
            if ends {
                return Err(why);
            }
            writeln!(out, "{why}").map_err(written)?;
            return Ok(MessageOutcome::Unanswered);
        }
        let submitted: Submitted = answer.json().await.map_err(unreachable)?;
        if let Some(said) = &submitted.said {
            writeln!(out, "{}", harmless(said)).map_err(written)?;
            self.learn(said);
        }
        if submitted.message.is_empty() {
            return Ok(MessageOutcome::Answered);
        }
        if !submitted.command {
            return self.show(&submitted.message, out).await;
        }
        if let Ok(shown) = timeout(COMMAND_TIMEOUT, self.show(&submitted.message, out)).await {
            return shown;
        }
        writeln!(out, "{}", notice::commands::unanswered()).map_err(written)?;
        Ok(MessageOutcome::Unanswered)
    }

    /// Offers the names of resources in a shown text for completion.
    fn learn(&mut self, shown: &str) {
        if let Some(person) = &mut self.person {
            person.editor.learn(shown);
        }
    }

    /// Cancels a submitted message, if the service accepted it.
    async fn take_back(&self, answer: Option<reqwest::Response>) {
        let Some(answer) = answer.filter(|answer| answer.status().is_success()) else { return };
        if let Ok(Submitted { message, command: false, .. }) = answer.json().await
            && !message.is_empty()
        {
            // The client exits, so the reason is not shown.
            let _ = self.stop(&message).await;
        }
    }

    async fn stop(&self, message: &str) -> Result<(), String> {
        let request = self.authorized(self.http.delete(format!("{}/api/v1/messages/{message}", self.base)));
        request.timeout(STOP_TIMEOUT).send().await.map(drop).map_err(unreachable)
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }
}

/// Returns the session that a line asks to attach to.
fn attaches(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [command, session, word] if command.eq_ignore_ascii_case("!session") && word == "attach" => Some(session),
        _ => None,
    }
}

/// Resolves on Ctrl-C. If the signal handler cannot be installed, the system ends the process.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Reads one line of input; `None` at its end. There is no timeout.
async fn read_line() -> Result<Option<String>, String> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
    });
    match read.await {
        Ok(line) => line.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_ask_for_another_session() {
        assert_eq!(attaches("!SESSION 101 attach"), Some("101"));
        assert_eq!([attaches("!session 101"), attaches("!session 101 delete"), attaches("why attach it")], [None; 3]);
    }
}
