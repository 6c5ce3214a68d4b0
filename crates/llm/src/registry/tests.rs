use super::*;

fn default_row(model: &str) -> DefaultRow {
    DefaultRow {
        model: model.to_owned(),
        base_url: "http://litellm:4000".to_owned(),
        key: Some("sk-default".into()),
        timeout: Duration::from_secs(60),
    }
}

fn variables(name: &str) -> Option<SecretString> {
    match name {
        "GOOGLE_KEY" => Some("AIza-1".into()),
        "LITELLM_API_KEY" => Some("sk-lite".into()),
        "BLANK" => Some("  ".into()),
        "BROKEN" => Some("two\nlines".into()),
        _ => None,
    }
}

fn built(text: &str, model: &str) -> Result<Registry, Vec<String>> {
    build(Some(File { path: "m.json", text }), &default_row(model), &variables)
}

fn keys(registry: &Registry) -> Vec<&str> {
    registry.rows().iter().map(|row| row.key.as_str()).collect()
}

fn at(registry: &Registry, key: &str) -> (String, String, Option<String>) {
    let endpoint = registry.endpoint(key).unwrap();
    let key = endpoint.key.as_ref().map(|key| key.expose_secret().to_owned());
    (endpoint.model.clone(), endpoint.base.clone(), key)
}

fn row(key: &str) -> Row {
    Row::new(key, Duration::from_secs(60))
}

#[test]
fn without_a_file_there_is_one_row() {
    let registry = build(None, &default_row("my-model"), &|_| None).unwrap();
    assert_eq!(registry.rows(), [Row { temperature: Some(0.7), ..row("my-model") }]);
    assert_eq!(
        at(&registry, "my-model"),
        ("my-model".into(), "http://litellm:4000/v1".into(), Some("sk-default".into()))
    );
}

#[test]
fn a_made_row_knows_what_its_family_knows() {
    for (model, temperature, both, vision) in [
        ("gpt-5.1", 1.0, true, true),
        ("openai/GPT-5-nano", 1.0, true, true),
        ("gpt-4", 0.7, false, false),
        ("openai/gpt-4o", 0.7, true, true),
        ("gemini/gemini-2.5-flash-lite", 0.7, false, true),
        ("anthropic/claude-sonnet-4-5", 0.7, false, true),
        ("claude-5", 0.7, false, false),
    ] {
        let registry = build(None, &default_row(model), &|_| None).unwrap();
        let expected = Row { temperature: Some(temperature), schema_with_tools: both, vision, ..row(model) };
        assert_eq!(registry.rows(), [expected], "{model}");
    }
}

#[test]
fn a_file_may_know_families_of_its_own() {
    let text = r#"{"families": [{"pattern": "Qwen", "temperature": 0.2, "vision": true}], "models": {}}"#;
    let expected = Row { temperature: Some(0.2), vision: true, ..row("qwen3-vl") };
    assert_eq!(built(text, "qwen3-vl").unwrap().rows(), [expected]);
    let own_only = Row { temperature: Some(0.7), ..row("gpt-5") };
    assert_eq!(built(text, "gpt-5").unwrap().rows(), [own_only], "its list replaces the compiled-in one");
    let inherited = built(r#"{"models": {}}"#, "gpt-5-nano").unwrap();
    assert_eq!((inherited.rows()[0].temperature, inherited.rows()[0].vision), (Some(1.0), true));
    let bad = built(r#"{"families": [1, {}, {"pattern": "x", "vision": "no"}], "models": {}}"#, "m").unwrap_err();
    assert_eq!(bad.len(), 3, "{bad:?}");
}

#[test]
fn compiled_in_rows_agree_with_their_families_and_never_come_uninvited() {
    let mut errors = Vec::new();
    let Contents { drafts, families, .. } = file::read(SHIPPED, None, Duration::from_secs(60), &mut errors);
    let families = families.unwrap();
    assert_eq!(errors, Vec::<String>::new());
    assert!(!drafts.is_empty());
    for draft in drafts {
        let key = draft.row.key;
        assert_eq!((draft.host, draft.env_key, draft.presence), (Host::Default, None, Presence::WhenNamed), "{key}");
        let registry = build(None, &default_row(&key), &|_| None).unwrap();
        let rows: Vec<Row> = registry.rows().iter().map(|row| Row { description: None, ..row.clone() }).collect();
        assert_eq!(rows, [made(&default_row(&key), &families).row], "{key}");
    }
}

#[test]
fn a_row_cannot_do_what_it_does_not_say() {
    use domain::model::ToolMode;

    let text = r#"{"models": {
        "silent": {"host": "http://a"},
        "old": {"host": "http://a", "tool_call_available": false},
        "able": {"host": "http://a", "tools": "prompt", "tool_call_available": false, "schema_with_tools": true, "tool_history": 4,
                 "vision": true, "native_mcp": true}}}"#;
    let registry = built(text, "silent").unwrap();
    let old = Row { tools: ToolMode::Off, ..row("old") };
    let able = Row {
        tools: ToolMode::Prompt,
        schema_with_tools: true,
        tool_history: 4,
        vision: true,
        native_mcp: true,
        ..row("able")
    };
    assert_eq!(registry.rows(), [row("silent"), old, able]);
    let [warning] = &registry.without_effect()[..] else { panic!("{:?}", registry.without_effect()) };
    assert!(warning.starts_with("row able: native_mcp has no effect yet"), "{warning}");
    let bad = built(
        r#"{"models": {"x": {"host": "http://a", "tools": "maybe", "vision": 1, "tool_history": -1, "description": 1}}}"#,
        "x",
    );
    let bad = bad.unwrap_err();
    assert!(bad.len() == 4 && bad.iter().any(|line| line.contains("\"native\", \"prompt\" or \"off\"")), "{bad:?}");
}

#[test]
fn the_documented_row() {
    let text = r#"{"version": 1, "models": {
      "local": {"model_id": "qwen", "host": "http://gpu:11434/v1/"},
      "fast": {"model_id": "gpt-5-mini", "type": "OPENAI", "host": "http://litellm:4000", "env_key": "LITELLM_API_KEY", "max_context": 20,
           "enabled": true, "tool_call_available": true, "llm_call_timeout": 60, "description": "default", "schema_with_tools": true,
           "tools": "native", "tool_history": 0, "stream": true, "vision": false, "native_mcp": false, "temperature": 0.7,
           "fallback": ["local"], "price_per_million": {"input": 0.15, "output": 0.6, "cached": 0.08},
           "embeddings": "small", "embeddings_price_per_million": 0.02}}}"#;
    let registry = built(text, "fast").unwrap();
    let fast = Row {
        description: Some("default".into()),
        fallback: vec!["local".into()],
        temperature: Some(0.7),
        schema_with_tools: true,
        max_context: Some(20),
        price: Some(domain::model::Price { input: 0.15, output: 0.6, cached: 0.08 }),
        embeddings: Some("small".to_owned()),
        embeddings_price: Some(0.02),
        ..row("fast")
    };
    assert_eq!(registry.rows(), [fast, row("local")]);
    assert_eq!(at(&registry, "fast"), ("gpt-5-mini".into(), "http://litellm:4000/v1".into(), Some("sk-lite".into())));
    // The default endpoint's key is never sent to another address.
    assert_eq!(at(&registry, "local"), ("qwen".into(), "http://gpu:11434/v1".into(), None));
}

#[test]
fn a_file_with_fields_of_other_programs() {
    let text = "\u{feff}{\"models\": {\r\n\"g\": {\"type\": \"GEMINI\", \"model_id\": \"gemini-2.5-flash\", \"host\": null, \"env_key\": \"GOOGLE_KEY\",\
        \"llm_call_timeout\": \"1m30s\", \"llm_tools\": [\"x\"], \"temperature\": null}}, \"metadata\": {\"note\": 1}}\r\n";
    let registry = built(text, "g").unwrap();
    let expected = Row { timeout: Duration::from_secs(90), fixed_temperature: true, ..row("g") };
    assert_eq!(registry.rows(), [expected], "null forbids a temperature");
    let base = "https://generativelanguage.googleapis.com/v1beta/openai";
    assert_eq!(at(&registry, "g"), ("gemini-2.5-flash".into(), base.into(), Some("AIza-1".into())));
}

#[test]
fn rows_are_taken_when_they_stand_alone_or_are_named() {
    let text = r#"{"models": {
      "zulu": {"host": "http://z"}, "off": {"host": "http://o", "enabled": false}, "described": {}, "on": {"enabled": true, "fallback": ["far", "off"]},
      "far": {"fallback": ["farther", "on"]}, "farther": {"env_key": "GOOGLE_KEY"}, "nobody": {"env_key": "UNSET"}}}"#;
    let registry = built(text, "made").unwrap();
    assert_eq!(keys(&registry), ["made", "zulu", "on", "far", "farther"]);
    // A disabled fallback is skipped.
    assert_eq!(registry.rows()[2].fallback, ["far"]);
    assert_eq!(at(&registry, "farther"), ("farther".into(), "http://litellm:4000/v1".into(), Some("AIza-1".into())));
    assert_eq!(registry.rows()[0].fallback, Vec::<String>::new());
}

#[test]
fn every_error_is_told_at_once_with_its_place() {
    let text = r#"{"version": 2, "models": {
      "a": {"host": "gpu:11434", "temperature": 3, "max_context": -1, "llm_call_timeout": 0, "enabled": "yes", "type": "OLLAMA",
           "embeddings_price_per_million": -1},
      "b": {"host": "http://me:hunter2@gpu", "fallback": ["ghost", "b"], "price_per_million": {"input": -1, "output": 1}},
      "c": {"type": "GEMINI"}, "d": {"host": "http://d", "env_key": "UNSET"}, "e": {"host": "http://e", "env_key": "BLANK"},
      "f": {"host": "http://f", "env_key": "BROKEN"}, "g": 7, "a": {}, "off": {"enabled": false}}}"#;
    let errors = built(text, "off").unwrap_err();
    let expected = [
        "m.json: version: ",
        "m.json: row a: type: ",
        "m.json: row a: host: ",
        "m.json: row a: enabled: ",
        "m.json: row a: embeddings_price_per_million: ",
        "m.json: row a: llm_call_timeout: ",
        "m.json: row a: temperature: ",
        "m.json: row a: max_context: ",
        "m.json: row b: host: ",
        "m.json: row b: price_per_million: ",
        "m.json: row g: ",
        "m.json: row a: is defined twice",
        "m.json: row off: enabled: ",
        "m.json: row b: fallback: no row is named ghost",
        "m.json: row b: fallback: names the row itself",
        "m.json: row c: env_key: ",
        "m.json: row f: env_key: the value of BROKEN",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(expected) {
        assert!(error.starts_with(start), "{error} should start with {start}");
        assert!(!error.contains("hunter2") && !error.contains("two\nlines"), "{error}");
    }
}

#[test]
fn a_row_without_its_key_is_off_and_the_others_are_asked() {
    let text = r#"{"models": {"main": {"host": "http://m", "fallback": ["paid", "free"]}, "paid": {"host": "http://p", "env_key": "UNSET"},
      "blank": {"host": "http://b", "env_key": "BLANK"}, "free": {"host": "http://f", "fallback": ["paid"]}}}"#;
    let registry = built(text, "main").unwrap();
    assert_eq!(keys(&registry), ["main", "free"]);
    assert_eq!((&registry.rows()[0].fallback[..], registry.rows()[1].fallback.len()), (&["free".to_owned()][..], 0));
    let off: Vec<&str> = registry.off().iter().map(|row| row.mistake.as_str()).collect();
    assert!(
        off[0].starts_with("m.json: row paid: is disabled, because the variable UNSET") && off.len() == 2,
        "{off:?}"
    );
    let default = built(text, "paid").unwrap_err();
    assert_eq!(default.len(), 1, "the default row must be there: {default:?}");
    assert!(default[0].starts_with("m.json: row paid: env_key: the variable UNSET"), "{default:?}");
}

#[test]
fn a_field_that_looks_like_a_slip_is_named() {
    let text =
        r#"{"models": {"a": {"host": "http://a", "temprature": 1, "max_contxt": 3, "owner": "us", "enabled": true}}}"#;
    assert_eq!(
        built(text, "a").unwrap().warnings(),
        [
            "m.json: row a: max_contxt: has no effect; did you mean max_context?",
            "m.json: row a: temprature: has no effect; did you mean temperature?"
        ]
    );
}

#[test]
fn a_row_chooses_its_wire() {
    let text = r#"{"models": {"a": {"host": "http://a", "wire": "chat", "cache_control": true},
        "b": {"host": "http://b", "wire": "telegraph"}}}"#;
    let registry = built(text, "a").unwrap();
    let wire = |cache_marks| RowWire::ChatCompletions(ChatCompletions { cache_marks });
    assert_eq!(["a", "b"].map(|key| registry.endpoint(key).unwrap().wire), [wire(true), wire(false)]);
    let warning = "m.json: row b: wire: \"telegraph\" is not supported; chat completions are used";
    assert_eq!(registry.warnings(), [warning]);
}

#[test]
fn what_is_not_a_models_file_is_told() {
    for text in ["", "[]", "{}", "{\"models\": []}", "{\"models\": {\"a\": {}}", "null"] {
        let errors = built(text, "m").unwrap_err();
        assert!(errors.len() == 1 && errors[0].starts_with("m.json: is not a models file ("), "{errors:?}");
    }
}

#[test]
fn a_bad_default_is_told() {
    let bad = DefaultRow {
        model: " ".into(),
        base_url: "localhost".into(),
        key: Some("a\nb".into()),
        timeout: Duration::from_secs(60),
    };
    let errors = build(None, &bad, &|_| None).unwrap_err();
    let starts = ["LITELLM_MODEL: ", "LITELLM_API_URL (or OPENAI_BASE_URL): ", "LITELLM_API_KEY (or OPENAI_API_KEY): "];
    assert_eq!(errors.len(), starts.len(), "{errors:?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn addresses() {
    for (text, expected) in [
        ("http://localhost:4000", "http://localhost:4000/v1"),
        ("http://localhost:4000/", "http://localhost:4000/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("https://h/litellm", "https://h/litellm/v1"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai"),
        ("https://h/api/paas/v4", "https://h/api/paas/v4"),
        ("https://h/vendor", "https://h/vendor/v1"),
        (" http://[::1]:1 ", "http://[::1]:1/v1"),
    ] {
        assert_eq!(file::address(text).as_deref(), Ok(expected));
    }
    for bad in ["", "h:1", "ftp://h", "http://u@h", "http://h/?key=1", "http://h/#x", "http://", "/v1"] {
        assert!(file::address(bad).is_err(), "{bad}");
    }
}

#[test]
fn secrets_do_not_show_in_debug() {
    let registry = built(r#"{"models": {"a": {"host": "http://a", "env_key": "LITELLM_API_KEY"}}}"#, "m").unwrap();
    let shown = format!("{registry:?} {:?}", default_row("m"));
    assert!(!shown.contains("sk-lite") && !shown.contains("sk-default"), "{shown}");
}

#[test]
fn a_file_of_rows_costs_in_proportion_to_its_length() {
    let files = |size: usize| {
        let all = |one: &dyn Fn(usize) -> String| (0..size / 64).map(one).collect::<Vec<_>>().join(",");
        let chain = all(&|row| format!(r#""r{row}":{{"host":"http://h","fallback":["r{}"]}}"#, row + 1));
        let same = all(&|_| r#""r":{"host":"http://h"}"#.to_owned());
        let wrong = all(&|row| format!(r#""r{row}":{{"temperature":9,"fallback":["x{row}"]}}"#));
        [chain, same, wrong].map(|rows| format!(r#"{{"version":1,"models":{{{rows}}}}}"#))
    };
    cost::grows_linearly(4 * 1024, files, |files| {
        for text in &files {
            drop(built(text, "r0"));
        }
    });
}

#[test]
fn a_description_is_one_bounded_line() {
    let text = format!(
        r#"{{"models": {{"a": {{"host": "http://a", "description": " slow\nand {}"}}, "b": {{"host": "http://a", "description": ""}}}}}}"#,
        "x".repeat(500)
    );
    let registry = built(&text, "a").unwrap();
    let described = registry.rows()[0].description.as_deref().unwrap();
    assert!(described.starts_with("slow and xxx") && described.chars().count() < 210, "{described}");
    assert_eq!(registry.rows()[1].description, None);
}

#[test]
fn rows_with_one_address_and_one_key_have_one_provider() {
    let rows = r#""a": {"host": "http://a/v1/"}, "b": {"host": "http://a/v1"}, "c": {"host": "http://b"},
        "d": {"host": "http://a", "env_key": "LITELLM_API_KEY"}, "e": {"host": "http://a", "env_key": "LITELLM_API_KEY"}"#;
    let registry = built(&format!(r#"{{"models": {{{rows}}}}}"#), "a").unwrap();
    let providers = registry.providers();
    let of = ["a", "b", "c", "d", "e"].map(|row| providers[row].as_str());
    assert_eq!(of, ["a", "a", "c", "d", "d"]);
}
