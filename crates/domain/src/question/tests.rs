use serde_json::json;

use super::*;

fn form(properties: &Value, required: &[&str]) -> Result<Question, Unfit> {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Question::read("k", &json!({"message": "Why\u{200b}?", "requestedSchema": schema}))
}

fn read(properties: &Value, required: &[&str]) -> Form {
    match form(properties, required).unwrap().ask {
        Ask::Form(form) => form,
        Ask::Link(_) => panic!("a form"),
    }
}

#[test]
fn a_form_accepts_what_people_type_and_what_programs_send() {
    let form = read(
        &json!({
            "name": {"type": "string", "minLength": 2, "maxLength": 10},
            "age": {"type": "integer", "minimum": 18, "maximum": 99},
            "share": {"type": "number"},
            "news": {"type": "boolean", "default": false},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        }),
        &["name", "age"],
    );
    let typed = json!({"name": " Ada ", "age": "36", "share": "0.5", "news": "Yes", "size": "large", "more": "x"});
    let sent = json!({"name": "Ada", "age": 36, "share": 0.5, "news": true, "size": "l"});
    for given in [typed, sent.clone()] {
        assert_eq!(Value::Object(form.accept(given.as_object().unwrap()).unwrap()), sent);
    }
    let least = json!({"name": "Ada", "age": "36", "news": ""});
    assert_eq!(form.accept(least.as_object().unwrap()).unwrap().len(), 2);
    let misfit = |name: &str, value: Value| {
        let mut given = sent.clone();
        given[name] = value;
        let Misfit { field, problem } = form.accept(given.as_object().unwrap()).unwrap_err();
        assert_eq!(form.fields[field].name, name);
        problem
    };
    assert_eq!(misfit("name", json!("")), Problem::Missing);
    assert_eq!(misfit("name", json!("x")), Problem::Length);
    assert_eq!(misfit("name", json!(["x"])), Problem::Format);
    assert_eq!(misfit("age", json!("36.5")), Problem::Number);
    assert_eq!(misfit("age", json!(17)), Problem::Range);
    assert_eq!(misfit("share", json!("NaN")), Problem::Number);
    assert_eq!(misfit("news", json!("perhaps")), Problem::Flag);
    assert_eq!(misfit("size", json!("medium")), Problem::Option);
}

#[test]
fn formats_are_checked() {
    let accepts = |format: &str, text: &str| {
        let form = read(&json!({"x": {"type": "string", "format": format}}), &[]);
        form.accept(json!({"x": text}).as_object().unwrap()).is_ok()
    };
    for (format, fits, misfits) in [
        ("email", "ada@example.org", "ada@"),
        ("uri", "https://example.org", "example.org"),
        ("date", "2026-07-28", "28.7.2026"),
        ("date-time", "2026-07-28T10:00:00Z", "2026-07-28"),
    ] {
        assert!(accepts(format, fits) && !accepts(format, misfits), "{format}");
    }
}

/// Secrets in other words, languages and letters.
const OTHER_WORDS: [&str; 27] = [
    "one-time code",
    "oneTimeCode",
    "2FA code",
    "SMS code",
    "CVV2",
    "credit card no",
    "p@ssword",
    "passw0rd",
    "pa$$word",
    "p a s s w o r d",
    "P.I.N",
    "seed words",
    "IBAN",
    "social security number",
    "пароль",
    "Ваш ПАРОЛЬ",
    "mot de passe",
    "senha",
    "wachtwoord",
    "lösenord",
    "hasło",
    "パスワード",
    "密码",
    "비밀번호",
    "mật khẩu",
    "كلمة المرور",
    "पासवर्ड",
];

#[test]
fn a_form_that_asks_for_a_secret_is_refused_however_it_is_written() {
    let text = |name: &str| json!({name: {"type": "string"}});
    for name in [
        "password",
        "userPassword",
        "API_KEY",
        "apiKey",
        "access-key",
        "token",
        "cardNumber",
        "one_time_pin",
        "Pa\u{200b}ssword",
        "p\u{430}ssword",
        "ｐａｓｓｗｏｒｄ",
        "Passwort",
        "contraseña",
        "yourpassword2",
    ]
    .into_iter()
    .chain(OTHER_WORDS)
    {
        assert_eq!(form(&text(name), &[]), Err(Unfit::Secret), "{name}");
    }
    let described = [
        json!({"x": {"type": "string", "title": "Your passphrase"}}),
        json!({"x": {"type": "string", "description": "the secret of your account"}}),
        json!({"x": {"type": "string", "format": "password"}}),
        json!({"x": {"type": "string", "default": "<your password>"}}),
    ];
    for properties in described {
        assert_eq!(form(&properties, &[]), Err(Unfit::Secret), "{properties}");
    }
    let asked = json!({"message": "Enter your API key", "requestedSchema": {"properties": text("value")}});
    assert_eq!(Question::read("k", &asked), Err(Unfit::Secret));
    for name in [
        "username",
        "email",
        "keyboard",
        "pinned",
        "tokenizer",
        "compass",
        "a b c",
        "top 10",
        "time code",
        "wantan",
        "business card",
        "d4",
    ] {
        assert!(form(&text(name), &[]).is_ok(), "{name}");
    }
}

#[test]
fn forms_are_flat_and_bounded() {
    let many: Map<String, Value> = (0..6).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    let options: Vec<String> = (0..26).map(|n| n.to_string()).collect();
    for properties in [
        json!({}),
        Value::Object(many),
        json!({"x": {"type": "object", "properties": {}}}),
        json!({"x": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}),
        json!({"x": {"type": "string", "enum": options}}),
        json!({"x": {"type": "string", "enum": [1]}}),
        json!({"x": {"type": "string", "minLength": 5000}}),
        json!({"": {"type": "string"}}),
        json!({"x": 7}),
    ] {
        assert_eq!(form(&properties, &[]), Err(Unfit::Unsupported), "{properties}");
    }
    let long = json!({"x": {"type": "string", "title": "l".repeat(500), "description": "h\u{202e}".repeat(500)}});
    let field = read(&long, &[]).fields.remove(0);
    assert!(field.label.chars().count() < 60 && field.hint.is_some_and(|hint| hint.chars().count() < 120));
}

#[test]
fn a_link_leads_to_a_plain_address_and_its_host_is_known() {
    let link = |url: &str| Question::read("k", &json!({"mode": "url", "message": "m", "url": url}));
    let Ok(Question { ask: Ask::Link(good), .. }) = link("https://Shop.example:8443/pay?x=1") else { panic!("a link") };
    assert_eq!(good.host, "shop.example:8443");
    for url in [
        "http://shop.example/",
        "javascript:alert(1)",
        "https://bank.example@evil.example/",
        "https://",
        "https://bänk.example/",
        "https://shop.example/ x",
        "https://shop.example:x/",
        &format!("https://shop.example/{}", "x".repeat(600)),
    ] {
        assert_eq!(link(url), Err(Unfit::Unsupported), "{url}");
    }
    // A link may lead to a page for secrets.
    assert!(
        Question::read("k", &json!({"mode": "url", "message": "your API key", "url": "https://a.example"})).is_ok()
    );
}

#[test]
fn hidden_characters_of_a_server_are_not_shown() {
    assert_eq!(form(&json!({"x": {"type": "string"}}), &[]).unwrap().message, "Why?");
}

#[test]
fn a_form_costs_no_more_than_its_length() {
    cost::grows_linearly(
        16 * 1024,
        |size| json!({"message": "aB ".repeat(size / 3), "requestedSchema": {"properties": {"x": {"type": "string"}}}}),
        |params| drop(Question::read("k", &params)),
    );
}
