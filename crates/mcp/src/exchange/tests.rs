use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ListToolsRequest, PingRequest, SubscriptionFilter,
    SubscriptionsListenRequest, SubscriptionsListenRequestParams,
};

use proptest::prelude::*;
use rmcp::model::{CancelledNotification, CancelledNotificationParam};

use super::*;

struct Rig {
    exchanges: Exchanges,
    changes: watch::Receiver<u64>,
}

impl Rig {
    fn new() -> Self {
        let (sender, changes) = watch::channel(0);
        Self { exchanges: Exchanges::new(ServerName::new("s"), sender, Room::default()), changes }
    }

    fn send(&self, id: i64, request: impl Into<ClientRequest>) {
        self.exchanges.outgoing(&ClientJsonRpcMessage::request(request.into(), RequestId::Number(id)));
    }

    fn call(&self, id: i64) -> Awaited {
        let awaited = Awaited::new(Want::Call(ResultLimits::default()), None);
        let mut request = CallToolRequest::new(CallToolRequestParams::new("t"));
        request.extensions.insert(awaited.clone());
        self.send(id, ClientRequest::CallToolRequest(request));
        awaited
    }

    fn subscribe(&self, id: i64) {
        let params = SubscriptionsListenRequestParams::new(SubscriptionFilter::default());
        self.send(id, ClientRequest::SubscriptionsListenRequest(SubscriptionsListenRequest::new(params)));
    }

    fn receive(&self, text: &str) -> usize {
        self.exchanges.incoming(Frame::Whole(text.as_bytes().to_vec().into()), None).len()
    }
}

fn text(awaited: &Awaited) -> String {
    match awaited.take() {
        Some(Ok(Payload::Reply(CallReply::Result(result)))) => result.to_text(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_reach_their_own_calls() {
    let rig = Rig::new();
    let (one, two) = (rig.call(1), rig.call(2));
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"two"}]}}"#), 1);
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"one"}]}}"#), 1);
    assert_eq!((text(&one), text(&two)), ("one".into(), "two".into()));
}

#[test]
fn what_belongs_to_no_request_is_dropped() {
    let rig = Rig::new();
    let call = rig.call(1);
    let answer = r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"wrong"}]}}"#;
    for noise in [answer, "", "hello", "{", "[]", "7", "null", r#"{"id":{}}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
        assert_eq!(rig.receive(noise), 0, "{noise}");
    }
    assert!(call.take().is_none());
    rig.exchanges.forget(&RequestId::Number(1));
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#), 0, "a late answer");
}

#[test]
fn noise_in_front_of_a_message_and_batches_are_read() {
    let rig = Rig::new();
    let (one, two, three) = (rig.call(1), rig.call(2), rig.call(3));
    assert_eq!(rig.receive(r#"Listening... {"jsonrpc":"2.0","id":1,"result":{"content":"a"}}"#), 1);
    let batch =
        r#"[{"jsonrpc":"2.0","id":2,"result":{"content":"b"}},4,{"jsonrpc":"2.0","id":3,"result":{"content":"c"}}]"#;
    assert_eq!(rig.receive(batch), 2);
    assert_eq!([text(&one), text(&two), text(&three)], ["a", "b", "c"]);
}

#[test]
fn errors_carry_code_and_words() {
    let rig = Rig::new();
    let call = rig.call(1);
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no\nsuch tool"}}"#), 1);
    let failure = call.take().unwrap().unwrap_err();
    assert_eq!(failure, Failure::Rpc { code: -32602, message: "no such tool".into() });
    let call = rig.call(2);
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","error":"boom"}"#), 1, "it can only belong to the single call");
    assert_eq!(call.take().unwrap().unwrap_err(), Failure::Rpc { code: 0, message: "\"boom\"".into() });
}

#[tokio::test(start_paused = true)]
async fn a_subscription_does_not_count_as_a_question() {
    let rig = Rig::new();
    rig.subscribe(1);
    let call = rig.call(2);
    let flood = || (0..2_000).for_each(|_| rig.exchanges.received(64 * 1024, 0));
    flood();
    assert!(!rig.exchanges.inquiries.is_shut(), "the deadline of the call is the bound");
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","error":"boom"}"#), 1, "an error without an id belongs to the call");
    assert!(matches!(call.take(), Some(Err(Failure::Rpc { .. }))));
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","error":"boom"}"#), 0);
    let call = rig.call(3);
    let oversized = || {
        let head = r#"{"result":{"content":[{"type":"text","text":"x"#.into();
        Frame::Oversized(Oversized { head, tail: r#"x"}]}}"#.into(), bytes: 500_000_000, crowded: false })
    };
    assert_eq!(rig.exchanges.incoming(oversized(), None).len(), 1, "so does an answer without a readable id");
    assert!(text(&call).starts_with('x'));
    assert_eq!(rig.exchanges.incoming(oversized(), None).len(), 0);
    assert!(rig.exchanges.waits(&RequestId::Number(1)), "the subscription stays");
    flood();
    assert!(rig.exchanges.inquiries.is_shut(), "nothing was asked");
}

#[test]
fn a_storm_of_changes_is_a_count() {
    let rig = Rig::new();
    for _ in 0..1_000 {
        assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#), 0);
    }
    assert_eq!(*rig.changes.borrow(), 1_000);
}

#[test]
fn progress_reaches_the_call_that_it_is_about() {
    let rig = Rig::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink: ProgressSink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress| told.lock().push(progress))
    };
    let awaited = Awaited::new(Want::Call(ResultLimits::default()), Some(sink));
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("t")));
    request.extensions_mut().insert(awaited);
    request.get_meta_mut().set_progress_token(ProgressToken(RequestId::Number(5)));
    rig.send(1, request);
    let notice = |token: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"total":4}}}}"#
        )
    };
    rig.receive(&notice(5));
    rig.receive(&notice(6));
    assert_eq!(*told.lock(), [Progress { done: 1.0, total: Some(4.0), message: None }]);
    rig.exchanges.forget(&RequestId::Number(1));
    rig.receive(&notice(5));
    assert_eq!(told.lock().len(), 1);
}

#[test]
fn an_answer_that_is_too_large_is_still_an_answer() {
    let rig = Rig::new();
    let (one, two) = (rig.call(1), rig.call(2));
    let oversized = |head: &str, tail: &str| {
        Frame::Oversized(Oversized { head: head.into(), tail: tail.into(), bytes: 500_000_000, crowded: false })
    };
    let frame = oversized(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"be"#, "gin\"}]}}");
    assert_eq!(rig.exchanges.incoming(frame, None).len(), 1);
    assert!(text(&two).starts_with("be"));
    let frame = oversized(r#"{"result":{"content":[{"type":"text","text":"x"#, r#"x"}]},"jsonrpc":"2.0","id": 1}"#);
    assert_eq!(rig.exchanges.incoming(frame, None).len(), 1);
    assert!(text(&one).starts_with('x'));
}

#[test]
fn an_oversized_answer_reaches_its_own_call_only() {
    let oversized = |head: &str, tail: &str, crowded| {
        Frame::Oversized(Oversized { head: head.into(), tail: tail.into(), bytes: 9_000_000, crowded })
    };
    let records = r#"{"result":{"structuredContent":[{"id":3},{"id":4}],"content":[{"type":"text","text":"of A"#;
    for crowded in [false, true] {
        let rig = Rig::new();
        let (a, b) = (rig.call(2), rig.call(3));
        // The id stands last, behind records of which one has the id of another call.
        let frame = oversized(records, r#"{"id":3}]},"jsonrpc":"2.0","id":2}"#, crowded);
        assert_eq!(rig.exchanges.incoming(frame, None).len(), 1);
        assert!(a.take().is_some() && b.take().is_none());
    }
    let rig = Rig::new();
    let (a, b) = (rig.call(2), rig.call(3));
    // The transport knows the request.
    let frame = oversized(records, r#"{"id":3}]"#, false);
    assert_eq!(rig.exchanges.incoming(frame, Some(&RequestId::Number(2))).len(), 1);
    assert!(a.take().is_some() && b.take().is_none());
    // A late answer to a call that was given up is not the answer to the only pending one, nor is a notification.
    for (head, hint) in [
        (r#"{"jsonrpc":"2.0","id":2,"result":{"#, None),
        (r#"{"result":{"#, Some(RequestId::Number(2))),
        (r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#, None),
        (r#"{"id":3,"method":"sampling/createMessage","params":{"#, None),
    ] {
        assert_eq!(rig.exchanges.incoming(oversized(head, "", false), hint.as_ref()).len(), 0, "{head}");
    }
    assert!(b.take().is_none());
}

#[test]
fn an_answer_without_room_is_an_error_of_its_call() {
    let rig = Rig::new();
    let call = rig.call(1);
    let head = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"be"#.to_vec();
    let frame = Frame::Oversized(Oversized { head, tail: Vec::new(), bytes: 8_000_000, crowded: true });
    assert_eq!(rig.exchanges.incoming(frame, None).len(), 1);
    let failure = call.take().unwrap().unwrap_err();
    assert_eq!(failure, Failure::Crowded(8_000_000));
    let error = failure.of_call(&ServerName::new("s"));
    assert!(error.message.contains("no memory for its reply of 8000000 bytes"), "{error}");
}

#[test]
fn the_rest_is_left_to_the_library() {
    let rig = Rig::new();
    rig.send(1, ClientRequest::PingRequest(PingRequest::default()));
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 1);
    assert_eq!(
        rig.receive(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#),
        0,
        "requests of the server are answered here"
    );
    assert_eq!(
        rig.receive(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#),
        0
    );
    let mut list = ListToolsRequest::default();
    list.extensions.insert(Awaited::new(Want::Tools, None));
    rig.send(2, ClientRequest::ListToolsRequest(list));
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":2,"result":[{"name":"a"}]}"#), 1, "a bare list");
}

#[test]
fn what_a_server_of_the_newer_generation_says_of_itself_reaches_the_library() {
    let rig = Rig::new();
    rig.send(0, ClientRequest::PingRequest(PingRequest::default()));
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"cacheScope":"private","capabilities":{"tools":{"listChanged":false}},
        "resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0}}"#;
    let messages = rig.exchanges.incoming(Frame::Whole(answer.as_bytes().to_vec().into()), None);
    let [ServerJsonRpcMessage::Response(response)] = &messages[..] else { panic!("{messages:?}") };
    assert!(matches!(response.result, rmcp::model::ServerResult::DiscoverResult(_)), "{response:?}");
}

#[test]
fn an_answer_without_a_result_is_an_answer() {
    let rig = Rig::new();
    let call = rig.call(1);
    assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":1,"result":null}"#), 1);
    assert_eq!(text(&call), "");
    let call = rig.call(2);
    assert_eq!(rig.receive(r#"{"id":2,"result":null,"error":{"code":-32000,"message":"no"}}"#), 1);
    assert_eq!(call.take().unwrap().unwrap_err(), Failure::Rpc { code: -32_000, message: "no".into() });
}

#[test]
fn two_messages_on_a_line_and_broken_characters_are_read() {
    let rig = Rig::new();
    let (one, two) = (rig.call(1), rig.call(2));
    let both =
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":"a\ud83d"}}{"jsonrpc":"2.0","id":2,"result":{"content":"b"}}"#;
    assert_eq!(rig.receive(both), 2);
    assert_eq!([text(&one), text(&two)], ["a\u{fffd}", "b"]);
    let call = rig.call(3);
    let frame = Frame::Whole(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":\"caf\xe9\"}}".to_vec().into());
    assert_eq!(rig.exchanges.incoming(frame, None).len(), 1);
    assert_eq!(text(&call), "caf\u{fffd}");
}

#[test]
fn what_is_cancelled_waits_no_more() {
    let rig = Rig::new();
    rig.send(1, ClientRequest::PingRequest(PingRequest::default()));
    let params = CancelledNotificationParam::new(Some(RequestId::Number(1)), None);
    let notice = CancelledNotification::new(params).into();
    rig.exchanges.outgoing(&ClientJsonRpcMessage::notification(notice));
    assert!(!rig.exchanges.waits(&RequestId::Number(1)));
}

proptest! {
    #[test]
    fn whatever_comes_the_next_answer_reaches_its_call(
        noise in prop::collection::vec(prop_oneof![
            any::<Vec<u8>>(),
            "[\\[\\]{}:,0-9a-z\" ]{0,40}".prop_map(String::into_bytes),
            (2_i64..9, "[a-z\"{}:]{0,20}").prop_map(|(id, junk)| {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{junk}}}"#).into_bytes()
            }),
        ], 0..8),
    ) {
        let rig = Rig::new();
        let call = rig.call(1);
        for bytes in noise {
            rig.exchanges.incoming(Frame::Whole(bytes.into()), None);
        }
        // Noise may happen to be a valid error answer to the only call.
        if let Some(early) = call.take() {
            prop_assert!(early.is_err());
            return Ok(());
        }
        prop_assert_eq!(rig.receive(r#"{"jsonrpc":"2.0","id":1,"result":{"content":"right"}}"#), 1);
        prop_assert_eq!(text(&call), "right");
    }
}
