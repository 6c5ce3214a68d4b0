use super::*;

fn us() -> Account {
    let text = |text: &str| text.to_owned();
    Account { user: text("U0"), bot: None, team: text("T1"), name: text("staffai"), workspace: text("W") }
}

fn form() -> Form {
    let schema = json!({"properties": {
        "age": {"type": "integer", "minimum": 1, "description": "in years", "default": 30},
        "news": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "l"], "default": "l"},
        "why": {"type": "string", "minLength": 2, "maxLength": 500},
    }, "required": ["age"]});
    Form::read(&schema).unwrap()
}

#[test]
fn a_modal_has_an_input_with_its_bound_for_each_field() {
    let modal = modal("gate:1:once", &"t".repeat(80), &form(), "C1:1.5", Locale::English);
    assert_eq!(modal["title"]["text"].as_str().unwrap().len(), TITLE_MAX);
    assert_eq!((&modal["callback_id"], &modal["private_metadata"]), (&json!("gate:1:once"), &json!("C1:1.5")));
    let blocks = modal["blocks"].as_array().unwrap();
    let kinds: Vec<&str> = blocks.iter().map(|block| block["element"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["number_input", "static_select", "static_select", "plain_text_input"]);
    let age = &blocks[0];
    assert_eq!((&age["optional"], &age["hint"]["text"]), (&json!(false), &json!("in years")));
    assert_eq!((&age["element"]["min_value"], &age["element"]["initial_value"]), (&json!("1"), &json!("30")));
    assert_eq!(blocks[2]["element"]["initial_option"], blocks[2]["element"]["options"][1]);
    assert_eq!(blocks[3]["element"]["max_length"], 500);
}

#[test]
fn the_values_of_a_modal_are_read_by_the_names_of_its_fields() {
    let payload = json!({"type": "view_submission", "user": {"id": "U1"}, "trigger_id": "1.2.a", "view": {
        "id": "V1", "callback_id": "gate:1:once", "private_metadata": "C1:1.5", "state": {"values": {
            "age": {"value": {"type": "number_input", "value": "36"}},
            "news": {"value": {"type": "static_select", "selected_option": {"value": "true"}}},
            "size": {"value": {"type": "static_select", "selected_option": null}},
            "why": {"value": {"type": "plain_text_input", "value": null}},
            "big": {"value": {"value": "x".repeat(ANSWER_BYTES + 1)}},
        }},
    }});
    let sent = submitted(&payload.to_string()).unwrap().unwrap();
    assert_eq!((sent.user.as_str(), sent.view.as_str(), sent.attempt.as_str()), ("U1", "V1", "1.2.a"));
    assert_eq!(ids::at(&sent.place).unwrap().thread, Some("1.5"));
    assert_eq!(Value::Object(sent.answers), json!({"age": "36", "news": "true", "size": "", "why": ""}));
}

#[test]
fn odd_modals_are_unreadable_and_bare_ones_are_ignored() {
    let of = |view: Value| submitted(&json!({"user": {"id": "U1"}, "view": view}).to_string());
    assert!(of(json!({"id": "V1", "callback_id": "x", "private_metadata": "C 1"})).is_err());
    assert!(of(json!({"id": "V 1", "callback_id": "x", "private_metadata": "C1"})).is_err());
    assert!(of(json!({"id": "V1", "callback_id": "x".repeat(300), "private_metadata": "C1"})).is_err());
    assert!(of(json!({"id": "V1", "callback_id": BARE, "private_metadata": "C1"})).unwrap().is_none());
    assert!(of(json!({"id": "V1", "callback_id": "x"})).unwrap().is_none());
}

#[test]
fn a_token_names_the_modal_and_its_place() {
    let token = token("V1", &ids::thread("C1", "1.5"));
    assert_eq!(of_token(&token), Some(("V1", "C1:1.5")));
    assert_eq!(of_token(&CallbackToken::new("https://hooks.slack.com/actions/1".to_owned())), None);
}

#[test]
fn a_text_notifies_no_account() {
    let told = told(&us(), "<!channel> **done**", "C1");
    assert_eq!(told["view"]["blocks"][0]["text"]["text"], "&lt;!channel&gt; *done*");
}

#[test]
fn a_modal_with_very_many_values_is_unreadable_and_one_of_another_app_is_not_parsed() {
    let many = vec![json!({"a": 0}); 100_000];
    let of = |name: &str| {
        let view = json!({"id": "V1", "callback_id": name, "private_metadata": "C1:1.5", "state": {"values": many}});
        submitted(&json!({"user": {"id": "U1"}, "trigger_id": "1.2.a", "view": view}).to_string())
    };
    assert_eq!(of("gate:1:once").unwrap_err(), Unreadable::length());
    assert!(of(BARE).unwrap().is_none());
}
