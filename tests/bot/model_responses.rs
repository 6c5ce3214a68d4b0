//! The scripted model behind the Responses API: requests are read as chat completions, so that one script serves both
//! wires, and its answers are written as output items, whole or as events.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::model::{self, Act, End, Inner, Streamed};

/// Answers a request. The body of its `Ask` is that of a chat completion, with the request itself as `responses`.
pub async fn respond(State(inner): State<Arc<Inner>>, Json(body): Json<Value>) -> Response<Body> {
    let wanted = body["stream"] == true;
    let act = model::ask(&inner, chat_body(body));
    let (status, answer) = match act {
        Act::Hangs | Act::Endless => return model::answer(act).await,
        Act::Streams(Streamed { content, piece, pause, end }) if wanted => {
            let response = response(&json!({"content": content}), "stop");
            return stream(&response, piece, pause, &end);
        }
        Act::Output(output) => {
            let mut response = response(&json!({}), "stop");
            response["output"] = output;
            return if wanted {
                stream(&response, 16, Duration::ZERO, &End::Well)
            } else {
                model::whole(StatusCode::OK, response.to_string())
            };
        }
        act => {
            let answer = model::answer(act).await;
            if answer.status() != StatusCode::OK {
                return answer;
            }
            (answer.status(), to_bytes(answer.into_body(), usize::MAX).await.unwrap())
        }
    };
    let Ok(answer) = serde_json::from_slice::<Value>(&answer) else { return model::whole(status, "odd".to_owned()) };
    let choice = &answer["choices"][0];
    let response = response(&choice["message"], choice["finish_reason"].as_str().unwrap_or("stop"));
    if wanted { stream(&response, 16, Duration::ZERO, &End::Well) } else { model::whole(status, response.to_string()) }
}

/// Returns the same request as a chat completion.
fn chat_body(body: Value) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(text) = body["instructions"].as_str() {
        messages.push(json!({"role": "system", "content": text}));
    }
    for item in body["input"].as_array().into_iter().flatten() {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                let content = match item["content"].as_array() {
                    Some(parts) => parts.iter().map(chat_part).collect(),
                    None => item["content"].clone(),
                };
                messages.push(json!({"role": item["role"], "content": content}));
            }
            "function_call" => {
                let function = json!({"name": item["name"], "arguments": item["arguments"]});
                let call = json!({"id": item["call_id"], "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            }
            "function_call_output" => {
                messages.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}));
            }
            _ => {}
        }
    }
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tools: Vec<Value> = tools.iter().map(|tool| json!({"type": tool["type"], "function": tool})).collect();
    let mut chat = json!({"model": body["model"], "messages": messages, "tools": tools});
    if body["text"]["format"].is_object() {
        chat["response_format"] = json!({"type": "json_schema", "json_schema": body["text"]["format"]});
    }
    chat["responses"] = body;
    chat
}

fn chat_part(part: &Value) -> Value {
    match part["type"].as_str() {
        Some("input_image") => json!({"type": "image_url", "image_url": {"url": part["image_url"]}}),
        _ => json!({"type": "text", "text": part["text"]}),
    }
}

/// Returns the response with the content of a chat message.
fn response(message: &Value, finish: &str) -> Value {
    let mut output = Vec::new();
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !calls.is_empty() {
        let summary = json!([{"type": "summary_text", "text": "I need a tool."}]);
        output.push(json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "as it came"}));
    }
    let part = message["content"].as_str().map(|text| json!({"type": "output_text", "text": text, "annotations": []}));
    let refusal = message["refusal"].as_str().map(|text| json!({"type": "refusal", "refusal": text}));
    if let Some(part) = part.or(refusal) {
        output.push(
            json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}),
        );
    }
    for (number, call) in calls.iter().enumerate() {
        let function = &call["function"];
        output.push(json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": call["id"],
            "name": function["name"], "arguments": function["arguments"], "status": "completed"}));
    }
    let reason = match finish {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    };
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15});
    json!({"id": "resp_1", "object": "response", "created_at": 0, "model": "scripted", "error": null, "output": output,
        "status": if reason.is_some() { "incomplete" } else { "completed" },
        "incomplete_details": reason.map(|reason| json!({"reason": reason})), "usage": usage})
}

/// Streams a response, its texts in pieces.
fn stream(response: &Value, piece: usize, pause: Duration, end: &End) -> Response<Body> {
    let mut head = response.clone();
    (head["status"], head["output"], head["usage"]) = ("in_progress".into(), json!([]), Value::Null);
    let first = json!({"type": "response.created", "response": head});
    let (mut deltas, mut frames) = (Vec::new(), Vec::new());
    for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
        let (kind, text, field) = match item["type"].as_str() {
            Some("message") if item["content"][0]["type"] == "refusal" => {
                ("refusal", &item["content"][0]["refusal"], "content")
            }
            Some("message") => ("output_text", &item["content"][0]["text"], "content"),
            Some("function_call") => ("function_call_arguments", &item["arguments"], "arguments"),
            Some("reasoning") => ("reasoning_summary_text", &item["summary"][0]["text"], "summary"),
            _ => ("", &Value::Null, ""),
        };
        let mut begun = item.clone();
        if !field.is_empty() {
            begun[field] = if field == "arguments" { json!("") } else { json!([]) };
        }
        deltas.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        let letters: Vec<char> = text.as_str().unwrap_or_default().chars().collect();
        for piece in letters.chunks(piece) {
            deltas.push(json!({"type": format!("response.{kind}.delta"), "item_id": item["id"], "output_index": index,
                "content_index": 0, "delta": piece.iter().collect::<String>()}));
        }
        deltas.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    frames.push(first);
    frames.extend(deltas);
    let failed = |frames: &mut Vec<Value>| {
        let error = json!({"code": "server_error", "message": "upstream cut"});
        let mut response = head.clone();
        (response["status"], response["error"]) = ("failed".into(), error);
        frames.push(json!({"type": "response.failed", "response": response}));
    };
    // The first two frames have no text.
    let (mut cut, mut silent) = (false, false);
    match end {
        End::Well => {
            let kind = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
            frames.push(json!({"type": kind, "response": response}));
        }
        End::ErrorAfter(many) => {
            frames.truncate(many + 2);
            failed(&mut frames);
        }
        End::CutAfter(many) => {
            frames.truncate(many + 2);
            cut = true;
        }
        End::SilenceAfter(many) => {
            frames.truncate(many + 2);
            silent = true;
        }
    }
    let written = frames.into_iter().enumerate().map(|(number, mut frame)| {
        frame["sequence_number"] = number.into();
        Ok::<_, std::io::Error>(format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or_default()))
    });
    let broken = cut.then(|| Err(std::io::ErrorKind::ConnectionReset.into()));
    let frames: Vec<_> = written.chain(broken).collect();
    let frames = futures_util::stream::iter(frames).then(move |frame| async move {
        tokio::time::sleep(pause).await;
        frame
    });
    let body = if silent { frames.chain(futures_util::stream::pending()).boxed() } else { frames.boxed() };
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(body)).unwrap()
}
