//! Rendering: the cost of a typed reply between the model's last byte and the request that posts it. In this process,
//! one reply after the other.

use std::hint::black_box;

use domain::layout::lay_out;
use domain::outgoing::Capabilities;
use domain::reply::{Schema, to_parts};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::arithmetic::{as_f64, median};
use crate::figures::{Steal, Table};

/// Number of measurements, of which the median counts.
const STRETCHES: usize = 15;
/// Replies per measurement; formulas cost a thousand times as much.
const REPLIES: u64 = 2_000;
const FORMULAS: u64 = 40;
/// Discord's capabilities.
const DOOR: Capabilities =
    Capabilities { cards: 10, files: 10, file_bytes: 8 * 1024 * 1024, ..Capabilities::text_only(2_000) };

pub fn run(table: &mut Table) -> Result<(), String> {
    let document: Value =
        serde_json::from_str(include_str!("../../../response_schema.json")).map_err(|error| error.to_string())?;
    let schema = Schema::compile(&document)?;
    let program = "fn main() {\n    println!(\"a line of code\");\n}\n".repeat(20);
    let code = json!({"language": "rust", "content": program}).to_string();
    let replies = [
        ("a short text", reply("text", "The tide turns at noon.", ""), Some(8.0)),
        ("a text of five messages", reply("text", &"A sentence about the tide. ".repeat(350), ""), None),
        ("code in its block", reply("code", "Run this:", &code), None),
        ("a link", reply("url", "Look here:", "https://example.com/tides"), None),
    ];
    for (what, content, goal) in replies {
        let steal = Steal::watch();
        let cost = each(REPLIES, || {
            let Ok(reply) = schema.read(black_box(&content)) else { return 0 };
            lay_out(&to_parts(&reply), &DOOR).len()
        });
        let what = format!("rendering: {what}, read, checked and laid out");
        match goal {
            Some(goal) => table.at_most(&what, (cost, "us"), goal, &steal),
            None => table.told(&what, &format!("{cost:.1} us"), &steal),
        }
    }
    formula(table);
    Ok(())
}

#[cfg(feature = "latex")]
fn formula(table: &mut Table) {
    let steal = Steal::watch();
    let formula = r"\int_0^1 x^2\,dx = \sum_{k=1}^{\infty} \frac{1}{k^2} \begin{pmatrix} a & b \\ c & d \end{pmatrix}";
    let cost = each(FORMULAS, || render::latex::draw(black_box(formula)).map_or(0, |png| png.len()));
    table.at_most("rendering: a formula as a picture", (cost / 1_000.0, "ms"), 5.0, &steal);
}

#[cfg(not(feature = "latex"))]
fn formula(_: &mut Table) {}

/// Returns the cost of one call, in microseconds: the median of some measurements.
fn each(many: u64, mut work: impl FnMut() -> usize) -> f64 {
    let stretch = |_| {
        let begun = Instant::now();
        for _ in 0..many {
            black_box(work());
        }
        begun.elapsed().as_secs_f64() * 1e6 / as_f64(many)
    };
    median(&(0..STRETCHES).map(stretch).collect::<Vec<_>>())
}

fn reply(kind: &str, response: &str, data: &str) -> String {
    json!({"type": kind, "response": response, "data": data}).to_string()
}
