//! For tests: what a parser costs, in instructions of the processor, for inputs of doubling size.
//!
//! No code that reads outside bytes may cost more than linear time. A test of that rule counts instructions, because time depends
//! on the machine and its load. The counting is done by valgrind: [`grows_linearly`] runs the test that calls it once more in a
//! process of its own under `callgrind`, with the counters on only while the parser reads. Libraries below the parser are counted
//! like its own code, and the parser itself holds nothing for this.
//!
//! A test for a parser is one call:
//!
//! ```ignore
//! #[test]
//! fn a_frame_costs_no_more_than_its_length() {
//!     // Inputs of 4, 8, 16 and 32 KiB: the first argument is the smallest size, the largest is eight times as long. Choose the
//!     // largest near the parser's cap, and an input that is as bad as one can be: nested, unclosed, repeated.
//!     cost::grows_linearly(4 * 1024, |size| "[".repeat(size), |input| drop(parse(&input)));
//! }
//! ```
//!
//! - The last argument must be a closure that is written in the test function itself: its type names the test to run again.
//! - One call for each test function.
//! - Only the last closure is counted. What it returns late (destructors of its argument included) is counted as well.
//! - A reader that waits is driven inside it, on a runtime of one thread.

use std::any::type_name_of_val;
use std::process::Command;

/// Set in the process whose instructions are counted.
const COUNTED: &str = "COST_IS_COUNTED";

/// The sizes of the inputs, as multiples of the smallest.
const SIZES: [usize; 4] = [1, 2, 4, 8];

/// The most that the largest input may cost, as a multiple of the smallest: linear cost makes it 8, `n log n` about 10, the
/// square 64.
const MOST: f64 = 12.0;

/// Below so many instructions the largest input was not read at all.
const LEAST: u64 = 10_000;

/// Fails unless `read` costs at most in proportion to the size of what `input` makes, which is `smallest` and then twice, four
/// and eight times that.
///
/// # Panics
/// The cost grows faster, or valgrind is not installed.
pub fn grows_linearly<I, R: FnMut(I)>(smallest: usize, input: impl Fn(usize) -> I, read: R) {
    if let Some(growth) = growth(smallest, input, read) {
        assert!(growth <= MOST, "{growth:.1} times the cost for an input of 8 times the size");
    }
}

/// How many times more the largest input costs than the smallest; none in the process that is being counted.
fn growth<I, R: FnMut(I)>(smallest: usize, input: impl Fn(usize) -> I, mut read: R) -> Option<f64> {
    #[expect(clippy::disallowed_methods, reason = "the process that is counted is told so by its parent")]
    let is_counted = std::env::var_os(COUNTED).is_some();
    if is_counted {
        for size in SIZES {
            let mut input = Some(input(smallest * size));
            counted(&mut || input.take().into_iter().for_each(&mut read));
        }
        return None;
    }
    let test = test_of(type_name_of_val(&read));
    let costs = costs_of(test);
    let growth = float(costs[SIZES.len() - 1]) / float(costs[0]);
    eprintln!("{test}: {costs:?} instructions, {growth:.1} times for an input of 8 times {smallest}");
    assert!(costs[SIZES.len() - 1] > LEAST, "{test}: nothing was read: {costs:?} instructions");
    Some(growth)
}

/// The counters are on while this runs, and are written down and set to zero at its end.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Something after the call, so that this frame stays until the work is done.
    std::hint::black_box(());
}

/// The path of the test that a closure was written in, as the test runner knows it.
fn test_of(closure: &'static str) -> &'static str {
    let path = closure.split("::{{closure}}").next().unwrap_or(closure);
    path.split_once("::").map_or(path, |(_, path)| path)
}

/// Runs a test under valgrind and reads what it counted for each size.
fn costs_of(test: &str) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let out = folder.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*cost::counted*"])
        .args(["--dump-after=staffai::cost::counted", &format!("--callgrind-out-file={}", out.display())])
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--test-threads=1"])
        .env(COUNTED, "1")
        .output()
        .unwrap_or_else(|error| panic!("cannot run valgrind ({error}): install it, or run ./test, which does it"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test} under valgrind: {}", said());
    let dump = |number: usize| {
        let text = std::fs::read_to_string(folder.path().join(format!("counts.{number}"))).ok()?;
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
    };
    let costs: Vec<u64> = (1..=SIZES.len()).filter_map(dump).collect();
    assert_eq!(costs.len(), SIZES.len(), "{test} was counted {costs:?}: {}", said());
    costs
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
        let growth = growth(
            100,
            |size| vec![1_u8; size],
            |input| {
                let sum = |end: usize| input[..end].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                assert!(std::hint::black_box((0..input.len()).map(sum).max()).is_some());
            },
        );
        assert!(growth.is_none_or(|growth| growth > MOST), "{growth:?}");
    }

    #[test]
    fn a_closure_names_its_test() {
        assert_eq!(test_of("staffai::llm::tests::a_frame::{{closure}}"), "llm::tests::a_frame");
    }
}
