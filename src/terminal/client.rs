//! The client: a conversation in the terminal with a running service.

mod code;

mod editor;

mod markdown;

mod refusal;

mod screen;

mod shown;

mod stream;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use self::code::{DIM, PLAIN};
use self::editor::{Editor, Typed};
use self::refusal::{refusal, unreachable};
use self::screen::Screen;
use self::shown::{Shown, harmless};
use self::stream::{Lines, parse};
use super::routes::{Submit, Submitted, Verdict};
use super::wire::Update;
use crate::domain::gate::Refusal;
use crate::domain::locale::Locale;
use crate::domain::notice;

/// The longest that opening a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The longest silence of a stream: a service that lives says so more often.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The longest wait for the answer to a command; a service gives up earlier.
const COMMAND_WITHIN: Duration = Duration::from_secs(45);

/// The longest that a decision may take to be on record; a service gives up earlier.
const DECIDED_WITHIN: Duration = Duration::from_secs(20);

/// The longest wait for the answer to a single question.
const ONCE_WITHIN: Duration = Duration::from_secs(300);

/// An answer that was waited for.
#[derive(serde::Deserialize)]
struct Answered {
    #[serde(default)]
    status: String,
    #[serde(default)]
    text: String,
}

/// A session that is gone on in.
#[derive(serde::Deserialize)]
struct Attached {
    session: String,
    number: u64,
    messages: Vec<SaidBefore>,
}

/// What was said in it.
#[derive(serde::Deserialize)]
struct SaidBefore {
    ours: bool,
    text: String,
}

/// Who types, and what the terminal shows.
#[derive(Debug, Default)]
pub struct Manner {
    /// A person edits lines on a terminal; else lines come as they are, and answers go out alone.
    pub person: bool,
    /// Answers are drawn in colours.
    pub colors: bool,
    /// The file of what the person said before.
    pub history: Option<PathBuf>,
}

/// A person at a terminal.
struct Person {
    editor: Editor,
    screen: Screen,
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It is answered, or needed no answer.
    Answered,
    /// There is an apology, or nothing.
    Unanswered,
    /// The person leaves meanwhile.
    Left,
}

/// The answer that is on its way.
struct Turn<'a> {
    /// The message that began it.
    message: &'a str,
    shown: Shown,
    /// What came of it so far.
    came: Asked,
}

/// A conversation with the service at one address.
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<SecretString>,
    session: String,
    colors: bool,
    person: Option<Person>,
    seen: u64,
}

impl Client {
    /// A client of the service at `base`, in the session of this name.
    ///
    /// # Errors
    /// The HTTP client cannot be made, or the terminal takes no orders.
    pub fn new(base: String, key: Option<SecretString>, session: String, manner: Manner) -> Result<Self, String> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT_WITHIN).no_proxy().build();
        let http = http.map_err(|error| error.to_string())?;
        let Manner { person, colors, history } = manner;
        let person = if person {
            let editor = Editor::new(history, colors)?;
            Some(Person { editor, screen: Screen::take().map_err(|error| error.to_string())? })
        } else {
            None
        };
        Ok(Self { http, base, key, session, colors, person, seen: 0 })
    }

    /// Reads messages and shows answers until the input ends or the person leaves. False when nobody reads along and one of them
    /// had no answer, or an apology.
    ///
    /// # Errors
    /// The service went away or refuses us; the sentence says which.
    pub async fn talk(&mut self, out: &mut (impl Write + Send)) -> Result<bool, String> {
        let mut answered = true;
        while let Typed::Text(text) = self.typed().await? {
            match text.as_str() {
                "" => {}
                "/quit" | "/exit" | "!quit" | "!exit" => break,
                text => match attaches(text) {
                    Some(session) => self.attach(session, out).await?,
                    None => match self.ask(text, out).await? {
                        Asked::Answered => {}
                        Asked::Unanswered => answered = false,
                        Asked::Left => break,
                    },
                },
            }
        }
        // A person has seen what came of it.
        Ok(answered || self.person.is_some())
    }

    /// The next message.
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

    /// Says one thing and writes the answer alone. False when there was none, or an apology. Whoever goes away meanwhile cancels it.
    ///
    /// # Errors
    /// The service went away or refuses us; the sentence says which.
    pub async fn once(&self, text: &str, out: &mut (impl Write + Send)) -> Result<bool, String> {
        let body = Submit {
            session: self.session.clone(),
            text: text.to_owned(),
            wait: true,
            timeout: Some(ONCE_WITHIN.as_secs()),
            cancel_when_gone: true,
            ..Submit::default()
        };
        let request = self.authorized(self.http.post(format!("{}/api/v1/submit", self.base)).json(&body));
        let answer = request.timeout(ONCE_WITHIN + CONNECT_WITHIN).send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let Answered { status, text } = answer.json().await.map_err(unreachable)?;
        writeln!(out, "{}", harmless(text.trim_end())).map_err(|error| error.to_string())?;
        Ok(status == "complete")
    }

    /// Goes on in another session, and shows what was said in it.
    async fn attach(&mut self, session: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        let mut url = reqwest::Url::parse(&self.base).map_err(|error| error.to_string())?;
        url.set_path(&format!("/api/v1/sessions/{}", session.replace('/', "")));
        let answer =
            self.authorized(self.http.get(url)).timeout(CONNECT_WITHIN * 2).send().await.map_err(unreachable)?;
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

    /// Says one thing and shows the whole answer.
    ///
    /// # Errors
    /// The service went away or refuses us; the sentence says which.
    pub async fn ask(&mut self, text: &str, out: &mut (impl Write + Send)) -> Result<Asked, String> {
        let body = Submit { session: self.session.clone(), text: text.to_owned(), ..Submit::default() };
        let request = self.authorized(self.http.post(format!("{}/api/v1/submit", self.base)).json(&body));
        let answer = tokio::select! {
            answer = request.timeout(COMMAND_WITHIN).send() => answer.map_err(unreachable)?,
            () = interrupted() => return Ok(Asked::Left),
        };
        let written = |error: std::io::Error| error.to_string();
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            writeln!(out, "{}", notice::busy(Locale::English)).map_err(written)?;
            return Ok(Asked::Unanswered);
        }
        if !answer.status().is_success() {
            // Only without a key nothing can be said at all.
            let ends = answer.status() == StatusCode::UNAUTHORIZED;
            let why = refusal(answer).await;
            if ends {
                return Err(why);
            }
            writeln!(out, "{why}").map_err(written)?;
            return Ok(Asked::Unanswered);
        }
        let submitted: Submitted = answer.json().await.map_err(unreachable)?;
        if let Some(said) = &submitted.said {
            writeln!(out, "{}", harmless(said)).map_err(written)?;
        }
        if submitted.message.is_empty() {
            return Ok(Asked::Answered);
        }
        if !submitted.command {
            return self.show(&submitted.message, out).await;
        }
        if let Ok(shown) = timeout(COMMAND_WITHIN, self.show(&submitted.message, out)).await {
            return shown;
        }
        writeln!(out, "{}", notice::commands::unanswered()).map_err(written)?;
        Ok(Asked::Unanswered)
    }

    /// Shows the events of the turn that this message began, until it is over. A stream that ends before is read on, as often
    /// as it brought an event. Ctrl-C stops the answer, and what comes of that is shown; the next one leaves.
    async fn show(&mut self, message: &str, out: &mut (impl Write + Send)) -> Result<Asked, String> {
        let written = |error: std::io::Error| error.to_string();
        let mut turn = Turn { message, shown: Shown::nothing(self.colors), came: Asked::Unanswered };
        let mut stopped = false;
        loop {
            let seen = self.seen;
            let ended = tokio::select! {
                ended = self.read_on(&mut turn, out) => ended?,
                () = interrupted() => {
                    turn.shown.end(out).map_err(written)?;
                    if stopped {
                        writeln!(out).map_err(written)?;
                        return Ok(Asked::Left);
                    }
                    stopped = true;
                    self.hint(&mut turn, "stopping; Ctrl-C leaves", out).map_err(written)?;
                    tokio::select! {
                        told = self.stop(message) => told?,
                        () = interrupted() => return Ok(Asked::Left),
                    }
                    continue;
                }
            };
            if ended {
                turn.shown.end(out).and_then(|()| writeln!(out)).map_err(written)?;
                return Ok(turn.came);
            }
            if self.seen == seen {
                return Err("the service ended the conversation".to_owned());
            }
        }
    }

    /// Tells a person what goes on, on a line of its own.
    fn hint(&self, turn: &mut Turn<'_>, hint: &str, out: &mut impl Write) -> std::io::Result<()> {
        if self.person.is_none() {
            return Ok(());
        }
        let begin = if turn.shown.is_empty() { "" } else { "\n" };
        let (dim, plain) = if self.colors { (DIM, PLAIN) } else { ("", "") };
        writeln!(out, "{begin}{dim}({hint}){plain}")?;
        out.flush()
    }

    /// Reads one stream behind what was seen. True when the turn is over, false when the stream ended before.
    async fn read_on(&mut self, turn: &mut Turn<'_>, out: &mut (impl Write + Send)) -> Result<bool, String> {
        let url = format!("{}/api/v1/stream/{}?after={}", self.base, self.session, self.seen);
        let silent = |_| "the service fell silent".to_owned();
        let answer = timeout(SILENCE_MAX, self.authorized(self.http.get(url)).send()).await.map_err(silent)?;
        let answer = answer.and_then(reqwest::Response::error_for_status).map_err(unreachable)?;
        let mut stream = answer.bytes_stream();
        let mut lines = Lines::default();
        while let Some(bytes) = timeout(SILENCE_MAX, stream.next()).await.map_err(silent)? {
            for line in lines.feed(&bytes.map_err(unreachable)?)? {
                let Some(event) = parse(&line) else { continue };
                self.seen = event.number;
                if event.turn != turn.message {
                    continue;
                }
                match event.update {
                    Update::Draft { text, anew } => turn.shown.grow(&text, anew, out),
                    Update::Final { text } => {
                        turn.came = Asked::Answered;
                        turn.shown.update(&text, out)
                    }
                    Update::Apology { text } => {
                        turn.came = Asked::Unanswered;
                        turn.shown.update(&text, out)
                    }
                    Update::Done => return Ok(true),
                    Update::Gate { id, question, decision: None, .. } => {
                        self.decide(&id, &question, out).await?;
                        Ok(())
                    }
                    Update::Accepted
                    | Update::Queued { .. }
                    | Update::Tool { .. }
                    | Update::Gate { .. }
                    | Update::Missed => Ok(()),
                }
                .map_err(|error| error.to_string())?;
            }
        }
        Ok(false)
    }

    /// Shows a call that needs a yes, and tells the service what is answered: approve, allow for an hour, or refuse. Anything else
    /// is asked again, and the end of the input refuses.
    async fn decide(&self, id: &str, question: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        let written = |error: std::io::Error| error.to_string();
        writeln!(out, "\n{}", harmless(question)).map_err(written)?;
        let verdict = loop {
            write!(out, "{}", notice::gate::keys(Locale::English)).and_then(|()| out.flush()).map_err(written)?;
            let line = match &self.person {
                Some(person) => person.screen.line().await.map_err(written)?,
                None => read_line().await?,
            };
            let Some(line) = line else { break Verdict { approve: false, hour: false } };
            match line.trim().to_lowercase().as_str() {
                "a" => break Verdict { approve: true, hour: false },
                "h" => break Verdict { approve: true, hour: true },
                "r" => break Verdict { approve: false, hour: false },
                _ => {}
            }
        };
        let request = self.authorized(self.http.post(format!("{}/api/v1/gate/{id}", self.base)).json(&verdict));
        let answer = request.timeout(DECIDED_WITHIN).send().await.map_err(unreachable)?;
        if !answer.status().is_success() {
            // It was too late, or decided elsewhere: the answer says what came of it.
            writeln!(out, "{}", notice::gate::refused(Refusal::Expired, None, Locale::English)).map_err(written)?;
        }
        Ok(())
    }

    /// Stops an answer.
    async fn stop(&self, message: &str) -> Result<(), String> {
        let request = self.authorized(self.http.delete(format!("{}/api/v1/messages/{message}", self.base)));
        request.timeout(CONNECT_WITHIN * 2).send().await.map(drop).map_err(unreachable)
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }
}

/// The session of a line that asks to go on in it.
fn attaches(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [command, session, word] if command.eq_ignore_ascii_case("!session") && word == "attach" => Some(session),
        _ => None,
    }
}

/// Somebody presses Ctrl-C. Where that cannot be heard of, the system ends the process by itself.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One line of the input; none at its end. A person may take any time.
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

    #[tokio::test(start_paused = true)]
    async fn a_service_that_falls_silent_is_left() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::new(base, None, "s".to_owned(), Manner::default()).unwrap();
        let mut turn = Turn { message: "1", shown: Shown::nothing(false), came: Asked::Unanswered };
        let read = client.read_on(&mut turn, &mut Vec::new()).await;
        assert_eq!(read, Err("the service fell silent".to_owned()));
        drop(listener);
    }

    #[test]
    fn a_line_may_ask_for_another_session() {
        assert_eq!(attaches("!SESSION 101 attach"), Some("101"));
        assert_eq!([attaches("!session 101"), attaches("!session 101 delete"), attaches("why attach it")], [None; 3]);
    }
}
