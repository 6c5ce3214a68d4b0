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

#[tokio::test]
async fn the_answer_to_a_command_is_told_where_it_was_run() {
    let sessions = Sessions::new(Arc::new(Still));
    let command = sessions.runs("s1", "help".to_owned(), Vec::new()).unwrap();
    sessions.runs("s2", "help".to_owned(), Vec::new()).unwrap();
    let to = command.callback.clone();
    assert_eq!(sessions.perform(&PostRequest::Defer(to.clone())).await.unwrap().result, PostResult::Done);
    let piece = Piece::text("again <t:3:R>");
    sessions.perform(&PostRequest::Respond { to, piece }).await.unwrap();
    let told: Vec<What> = sessions.events("s1", 0).unwrap().0.into_iter().map(|event| event.what).collect();
    let [What::Posted { text, .. }, What::Done { trigger }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((text.as_str(), trigger), ("again in 2 s", &command.callback.id.id));
    assert!(sessions.events("s2", 0).unwrap().0.is_empty());
    assert_eq!(sessions.runs("a b", "help".to_owned(), Vec::new()), Err(NotTaken::BadName));
    let elsewhere = sessions.runs("s3", "help".to_owned(), Vec::new()).unwrap().callback;
    sessions.inner.lock().sessions.remove("s3");
    let lost = sessions.perform(&PostRequest::Respond { to: elsewhere, piece: Piece::text("x") }).await;
    assert!(matches!(lost, Err(PostError::Rejected { reason: Rejection::PlaceGone | Rejection::MessageGone, .. })));
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
