use http::HeaderValue;

use super::*;
use crate::body::{BLANK_RUN, parsed};
use crate::bounds::LONG_ANSWER;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

#[test]
fn waits_that_providers_ask_for() {
    let date = ("date", "Fri, 20 Nov 2026 10:00:00 GMT");
    for (pairs, expected) in [
        (vec![("retry-after", "7")], Some(7_000)),
        (vec![("retry-after", " 1.5 ")], Some(1_500)),
        (vec![("retry-after", "0")], Some(0)),
        (vec![("llm_provider-retry-after", "9")], Some(9_000)),
        (vec![("retry-after-ms", "250"), ("retry-after", "1")], Some(250)),
        (vec![("retry-after", "Fri, 20 Nov 2026 10:00:42 GMT"), date], Some(42_000)),
        (vec![("llm_provider-retry-after", "Fri, 20 Nov 2026 10:01:00 GMT"), date], Some(60_000)),
        // A past date, a date without a reference clock, and nonsense.
        (vec![("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), date], None),
        (vec![("retry-after", "Fri, 20 Nov 2026 10:00:42 GMT")], None),
        (vec![("retry-after", "-3")], None),
        (vec![("retry-after", "inf")], None),
        (vec![("retry-after", "soon")], None),
        (vec![], None),
        // Delays are capped.
        (vec![("retry-after", "1e18")], Some(86_400_000)),
        (vec![("retry-after", "Fri, 20 Nov 2099 10:00:00 GMT"), date], Some(86_400_000)),
    ] {
        assert_eq!(retry_after(&headers(&pairs)), expected.map(Duration::from_millis), "{pairs:?}");
    }
}

#[test]
fn blanks_are_counted_over_chunks_and_through_escapes() {
    let mut bare = Blanks::default();
    assert!(!bare.run_away_in(&vec![b' '; BLANK_RUN]));
    assert!(bare.run_away_in(b"\n"));

    let escaped = "\\n\\t".repeat(BLANK_RUN / 2);
    let mut split = Blanks::default();
    // The cut is inside an escape.
    assert!(!split.run_away_in(&escaped.as_bytes()[..=BLANK_RUN]));
    assert!(!split.run_away_in(&escaped.as_bytes()[BLANK_RUN + 1..]));
    assert!(split.run_away_in(b" "));

    let mut words = Blanks::default();
    assert!(!words.run_away_in("\\\\n nnn ttt \\\\t \\\"".repeat(BLANK_RUN).as_bytes()));
}

#[test]
fn messages_are_one_short_line() {
    assert_eq!(one_line("  a\r\n\tb\u{0}c  "), "a b c");
    assert_eq!(one_line(&"é".repeat(10_000)).chars().count(), MESSAGE_CHARS + 1);
}

#[test]
fn only_this_machine_goes_without_a_proxy() {
    for base in ["http://localhost:4000/v1", "http://127.0.0.1:1/v1", "http://127.8.9.1", "http://[::1]:4000/v1"] {
        assert!(is_here(base), "{base}");
    }
    for base in [
        "http://litellm:4000/v1",
        "https://api.openai.com/v1",
        "http://localhost.example/v1",
        "http://10.0.0.1/v1",
        "nonsense",
    ] {
        assert!(!is_here(base), "{base}");
    }
}

#[tokio::test]
async fn a_long_answer_is_parsed_off_the_task() {
    let text = "x".repeat(LONG_ANSWER);
    let body = format!("{{\"choices\": [\"{text}\"]}}").into_bytes();
    let (mut held, mut other) = (Budget::default().begin(), Budget::default().begin());
    let parsing = whole(body, VALUES_MAX, &mut held);
    tokio::pin!(parsing);
    assert!(futures_util::poll!(parsing.as_mut()).is_pending());
    assert!(parsing.await.is_ok() && whole(b"{}".to_vec(), VALUES_MAX, &mut other).await.is_ok());
}

/// Complete bodies of all kinds.
fn bodies(size: usize) -> Vec<String> {
    vec![
        "[".repeat(size),
        "{\"a\":".repeat(size / 5),
        format!("{{\"choices\":[{}]}}", vec!["{}"; size / 3].join(",")),
        format!("{{\"error\":{{\"message\":\"{}\"}}}}", "litellm.".repeat(size / 8)),
        format!("{{{}\"x\":1}}", "\"x\":[1],".repeat(size / 8)),
        format!("{{\"a\":\"{}\"}}", "\\n".repeat(size / 2)),
        " ".repeat(size),
    ]
}

#[test]
fn a_whole_answer_costs_in_proportion_to_its_length() {
    cost::grows_linearly(4 * 1024, bodies, |bodies| {
        for body in &bodies {
            drop(parsed(body.as_bytes(), VALUES_MAX));
        }
    });
}

#[test]
fn the_longest_answer_that_is_parsed_in_place_fits_a_slice() {
    let body = |size: usize| format!("{{\"choices\":[{}]}}", vec!["{}"; size / 3].join(","));
    cost::fits_a_slice(LONG_ANSWER, body, |body| drop(parsed(body.as_bytes(), VALUES_MAX)));
}

#[test]
fn the_longest_refusal_that_is_read_fits_a_slice() {
    let body = |size: usize| bodies(size).swap_remove(3);
    cost::fits_a_slice(ERROR_BYTES, body, |body| drop(refused(StatusCode::BAD_REQUEST, None, body.as_bytes())));
}
