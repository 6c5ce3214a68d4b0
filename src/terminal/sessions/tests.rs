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
async fn a_post_is_kept_once_and_changed_by_edits() {
    let sessions = Sessions::new(Arc::new(Still));
    let asked = sessions.says("s1", "hello", None).unwrap();
    let place = asked.place.clone();
    let first = sessions.perform(&create(&place, "n", "Hel")).await.unwrap();
    let again = sessions.perform(&create(&place, "n", "Hel")).await.unwrap();
    assert_eq!(first.result, again.result, "the same nonce gives the first message back");
    let PostResult::Message(message) = first.result else { panic!("a message") };
    let edit = PostRequest::Edit { place: place.clone(), message, piece: Piece::text("Hello!") };
    sessions.perform(&edit).await.unwrap();
    let kept = sessions.history(&place, &HistoryRange::After(asked.id.clone()), 10);
    assert_eq!(kept.into_iter().map(|posted| posted.text).collect::<Vec<_>>(), ["Hello!"]);
}

#[tokio::test]
async fn a_command_is_answered_while_its_session_lives() {
    let sessions = Sessions::new(Arc::new(Still));
    assert_eq!(sessions.runs("a b", "help".to_owned(), Vec::new()), Err(NotTaken::BadName));
    let to = sessions.runs("s1", "help".to_owned(), Vec::new()).unwrap().callback;
    let respond = PostRequest::Respond { to: to.clone(), piece: Piece::text("x") };
    assert_eq!(sessions.perform(&PostRequest::Defer(to)).await.unwrap().result, PostResult::Done);
    assert_eq!(sessions.perform(&respond).await.unwrap().result, PostResult::Done);
    sessions.inner.lock().sessions.remove("s1");
    let lost = sessions.perform(&respond).await;
    assert!(matches!(lost, Err(PostError::Rejected { reason: Rejection::PlaceGone | Rejection::MessageGone, .. })));
}

#[test]
fn what_is_no_session_or_says_nothing_is_not_taken() {
    let sessions = Sessions::new(Arc::new(Still));
    for name in ["", "a b", "ä", "x:y", &"x".repeat(65)] {
        assert_eq!(sessions.says(name, "hi", None), Err(NotTaken::BadName), "{name}");
    }
    assert_eq!(sessions.says("s", " \n", None), Err(NotTaken::Empty));
}

#[test]
fn sessions_and_messages_are_bounded_and_ids_rise() {
    let sessions = Sessions::new(Arc::new(Still));
    let mut last = 0;
    for number in 0..SESSIONS_MAX + 10 {
        let posted = sessions.says(&format!("s{number}"), "hi", None).unwrap();
        let id: u64 = posted.id.id.parse().unwrap();
        assert!(id > last);
        last = id;
    }
    assert_eq!(sessions.inner.lock().sessions.len(), SESSIONS_MAX);
    for _ in 0..MESSAGES_MAX + 10 {
        sessions.says("s-last", "hi", None).unwrap();
    }
    assert_eq!(sessions.history(&Place::new(DOOR, "s-last"), &HistoryRange::Newest, 1_000).len(), MESSAGES_MAX);
}

#[tokio::test]
async fn all_sessions_together_are_bounded() {
    let sessions = Sessions::new(Arc::new(Still));
    let text = "x".repeat(32 * 1024);
    // More than a hundred sessions of more than a megabyte each.
    for number in 0..130 {
        let name = format!("s{number}");
        for _ in 0..40 {
            sessions.says(&name, &text, None).unwrap();
        }
    }
    let asked = sessions.says("last", "hello", None).unwrap();
    for number in 0..80 {
        sessions.perform(&create(&asked.place, &number.to_string(), &text)).await.unwrap();
    }
    let inner = sessions.inner.lock();
    let bytes = |session: &Session| -> usize {
        let texts: usize = session.messages.iter().map(|kept| bytes_of(&kept.posted)).sum();
        assert_eq!(texts, session.bytes, "what is counted is what is there");
        texts
    };
    let all: Vec<usize> = inner.sessions.values().map(bytes).collect();
    assert!(all.iter().all(|bytes| *bytes <= SESSION_BYTES), "{all:?}");
    assert!(all.iter().sum::<usize>() <= ALL_BYTES && inner.sessions.contains_key("last"), "{all:?}");
}

#[tokio::test]
async fn what_is_deleted_or_quoted_is_counted_as_what_it_is() {
    let sessions = Sessions::new(Arc::new(Still));
    let asked = sessions.says("s1", &"x".repeat(1_000), None).unwrap();
    let reply = PostRequest::Create {
        place: asked.place.clone(),
        piece: Piece::text("abc"),
        reply_to: Some(asked.id.clone()),
        nonce: "n".to_owned(),
    };
    let PostResult::Message(message) = sessions.perform(&reply).await.unwrap().result else { panic!("a message") };
    let bytes = || sessions.inner.lock().sessions["s1"].bytes;
    assert_eq!(bytes(), 2_003, "the question is kept beside its answer as well");
    let place = asked.place;
    sessions.perform(&PostRequest::Delete { place: place.clone(), message }).await.unwrap();
    sessions.perform(&PostRequest::Delete { place, message: asked.id }).await.unwrap();
    assert_eq!(bytes(), 0);
}
