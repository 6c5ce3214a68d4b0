use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::middleware::from_fn_with_state;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tower::Service;

use super::*;
use domain::api_key::{ApiKey, KeyRing, Proven};
use domain::completion::{ToolSpec, WrittenJson};
use domain::gate::ApprovalDecision;
use domain::ids::{Door, MessageId, Person, Place, TurnId};
use domain::incoming::Incoming;
use domain::keys;
use domain::lineage::Identity;
use domain::outgoing::Piece;
use domain::overview::Usage;
use domain::preferences::dialogue::Choosable;
use domain::preferences::{Change, Holder, Level, Preferences, Record, Refused, Setting, Shown};
use domain::prompt::sections::{Section, SectionChange, Versions};
use domain::tool::usable::UsableTool;
use domain::tool::{Effect, OnBehalf};
use ports::testing::{ManualClock, MemoryStore, NoVitals, ScriptedModels};
use ports::{Batch, Models, NotAccepted, PostRequest, Poster as _, Store as _, Write};
use speech::hearing::Hearing;
use speech::synthesis::Synthesis;
use web::api::form::{Refuse, in_form};

struct Unused;

#[async_trait]
impl UsageOf for Unused {
    async fn usage(&self, _person: &Person, _place: &Place) -> Usage {
        Usage::default()
    }
}

/// Settings of one person, of which streaming is closed.
#[derive(Default)]
struct OneRecord(Mutex<Record>);

#[async_trait]
impl MemberSettings for OneRecord {
    async fn show(&self, holder: &Holder) -> Result<Vec<Shown>, Refused> {
        let values = self.0.lock().in_force(&holder.place, None, Preferences::default());
        let shown = |setting: Setting| {
            let (value, open) = (values.value(setting), setting != Setting::Streaming);
            let level = if value.is_some() { Level::Own } else { Level::Default };
            Shown { setting, value, level, open }
        };
        Ok(Setting::ALL.map(shown).into())
    }

    async fn choosable(&self, _holder: &Holder) -> Result<Vec<Choosable>, Refused> {
        Ok(Vec::new())
    }

    async fn change(&self, holder: &Holder, changes: &[Change]) -> Result<bool, Refused> {
        for change in changes {
            if change.setting == Setting::Streaming {
                return Err(Refused::Closed(change.setting));
            }
            let applied = self.0.lock().apply(change, &holder.place);
            applied.map_err(|_| Refused::Value(change.setting))?;
        }
        Ok(true)
    }
}

#[tokio::test]
async fn settings_are_listed_and_changed_with_a_reason_for_each_refusal() {
    let ring = KeyRing::of_secrets(["first"]);
    let key = ring.find("first", domain::ids::Timestamp(0)).unwrap();
    let holder = Caller::Key(Arc::new((*key).clone()));
    let ask = async |method: &str, path: &str, body: &str| asked(&holder, method, path, body).await;
    let answered = ask("PATCH", "/api/v1/settings", r#"{"settings": {"verbosity": "short", "memory": false}}"#).await;
    assert_eq!(answered.status(), 200);
    let body = json_of(answered).await;
    let of = |name: &str| {
        let all = body["settings"].as_array().unwrap();
        all.iter().find(|setting| setting["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!((of("verbosity"), of("memory"), of("language")), ("short".into(), "off".into(), Value::Null));
    for (body, status) in [
        (r#"{"settings": {"colour": "red"}}"#, 400),
        (r#"{"settings": {"verbosity": "endless"}}"#, 400),
        (r#"{"settings": {"verbosity": ["short"]}}"#, 400),
        (r#"{"settings": {"streaming": "off"}}"#, 403),
        (r#"{"session": "unknown", "settings": {"verbosity": "short"}}"#, 404),
        (r#"{"verbosity": "short"}"#, 422),
    ] {
        assert_eq!(ask("PATCH", "/api/v1/settings", body).await.status(), status, "{body}");
    }
    assert_eq!(ask("GET", "/api/v1/settings?session=unknown", "").await.status(), 404);
    assert_eq!(ask("GET", "/api/v1/settings", "").await.status(), 200);
    assert_eq!(asked(&Caller::Local, "GET", "/api/v1/settings", "").await.status(), 400, "each session has its own");
}

#[tokio::test]
async fn only_the_owner_of_a_session_changes_its_settings_and_operators_read_them() {
    let key = |name: &str, rights: &[Right]| {
        let key = KeyRing::of_secrets(["k"]).find("k", domain::ids::Timestamp(0)).unwrap();
        Caller::Key(Arc::new(ApiKey { name: name.to_owned(), rights: rights.to_vec(), ..(*key).clone() }))
    };
    let (laptop, operator) = (key("laptop", &[Right::Chat]), key("boss", &[Right::Chat, Right::Operate]));
    let parts = parts(&Arc::new(MemoryStore::new()));
    parts.sessions.open(&laptop, "main").await.unwrap();
    let ask = async |caller: &Caller, session: &str| {
        let body = json!({"session": session, "settings": {"verbosity": "short"}}).to_string();
        let changed = asked_of(parts.clone(), caller, "PATCH", "/api/v1/settings", &body).await.status().as_u16();
        let path = format!("/api/v1/settings?session={session}");
        (changed, asked_of(parts.clone(), caller, "GET", &path, "").await.status().as_u16())
    };
    for session in ["101", "laptop.main"] {
        assert_eq!(ask(&operator, session).await, (400, 200), "{session}");
    }
    assert_eq!(ask(&operator, "main").await, (404, 404), "a name is one's own");
    assert_eq!((ask(&laptop, "main").await, ask(&laptop, "101").await), ((200, 200), (200, 200)));
}

/// One tool, for every caller.
struct Hammer;

#[async_trait]
impl ToolsOf for Hammer {
    async fn tools(&self, _person: &Person, _place: &Place) -> Vec<UsableTool> {
        let parameters = WrittenJson::new(&serde_json::json!({"type": "object"}));
        let spec = ToolSpec { name: "hammer".to_owned(), description: "Hits.".to_owned(), parameters };
        vec![UsableTool { spec: Arc::new(spec), effect: Effect::Changes, asks: true }]
    }
}

struct Fixed;

#[async_trait]
impl Console for Fixed {
    fn profiles(&self) -> Vec<String> {
        vec!["judge".to_owned(), "pirate".to_owned()]
    }

    async fn change_row(&self, _row: &str, _change: ports::RowChange) -> Result<(), String> {
        Err("not here".to_owned())
    }
}

#[async_trait]
impl PromptSections for Fixed {
    async fn sections(&self, asked: &OnBehalf) -> Result<Vec<Section>, String> {
        assert!(asked.operator);
        let (name, text, versions) = ("voice".to_owned(), "Speak softly.".to_owned(), Versions::default());
        Ok(vec![Section { name, text, container: false, versions }])
    }

    async fn assembled(&self, _asked: &OnBehalf, _name: &str) -> Result<String, String> {
        Ok("You are staffai.".to_owned())
    }

    async fn change(&self, _asked: &OnBehalf, _name: &str, _change: &SectionChange) -> Result<u32, String> {
        Err("prompts.editable is off".to_owned())
    }
}

struct One(Arc<ScriptedModels>);

impl ModelsInForce for One {
    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.0) as _
    }
}

/// Accepts nothing.
struct Closed;

#[async_trait]
impl Intake for Closed {
    async fn accept(&self, _incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        Err(NotAccepted)
    }

    async fn decide(&self, _click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        Err(ClickRefusal::Unknown)
    }
}

/// Accepts everything.
struct Open;

#[async_trait]
impl Intake for Open {
    async fn accept(&self, _incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        Ok(())
    }

    async fn decide(&self, _click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        Err(ClickRefusal::Unknown)
    }
}

/// Closed streams, by their places.
#[derive(Default)]
struct Closing(Mutex<Vec<String>>);

impl TurnEventLog for Closing {
    fn open(&self, _place: &Place) {}

    fn close(&self, place: &Place) {
        self.0.lock().push(place.id.to_string());
    }

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        None
    }
}

struct Silent;

impl TurnEventLog for Silent {
    fn open(&self, _place: &Place) {}

    fn close(&self, _place: &Place) {}

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        None
    }
}

/// Streams without events.
struct Quiet(watch::Sender<u64>);

impl TurnEventLog for Quiet {
    fn open(&self, _place: &Place) {}

    fn close(&self, _place: &Place) {}

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        Some(Batch { events: VecDeque::new(), missed: None, newest: self.0.subscribe() })
    }
}

async fn ask(method: &str, path: &str, body: &str) -> Response {
    asked(&Caller::Local, method, path, body).await
}

async fn asked(caller: &Caller, method: &str, path: &str, body: &str) -> Response {
    asked_of(parts(&Arc::new(MemoryStore::new())), caller, method, path, body).await
}

fn parts(store: &Arc<MemoryStore>) -> Parts {
    let clock = Arc::new(ManualClock::new());
    let kept_for = Arc::new(|| std::time::Duration::from_secs(60));
    Parts {
        us: Arc::new(Identity { name: "harbour".to_owned(), depth: 3 }),
        sessions: Arc::new(Sessions::new(clock, Arc::clone(store) as _, kept_for)),
        intake: Arc::new(Closed),
        events: Arc::new(Silent),
        open_turns: Arc::new(|_| Vec::new()),
        models: Arc::new(One(Arc::new(ScriptedModels::new(&["main"])))),
        tools: Arc::new(Hammer),
        vitals: Arc::new(NoVitals),
        usage: Arc::new(Unused),
        console: Arc::new(Fixed),
        prompts: Arc::new(Fixed),
        settings: Arc::new(OneRecord::default()),
        speech: Speech {
            synthesis: Arc::new(Synthesis::new(Vec::new()).unwrap()),
            hearing: Arc::new(Hearing::new(Vec::new()).unwrap()),
            phrases: Arc::default(),
        },
    }
}

async fn asked_of(parts: Parts, caller: &Caller, method: &str, path: &str, body: &str) -> Response {
    let mut routes = router(parts)
        .layer(Extension(caller.clone()))
        .layer(Extension(Proven(matches!(caller, Caller::Key(_)))))
        .layer(from_fn_with_state((|_, status, why| problem::refused(status, why)) as Refuse, in_form));
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.header("idempotency-key", "order-7");
    let answered: Result<Response, Infallible> = routes.call(request.body(Body::from(body.to_owned())).unwrap()).await;
    answered.unwrap()
}

fn document() -> Value {
    serde_json::from_str(include_str!("../openapi.json")).unwrap()
}

#[tokio::test]
async fn what_the_document_refers_to_is_there() {
    let (document, text) = (document(), include_str!("../openapi.json"));
    for name in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_its_status() {
    for (method, path, body, status) in [
        ("POST", "/api/v1/submit", "{}", 422),
        ("POST", "/api/v1/submit", r#"{"session": "a b", "text": "x"}"#, 400),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "x", "busy": "never"}"#, 422),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "x"}"#, 503),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "!nonsense"}"#, 400),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "!sysprompt", "model": "other"}"#, 400),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "@other hello"}"#, 400),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "!llm_timeout main 5"}"#, 409),
        ("GET", "/api/v1/stream/a", "", 404),
        ("GET", "/api/v1/stream/a?cancel_when_gone=true", "", 403),
        ("POST", "/api/v1/stream/a?cancel_when_gone=true", "", 404),
        ("GET", "/api/v1/sessions/a", "", 404),
        ("DELETE", "/api/v1/sessions/101", "", 404),
        ("DELETE", "/api/v1/messages/1", "", 404),
        ("POST", "/api/v1/gate/x", r#"{"approve": true}"#, 404),
        ("PATCH", "/api/v1/sessions/a", r#"{"name": "b"}"#, 404),
        ("PATCH", "/api/v1/sessions/a", "{}", 422),
        ("PATCH", "/api/v1/sessions/a", "{", 400),
        ("GET", "/api/v1/submit", "", 405),
        ("GET", "/api/v1/sessions/%ff", "", 400),
        ("GET", "/api/v1/stream/a?after=x", "", 400),
        ("GET", "/api/v1/tools?session=a%20b", "", 400),
        ("GET", "/api/v1/nothing/here", "", 404),
        ("GET", "/api/v1", "", 404),
    ] {
        let answer = ask(method, path, body).await;
        assert_eq!(answer.status().as_u16(), status, "{method} {path} {body}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{method} {path} {body}");
        let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
        assert_eq!((body["status"].as_u64(), body["detail"].is_string()), (Some(u64::from(status)), true));
    }
}

async fn json_of(answer: Response) -> Value {
    serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_message_that_an_earlier_process_ended_has_its_answer_again_from_the_transcript() {
    let submit =
        |session: &str| serde_json::json!({"session": session, "text": "what then?", "wait": true}).to_string();
    for (session, pieces, status, text) in [
        ("whole", vec![("First.", false), ("Second.", false)], "complete", "First.\nSecond."),
        ("sorry", vec![("Sorry.", true)], "error", "Sorry."),
        ("ended", vec![], "cancelled", ""),
    ] {
        let store = Arc::new(MemoryStore::new());
        let earlier = Parts { intake: Arc::new(Open), ..parts(&store) };
        let sessions = Arc::clone(&earlier.sessions);
        let first = json_of(asked_of(earlier, &Caller::Local, "POST", "/api/v1/submit", &submit(session)).await).await;
        let place = Place::new(DOOR, session);
        for (number, (text, apology)) in pieces.into_iter().enumerate() {
            let reply_to = Some(MessageId::new(DOOR, first["message"].as_str().unwrap()));
            let (piece, nonce) = (Piece { apology, ..Piece::text(text) }, number.to_string());
            sessions.perform(&PostRequest::Create { place: place.clone(), piece, reply_to, nonce }).await.unwrap();
        }
        let later = Parts { intake: Arc::new(Open), ..parts(&store) };
        let again = json_of(asked_of(later, &Caller::Local, "POST", "/api/v1/submit", &submit(session)).await).await;
        assert_eq!(
            (&again["message"], &again["status"], &again["text"]),
            (&first["message"], &status.into(), &text.into())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_turn_is_open_is_awaited_although_its_events_left_the_stream() {
    let store = Arc::new(MemoryStore::new());
    let events = Arc::new(Quiet(watch::Sender::new(0)));
    let parts = Parts { intake: Arc::new(Open), events, ..parts(&store) };
    let submit = r#"{"session": "a", "text": "what then?", "wait": true, "timeout": 1}"#;
    let first = json_of(asked_of(parts.clone(), &Caller::Local, "POST", "/api/v1/submit", submit).await).await;
    let key = keys::turn(&TurnId::of(&MessageId::new(DOOR, first["message"].as_str().unwrap())));
    let status = async |record: Option<&str>| {
        let put = |value: &str| Write::Put { key: key.clone(), value: value.to_owned(), ttl: None };
        let write = record.map_or_else(|| Write::Delete { key: key.clone() }, put);
        store.commit(vec![write]).await;
        let again = asked_of(parts.clone(), &Caller::Local, "POST", "/api/v1/submit", submit).await;
        json_of(again).await["status"].as_str().unwrap().to_owned()
    };
    // A record of a later version counts as open.
    assert_eq!(status(Some(r#"{"state": "waiting"}"#)).await, "timeout");
    assert_eq!(status(Some(r#"{"state": "closed", "posted": []}"#)).await, "cancelled");
    assert_eq!(status(None).await, "cancelled");
}

/// Streams whose reads are counted.
#[derive(Default)]
struct Reads(std::sync::atomic::AtomicUsize);

impl TurnEventLog for Reads {
    fn open(&self, _place: &Place) {}

    fn close(&self, _place: &Place) {}

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        self.0.fetch_add(1, Ordering::SeqCst);
        None
    }
}

#[tokio::test]
async fn questions_for_open_turns_read_no_event() {
    let reads = Arc::new(Reads::default());
    let store = Arc::new(MemoryStore::new());
    let parts = Parts {
        intake: Arc::new(Open),
        events: Arc::clone(&reads) as _,
        open_turns: Arc::new(|place| if place.id == "a" { vec!["open".to_owned()] } else { Vec::new() }),
        ..parts(&store)
    };
    for session in ["a", "b"] {
        let submit = format!(r#"{{"session": "{session}", "text": "hello", "busy": "queue"}}"#);
        assert_eq!(asked_of(parts.clone(), &Caller::Local, "POST", "/api/v1/submit", &submit).await.status(), 202);
    }
    let before = reads.0.load(Ordering::SeqCst);
    for (message, status) in [("open", 204), ("unknown", 404)] {
        let path = format!("/api/v1/messages/{message}");
        assert_eq!(asked_of(parts.clone(), &Caller::Local, "DELETE", &path, "").await.status().as_u16(), status);
    }
    assert_eq!(reads.0.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn an_unknown_message_is_refused_without_a_read_of_the_store() {
    let store = Arc::new(MemoryStore::new());
    let parts = Parts { intake: Arc::new(Open), ..parts(&store) };
    let submit = r#"{"session": "a", "text": "hello"}"#;
    let said = json_of(asked_of(parts.clone(), &Caller::Local, "POST", "/api/v1/submit", submit).await).await;
    store.failing_reads.store(1, Ordering::SeqCst);
    store.broken_scans.store(1, Ordering::SeqCst);
    for (message, status) in [("1", 404), ("k00", 404), (said["message"].as_str().unwrap(), 204)] {
        let path = format!("/api/v1/messages/{message}");
        assert_eq!(asked_of(parts.clone(), &Caller::Local, "DELETE", &path, "").await.status().as_u16(), status);
    }
    let left = [&store.failing_reads, &store.broken_scans].map(|left| left.load(Ordering::SeqCst));
    assert_eq!(left, [1, 1], "nothing is read");
}

#[tokio::test]
async fn the_stream_of_a_session_that_made_room_is_closed() {
    let closing = Arc::new(Closing::default());
    let parts =
        Parts { intake: Arc::new(Open), events: Arc::clone(&closing) as _, ..parts(&Arc::new(MemoryStore::new())) };
    for number in 0..=200 {
        let submit = format!(r#"{{"session": "s{number}", "text": "hello"}}"#);
        asked_of(parts.clone(), &Caller::Local, "POST", "/api/v1/submit", &submit).await;
    }
    assert_eq!(closing.0.lock().len(), 1);
}

#[tokio::test]
async fn a_key_for_another_door_does_not_come_through_this_one() {
    let ring = KeyRing::of_secrets(["first"]);
    let key = ring.find("first", domain::ids::Timestamp(0)).unwrap();
    let of = |doors: &[&str]| {
        let doors = doors.iter().map(|door| (*door).to_owned()).collect();
        Caller::Key(Arc::new(ApiKey { doors, ..(*key).clone() }))
    };
    assert_eq!(asked(&of(&["api"]), "GET", "/api/v1/sessions", "").await.status(), 403);
    assert_eq!(asked(&of(&[Door::new("terminal").as_str()]), "GET", "/api/v1/sessions", "").await.status(), 200);
}

#[tokio::test]
async fn what_there_is_to_know_has_the_form_of_the_document() {
    for (path, schema) in [
        ("/api/v1/models", "Models"),
        ("/api/v1/tools", "Tools"),
        ("/api/v1/usage", "Usage"),
        ("/api/v1/health", "Health"),
        ("/api/v1/sessions", "Sessions"),
    ] {
        let answer = ask("GET", path, "").await;
        assert_eq!(answer.status(), 200, "{path}");
        let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
        let mut schema = document()["components"]["schemas"][schema].clone();
        schema["components"] = document()["components"].clone();
        assert!(jsonschema::is_valid(&schema, &body), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_key_without_the_right_to_tools_sees_none() {
    let ring = KeyRing::of_secrets(["first"]);
    let key = ring.find("first", domain::ids::Timestamp(0)).unwrap();
    for (rights, tools) in [(vec![Right::Chat], 0), (vec![Right::Chat, Right::Tools], 1)] {
        let caller = Caller::Key(Arc::new(ApiKey { rights, ..(*key).clone() }));
        let answer = asked(&caller, "GET", "/api/v1/tools", "").await;
        assert_eq!(answer.status(), 200);
        let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
        assert_eq!(body["tools"].as_array().unwrap().len(), tools, "{body}");
    }
}

#[tokio::test]
async fn typed_commands_need_their_rights_and_are_answered_in_order() {
    let ring = KeyRing::of_secrets(["first"]);
    let key = ring.find("first", domain::ids::Timestamp(0)).unwrap();
    let chats = Caller::Key(Arc::new(ApiKey { rights: vec![Right::Chat], ..(*key).clone() }));
    for text in ["!sysprompt", "!llm_timeout", "!db select 1", "!tools", "!help\n!llm_call main false"] {
        let body = serde_json::json!({"session": "a", "text": text}).to_string();
        assert_eq!(asked(&chats, "POST", "/api/v1/submit", &body).await.status(), 403, "{text}");
    }
    let text = "!sysprompt\n!LLM_CALL main\n!session";
    let body = serde_json::json!({"session": "a", "text": text, "wait": true}).to_string();
    let answer = ask("POST", "/api/v1/submit", &body).await;
    assert_eq!(answer.status(), 200);
    let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
    let said = "You are staffai.\n\nmain: true\n\n101 a: 0 messages, quiet for 0 s";
    assert_eq!((&body["status"], &body["text"]), (&"complete".into(), &said.into()));
}

#[tokio::test]
async fn a_statement_without_a_database_is_refused_with_the_fix() {
    for text in ["!db select 1 from orders", "!tools\n!db select 1 from orders\nand tell me"] {
        let body = serde_json::json!({"session": "a", "text": text, "wait": true}).to_string();
        let answer = ask("POST", "/api/v1/submit", &body).await;
        assert_eq!(answer.status(), 409, "{text}");
        let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.starts_with("!db needs a database") && detail.contains("[[tools.databases]]"), "{detail}");
    }
}

#[tokio::test]
async fn a_command_that_fails_tells_what_was_done_before_it() {
    let text = "!sysprompt\n!llm_call main\n!llm_timeout main 5\nhello";
    let body = serde_json::json!({"session": "a", "text": text, "wait": true}).to_string();
    let answer = ask("POST", "/api/v1/submit", &body).await;
    assert_eq!(answer.status(), 409);
    let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
    let detail = body["detail"].as_str().unwrap();
    let told = "!llm_timeout main 5 failed: not here. The commands before it were run:\n\n\
                !sysprompt\nYou are staffai.\n\n!llm_call main\nmain: true";
    assert_eq!(detail, told);
}

#[tokio::test]
async fn sections_of_prompts_need_a_key_that_operates() {
    let ring = KeyRing::of_secrets(["first"]);
    let key = ring.find("first", domain::ids::Timestamp(0)).unwrap();
    let append = r#"{"operation": "append", "text": "x"}"#;
    for (rights, method, path, body, status) in [
        (vec![Right::Chat, Right::Tools], "GET", "/api/v1/prompts", "", 403),
        (vec![Right::Chat], "GET", "/api/v1/prompts/voice", "", 403),
        (vec![Right::Chat], "POST", "/api/v1/prompts/voice", append, 403),
        (vec![Right::Operate], "GET", "/api/v1/prompts", "", 200),
        (vec![Right::Operate], "GET", "/api/v1/prompts/voice", "", 200),
        (vec![Right::Operate], "GET", "/api/v1/prompts/1", "", 200),
        (vec![Right::Operate], "GET", "/api/v1/prompts/tone", "", 404),
        (vec![Right::Operate], "POST", "/api/v1/prompts/tone", append, 404),
        (vec![Right::Operate], "POST", "/api/v1/prompts/voice", append, 409),
        (vec![Right::Operate], "POST", "/api/v1/prompts/voice", r#"{"operation": "overwrite", "text": "x"}"#, 422),
        (vec![Right::Operate], "POST", "/api/v1/prompts/voice", r#"{"operation": "improve"}"#, 422),
    ] {
        let caller = Caller::Key(Arc::new(ApiKey { rights: rights.clone(), ..(*key).clone() }));
        assert_eq!(asked(&caller, method, path, body).await.status(), status, "{rights:?} {method} {path} {body}");
    }
}
