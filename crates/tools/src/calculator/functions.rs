//! Functions and constants.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{FromPrimitive, ToPrimitive};

use super::number::{Number, finite};
use super::tokens::Operator;

/// The functions and constants, as error messages list them.
const KNOWN: &str = "abs, round, min, max, sum, sqrt, pow, sin, cos, tan, log, log10, pi and e";
/// The maximum number of decimal places of `round`.
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
        ("round", [one]) => Ok(round(one)),
        ("round", [one, places]) => places_of(one, places),
        ("min", [first, rest @ ..]) => Ok(chosen(first, rest, Number::is_less)),
        ("max", [first, rest @ ..]) => Ok(chosen(first, rest, |one, best| best.is_less(one))),
        ("sum", all) => {
            let zero = Number::Int(BigInt::ZERO);
            all.iter().try_fold(zero, |sum, one| sum.apply(Operator::Plus, one.clone()))
        }
        ("pow", [base, exponent]) => base.clone().apply(Operator::Power, exponent.clone()),
        ("sqrt", [one]) => finite(one.float().sqrt()),
        ("sin", [one]) => finite(one.float().sin()),
        ("cos", [one]) => finite(one.float().cos()),
        ("tan", [one]) => finite(one.float().tan()),
        ("log10", [one]) => logarithm(one, f64::log10, std::f64::consts::LOG10_2),
        ("log", [one]) => natural_logarithm(one),
        ("log", [one, base]) => {
            let (one, base) = (natural_logarithm(one)?.float(), natural_logarithm(base)?.float());
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

/// Integers of at most this many bits get their logarithm as floating point numbers.
const FLOAT_BITS: u64 = 1_000;

fn natural_logarithm(one: &Number) -> Result<Number, String> {
    logarithm(one, f64::ln, std::f64::consts::LN_2)
}

/// Returns a logarithm, also of integers that are too large for floating point; `of_two` is that of 2.
fn logarithm(one: &Number, of: fn(f64) -> f64, of_two: f64) -> Result<Number, String> {
    let (float, halved) = match one {
        Number::Int(int) if int.bits() > FLOAT_BITS => {
            let halved = int.bits() - FLOAT_BITS;
            (Number::Int(int >> halved).float(), halved.to_f64().unwrap_or_default())
        }
        _ => (one.float(), 0.0),
    };
    let none = || Err("a logarithm needs a number above zero".to_owned());
    if float > 0.0 { finite(halved.mul_add(of_two, of(float))) } else { none() }
}

/// Returns the nearest integer; halves go to the even one, as in Python.
fn round(one: &Number) -> Number {
    match one {
        Number::Int(_) => one.clone(),
        // An integer, as in Python: results computed from it are exact.
        Number::Float(float) => Number::Int(BigInt::from_f64(float.round_ties_even()).unwrap_or_default()),
    }
}

fn places_of(one: &Number, places: &Number) -> Result<Number, String> {
    let Number::Int(places) = places else { return Err("round takes a whole number of places".to_owned()) };
    let places = places.to_i32().filter(|places| places.abs() <= PLACES_MAX);
    let places = places.ok_or_else(|| format!("round takes -{PLACES_MAX} to {PLACES_MAX} places"))?;
    match one {
        Number::Int(_) if places >= 0 => Ok(one.clone()),
        Number::Int(int) => Ok(Number::Int(to_tens(int, places.unsigned_abs()))),
        // The decimal expansion of a floating point number is finite, so its rounding is exact.
        Number::Float(float) if places >= 0 => {
            let places = usize::try_from(places).unwrap_or_default();
            finite(format!("{float:.places$}").parse().unwrap_or(f64::NAN))
        }
        Number::Float(float) => {
            // One more digit shows whether a fraction follows the whole number.
            let whole = BigInt::from_f64(*float).unwrap_or_default() * 10_u8;
            let whole =
                if float.fract() == 0.0 { whole } else { whole + BigInt::from(if *float < 0.0 { -1 } else { 1 }) };
            finite(Number::Int(to_tens(&whole, places.unsigned_abs() + 1) / 10_u8).float())
        }
    }
}

/// Rounds an integer to a power of ten; halves go to the even one.
fn to_tens(int: &BigInt, power: u32) -> BigInt {
    let scale = BigInt::from(10).pow(power);
    let (quotient, rest) = int.div_mod_floor(&scale);
    let up = match (rest * 2_u8).cmp(&scale) {
        Ordering::Greater => true,
        Ordering::Equal => quotient.is_odd(),
        Ordering::Less => false,
    };
    (if up { quotient + 1_u8 } else { quotient }) * scale
}

fn chosen(first: &Number, rest: &[Number], better: fn(&Number, &Number) -> bool) -> Number {
    rest.iter().fold(first, |best, one| if better(one, best) { one } else { best }).clone()
}
