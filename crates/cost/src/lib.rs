//! For tests: the cost of a parser, in processor instructions, for inputs of doubling size.
//!
//! Code that reads outside bytes must take at most linear time. A test of that rule counts instructions, because time
//! depends on the machine and its load. [`grows_linearly`] runs the calling test again in a separate process under
//! valgrind's `callgrind`, with the counters enabled only while the parser reads. Code of libraries below the parser
//! is counted too; the parser needs no instrumentation.
//!
//! A test for a parser is one call:
//!
//! ```ignore
//! #[test]
//! fn a_frame_costs_no_more_than_its_length() {
//!     // Inputs of 4, 8, 16 and 32 KiB: the first argument is the smallest size, the largest is eight times as long. Choose the
//!     // largest near the parser's cap, and the worst input: nested, unclosed, repeated.
//!     cost::grows_linearly(4 * 1024, |size| "[".repeat(size), |input| drop(parse(&input)));
//! }
//! ```
//!
//! | call | for input that is read |
//! |---|---|
//! | [`grows_linearly`] | in slices, or on a blocking thread: the cost follows the size |
//! | [`fits_a_slice`] | in one go on a task: the same, and the largest input, which is the cap, takes at most 10 ms of a core |
//! | [`stays_flat`] | only up to a bound: input behind it costs nothing |
//!
//! Each call appends a line to `target/cost/`, which `./test` prints as one table. Without valgrind it prints that it
//! was skipped; it fails if `COST_IS_REQUIRED` is set, as `./test` does.
//!
//! - The last argument must be a closure written in the test function itself: its type names the test to run again.
//! - One call for each test function.
//! - Only the last closure is counted, including the destructors of its argument and result.
//! - An asynchronous reader is driven inside it, on a runtime of one thread.

use std::any::type_name_of_val;
use std::path::Path;
use std::process::Command;

/// Set in the process whose instructions are counted.
const COUNTED: &str = "COST_IS_COUNTED";

/// Set where a missing valgrind fails these tests instead of skipping them.
const REQUIRED: &str = "COST_IS_REQUIRED";

/// The sizes of the inputs, as multiples of the smallest.
const SIZES: [usize; 4] = [1, 2, 4, 8];

/// The limit of the largest input's cost, as a multiple of the smallest: linear cost makes it 8, `n log n` about 10,
/// quadratic 64.
const MOST: f64 = 12.0;

/// The limit for an input of eight times the size if only its beginning is read.
const FLAT: f64 = 1.2;

/// The fewest instructions of a real read; below it the largest input was not read at all.
const LEAST: u64 = 10_000;

/// The stack of the test that is counted, in bytes: recursive parsers have threads with as much.
const STACK_BYTES: &str = "67108864";

/// The instructions that a task may take in one go. Tests are unoptimised, which takes 3 to 10 times the instructions
/// of a release build; that one runs about 4 in a nanosecond, so this is at most 10 ms of a core.
const SLICE: u64 = 100_000_000;

/// Fails unless the cost of `read` grows at most in proportion to the size of its input, which `input` makes:
/// `smallest` and then two, four and eight times that.
///
/// # Panics
/// The cost grows faster, or valgrind is required and not installed.
pub fn grows_linearly<I, R: FnMut(I)>(smallest: usize, input: impl Fn(usize) -> I, read: R) {
    if let Some(cost) = cost(smallest, input, read) {
        assert!(cost.growth <= MOST, "{:.1} times the cost for an input of 8 times the size", cost.growth);
    }
}

/// Like [`grows_linearly`], for input that a task reads in one go: `cap` is the size of the largest input, which must
/// take at most 10 ms of a core.
///
/// # Panics
/// The cost grows faster, the largest input costs too much, or valgrind is required and not installed.
pub fn fits_a_slice<I, R: FnMut(I)>(cap: usize, input: impl Fn(usize) -> I, read: R) {
    if let Some(cost) = cost(cap / SIZES[SIZES.len() - 1], input, read) {
        assert!(cost.growth <= MOST, "{:.1} times the cost for an input of 8 times the size", cost.growth);
        assert!(cost.largest <= SLICE, "{} instructions are more than the {SLICE} of a slice", cost.largest);
    }
}

/// Fails unless `read` costs about the same for each size of input.
///
/// # Panics
/// The cost grows, or valgrind is required and not installed.
pub fn stays_flat<I, R: FnMut(I)>(smallest: usize, input: impl Fn(usize) -> I, read: R) {
    if let Some(cost) = cost(smallest, input, read) {
        assert!(cost.growth <= FLAT, "{:.1} times the cost for input that is not read", cost.growth);
    }
}

/// The measured cost.
#[derive(Debug)]
struct Cost {
    /// Instructions for the largest input.
    largest: u64,
    /// The cost of the largest input as a multiple of the smallest.
    growth: f64,
}

/// Counts the instructions. Returns `None` in the process that is being counted, and without valgrind.
fn cost<I, R: FnMut(I)>(smallest: usize, input: impl Fn(usize) -> I, mut read: R) -> Option<Cost> {
    if is_set(COUNTED) {
        for size in SIZES {
            let mut input = Some(input(smallest * size));
            counted(&mut || input.take().into_iter().for_each(&mut read));
        }
        return None;
    }
    let closure = type_name_of_val(&read);
    let test = test_of(closure);
    let costs = costs_of(test)?;
    let (first, largest) = (costs[0], costs[SIZES.len() - 1]);
    let cost = Cost { largest, growth: float(largest) / float(first) };
    note(name_of(closure), smallest * SIZES[SIZES.len() - 1], &cost);
    assert!(largest > LEAST, "{test}: nothing was read: {costs:?} instructions");
    Some(cost)
}

/// Appends the figures to the table. A failure to write does not fail the test.
fn note(test: &str, size: usize, cost: &Cost) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cost");
    let each = float(cost.largest) / float(size as u64);
    let line = format!("{test}\t{size}\t{}\t{each:.0}\t{:.1}\n", cost.largest, cost.growth);
    eprint!("{line}");
    let _ = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(test.replace("::", ".")), line));
}

/// The counters are enabled while this runs; at its end they are written out and reset.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Code after the call keeps this frame on the stack until the work is done.
    std::hint::black_box(());
}

/// The crate and the path of the test that a closure was written in.
fn name_of(closure: &'static str) -> &'static str {
    closure.split("::{{closure}}").next().unwrap_or(closure).trim_start_matches("staffai_")
}

/// The path of the test that a closure was written in, in the form of the test runner.
fn test_of(closure: &'static str) -> &'static str {
    let name = name_of(closure);
    name.split_once("::").map_or(name, |(_, path)| path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the parent marks the counted process, and the test command what it requires"
)]
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Runs a test under valgrind and reads the counts for each size. Returns `None` if valgrind is neither installed nor
/// required.
fn costs_of(test: &str) -> Option<Vec<u64>> {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let out = folder.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*cost::counted*"])
        .args(["--dump-after=staffai_cost::counted", &format!("--callgrind-out-file={}", out.display())])
        .arg(std::env::current_exe().expect("a test has the path of its program"))
        .args(["--exact", test, "--test-threads=1"])
        .env(COUNTED, "1")
        .env("RUST_MIN_STACK", STACK_BYTES)
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_set(REQUIRED) => {
            // The capture of the output of passed tests does not hide it.
            let skipped = format!("skipped: valgrind is not installed, so the cost of {test} is not counted\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
            return None;
        }
        output => output.unwrap_or_else(|error| panic!("cannot run valgrind ({error}): install it")),
    };
    let said = || String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test} under valgrind: {}", said());
    let dump = |number: usize| {
        let text = std::fs::read_to_string(folder.path().join(format!("counts.{number}"))).ok()?;
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
    };
    let costs: Vec<u64> = (1..=SIZES.len()).filter_map(dump).collect();
    assert_eq!(costs.len(), SIZES.len(), "{test} was counted {costs:?}: {}", said());
    Some(costs)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_once_is_linear() {
        grows_linearly(
            1_000,
            |size| vec![1_u8; size],
            |input| {
                assert!(std::hint::black_box(&input).iter().map(|byte| u64::from(*byte)).sum::<u64>() > 0);
            },
        );
    }

    #[test]
    fn reading_again_for_each_byte_is_noticed() {
        let cost = cost(
            100,
            |size| vec![1_u8; size],
            |input| {
                let sum = |end: usize| input[..end].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                assert!(std::hint::black_box((0..input.len()).map(sum).max()).is_some());
            },
        );
        assert!(cost.is_none_or(|cost| cost.growth > MOST), "quadratic cost is detected");
    }

    #[test]
    fn a_closure_names_its_test() {
        assert_eq!(test_of("staffai_llm::tests::a_frame::{{closure}}"), "tests::a_frame");
    }
}
