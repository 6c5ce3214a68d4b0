use super::*;

fn converted(schema: &Value) -> Value {
    convert(schema).schema
}

fn of(property: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"x": property}});
    converted(&schema)["properties"]["x"].clone()
}

#[test]
fn what_providers_take_stays() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where", "minLength": 1},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
            "units": {"type": "string", "enum": ["c", "f"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5}
        },
        "required": ["city"],
        "additionalProperties": false
    });
    assert_eq!(convert(&schema), Converted { schema: schema.clone(), lost: Vec::new() });
}

#[test]
fn references_and_parts_are_put_together() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/place", "description": "the start"}},
        "allOf": [{"properties": {"to": {"$ref": "#/$defs/place"}}, "required": ["to", "gone"]}],
        "$defs": {"place": {"type": "object", "description": "a place", "properties": {"lat": {"type": "number"}}}}
    });
    let place =
        |words: &str| json!({"type": "object", "description": words, "properties": {"lat": {"type": "number"}}});
    let expected = json!({
        "type": "object",
        "properties": {"at": place("the start"), "to": place("a place")},
        "required": ["to"]
    });
    assert_eq!(convert(&schema), Converted { schema: expected, lost: Vec::new() });
}

#[test]
fn nothing_beside_null_is_the_type_itself() {
    assert_eq!(of(&json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}))["type"], "string");
    assert_eq!(of(&json!({"type": ["integer", "null"]})), json!({"type": "integer"}));
    assert_eq!(
        of(&json!({"type": ["integer", "string"]})),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
    assert_eq!(
        of(&json!({"oneOf": [{"const": "a"}, {"const": 1}]})),
        json!({"anyOf": [{"enum": ["a"]}, {"enum": [1]}]})
    );
    assert_eq!(of(&json!({"type": "array"})), json!({"type": "array", "items": {}}));
}

#[test]
fn what_is_left_out_is_named_with_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "multipleOf": 2}, "s": {"type": "string", "format": "uri"}},
        "if": {"properties": {"n": {"const": 1}}}
    });
    let Converted { schema, lost } = convert(&schema);
    assert_eq!(lost, ["the arguments: if", "n: multipleOf", "s: format"]);
    assert_eq!(schema["properties"], json!({"n": {"type": "integer"}, "s": {"type": "string"}}));
}

#[test]
fn the_arguments_are_one_object_whatever_the_source_says() {
    let either = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]},
        {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "required": ["b"]}
    ]});
    let Converted { schema, lost } = convert(&either);
    assert_eq!(schema["required"], json!(["b"]));
    assert_eq!(schema["properties"].as_object().unwrap().len(), 3);
    assert_eq!((schema["type"].as_str(), schema.get("anyOf")), (Some("object"), None));
    assert_eq!(lost, ["the arguments: anyOf"]);
    for odd in [json!({}), json!(true), json!(null), json!({"type": "string"}), json!([1]), json!({"properties": 7})] {
        assert_eq!(converted(&odd), json!({"type": "object", "properties": {}}));
    }
}

#[test]
fn a_schema_that_holds_itself_is_cut() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "name": {"type": "string"}}}}
    });
    let Converted { schema, lost } = convert(&schema);
    assert_eq!(schema["properties"]["tree"]["properties"], json!({"left": {}, "name": {"type": "string"}}));
    assert_eq!(lost, ["tree.left: the schema holds itself"]);
    let whole = json!({"type": "object", "properties": {"me": {"$ref": "#"}}});
    assert_eq!(convert(&whole).schema["properties"]["me"]["properties"], json!({"me": {}}));
    assert_eq!(of(&json!({"$ref": "https://elsewhere.example/schema"})), json!({}));
}

/// Each definition refers to the next one twice: the expansion has 2^30 parts.
#[test]
fn references_that_double_stay_within_bounds() {
    let mut defs = Map::new();
    for n in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    defs.insert("d30".to_owned(), json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let Converted { schema, lost } = convert(&schema);
    assert!(schema.to_string().len() < 200_000, "{}", schema.to_string().len());
    assert!(!lost.is_empty() && lost.len() <= LOST_MAX);
    // 100 references in a row, and 1,000 properties: both exceed the bounds, and the conversion still succeeds.
    let chain: Map<String, Value> =
        (0..100).map(|n| (format!("c{n}"), json!({"$ref": format!("#/$defs/c{}", n + 1)}))).collect();
    let many: Map<String, Value> = (0..5_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let schema = json!({"properties": {"c": {"$ref": "#/$defs/c0"}, "m": {"properties": many}}, "$defs": chain});
    assert!(convert(&schema).schema.to_string().len() < 200_000);
}

#[test]
fn deep_schemas_are_cut() {
    let mut schema = json!({"type": "string"});
    for _ in 0..100 {
        schema = json!({"type": "array", "items": schema});
    }
    let Converted { schema, lost } = convert(&json!({"type": "object", "properties": {"x": schema}}));
    assert!(schema.to_string().len() < 2_000);
    assert!(lost[0].ends_with("the schema is too deep"), "{lost:?}");
}

#[test]
fn what_references_repeat_is_bounded_in_bytes_patterns_and_steps() {
    let referring = |definition: Value, many: usize| {
        let part = json!({"$ref": "#/$defs/part"});
        let properties: Map<String, Value> = (0..many).map(|n| (format!("a{n}"), part.clone())).collect();
        convert(&json!({"type": "object", "properties": properties, "$defs": {"part": definition}}))
    };
    let values: Vec<String> = (0..400).map(|n| format!("{n}{}", "x".repeat(100))).collect();
    let long = referring(json!({"enum": values, "description": "y".repeat(600)}), 1_000);
    assert!(long.schema.to_string().len() < BYTES_MAX * 5 / 4, "{}", long.schema.to_string().len());
    assert!(long.lost.iter().any(|lost| lost.ends_with("enum") || lost.ends_with("too large")), "{:?}", long.lost);
    let patterns = referring(json!({"type": "string", "pattern": "^a$"}), 1_000);
    assert_eq!(patterns.schema.to_string().matches("pattern").count(), PATTERNS_MAX);
    assert!(patterns.lost.iter().any(|lost| lost.ends_with("pattern")));
    // Each argument is combined from definitions with many properties.
    let wide: Map<String, Value> = (0..2_000).map(|n| (format!("p{n}"), json!({}))).collect();
    let steps = referring(json!({"allOf": vec![json!({"type": "object", "properties": wide}); 30]}), 2_000);
    assert!(!steps.lost.is_empty());
}
