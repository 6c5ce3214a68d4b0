//! The arithmetic of the benchmark's figures.

#[path = "../../benches/turns/arithmetic.rs"]
mod of_the_benchmark;

use of_the_benchmark::{as_f64, median, percentile, plain, quartiles, spread};

#[test]
fn percentiles_lie_between_the_values_beside_them() {
    let values = [4.0, 1.0, 3.0, 2.0];
    let found = [0.0, 0.25, 0.5, 0.9, 1.0].map(|share| percentile(&values, share));
    assert_eq!(found.map(plain), ["1.00", "1.75", "2.50", "3.70", "4.00"]);
    assert_eq!(quartiles(&values), (1.75, median(&values), 3.25));
    assert_eq!(spread(&values), "[1.00 1.75 3.25 4.00]");
}

#[test]
fn one_value_is_every_percentile_and_none_is_no_number() {
    assert_eq!(quartiles(&[7.0]), (7.0, 7.0, 7.0));
    assert!(median(&[]).is_nan() && percentile(&[], 1.0).is_nan());
}

#[test]
fn one_slow_round_moves_the_mean_and_not_the_median() {
    assert_eq!(plain(median(&[1.0, 1.0, 1.0, 1.0, 900.0])), "1.00");
}

#[test]
fn numbers_have_as_many_digits_as_they_deserve() {
    let shown = [0.0, 0.126, -9.876, 12.34, 99.94, 100.4, 12_345.6].map(plain);
    assert_eq!(shown, ["0.00", "0.13", "-9.88", "12.3", "99.9", "100", "12346"]);
    assert_eq!(plain(as_f64(1 << 20)), "1048576");
}
