use super::*;
use crate::domain::outgoing::Piece;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }
}

fn create(place: &Place, nonce: &str, text: &str) -> PostRequest {
    PostRequest::Create { place: place.clone(), piece: Piece::text(text), reply_to: None, nonce: nonce.to_owned() }
}

#[tokio::test]
async fn an_answer_is_told_in_order_and_only_once() {
    let sessions = Sessions::new(Arc::new(Still));
    let asked = sessions.says("s1", "hello").unwrap();
    let place = asked.place.clone();
    sessions.perform(&PostRequest::Typing { place: place.clone() }).await.unwrap();
    let first = sessions.perform(&create(&place, "n", "Hel")).await.unwrap();
    let again = sessions.perform(&create(&place, "n", "Hel")).await.unwrap();
    assert_eq!(first.result, again.result, "the same nonce gives the first message back");
    let PostResult::Message(message) = first.result else { panic!("a message") };
    let edit = PostRequest::Edit { place: place.clone(), message: message.clone(), piece: Piece::text("Hello!") };
    sessions.perform(&edit).await.unwrap();
    sessions.delivered(&place, &asked.id);
    let (events, _) = sessions.events("s1", 1).unwrap();
    let expected = [
        What::Posted { message: message.id.clone(), text: "Hel".to_owned() },
        What::Edited { message: message.id, text: "Hello!".to_owned() },
        What::Done { trigger: asked.id.id },
    ];
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(events.into_iter().map(|event| event.what).collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_session_or_says_nothing_is_not_taken() {
    let sessions = Sessions::new(Arc::new(Still));
    for name in ["", "a b", "ä", "x:y", &"x".repeat(65)] {
        assert_eq!(sessions.says(name, "hi"), Err(NotTaken::BadName), "{name}");
    }
    assert_eq!(sessions.says("s", " \n"), Err(NotTaken::Empty));
}

#[test]
fn sessions_and_messages_are_bounded_and_ids_rise() {
    let sessions = Sessions::new(Arc::new(Still));
    let mut last = 0;
    for number in 0..SESSIONS_MAX + 10 {
        let posted = sessions.says(&format!("s{number}"), "hi").unwrap();
        let id: u64 = posted.id.id.parse().unwrap();
        assert!(id > last);
        last = id;
    }
    assert_eq!(sessions.inner.lock().sessions.len(), SESSIONS_MAX);
    for _ in 0..MESSAGES_MAX + 10 {
        sessions.says("s-last", "hi").unwrap();
    }
    assert_eq!(sessions.history(&Place::new(DOOR, "s-last"), None, 1_000).len(), MESSAGES_MAX);
}
