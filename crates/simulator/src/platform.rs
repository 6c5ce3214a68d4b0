//! The chat platform: messages, the events that it tells the program, and its requests. Ids are numbers in order.

mod requests;
mod session;

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use self::session::closed;
use super::history::{Kind, Number, Seen, tokens};
use super::outside::Outside;
use domain::command::{Callback, CallbackToken, Caller, Command};
use domain::gate::{Choice, Click, Clicker};
use domain::ids::{Door, MessageId, Person, Place, Timestamp};
use domain::incoming::{Author, AuthorKind, Deletion, Incoming, Posted, Quoted, WantedModels};
use domain::outgoing::Button;
use ports::{Clock as _, StreamEvent};

/// The door of the platform.
pub const DOOR: Door = Door::new("discord");
/// The community of all channels.
const GUILD: &str = "5";
/// The id of the first channel, and of the first member.
const FIRST: u64 = 100;

/// The platform of a life.
#[derive(Debug, Default)]
pub struct Platform(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    /// The messages by nonce, with the time of each.
    nonces: BTreeMap<String, (u64, Timestamp)>,
    /// The events of the session in order; the first has sequence number two.
    told: Vec<Event>,
    questions: Vec<Question>,
    callbacks: u64,
    line: Option<mpsc::UnboundedSender<StreamEvent>>,
}

#[derive(Debug, Clone)]
enum Event {
    Happened(Box<Incoming>),
    /// The channels with their newest messages, at the beginning of a session.
    Places,
}

/// A message that is visible, or was deleted.
#[derive(Debug, Clone)]
struct Message {
    id: u64,
    place: u64,
    author: u64,
    text: String,
    at: Timestamp,
    reply_to: Option<u64>,
    buttons: Vec<Button>,
    deleted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Question {
    kind: Kind,
    member: u64,
    message: u64,
    deleted: bool,
}

/// The bot's account.
const US: u64 = 1;
/// A person who asks nothing.
const BYSTANDER: u64 = 2;

impl Platform {
    /// Creates a platform with so many channels, each with an old message of a person who does not ask.
    #[must_use]
    pub fn new(places: u64, at: Timestamp) -> Self {
        let mut state = State::default();
        for place in 0..places {
            state.post(place, BYSTANDER, "good morning".to_owned(), at, None);
        }
        Self(Mutex::new(state))
    }

    /// Returns the kind of a question.
    #[must_use]
    pub fn kind_of(&self, number: Number) -> Option<Kind> {
        let index = usize::try_from(number).ok()?;
        self.0.lock().questions.get(index).map(|question| question.kind)
    }

    /// A member asks a question.
    pub fn ask(&self, outside: &Outside, kind: Kind, member: u64, place: u64) {
        let mut state = self.0.lock();
        let number = state.questions.len() as u64;
        let text = format!("<@{US}> {}", super::history::token(number));
        let id = state.post(place, FIRST + member, text, outside.now(), None);
        state.questions.push(Question { kind, member, message: id, deleted: false });
        outside.record(Seen::Asked { number, kind, member, place, message: id });
        let posted = state.messages.last().map(Message::posted);
        if let Some(posted) = posted {
            state.tell(outside, Incoming::Posted(posted));
        }
    }

    /// The member of one of the last questions deletes it.
    pub fn delete(&self, outside: &Outside, back: u64) {
        let mut state = self.0.lock();
        let Some(index) = state.questions.len().checked_sub(1 + usize::try_from(back).unwrap_or(0)) else { return };
        let question = &mut state.questions[index];
        if std::mem::replace(&mut question.deleted, true) {
            return;
        }
        let message = question.message;
        if let Some(found) = state.messages.iter_mut().find(|found| found.id == message) {
            found.deleted = true;
        }
        outside.record(Seen::Deleted { number: index as u64 });
        state
            .tell(outside, Incoming::Deleted(Deletion { message: message_id(message), guild: Some(GUILD.to_owned()) }));
    }

    /// A member presses a button of a request for approval, if there is one: of the `nth` request, the asking member
    /// or another one.
    pub fn click(&self, outside: &Outside, nth: u64, other: bool, approves: bool) {
        let mut state = self.0.lock();
        let open: Vec<&Message> =
            state.messages.iter().filter(|sent| !sent.deleted && !sent.buttons.is_empty()).collect();
        if open.is_empty() {
            return;
        }
        let sent = open[usize::try_from(nth).unwrap_or(0) % open.len()];
        let wanted = if approves { Choice::Once } else { Choice::Deny };
        let mut named = sent.buttons.iter().filter_map(|button| Choice::of_button(&button.name));
        let Some((gate, choice)) = named.find(|(_, choice)| *choice == wanted) else { return };
        let Some(number) = tokens(&sent.text).first().copied() else { return };
        let Some(question) = usize::try_from(number).ok().and_then(|index| state.questions.get(index)) else { return };
        let (member, place) = (question.member + u64::from(other), sent.place);
        let callback = state.callback();
        outside.record(Seen::Clicked { number, member, approves });
        let by = Clicker::Member(caller(member));
        let answers = serde_json::Map::new();
        let click = Click { gate, choice, answers, by, place: Some(place_id(place)), callback: Some(callback) };
        state.tell(outside, Incoming::Decision(Box::new(click)));
    }

    /// The asking members decide about all requests for approval that are still open.
    pub fn decide_all(&self, outside: &Outside) {
        let open = self.0.lock().messages.iter().filter(|sent| !sent.deleted && !sent.buttons.is_empty()).count();
        for nth in 0..open as u64 {
            self.click(outside, nth, false, nth % 2 == 0);
        }
    }

    /// A member runs a command.
    pub fn run(&self, outside: &Outside, name: &'static str, member: u64, place: u64) {
        let mut state = self.0.lock();
        let callback = state.callback();
        outside.record(Seen::Ran { callback: state.callbacks, name, member, place });
        let command = Command {
            callback,
            name: name.to_owned(),
            options: Vec::new(),
            named: Vec::new(),
            caller: caller(member),
            place: place_id(place),
            parent: None,
            guild: Some(GUILD.to_owned()),
            at: outside.now(),
        };
        state.tell(outside, Incoming::Command(Box::new(command)));
    }

    /// The connection breaks. The session can be resumed, or not.
    pub fn cut(&self, resumable: bool) {
        self.0.lock().cut(resumable);
    }

    /// The program that held the connection is gone.
    pub fn disconnect(&self) {
        self.0.lock().line = None;
    }
}

impl State {
    fn next_id(&self) -> u64 {
        1_000 + self.messages.len() as u64
    }

    fn post(&mut self, place: u64, author: u64, text: String, at: Timestamp, reply_to: Option<u64>) -> u64 {
        let id = self.next_id();
        self.messages.push(Message { id, place, author, text, at, reply_to, buttons: Vec::new(), deleted: false });
        id
    }

    fn callback(&mut self) -> Callback {
        self.callbacks += 1;
        // Interactions have ids of the same kind as messages, above all of them.
        let id = message_id(1_000_000 + self.callbacks);
        let token = CallbackToken::new(self.callbacks.to_string());
        Callback { id, application: "1".to_owned(), token }
    }

    /// Adds an event to the session, and sends it on the open connection, sometimes twice.
    fn tell(&mut self, outside: &Outside, incoming: Incoming) {
        self.told.push(Event::Happened(Box::new(incoming)));
        let sequence = 1 + self.told.len() as u64;
        self.send(sequence);
        if outside.repeats() {
            self.send(sequence);
        }
    }

    /// Sends the event with this sequence number on the open connection. Without one, it waits for the next.
    fn send(&self, sequence: u64) {
        let index = usize::try_from(sequence - 2).unwrap_or(usize::MAX);
        let (Some(line), Some(event)) = (&self.line, self.told.get(index)) else { return };
        let _ = line.send(match event {
            Event::Happened(incoming) => StreamEvent::Incoming { sequence, incoming: incoming.clone() },
            Event::Places => {
                let mut newest = BTreeMap::new();
                for message in self.messages.iter().filter(|message| message.author != US) {
                    newest.insert(message.place, message.at);
                }
                let newest = newest.into_iter().map(|(place, at)| (place_id(place), at)).collect();
                StreamEvent::Places { sequence, guild: GUILD.to_owned(), newest }
            }
        });
    }
}

impl Message {
    fn posted(&self) -> Posted {
        let kind = if self.author == US { AuthorKind::Ourselves } else { AuthorKind::Member };
        Posted {
            id: message_id(self.id),
            place: place_id(self.place),
            parent: None,
            guild: Some(GUILD.to_owned()),
            author: Author {
                joined: None,
                person: Person::new(DOOR, self.author.to_string()),
                name: format!("member {}", self.author),
                roles: Vec::new(),
                kind,
            },
            text: self.text.clone(),
            mentions_us: kind == AuthorKind::Member && self.author != BYSTANDER,
            reply_to: self.reply_to.map(|id| Quoted { id: message_id(id), seen: None }),
            attachments: Vec::new(),
            locale: None,
            may_answer: true,
            at: self.at,
            draw: None,
            tools: true,
            given: None,
            models: WantedModels::default(),
            lineage: None,
        }
    }
}

fn caller(member: u64) -> Caller {
    let person = Person::new(DOOR, (FIRST + member).to_string());
    Caller { person, name: format!("member {member}"), roles: Vec::new(), locale: None, operator: false }
}

/// Returns the bot's account.
#[must_use]
pub fn us() -> Person {
    Person::new(DOOR, US.to_string())
}

fn message_id(id: u64) -> MessageId {
    MessageId::new(DOOR, id.to_string())
}

fn place_id(place: u64) -> Place {
    Place::new(DOOR, (FIRST + place).to_string())
}

/// Returns the number of a place in the events of a life.
pub fn place_number(place: &Place) -> u64 {
    number(&place.id) - FIRST
}

fn number(id: &str) -> u64 {
    id.parse().unwrap_or(0)
}
