use super::*;

fn server() -> (Arc<Server>, std::sync::mpsc::Receiver<Value>) {
    let (tell, hear) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    (Arc::new(Server::new(move |message| drop(tell.lock().send(message)))), hear)
}

fn ask(server: &(Arc<Server>, std::sync::mpsc::Receiver<Value>), method: &str, params: &Value) -> Value {
    server.0.take(json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}).to_string().as_bytes());
    server.1.recv_timeout(Duration::from_secs(5)).unwrap()
}

fn call(server: &(Arc<Server>, std::sync::mpsc::Receiver<Value>), name: &str, arguments: &Value) -> Value {
    ask(server, "tools/call", &json!({"name": name, "arguments": arguments}))["result"].clone()
}

#[test]
fn notes_are_kept_while_it_runs() {
    let server = server();
    assert_eq!(call(&server, "list_notes", &json!({}))["content"][0]["text"], "There are no notes yet.");
    assert_eq!(call(&server, "add_note", &json!({"text": " "}))["isError"], true);
    for number in 0..=NOTES {
        call(&server, "add_note", &json!({"text": format!("rope\n{number}")}));
    }
    let listed = call(&server, "list_notes", &json!({}))["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(listed.starts_with("1. rope 1\n") && listed.ends_with("50. rope 50"), "{listed}");
    let cleared = call(&server, "clear_notes", &json!({}));
    assert_eq!(cleared["content"][0]["text"], "All notes are gone; there were 50.");
    assert_eq!(call(&server, "list_notes", &json!({}))["content"][0]["text"], "There are no notes yet.");
}

#[test]
fn a_picture_is_one_and_depends_on_the_words() {
    let bytes = |words: &str| {
        let drawn = call(&server(), "draw_picture", &json!({"words": words}));
        STANDARD.decode(drawn["content"][1]["data"].as_str().unwrap()).unwrap()
    };
    let size = imagesize::blob_size(&bytes("calm")).unwrap();
    assert_eq!((size.width, size.height), (320, 200));
    assert!(matches!(imagesize::image_type(&bytes("calm")), Ok(imagesize::ImageType::Png)));
    assert_eq!(bytes("calm"), bytes("calm"));
    assert_ne!(bytes("calm"), bytes("a storm"));
}

#[test]
fn a_wait_tells_how_far_it_is() {
    let server = server();
    let params = json!({"name": "wait", "arguments": {"seconds": 1}, "_meta": {"progressToken": "p"}});
    let first = ask(&server, "tools/call", &params);
    assert_eq!((&first["method"], &first["params"]["progressToken"]), (&json!("notifications/progress"), &json!("p")));
    assert_eq!(
        server.1.recv_timeout(Duration::from_secs(5)).unwrap()["result"]["content"][0]["text"],
        "Waited for 1 s."
    );
}

#[test]
fn a_trip_is_asked_for_with_a_form_and_the_answer_is_told() {
    let server = server();
    assert_eq!(ask(&server, "server/discover", &json!({}))["result"]["supportedVersions"][0], ASKING_PROTOCOL);
    let asked = call(&server, "plan_trip", &json!({}));
    assert_eq!(
        (&asked["resultType"], &asked["inputRequests"]["trip"]["params"]["mode"]),
        (&json!("input_required"), &json!("form"))
    );
    let told = |answer: Value| {
        let params = json!({"name": "plan_trip", "inputResponses": {"trip": answer}});
        ask(&server, "tools/call", &params)["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let content = json!({"harbour": "North Harbour", "days": 3, "boat": true});
    assert_eq!(told(json!({"action": "accept", "content": content})), "A trip to North Harbour for 3 days, by boat.");
    assert!(told(json!({"action": "decline"})).contains("not filled in"));
}

#[test]
fn what_it_does_not_know_is_refused_and_what_wants_no_answer_gets_none() {
    let server = server();
    assert_eq!(ask(&server, "prompts/list", &json!({}))["error"]["code"], METHOD_NOT_FOUND);
    assert_eq!(ask(&server, "tools/call", &json!({"name": "rm"}))["error"]["code"], INVALID_PARAMS);
    server.0.take(b"{\n");
    assert_eq!(server.1.recv().unwrap()["error"]["code"], PARSE_ERROR);
    server.0.take(br#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    assert_eq!(
        ask(&server, "initialize", &json!({"protocolVersion": "2025-11-25"}))["result"]["protocolVersion"],
        "2025-11-25"
    );
    for tool in tools().as_array().unwrap() {
        assert!(jsonschema::validator_for(&tool["inputSchema"]).is_ok(), "{tool}");
    }
}
