//! Counts the steps of code that reads what others wrote, so that tests can see that its cost is linear on every machine.

/// Takes note of this many steps. Outside of tests it does nothing.
#[inline]
pub(crate) fn step(count: usize) {
    #[cfg(test)]
    counter::STEPS.with(|steps| steps.set(steps.get() + count as u64));
    #[cfg(not(test))]
    let _ = count;
}

#[cfg(test)]
pub(crate) use counter::{assert_linear, steps_of};

#[cfg(test)]
mod counter {
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// The steps that something took.
    pub(crate) fn steps_of(work: impl FnOnce()) -> u64 {
        let before = STEPS.with(Cell::get);
        work();
        STEPS.with(Cell::get) - before
    }

    /// Feeds inputs of doubling size; each may take little more than twice the steps of the one before.
    pub(crate) fn assert_linear(name: &str, input: impl Fn(usize) -> String, work: impl Fn(&str)) {
        let mut before = None;
        for size in [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16] {
            let input = input(size);
            let steps = steps_of(|| work(&input));
            println!("{name}: {} bytes, {steps} steps", input.len());
            if let Some(before) = before {
                assert!(steps <= before * 5 / 2 + 1_000, "{name}: {steps} steps after {before}");
            }
            before = Some(steps);
        }
    }
}
