//! Shows an answer while it is streamed, across broken connections, restarts of the service and missed events.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::StatusCode;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::markdown::{DIM, PLAIN};
use super::refusal::{refusal, unreachable};
use super::shown::{Shown, escaped, harmless};
use super::{Attached, Client, MessageOutcome, interrupted, read_line};
use crate::routes::Verdict;
use crate::wire::{Event, Unanswered, Update};
use domain::gate::ClickRefusal;
use domain::locale::Locale;
use domain::notice;
use domain::question::Form;
use domain::turn_event::ToolState;
use http_client::{Events, LineTooLong};

/// Timeout of a silent stream: the service sends keep-alives more often.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Timeout of recording a decision; the service's own timeout is shorter.
const DECISION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time during which a broken stream without events is reconnected.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The initial and the maximum backoff of reconnects.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// After missed events the result is polled: the first delay, the delay without further events, and the number of
/// polls.
const LOOK_FIRST: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(10);
const LOOKS_MAX: u32 = 60;
/// The number of progress characters shown: less than a line of most terminals.
const PROGRESS_CHARS: usize = 70;

pub(super) struct Turn<'a> {
    /// The id of the message that began it.
    message: &'a str,
    shown: Shown,
    /// The result so far.
    came: MessageOutcome,
    calls: BTreeSet<String>,
    /// True if the current line shows a call's progress.
    progress: bool,
    /// True if the turn was stopped: the shown answer is incomplete.
    stopped: bool,
    /// The number of polls after missed events; `None` while none were missed.
    looks: Option<u32>,
    /// The last polled answer: it is complete once two polls return the same, since a long one is posted in several
    /// messages.
    found: String,
}

impl<'a> Turn<'a> {
    fn of(message: &'a str, drawn: bool) -> Self {
        let (shown, came) = (Shown::nothing(drawn), MessageOutcome::Unanswered);
        Self {
            message,
            shown,
            came,
            calls: BTreeSet::new(),
            progress: false,
            stopped: false,
            looks: None,
            found: String::new(),
        }
    }

    /// Erases the progress line.
    fn clear(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if std::mem::take(&mut self.progress) { write!(out, "\r\x1b[K") } else { Ok(()) }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// The turn ended.
    Over,
    /// The stream broke for this reason; it is resumed.
    Broken(String),
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn written(error: std::io::Error) -> String {
    error.to_string()
}

impl Client {
    /// Shows the events of the turn that this message began, until its end. A broken stream is resumed with backoff,
    /// for about a minute without an event. Ctrl-C stops the turn and shows its end; a second one exits.
    pub(super) async fn show(
        &mut self,
        message: &str,
        out: &mut (impl Write + Send),
    ) -> Result<MessageOutcome, String> {
        let mut turn = Turn::of(message, self.colors);
        let (mut stopped, mut tries, mut away) = (false, 0, None);
        loop {
            let seen = self.seen;
            let pause = PAUSE.saturating_mul(2_u32.saturating_pow(tries.min(8))).min(PAUSE_MAX);
            let reading = async {
                if tries > 0 {
                    sleep(pause).await;
                }
                self.read_on(&mut turn, out).await
            };
            let read = tokio::select! {
                read = reading => read?,
                () = interrupted() => {
                    turn.clear(out).and_then(|()| turn.shown.end(out)).map_err(written)?;
                    if stopped {
                        writeln!(out).map_err(written)?;
                        return Ok(MessageOutcome::Left);
                    }
                    stopped = true;
                    self.hint(&mut turn, "stopping; Ctrl-C leaves", out).map_err(written)?;
                    tokio::select! {
                        // If the service is unreachable, the answer is still awaited.
                        _ = self.stop(message) => {}
                        () = interrupted() => return Ok(MessageOutcome::Left),
                    }
                    continue;
                }
            };
            let Read::Broken(why) = read else {
                turn.clear(out).and_then(|()| turn.shown.end(out)).map_err(written)?;
                if (stopped || turn.stopped) && matches!(turn.came, MessageOutcome::Unanswered) {
                    self.hint(&mut turn, "stopped", out).map_err(written)?;
                }
                writeln!(out).map_err(written)?;
                self.learn(turn.shown.text());
                return Ok(turn.came);
            };
            if self.seen != seen {
                (tries, away) = (0, None);
            }
            tries += 1;
            if away.get_or_insert_with(Instant::now).elapsed() > AWAY_MAX {
                return Err(why);
            }
            if tries == 3 {
                turn.clear(out).map_err(written)?;
                self.hint(&mut turn, &format!("{why}; waiting for it"), out).map_err(written)?;
            }
        }
    }

    /// Shows a status on a line of its own, to interactive users.
    fn hint(&self, turn: &mut Turn<'_>, hint: &str, out: &mut impl Write) -> std::io::Result<()> {
        if self.person.is_none() {
            return Ok(());
        }
        let begin = if turn.shown.is_empty() { "" } else { "\n" };
        let (dim, plain) = if self.colors { (DIM, PLAIN) } else { ("", "") };
        writeln!(out, "{begin}{dim}({hint}){plain}")?;
        out.flush()
    }

    /// Reads one stream from the last seen event.
    async fn read_on(&mut self, turn: &mut Turn<'_>, out: &mut (impl Write + Send)) -> Result<Read, String> {
        let url = format!("{}/api/v1/stream/{}?after={}", self.base, self.session, self.seen);
        let silent = || Ok(Read::Broken("the service stopped responding".to_owned()));
        let Ok(answer) = timeout(SILENCE_MAX, self.authorized(self.http.get(url)).send()).await else {
            return silent();
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Ok(Read::Broken(unreachable(error))),
        };
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Read::Broken(format!("the service answers with status {}", status.as_u16())));
        }
        if !status.is_success() {
            return Err(refusal(answer).await);
        }
        let mut stream = answer.bytes_stream();
        let mut events = Events::default();
        let mut look_at = turn.looks.map(|_| Instant::now() + LOOK_EVERY);
        loop {
            let next = tokio::select! {
                next = timeout(SILENCE_MAX, stream.next()) => next,
                () = until(look_at) => {
                    if self.look(turn, out).await? {
                        return Ok(Read::Over);
                    }
                    let soon = if turn.found.is_empty() { LOOK_EVERY } else { LOOK_FIRST };
                    look_at = Some(Instant::now() + soon);
                    continue;
                }
            };
            let bytes = match next {
                Err(_) => return silent(),
                Ok(None) => return Ok(Read::Broken("the service ended the conversation".to_owned())),
                Ok(Some(Err(error))) => return Ok(Read::Broken(unreachable(error))),
                Ok(Some(Ok(bytes))) => bytes,
            };
            let long = |LineTooLong| "the service sent a line that is too long".to_owned();
            for data in events.feed(&bytes).map_err(long)? {
                let Ok(event) = serde_json::from_slice::<Event>(&data) else { continue };
                self.seen = event.number;
                if event.update == Update::Missed {
                    // The end of the turn may be among the missed events, and is not sent again.
                    turn.looks = Some(0);
                    look_at = Some(Instant::now() + LOOK_FIRST);
                } else if event.turn == turn.message {
                    look_at = turn.looks.map(|_| Instant::now() + LOOK_EVERY);
                    if self.take(turn, event, out).await? {
                        return Ok(Read::Over);
                    }
                }
            }
        }
    }

    /// Shows one event of the turn. Returns true at its end.
    async fn take(&self, turn: &mut Turn<'_>, event: Event, out: &mut (impl Write + Send)) -> Result<bool, String> {
        turn.clear(out).map_err(written)?;
        match event.update {
            Update::Draft { text, anew } => turn.shown.grow(&text, anew, out),
            Update::Final { text } => {
                turn.came = MessageOutcome::Answered;
                turn.shown.update(&text, out)
            }
            Update::Apology { text } => {
                turn.came = MessageOutcome::Unanswered;
                turn.shown.update(&text, out)
            }
            Update::Done { unanswered } => {
                if unanswered.is_some() {
                    turn.came = MessageOutcome::Unanswered;
                    turn.stopped = unanswered == Some(Unanswered::Stopped);
                }
                return Ok(true);
            }
            Update::Gate { id, question, decision: None, form: Some(form), .. } => {
                self.answer(&id, &question, &form, out).await?;
                Ok(())
            }
            Update::Gate { id, question, decision: None, link, .. } => {
                let link = link.map(|link| format!("\n{}", link.url)).unwrap_or_default();
                self.decide(&id, &format!("{question}{link}"), out).await?;
                Ok(())
            }
            Update::Tool { call, name, state, text: Some(text), .. } => {
                self.tool(turn, &call, &name, (state, &text), out)
            }
            Update::Accepted | Update::Queued { .. } | Update::Tool { .. } | Update::Gate { .. } | Update::Missed => {
                Ok(())
            }
        }
        .map_err(written)?;
        Ok(false)
    }

    /// Shows a tool call to interactive users: its arguments, progress and result.
    fn tool(
        &self,
        turn: &mut Turn<'_>,
        call: &str,
        name: &str,
        (state, text): (ToolState, &str),
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let begins = turn.calls.insert(call.to_owned());
        if self.person.is_none() {
            return Ok(());
        }
        let line = |text: &str| harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        let (dim, plain) = if self.colors { (DIM, PLAIN) } else { ("", "") };
        let mark = match state {
            ToolState::Running if begins => "▶",
            ToolState::Running => {
                if self.colors {
                    turn.progress = true;
                    let text: String = line(text).chars().take(PROGRESS_CHARS).collect();
                    write!(out, "{dim}… {text}{plain}")?;
                    out.flush()?;
                }
                return Ok(());
            }
            ToolState::Succeeded => "◀",
            ToolState::Failed | ToolState::Denied => "✗",
        };
        let begin = if turn.shown.is_empty() || !begins { "" } else { "\n" };
        writeln!(out, "{begin}{dim}{mark} {} {}{plain}", harmless(name), line(text))?;
        out.flush()
    }

    /// Polls the result after missed events. Returns true if it is complete and shown, or the polls are used up.
    async fn look(&self, turn: &mut Turn<'_>, out: &mut (impl Write + Send)) -> Result<bool, String> {
        let looks = turn.looks.get_or_insert(0);
        *looks += 1;
        let last = *looks > LOOKS_MAX;
        let said = match self.session_of(&self.session).await {
            Ok(answer) if answer.status().is_success() => answer.json::<Attached>().await.ok(),
            Ok(_) | Err(_) => None,
        };
        let answers = said.into_iter().flat_map(|said| said.messages);
        let answers: Vec<_> = answers.filter(|line| line.ours && line.answers == turn.message).collect();
        if answers.is_empty() {
            return Ok(last);
        }
        let apology = answers.iter().any(|line| line.apology);
        let text = answers.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        if turn.found != text {
            turn.found = text;
            return Ok(last);
        }
        turn.came = if apology { MessageOutcome::Unanswered } else { MessageOutcome::Answered };
        turn.clear(out).and_then(|()| turn.shown.update(&text, out)).map_err(written)?;
        Ok(true)
    }

    /// Shows a call that requires approval, and submits the decision: approve, allow for an hour, or deny. Other input
    /// is asked again; the end of the input denies.
    async fn decide(&self, id: &str, question: &str, out: &mut (impl Write + Send)) -> Result<(), String> {
        writeln!(out, "\n{}", escaped(question)).map_err(written)?;
        let verdict = loop {
            write!(out, "{}", notice::gate::keys(Locale::English)).and_then(|()| out.flush()).map_err(written)?;
            let Some(line) = self.line().await? else { break Verdict::default() };
            match line.trim().to_lowercase().as_str() {
                "a" => break Verdict { approve: true, ..Verdict::default() },
                "h" => break Verdict { approve: true, hour: true, ..Verdict::default() },
                "r" => break Verdict::default(),
                _ => {}
            }
        };
        if !self.submit_verdict(id, &verdict).await?.is_success() {
            // Expired, or decided elsewhere: the answer shows the result.
            writeln!(out, "{}", notice::gate::refused(ClickRefusal::Expired, None, Locale::English))
                .map_err(written)?;
        }
        Ok(())
    }

    /// Shows the form of a question, and submits the answers. Answers that do not fit are asked again; the end of the
    /// input declines.
    async fn answer(&self, id: &str, question: &str, form: &Form, out: &mut (impl Write + Send)) -> Result<(), String> {
        writeln!(out, "\n{}", escaped(question)).map_err(written)?;
        loop {
            let verdict = self.filled_in(form, out).await?;
            let status = self.submit_verdict(id, &verdict).await?;
            if status.is_success() {
                return Ok(());
            }
            if status != StatusCode::UNPROCESSABLE_ENTITY {
                return writeln!(out, "{}", notice::gate::refused(ClickRefusal::Expired, None, Locale::English))
                    .map_err(written);
            }
        }
    }

    /// Asks for each field, or for the refusal of the whole question.
    async fn filled_in(&self, form: &Form, out: &mut (impl Write + Send)) -> Result<Verdict, String> {
        loop {
            write!(out, "{}", notice::gate::question_keys(Locale::English))
                .and_then(|()| out.flush())
                .map_err(written)?;
            let Some(line) = self.line().await? else { return Ok(Verdict::default()) };
            match line.trim().to_lowercase().as_str() {
                "a" => break,
                "r" => return Ok(Verdict::default()),
                _ => {}
            }
        }
        let mut answers = Map::new();
        for field in &form.fields {
            let label = escaped(&notice::gate::described(field, Locale::English));
            write!(out, "{label}: ").and_then(|()| out.flush()).map_err(written)?;
            let Some(line) = self.line().await? else { return Ok(Verdict::default()) };
            let line = if line.trim().is_empty() { field.default.clone().unwrap_or_default() } else { line };
            answers.insert(field.name.clone(), Value::String(line));
        }
        Ok(Verdict { approve: true, hour: false, answers })
    }

    /// Reads a line of the person, or of the standard input.
    async fn line(&self) -> Result<Option<String>, String> {
        match &self.person {
            Some(person) => person.screen.line().await.map_err(written),
            None => read_line().await,
        }
    }

    async fn submit_verdict(&self, id: &str, verdict: &Verdict) -> Result<StatusCode, String> {
        let request = self.authorized(self.http.post(format!("{}/api/v1/gate/{id}", self.base)).json(verdict));
        let answer = request.timeout(DECISION_TIMEOUT).send().await.map_err(unreachable)?;
        Ok(answer.status())
    }
}

/// Resolves at this time; never if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::routing::get;
    use axum::{Json, Router};
    use futures_util::stream;

    use super::*;
    use crate::client::Manner;

    fn client(listener: &tokio::net::TcpListener) -> Client {
        let base = format!("http://{}", listener.local_addr().unwrap());
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(base, None, "s".to_owned(), Manner::default()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_falls_silent_is_left() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = client(&listener);
        let read = client.read_on(&mut Turn::of("1", false), &mut Vec::new()).await;
        assert_eq!(read, Ok(Read::Broken("the service stopped responding".to_owned())));
        drop(listener);
    }

    #[tokio::test]
    async fn who_missed_the_end_of_a_turn_looks_at_what_came_of_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = client(&listener);
        let missed = || async {
            let event = Ok::<_, Infallible>("data: {\"number\":9,\"turn\":\"\",\"event\":\"missed\"}\n\n");
            Body::from_stream(stream::iter([event]).chain(stream::pending()))
        };
        let said = serde_json::json!({"session": "s", "number": 101, "messages": [
            {"message": "1", "ours": false, "text": "hello", "at": 1},
            {"message": "2", "ours": true, "text": "It is noon.", "at": 2, "answers": "1"},
            {"message": "3", "ours": true, "text": "Another answer.", "at": 3, "answers": "0"},
        ]});
        let service = Router::new()
            .route("/api/v1/stream/s", get(missed))
            .route("/api/v1/sessions/s", get(move || async move { Json(said) }));
        let serving = tokio::spawn(async move { axum::serve(listener, service).await });
        let mut out = Vec::new();
        assert_eq!(client.show("1", &mut out).await, Ok(MessageOutcome::Answered));
        assert_eq!(String::from_utf8(out).unwrap(), "It is noon.\n");
        serving.abort();
    }

    #[tokio::test]
    async fn a_stream_that_breaks_is_read_on_behind_what_was_seen() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = client(&listener);
        // The first connection breaks in the middle of the answer, the second is refused, and the third sends the rest.
        let lives = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let events = move |axum::extract::RawQuery(query): axum::extract::RawQuery| {
            let life = lives.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let query = query.unwrap_or_default();
            async move {
                let event =
                    |number: u64, rest: &str| Ok(format!("data: {{\"number\":{number},\"turn\":\"1\",{rest}}}\n\n"));
                let broken = || Err(std::io::Error::other("cut"));
                let told: Vec<Result<String, std::io::Error>> = match life {
                    0 => vec![event(1, "\"event\":\"draft\",\"text\":\"It is\",\"anew\":true"), broken()],
                    1 => vec![broken()],
                    _ => {
                        assert_eq!(query, "after=1");
                        let end = event(2, "\"event\":\"final\",\"text\":\"It is noon.\"");
                        vec![end, event(3, "\"event\":\"done\"")]
                    }
                };
                // Lets the data before a break arrive first.
                let paced = stream::iter(told).then(|piece| async {
                    if piece.is_err() {
                        sleep(Duration::from_millis(100)).await;
                    }
                    piece
                });
                Body::from_stream(paced)
            }
        };
        let service = Router::new().route("/api/v1/stream/s", get(events));
        let serving = tokio::spawn(async move { axum::serve(listener, service).await });
        let mut out = Vec::new();
        assert_eq!(client.show("1", &mut out).await, Ok(MessageOutcome::Answered));
        assert_eq!(String::from_utf8(out).unwrap(), "It is noon.\n");
        serving.abort();
    }
}
