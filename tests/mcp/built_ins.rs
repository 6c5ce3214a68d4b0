//! The built-in tools compared with the Python tools of the earlier bot's specification: equal questions get equal
//! answers.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use domain::ids::Timestamp;
use parking_lot::Mutex;
use ports::{Clock, Dice, ToolServer};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tools::{BuiltIns, simple};

use crate::support::{python, request, root};

/// A clock and dice with given values.
#[derive(Default)]
struct Told {
    now: Mutex<u128>,
    rolls: Mutex<Vec<f64>>,
}

impl Clock for Told {
    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(*self.now.lock()).unwrap())
    }
}

impl Dice for Told {
    fn roll(&self) -> f64 {
        self.rolls.lock().pop().unwrap()
    }
}

/// Returns the answers of the earlier bot's tools.
fn original(questions: &[(&str, Value)]) -> Vec<Value> {
    let script = root().join("tests/mcp/servers/original.py");
    let mut child = Command::new(python("python"));
    let mut child = child.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = questions.iter().map(|question| json!(question).to_string() + "\n").collect();
    let writing = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// Returns this many values, reproducibly.
fn values<S: Strategy>(count: usize, strategy: &S) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

async fn own(told: &Arc<Told>, tool: &str, arguments: Value) -> Option<String> {
    let tools = BuiltIns::new(simple(Arc::clone(told) as Arc<dyn Clock>, Arc::clone(told) as Arc<dyn Dice>));
    let result = tools.call(&request(tool, arguments), None).await.unwrap();
    (!result.is_error).then(|| result.to_text())
}

fn expressions() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        4 => (0_u32..1_000).prop_map(|int| int.to_string()),
        2 => (0_u32..10_000, 0_u32..10_000).prop_map(|(whole, rest)| format!("{whole}.{rest:04}")),
        1 => "[1-9][0-9]{15,40}",
        1 => "[1-9]e[0-9]{1,2}",
        1 => "[1-9]e-[0-9]",
        1 => Just("pi".to_owned()),
        1 => Just("e".to_owned()),
    ];
    number.prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "//", "%"]);
        let function = prop::sample::select(vec!["abs", "round", "sqrt", "sin", "cos", "tan", "log", "log10"]);
        let pair = prop::sample::select(vec!["min", "max", "pow", "log"]);
        prop_oneof![
            6 => (inner.clone(), operator, inner.clone()).prop_map(|(one, by, two)| format!("({one} {by} {two})")),
            1 => (inner.clone(), -3_i8..7).prop_map(|(base, power)| format!("({base}) ** {power}")),
            1 => inner.clone().prop_map(|one| format!("-{one}")),
            2 => (function, inner.clone()).prop_map(|(name, one)| format!("{name}({one})")),
            1 => (inner.clone(), -4_i8..6).prop_map(|(one, places)| format!("round({one}, {places})")),
            1 => (pair, inner.clone(), 1_u8..9).prop_map(|(name, one, two)| format!("{name}({one}, {two})")),
            1 => (inner.clone(), inner).prop_map(|(one, two)| format!("sum([{one}, {two}])")),
        ]
    })
}

#[tokio::test]
async fn the_calculator_answers_as_the_original() {
    let expressions: Vec<String> =
        values(4_000, &expressions()).into_iter().filter(|expression| expression.len() < 900).collect();
    let questions: Vec<(&str, Value)> =
        expressions.iter().map(|expression| ("calculator", json!([expression]))).collect();
    let (told, mut same, mut refused) = (Arc::default(), 0, 0);
    for (expression, answer) in expressions.iter().zip(original(&questions)) {
        let own = own(&told, "calculator", json!({"expression": expression})).await;
        match (answer.as_str(), own) {
            (Some("skip") | None, None) => refused += 1,
            (Some(answer), Some(own)) if answer == own => same += 1,
            // An intermediate integer above the bound of this program.
            (Some(_), None) if expression.contains("**") || expression.contains("pow") => refused += 1,
            (answer, own) => panic!("{expression}: {answer:?} there, {own:?} here"),
        }
    }
    println!("{} expressions: {same} answered alike, {refused} refused", expressions.len());
    assert!(same > 3 * refused, "{same} {refused}");
}

#[tokio::test]
async fn the_clock_answers_as_the_original() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "Europe/London",
        "America/New_York",
        "America/Sao_Paulo",
        "America/St_Johns",
        "Asia/Tokyo",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "Pacific/Chatham",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "Etc/GMT+5",
        "US/Pacific",
        "GMT",
    ];
    // Half a year in steps that cover all hours, with and without fractions of a second.
    let moments: Vec<u64> = (0..48).map(|step| 1_735_689_600_000 + step * 330_000_777).collect();
    let mut questions = Vec::new();
    for (zone, format) in zones.iter().flat_map(|zone| ["full", "date", "time", "iso"].map(|format| (zone, format))) {
        questions.extend(moments.iter().map(|moment| ("get_time", json!([zone, format, moment - moment % 1_000]))));
        questions.extend(moments.iter().take(2).map(|moment| ("get_time", json!([zone, format, moment]))));
    }
    let told: Arc<Told> = Arc::default();
    let answers = original(&questions);
    for ((_, question), answer) in questions.iter().zip(&answers) {
        *told.now.lock() = question[2].as_u64().unwrap().into();
        let own = own(&told, "get_time", json!({"timezone": question[0], "format": question[1]})).await;
        assert_eq!(own.as_deref(), answer.as_str(), "{question}");
    }
    println!("{} times told alike", answers.len());
}

#[tokio::test]
async fn dice_answer_as_the_original() {
    let notation = (
        1_u32..=100,
        2_u32..=1_000,
        prop_oneof![
            Just(String::new()),
            (1_u32..=100).prop_map(|kept| format!("kh{kept}")),
            (1_u32..=100).prop_map(|kept| format!("kl{kept}")),
        ],
        prop_oneof![Just(String::new()), (-9_999_i32..=9_999).prop_map(|by| format!("{by:+}"))],
        any::<u64>(),
    );
    let (told, mut questions, mut answers) = (Arc::<Told>::default(), Vec::new(), Vec::new());
    for (dice, sides, keep, modifier, seed) in values(1_000, &notation) {
        let kept: u32 = keep.trim_start_matches(['k', 'h', 'l']).parse().unwrap_or_default();
        let notation = format!("{dice}d{sides}{keep}{modifier}");
        let rolls: Vec<u32> = (0..u64::from(dice)).map(|n| mixed(seed, n, sides)).collect();
        let chances = rolls.iter().rev().map(|roll| (f64::from(*roll) - 0.5) / f64::from(sides)).collect();
        *told.rolls.lock() = chances;
        let own = own(&told, "roll_dice", json!({"notation": notation})).await;
        if kept > dice {
            assert_eq!(own, None, "{notation}: more dice are kept than there are");
            continue;
        }
        answers.push((notation.clone(), own));
        questions.push(("roll_dice", json!([notation, rolls])));
    }
    for ((notation, own), answer) in answers.iter().zip(original(&questions)) {
        assert_eq!(own.as_deref(), answer.as_str(), "{notation}");
    }
    println!("{} rolls told alike", answers.len());
}

fn mixed(seed: u64, n: u64, sides: u32) -> u32 {
    let mixed = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
    u32::try_from(mixed % u64::from(sides)).unwrap() + 1
}
