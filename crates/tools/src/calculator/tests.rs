use proptest::prelude::*;

use super::*;

#[test]
fn values_are_those_of_python() {
    for (expression, value) in [
        ("2 + 2", "4"),
        ("sqrt(16)", "4"),
        ("2**10", "1024"),
        ("2**3**2", "512"),
        ("-2**2", "-4"),
        ("2**-1", "0.5"),
        ("(-2)**2", "4"),
        ("10 - 4 - 3", "3"),
        ("100 / 8 / 2", "6.25"),
        ("2 * (3 + 4)", "14"),
        ("7 / 2", "3.5"),
        ("4 / 2", "2"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("-7.5 % 2", "0.5"),
        ("1 / 3", "0.333333"),
        ("2 / 3", "0.666667"),
        ("1e-7 * 1", "1e-07"),
        ("123456789.5", "1.23457e+08"),
        ("47.50 * 0.15", "7.125"),
        ("1_000 * 2", "2000"),
        (".5 + 5.", "5.5"),
        ("3 × 4 ÷ 2 − 1", "5"),
        ("abs(-3)", "3"),
        ("round(2.5)", "2"),
        ("round(3.14159, 2)", "3.14"),
        ("round(1234, -2)", "1200"),
        ("min(3, 1, 2) + max(4, 9)", "10"),
        ("sum([1, 2, 3])", "6"),
        ("sum(1, 2, 3,)", "6"),
        ("sum()", "0"),
        ("pow(2, 8)", "256"),
        ("log(e)", "1"),
        ("log(8, 2)", "3"),
        ("log10(1000)", "3"),
        ("sin(0) + cos(0)", "1"),
        ("pi", "3.14159"),
        ("2**100", "1267650600228229401496703205376"),
        ("1**99999999999999999999", "1"),
        ("(-1)**99999999999999999999", "-1"),
        ("(-1)**100000000000000000000", "1"),
        ("0**0", "1"),
        ("--3", "3"),
        ("1e21 * 3", "3000000000000000000000"),
        ("10**30 / 7", "142857142857142852444009529344"),
        ("max(2**60, 2**60 + 1) - 2**60", "1"),
        ("log(2**2000)", "1386.29"),
        ("log10(10**400)", "400"),
        ("round(1.115, 2)", "1.11"),
        ("round(10**30 + 51, -2) - 10**30", "100"),
        ("round(250, -2)", "200"),
        ("round(-250.5, -2)", "-300"),
        ("5.1 % 0.1", "0.1"),
        ("-0.0", "0"),
    ] {
        assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
    }
}

#[test]
fn what_has_no_value_is_told_in_words() {
    for (expression, error) in [
        ("", "the expression is empty: write something like 2 + 2 or sqrt(16)"),
        ("1 / 0", "division by zero"),
        ("1 // 0.0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9**9**9", "the result is too large"),
        ("9**9**9**9", "the result is too large"),
        ("1e308 * 10", "the result is too large"),
        ("sqrt(-1)", "there is no real number that solves this"),
        ("log(0)", "a logarithm needs a number above zero"),
        ("log(5, 1)", "a logarithm has no base 1"),
        ("2 ^ 3", "^ is not a power here: write 2**3"),
        ("1,000", "a comma separates arguments of functions: write 1000 instead of 1,000"),
        ("(1 + 2", ") is expected instead of the end"),
        ("1 2", "a number is not expected there"),
        ("2 +", "the end is not expected there"),
        ("sqrt(1, 2)", "sqrt does not take 2 arguments"),
        (
            "__import__('os').system('ls')",
            "'\\'' cannot be read: use numbers, + - * / // % **, parentheses and functions",
        ),
        (
            "exit()",
            "\"exit\" is not known: use abs, round, min, max, sum, sqrt, pow, sin, cos, tan, log, log10, pi and e",
        ),
    ] {
        assert_eq!(evaluate(expression).unwrap_err(), error, "{expression}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    assert!(evaluate(&"1+".repeat(600)).unwrap_err().contains("longer than"));
    for open in ["(", "-", "2**", "abs("] {
        let error = evaluate(&open.repeat(200)).unwrap_err();
        assert!(error.contains("nested deeper") || error.contains("not expected"), "{open}: {error}");
    }
    let many = vec!["1"; 101].join(",");
    assert_eq!(evaluate(&format!("sum({many})")).unwrap_err(), "a function takes at most 100 arguments");
}

#[test]
fn an_expression_costs_no_more_than_its_length() {
    cost::grows_linearly(120, |size| "1.5+".repeat(size / 4) + "1", |expression| drop(evaluate(&expression)));
}

proptest! {
    #[test]
    fn any_text_has_a_value_or_an_error(expression in "[0-9+*/%().,eE a-z\\[\\]-]{0,80}") {
        let told = evaluate(&expression);
        prop_assert!(told.is_ok_and(|value| value.len() <= 1_300) || evaluate(&expression).is_err_and(|error| error.len() <= 200));
    }

    #[test]
    fn whole_numbers_are_exact(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000, c in 1_i64..1_000) {
        prop_assert_eq!(evaluate(&format!("{a} * {b} + {c}")), Ok((a * b + c).to_string()));
        prop_assert_eq!(evaluate(&format!("({a}) // {c} * {c} + ({a}) % {c}")), Ok(a.to_string()));
    }
}
