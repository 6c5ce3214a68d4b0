//! A member's click on its way to another process. The question of a timer or webhook belongs to the first range, and the
//! click arrives at the process of its community. It contains the means to answer, so it is kept for seconds only and
//! cannot be printed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Choice, Click, Clicker, GateId};
use crate::caller::Caller;
use crate::command::{Callback, CallbackToken};
use crate::ids::{MessageId, Person, Place};

/// The time for which a click is kept: the platform accepts no first response later.
pub const KEPT: Duration = Duration::from_secs(5);

/// A click with the means to answer it.
#[derive(Serialize, Deserialize)]
pub struct PassedClick {
    gate: GateId,
    choice: Choice,
    answers: Map<String, Value>,
    person: Person,
    name: String,
    roles: Vec<String>,
    locale: Option<String>,
    operator: bool,
    place: Place,
    id: MessageId,
    application: String,
    token: String,
}

impl PassedClick {
    /// Returns the form of this click as text; `None` for a decision of a program.
    #[must_use]
    pub fn written(click: &Click) -> Option<String> {
        let Click { gate, choice, answers, by: Clicker::Member(caller), place, callback } = click.clone() else {
            return None;
        };
        let (Caller { person, name, roles, locale, operator }, Callback { id, application, token }) =
            (caller, callback?);
        let (place, token) = (place?, token.expose().to_owned());
        let passed =
            Self { gate, choice, answers, person, name, roles, locale, operator, place, id, application, token };
        serde_json::to_string(&passed).ok()
    }

    /// Returns the click of a text; `None` if it is damaged.
    #[must_use]
    pub fn read(text: &str) -> Option<Click> {
        let passed = serde_json::from_str::<Self>(text).ok()?;
        let Self { gate, choice, answers, person, name, roles, locale, operator, place, id, application, token } =
            passed;
        let by = Clicker::Member(Caller { person, name, roles, locale, operator });
        let callback = Some(Callback { id, application, token: CallbackToken::new(token) });
        Some(Click { gate, choice, answers, by, place: Some(place), callback })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    #[test]
    fn a_click_of_a_member_is_read_as_it_was_written() {
        let door = Door::new("discord");
        let click = Click {
            gate: serde_json::from_str("\"g1\"").unwrap(),
            choice: Choice::Once,
            answers: Map::new(),
            by: Clicker::Member(Caller {
                person: Person::new(door.clone(), "7"),
                name: "Ada".to_owned(),
                roles: vec!["1".to_owned()],
                locale: None,
                operator: false,
            }),
            place: Some(Place::new(door.clone(), "2")),
            callback: Some(Callback {
                id: MessageId::new(door.clone(), "3"),
                application: "4".to_owned(),
                token: CallbackToken::new("secret".to_owned()),
            }),
        };
        let written = PassedClick::written(&click).unwrap();
        assert_eq!(PassedClick::read(&written), Some(click.clone()));
        assert_eq!(PassedClick::read("{}"), None);
        let program = Click { by: Clicker::Client(door, None), ..click };
        assert_eq!(PassedClick::written(&program), None);
    }
}
