//! Functions and constants.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::number::{Number, finite};
use super::tokens::Operator;

/// What can be called, as error messages list it.
const KNOWN: &str = "abs, round, min, max, sum, sqrt, pow, sin, cos, tan, log, log10, pi and e";
/// The most decimal places that `round` is asked for.
const PLACES_MAX: i32 = 15;

pub(super) fn constant(name: &str) -> Result<Number, String> {
    match name {
        "pi" => Ok(Number::Float(std::f64::consts::PI)),
        "e" => Ok(Number::Float(std::f64::consts::E)),
        _ => Err(unknown(name)),
    }
}

pub(super) fn call(name: &str, arguments: &[Number]) -> Result<Number, String> {
    match (name, arguments) {
        ("abs", [one]) => Ok(one.abs()),
        ("round", [one]) => round(one),
        ("round", [one, places]) => places_of(one, places),
        ("min", [first, rest @ ..]) => Ok(chosen(first, rest, |one, best| one < best)),
        ("max", [first, rest @ ..]) => Ok(chosen(first, rest, |one, best| one > best)),
        ("sum", all) => {
            let zero = Number::Int(BigInt::ZERO);
            all.iter().try_fold(zero, |sum, one| sum.apply(Operator::Plus, one.clone()))
        }
        ("pow", [base, exponent]) => base.clone().apply(Operator::Power, exponent.clone()),
        ("sqrt", [one]) => finite(one.float().sqrt()),
        ("sin", [one]) => finite(one.float().sin()),
        ("cos", [one]) => finite(one.float().cos()),
        ("tan", [one]) => finite(one.float().tan()),
        ("log10", [one]) => logarithm(one, f64::log10),
        ("log", [one]) => logarithm(one, f64::ln),
        ("log", [one, base]) => {
            let (one, base) = (logarithm(one, f64::ln)?.float(), logarithm(base, f64::ln)?.float());
            if base == 0.0 { Err("a logarithm has no base 1".to_owned()) } else { finite(one / base) }
        }
        ("abs" | "round" | "min" | "max" | "pow" | "sqrt" | "sin" | "cos" | "tan" | "log10" | "log", wrong) => {
            Err(format!("{name} does not take {} arguments", wrong.len()))
        }
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    format!("{name:?} is not known: use {KNOWN}")
}

fn logarithm(one: &Number, of: fn(f64) -> f64) -> Result<Number, String> {
    let float = one.float();
    if float > 0.0 { finite(of(float)) } else { Err("a logarithm needs a number above zero".to_owned()) }
}

/// The nearest integer; halves go to the even one, as in Python.
fn round(one: &Number) -> Result<Number, String> {
    match one {
        Number::Int(_) => Ok(one.clone()),
        Number::Float(float) => finite(float.round_ties_even()),
    }
}

fn places_of(one: &Number, places: &Number) -> Result<Number, String> {
    let Number::Int(places) = places else { return Err("round takes a whole number of places".to_owned()) };
    let places = places.to_i32().filter(|places| places.abs() <= PLACES_MAX);
    let places = places.ok_or_else(|| format!("round takes -{PLACES_MAX} to {PLACES_MAX} places"))?;
    match one {
        Number::Int(_) if places >= 0 => Ok(one.clone()),
        _ => {
            let scale = 10_f64.powi(places);
            finite((one.float() * scale).round_ties_even() / scale)
        }
    }
}

fn chosen(first: &Number, rest: &[Number], better: fn(f64, f64) -> bool) -> Number {
    rest.iter().fold(first, |best, one| if better(one.float(), best.float()) { one } else { best }).clone()
}
