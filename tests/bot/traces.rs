//! Traces reach an OpenTelemetry collector in builds with the feature `otlp`; other builds report that they have none.

#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_traces_says_so() {
    use crate::support::{SOON, Setup, World, story};
    story(async {
        let world = World::without_bot(Setup::new().set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")).await;
        let mut process = world.process("untraced").await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.answer_to(said).await;
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
        let output = process.output();
        let warnings = output.lines().filter(|line| line.contains("this build cannot send traces"));
        assert_eq!(warnings.count(), 1, "{output}");
    });
}

#[cfg(feature = "otlp")]
mod sent {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::body::Bytes;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::post;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use parking_lot::Mutex;
    use prost::Message;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use serde_json::json;

    use crate::model::{Act, Ask};
    use crate::support::{SOON, Setup, World, story};

    #[expect(clippy::disallowed_methods, reason = "children need the path of the machine that the tests run on")]
    fn with_programs() -> Setup {
        Setup::new().set("PATH", std::env::var("PATH").unwrap())
    }

    /// A collector on a local port.
    #[derive(Clone, Default)]
    struct Collector(Arc<Mutex<Received>>);

    #[derive(Default)]
    struct Received {
        /// The statuses of the next responses; 200 afterwards.
        refusals: Vec<StatusCode>,
        refused: usize,
        headers: HeaderMap,
        bytes: Vec<u8>,
        requests: Vec<ExportTraceServiceRequest>,
    }

    impl Collector {
        async fn start(refusals: &[StatusCode]) -> (Self, String) {
            let collector = Self::default();
            collector.0.lock().refusals = refusals.to_vec();
            let taker = collector.clone();
            let take = move |headers, body| std::future::ready(taker.take(headers, body));
            let app = Router::new().route("/v1/traces", post(take));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            tokio::spawn(async move { axum::serve(listener, app).await });
            (collector, url)
        }

        fn take(&self, headers: HeaderMap, body: Bytes) -> StatusCode {
            let mut received = self.0.lock();
            if let Some(refusal) = received.refusals.pop() {
                received.refused += 1;
                return refusal;
            }
            received.headers = headers;
            received.bytes.extend_from_slice(&body);
            received.requests.push(ExportTraceServiceRequest::decode(body).unwrap());
            StatusCode::OK
        }

        fn spans(&self) -> Vec<Span> {
            let received = self.0.lock();
            let resources = received.requests.iter().flat_map(|request| request.resource_spans.clone());
            resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
        }
    }

    fn plain(attributes: &[KeyValue]) -> BTreeMap<String, String> {
        let text = |value: &Value| match value {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            Value::ArrayValue(array) => format!("{} values", array.values.len()),
            other => panic!("{other:?}"),
        };
        let value = |pair: &KeyValue| text(pair.value.as_ref().unwrap().value.as_ref().unwrap());
        attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
    }

    fn has(span: &Span, expected: &[(&str, &str)]) {
        let found = plain(&span.attributes);
        for (name, value) in expected {
            assert_eq!(found.get(*name).map(String::as_str), Some(*value), "{name} of {}: {found:?}", span.name);
        }
    }

    #[test]
    fn an_operator_may_send_questions_and_answers_along_but_no_secret() {
        story(async {
            let (collector, url) = Collector::start(&[]).await;
            let setup = Setup::new()
                .set("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
                .set("STAFFAI_TELEMETRY__CONTENT", "true")
                .set("STAFFAI_API_KEYS", "sk-never-to-be-seen");
            let world = World::without_bot(setup).await;
            world.model.always(Act::says("a pangolin"));
            let mut process = world.process("traced").await;
            let said = world.says("Ada", "general", "@staffai is sk-never-to-be-seen an animal?");
            world.answer_to(said).await;
            process.terminate();
            assert_eq!(process.exit(SOON).await, 0, "{}", process.output());
            assert!(!process.output().contains("pangolin"), "the log has a switch of its own: {}", process.output());

            let spans = collector.spans();
            let turn = spans.iter().find(|span| span.name == "turn").expect("the span of the turn");
            let told = plain(&turn.attributes);
            let [question, answer] = ["gen_ai.input.messages", "gen_ai.output.messages"]
                .map(|name| serde_json::from_str::<serde_json::Value>(&told[name]).unwrap());
            assert_eq!(question[0]["role"], "user");
            let asked = question[0]["parts"][0]["content"].as_str().unwrap();
            assert!(asked.ends_with("an animal?") && !asked.contains("sk-never"), "{asked}");
            let expected = serde_json::json!([{"role": "assistant", "parts": [{"type": "text", "content": "a pangolin"}],
                "finish_reason": "stop"}]);
            assert_eq!(answer, expected);
            assert!(!String::from_utf8_lossy(&collector.0.lock().bytes).contains("sk-never"));
        });
    }

    #[test]
    fn a_turn_is_a_trace_with_its_calls_and_its_post() {
        story(async {
            let (collector, url) = Collector::start(&[]).await;
            let setup = Setup::new()
                .set("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
                .set("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hush-hush")
                .set("OTEL_SERVICE_NAME", "our-bot")
                // Events below the log level are traced too.
                .set("LOG_LEVEL", "error");
            let world = World::without_bot(setup).await;
            world.model.does(|ask| if ask.number == 0 { Act::Status(500) } else { Act::says("a pangolin") });
            let mut process = world.process("traced").await;
            let asked = Instant::now();
            let said = world.says("Ada", "general", "@staffai which animal eats aardvarks?");
            world.answer_to(said).await;
            process.terminate();
            assert_eq!(process.exit(SOON).await, 0, "{}", process.output());
            assert!(!process.output().contains("traces."), "{}", process.output());

            let spans = collector.spans();
            let mut names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["chat scripted", "chat scripted", "post", "turn"]);
            let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
            let turn = named("turn")[0];
            assert_eq!((turn.trace_id.len(), turn.span_id.len(), turn.parent_span_id.len()), (16, 8, 0));
            has(turn, &[("staffai.door", "discord"), ("staffai.trigger", "mention"), ("staffai.outcome", "replied")]);
            has(turn, &[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "staffai")]);
            let told = plain(&turn.attributes);
            assert!(told["gen_ai.conversation.id"].len() == 32 && told["gen_ai.conversation.id"] == told["session.id"]);
            assert!(
                told["staffai.model_ms"].parse::<u64>().is_ok() && told.contains_key("staffai.lane_ms"),
                "{told:?}"
            );
            for span in &spans {
                assert_eq!(span.trace_id, turn.trace_id);
                assert_eq!(span.parent_span_id == turn.span_id, span.name != "turn", "{span:?}");
                let took = span.end_time_unix_nano - span.start_time_unix_nano;
                assert!(Duration::from_nanos(took) <= asked.elapsed(), "{span:?}");
            }
            let calls = named("chat scripted");
            let (failed, good): (Vec<&Span>, Vec<&Span>) = calls.into_iter().partition(|call| call.status.is_some());
            has(failed[0], &[("gen_ai.request.model", "scripted"), ("staffai.try", "1")]);
            assert!(plain(&failed[0].attributes).contains_key("error.type"));
            let usage = [("gen_ai.usage.input_tokens", "10"), ("gen_ai.usage.output_tokens", "5")];
            has(good[0], &usage);
            has(
                good[0],
                &[("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "scripted"), ("staffai.try", "2")],
            );
            has(named("post")[0], &[("staffai.parts", "1")]);

            let received = collector.0.lock();
            assert_eq!(received.headers["authorization"], "Bearer hush-hush");
            let schema = &received.requests[0].resource_spans[0].scope_spans[0].schema_url;
            assert_eq!(schema, "https://opentelemetry.io/schemas/1.41.0", "the conventions are pinned");
            let resource = received.requests[0].resource_spans[0].resource.clone().unwrap();
            assert_eq!(plain(&resource.attributes)["service.name"], "our-bot");
            let sent = String::from_utf8_lossy(&received.bytes);
            let (channel, ada) = (said.channel.to_string(), world.member("Ada").to_string());
            for private in ["aardvarks", "pangolin", "Ada", "it is broken", &said.id.to_string(), &channel, &ada] {
                assert!(!sent.contains(private), "{private} was sent");
            }
        });
    }

    #[test]
    fn a_call_of_a_tool_is_a_span_that_its_server_is_told_of() {
        story(async {
            let (collector, url) = Collector::start(&[]).await;
            let world = World::without_bot(with_programs().set("OTEL_EXPORTER_OTLP_ENDPOINT", &url)).await;
            let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/servers/hostile.py");
            let servers = json!({"mcpServers": {"one": {"command": "python3", "args": [server, "well"]}}});
            std::fs::write(world.dir.path().join("mcp.json"), servers.to_string()).unwrap();
            world.model.does(|ask| match ask.results() {
                _ if ask.has_form() => Act::says("Done."),
                results if results.is_empty() && !ask.tools().is_empty() => {
                    Act::calls(&[("1", "one__meta", json!({}))])
                }
                _ => Act::content("Called."),
            });
            let mut process = world.process("traced").await;
            world.tells_of("one__meta", &process).await;
            let said = world.says("Ada", "general", "@staffai what were you sent?");
            world.answer_to(said).await;
            process.terminate();
            assert_eq!(process.exit(SOON).await, 0, "{}", process.output());

            let spans = collector.spans();
            let turn = spans.iter().find(|span| span.name == "turn").unwrap();
            let call = spans.iter().find(|span| span.name == "execute_tool one__meta").unwrap();
            has(call, &[("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "one__meta")]);
            assert_eq!((&call.trace_id, &call.parent_span_id), (&turn.trace_id, &turn.span_id));
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let parent = format!("00-{}-{}-01", hex(&call.trace_id), hex(&call.span_id));
            let told = world.model.asks().iter().flat_map(Ask::results).map(|(_, text)| text).collect::<String>();
            assert!(told.contains(&parent), "{parent} is not in {told}");
        });
    }

    #[test]
    fn a_collector_that_is_busy_gets_everything_later_with_one_warning() {
        story(async {
            let (collector, url) = Collector::start(&[StatusCode::SERVICE_UNAVAILABLE; 2]).await;
            let world = World::without_bot(Setup::new().set("OTEL_EXPORTER_OTLP_ENDPOINT", &url)).await;
            let mut process = world.process("busy").await;
            let said = world.says("Ada", "general", "@staffai hello");
            world.answer_to(said).await;
            world.until("the spans", || (collector.spans().len() == 3).then_some(())).await;
            assert_eq!(collector.0.lock().refused, 2);
            process.terminate();
            assert_eq!(process.exit(SOON).await, 0);
            let output = process.output();
            for event in ["traces.unreachable", "traces.recovered"] {
                assert_eq!(output.matches(event).count(), 1, "{event}: {output}");
            }
        });
    }

    #[test]
    fn without_a_collector_the_bot_answers_and_ends_as_ever() {
        story(async {
            // Bound without accepting: connections are established, but never answered.
            let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", deaf.local_addr().unwrap());
            let world = World::without_bot(Setup::new().set("OTEL_EXPORTER_OTLP_ENDPOINT", &url)).await;
            let mut process = world.process("deaf").await;
            let said = world.says("Ada", "general", "@staffai hello");
            world.answer_to(said).await;
            let told = Instant::now();
            process.terminate();
            assert_eq!(process.exit(SOON).await, 0);
            assert!(told.elapsed() < Duration::from_secs(8), "the end took {:?}", told.elapsed());
        });
    }
}
