use serde_json::json;

use super::*;

#[test]
fn complaints_of_every_provider() {
    for (body, expected) in [
        (json!({"error": {"message": "m", "type": "t", "param": null, "code": "c"}}), "c: m"),
        (json!({"error": {"message": "m", "type": "t", "param": null, "code": null}}), "t: m"),
        (json!({"error": {"message": "m", "code": 429}}), "429: m"),
        (json!({"error": "m"}), "m"),
        (json!([{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}]), "400: m"),
        (json!({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}), "400: m"),
        (json!({"detail": "m"}), "m"),
        (json!({"detail": [{"loc": ["body"], "msg": "m", "type": "missing"}]}), "missing: m"),
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}), "overloaded_error: m"),
    ] {
        assert_eq!(of_body(&body).unwrap().to_string(), expected, "{body}");
    }
    for nothing in [json!({}), json!([]), json!({"error": {}}), json!(3)] {
        assert_eq!(of_body(&nothing), None);
    }
}

#[test]
fn an_error_inside_a_success_is_found_and_an_empty_one_is_not() {
    for body in [
        json!({"error": {"message": "cut"}}),
        json!({"error": {"odd": 1}, "choices": []}),
        json!({"error": "cut"}),
        json!({"choices": [{"error": {"message": "cut", "code": 502}, "finish_reason": "error"}]}),
        json!([{"error": {"message": "cut"}}]),
    ] {
        assert!(inside(&body).is_some(), "{body}");
    }
    for body in [
        json!({"error": null, "choices": []}),
        json!({"error": {}, "choices": []}),
        json!({"error": "", "choices": []}),
        json!({"choices": [{"message": {"content": "a"}, "error": {"message": "late"}}]}),
        json!({"message": "not an error"}),
    ] {
        assert_eq!(inside(&body), None, "{body}");
    }
}

#[test]
fn a_complaint_is_named_by_what_says_most_and_quotes_nobody() {
    for (error, name) in [
        (json!({"message": "No connected db.", "type": "no_db_connection", "code": "400"}), Some("no_db_connection")),
        (json!({"message": "No connected db.", "type": "None", "code": "400"}), Some("no_db_connection")),
        (
            json!({"message": "/chat/completions: Invalid model name passed in model=gpt-9", "type": null, "code": "400"}),
            Some("invalid_model_name"),
        ),
        (
            json!({"message": "litellm.BadRequestError: litellm.ContentPolicyViolationError: 'my diary'", "code": "400"}),
            Some("ContentPolicyViolationError"),
        ),
        (json!({"message": "m", "type": "t", "code": "my diary"}), Some("t")),
        (json!({"message": "my diary", "type": null, "code": "500"}), Some("500")),
        (json!({"message": "my diary"}), None),
    ] {
        assert_eq!(of_body(&json!({"error": error})).unwrap().name(), name, "{error}");
    }
}

#[test]
fn words_mean_what_a_status_does_not_say() {
    for (words, kind) in [
        ("No connected db.", Some(ModelErrorKind::Refused)),
        ("Invalid model name passed in model=x", Some(ModelErrorKind::Refused)),
        ("API key not valid. Please pass a valid API key.", Some(ModelErrorKind::Refused)),
        ("triggering Azure OpenAI's content management policy", Some(ModelErrorKind::Filtered)),
        ("litellm.ContentPolicyViolationError: no", Some(ModelErrorKind::Filtered)),
        ("ContextWindowExceededError: too long", Some(ModelErrorKind::ContextOverflow)),
        ("temperature must be 1", None),
    ] {
        assert_eq!(kind_of_words(words), kind, "{words}");
    }
}
