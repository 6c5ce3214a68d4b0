//! The client: a conversation in the terminal with a running service.

use std::io::Write;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use super::routes::{Submit, Submitted, Verdict};
use super::wire::{Event, Update};
use crate::domain::gate::Refusal;
use crate::domain::locale::Locale;
use crate::domain::notice;

/// The longest that opening a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The longest line of a stream, in bytes.
const LINE_MAX: usize = 1024 * 1024;
/// The longest silence of a stream: a service that lives says so more often.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The longest answer that refuses something and is read, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;
/// The longest wait for the answer to a command; a service gives up earlier.
const COMMAND_WITHIN: Duration = Duration::from_secs(45);

/// The longest that a decision may take to be on record; a service gives up earlier.
const DECIDED_WITHIN: Duration = Duration::from_secs(20);

/// How somebody gets a key, and where this looks for it.
const KEY_HINT: &str = "the service asks for a key: staffai key add NAME --right chat --right tools prints one; set STAFFAI_API_KEYS to it";

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

/// A refusal, as the service tells it.
#[derive(serde::Deserialize)]
struct Problem {
    detail: String,
}

/// A conversation with the service at one address.
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<SecretString>,
    session: String,
    /// Write in colours.
    colors: bool,
    seen: u64,
}

impl Client {
    /// A client of the service at `base`, in the session of this name.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(base: String, key: Option<SecretString>, session: String, colors: bool) -> Result<Self, String> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT_WITHIN).no_proxy().build();
        let http = http.map_err(|error| error.to_string())?;
        Ok(Self { http, base, key, session, colors, seen: 0 })
    }

    /// Reads lines and shows answers until the input ends.
    ///
    /// # Errors
    /// The service went away or refuses us; the sentence says which.
    pub async fn talk(&mut self, out: &mut (impl Write + Send)) -> Result<(), String> {
        loop {
            self.prompt(out)?;
            let read = tokio::select! {
                read = read_line() => read?,
                () = interrupted() => None,
            };
            let Some(line) = read else {
                return writeln!(out).map_err(|error| error.to_string());
            };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" | "!quit" | "!exit" => return Ok(()),
                text => match attaches(text) {
                    Some(session) => self.attach(session, out).await?,
                    None => self.ask(text, out).await?,
                },
            }
        }
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
    pub async fn ask(&mut self, text: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        let body = Submit { session: self.session.clone(), text: text.to_owned(), ..Submit::default() };
        let request = self.authorized(self.http.post(format!("{}/api/v1/submit", self.base)).json(&body));
        let answer = request.timeout(COMMAND_WITHIN).send().await.map_err(unreachable)?;
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            return writeln!(out, "{}", notice::busy(Locale::English)).map_err(|error| error.to_string());
        }
        if !answer.status().is_success() {
            // Only without a key nothing can be said at all.
            let ends = answer.status() == StatusCode::UNAUTHORIZED;
            let why = refusal(answer).await;
            return if ends { Err(why) } else { writeln!(out, "{why}").map_err(|error| error.to_string()) };
        }
        let submitted: Submitted = answer.json().await.map_err(unreachable)?;
        if let Some(said) = &submitted.said {
            writeln!(out, "{}", harmless(said)).map_err(|error| error.to_string())?;
        }
        if submitted.message.is_empty() {
            return Ok(());
        }
        if !submitted.command {
            return self.show(&submitted.message, out).await;
        }
        match timeout(COMMAND_WITHIN, self.show(&submitted.message, out)).await {
            Ok(shown) => shown,
            Err(_) => writeln!(out, "{}", notice::commands::unanswered()).map_err(|error| error.to_string()),
        }
    }

    /// Shows the events of the turn that this message began, until it is over. A stream that ends before is read on, as often
    /// as it brought an event.
    async fn show(&mut self, message: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        let mut shown = Shown::default();
        loop {
            let seen = self.seen;
            let ended = tokio::select! {
                ended = self.read_on(message, &mut shown, out) => ended?,
                () = interrupted() => {
                    self.stop(message).await?;
                    // What comes of it is read on; the next interruption leaves.
                    tokio::select! {
                        ended = self.read_on(message, &mut shown, out) => ended?,
                        () = interrupted() => return Err("left".to_owned()),
                    }
                }
            };
            if ended {
                return writeln!(out).map_err(|error| error.to_string());
            }
            if self.seen == seen {
                return Err("the service ended the conversation".to_owned());
            }
        }
    }

    /// Reads one stream behind what was seen. True when the turn is over, false when the stream ended before.
    async fn read_on(
        &mut self,
        message: &str,
        shown: &mut Shown,
        out: &mut (impl Write + Send),
    ) -> Result<bool, String> {
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
                if event.turn != message {
                    continue;
                }
                match event.update {
                    Update::Draft { text, anew } => shown.grow(&text, anew, out),
                    Update::Final { text } | Update::Apology { text } => shown.update(&text, out),
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
            let Some(line) = read_line().await? else { break Verdict { approve: false, hour: false } };
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

    fn prompt(&self, out: &mut impl Write) -> Result<(), String> {
        let prompt = if self.colors { "\x1b[1;36myou ›\x1b[0m " } else { "you > " };
        write!(out, "{prompt}").and_then(|()| out.flush()).map_err(|error| error.to_string())
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

/// Why the service refused something, in its words.
async fn refusal(answer: reqwest::Response) -> String {
    let status = answer.status();
    let why = beginning(answer).await;
    let why = serde_json::from_str::<Problem>(&why).map_or(why, |problem| problem.detail);
    let why: String = harmless(&why).chars().take(300).collect();
    if status == StatusCode::UNAUTHORIZED { format!("{why}\n{KEY_HINT}") } else { why }
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

fn unreachable(error: reqwest::Error) -> String {
    format!("the service cannot be reached: {}", error.without_url())
}

/// The first bytes of an answer that refuses something, as text.
async fn beginning(mut answer: reqwest::Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(REFUSAL_MAX - body.len())]);
        if body.len() == REFUSAL_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// Cuts a stream into lines; each byte is looked at once.
#[derive(Default)]
struct Lines {
    /// The beginning of a line whose end did not come yet.
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that end in a piece of the stream.
    fn feed(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut ended = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + part.len() > LINE_MAX {
                return Err("the service sent a line without end".to_owned());
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                ended.push(std::mem::take(&mut self.begun));
            }
        }
        Ok(ended)
    }
}

/// The event of a line `data: {..}`; other lines carry nothing for us.
fn parse(line: &[u8]) -> Option<Event> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

/// What of an answer is on the screen.
#[derive(Default)]
struct Shown {
    text: String,
}

impl Shown {
    /// Writes more of a draft; one that begins anew stands on a line of its own.
    fn grow(&mut self, more: &str, anew: bool, out: &mut impl Write) -> std::io::Result<()> {
        let more = harmless(more);
        if anew && !self.text.is_empty() {
            writeln!(out)?;
            self.text.clear();
        }
        write!(out, "{more}")?;
        self.text.push_str(&more);
        out.flush()
    }

    /// Writes what is new of the whole answer; one that does not begin like its draft is written on a line of its own.
    fn update(&mut self, text: &str, out: &mut impl Write) -> std::io::Result<()> {
        let text = harmless(text);
        if let Some(more) = text.strip_prefix(self.text.as_str()) {
            write!(out, "{more}")?;
        } else {
            writeln!(out)?;
            write!(out, "{text}")?;
        }
        self.text = text;
        out.flush()
    }
}

/// The text without control characters, which could steer the terminal.
fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost;

    #[test]
    fn a_stream_costs_in_proportion_to_its_length_however_it_is_cut() {
        let pieces = |size: usize| vec![vec![b"x".to_vec(); size], vec!["x\n".repeat(size).into_bytes()]];
        cost::grows_linearly(1024, pieces, |streams| {
            for pieces in &streams {
                let mut lines = Lines::default();
                assert!(pieces.iter().all(|piece| lines.feed(piece).is_ok()));
            }
        });
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"a\nb").unwrap(), [b"a\n".to_vec()]);
        assert_eq!(lines.feed(b"c\n").unwrap(), [b"bc\n".to_vec()]);
        assert!(lines.feed(&vec![b'x'; LINE_MAX + 1]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_falls_silent_is_left() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::new(base, None, "s".to_owned(), false).unwrap();
        let read = client.read_on("1", &mut Shown::default(), &mut Vec::new()).await;
        assert_eq!(read, Err("the service fell silent".to_owned()));
        drop(listener);
    }

    #[test]
    fn an_answer_goes_on_behind_its_draft_and_else_on_a_new_line() {
        let mut shown = Shown::default();
        let mut out = Vec::new();
        for (text, anew) in [("Hel", true), ("lo", false)] {
            shown.grow(text, anew, &mut out).unwrap();
        }
        shown.update("Hello!", &mut out).unwrap();
        shown.grow("M\u{1b}[2Jore", true, &mut out).unwrap();
        shown.update("Other", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "Hello!\nM[2Jore\nOther");
    }

    #[test]
    fn a_line_may_ask_for_another_session() {
        assert_eq!(attaches("!SESSION 101 attach"), Some("101"));
        assert_eq!([attaches("!session 101"), attaches("!session 101 delete"), attaches("why attach it")], [None; 3]);
    }

    #[test]
    fn only_data_lines_are_events() {
        assert_eq!(parse(b": keep-alive\n"), None);
        assert_eq!(parse(b"data: nonsense\n"), None);
        let event = parse(b"data: {\"number\":3,\"turn\":\"9\",\"event\":\"done\"}\n").unwrap();
        assert_eq!(event, Event { number: 3, turn: "9".to_owned(), update: Update::Done });
    }
}
