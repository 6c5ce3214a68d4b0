//! Pressed buttons of the bot's own messages.
//!
//! Source: `docs.slack.dev/reference/interaction-payloads/block_actions-payload`.

use serde::Deserialize;

use super::ids;
use super::people::Profile;
use super::unreadable::Unreadable;
use domain::command::{Callback, CallbackToken, Caller};
use domain::gate::{Choice, Click, Clicker};
use domain::ids::Place;

/// The longest value of a button, in bytes; the bot's are shorter.
const VALUE_BYTES: usize = 255;

/// A pressed button. The name of the member is not known yet.
#[derive(Debug)]
pub(super) struct Press {
    gate: domain::gate::GateId,
    choice: Choice,
    pub(super) user: String,
    place: Place,
    /// The id of this press, and the address for the private answer.
    callback: Callback,
}

/// Reads the payload of an interaction; `None` if it is no button of an approval.
pub(super) fn read(payload: &str) -> Result<Option<Press>, Unreadable> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        user: User,
        #[serde(default)]
        container: Container,
        #[serde(default)]
        actions: Vec<Action>,
        #[serde(default)]
        response_url: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct User {
        id: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Container {
        channel_id: String,
        message_ts: String,
        thread_ts: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Action {
        value: String,
        action_ts: String,
    }
    let wire: Wire = serde_json::from_str(payload)?;
    let Some(action) = wire.actions.into_iter().next().filter(|_| wire.kind == "block_actions") else {
        return Ok(None);
    };
    let named = (action.value.len() <= VALUE_BYTES).then(|| Choice::of_button(&action.value)).flatten();
    let Some((gate, choice)) = named else { return Ok(None) };
    let Container { channel_id: channel, message_ts, thread_ts } = wire.container;
    let times = [Some(&message_ts), thread_ts.as_ref()];
    let odd = !ids::is_id(&wire.user.id)
        || !ids::is_id(&channel)
        || times.into_iter().flatten().any(|ts| ids::moment(ts).is_none());
    if odd {
        return Err(Unreadable::id());
    }
    let pressed = if ids::moment(&action.action_ts).is_some() { &action.action_ts } else { &message_ts };
    Ok(Some(Press {
        gate,
        choice,
        place: thread_ts.as_deref().map_or_else(|| ids::channel(&channel), |ts| ids::thread(&channel, ts)),
        callback: Callback {
            id: ids::message(&channel, pressed),
            application: wire.user.id.clone(),
            token: CallbackToken::new(wire.response_url),
        },
        user: wire.user.id,
    }))
}

impl Press {
    /// Returns the decision of this member.
    pub(super) fn click(self, member: Profile) -> Click {
        let Self { gate, choice, user, place, callback } = self;
        let person = ids::person(&user);
        let Profile { name, locale, roles, .. } = member;
        let caller = Caller { person, name, roles, locale, operator: false };
        let answers = serde_json::Map::new();
        Click { gate, choice, answers, by: Clicker::Member(caller), place: Some(place), callback: Some(callback) }
    }
}
