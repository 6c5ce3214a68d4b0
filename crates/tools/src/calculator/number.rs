//! Numbers, and the operators on them.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::tokens::Operator;

/// Maximum size of an integer, in bits: about 1,200 decimal digits.
const BITS_MAX: u64 = 4_096;
/// Integers up to this many bits convert to floating point without loss.
const EXACT_BITS: u64 = 53;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    /// At most [`BITS_MAX`] bits after an operation.
    Int(BigInt),
    Float(f64),
}

impl Number {
    pub(super) fn float(&self) -> f64 {
        match self {
            Self::Int(int) => int.to_f64().unwrap_or(f64::INFINITY),
            Self::Float(float) => *float,
        }
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Int(int) => Self::Int(-int),
            Self::Float(float) => Self::Float(-float),
        }
    }

    pub(super) fn abs(&self) -> Self {
        match self {
            Self::Int(int) => Self::Int(int.abs()),
            Self::Float(float) => Self::Float(float.abs()),
        }
    }

    pub(super) fn apply(self, operator: Operator, other: Self) -> Result<Self, String> {
        let by_zero = matches!(operator, Operator::Divide | Operator::Floor | Operator::Remainder);
        if by_zero && other.is_zero() {
            return Err("division by zero".to_owned());
        }
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => integers(&left, operator, &right),
            (left, right) => floats(left.bounded_float()?, operator, right.bounded_float()?),
        }
    }

    /// Converts to floating point, or fails if it is too large.
    fn bounded_float(&self) -> Result<f64, String> {
        let float = self.float();
        if float.is_finite() { Ok(float) } else { Err(huge()) }
    }

    /// True if it is less than `other`.
    pub(super) fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left < right,
            (left, right) => left.float() < right.float(),
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Int(int) => int.is_zero(),
            Self::Float(float) => *float == 0.0,
        }
    }

    pub(super) fn shown(&self) -> Result<String, String> {
        match self {
            Self::Int(int) if int.bits() > BITS_MAX => Err(huge()),
            Self::Int(int) => Ok(int.to_string()),
            Self::Float(float) if !float.is_finite() => Err(huge()),
            Self::Float(float) if float.fract() == 0.0 => Ok(format!("{:.0}", float + 0.0)),
            Self::Float(float) => Ok(significant(*float)),
        }
    }
}

fn huge() -> String {
    "the result is too large".to_owned()
}

/// Returns a finite float as a number, or the error for values that are not finite.
pub(super) fn finite(float: f64) -> Result<Number, String> {
    if float.is_nan() {
        return Err("there is no real number that solves this".to_owned());
    }
    if float.is_finite() { Ok(Number::Float(float)) } else { Err(huge()) }
}

fn bounded(int: BigInt) -> Result<Number, String> {
    if int.bits() > BITS_MAX { Err(huge()) } else { Ok(Number::Int(int)) }
}

fn integers(left: &BigInt, operator: Operator, right: &BigInt) -> Result<Number, String> {
    match operator {
        Operator::Plus => bounded(left + right),
        Operator::Minus => bounded(left - right),
        Operator::Times => bounded(left * right),
        Operator::Floor => bounded(left.div_floor(right)),
        Operator::Remainder => bounded(left.mod_floor(right)),
        Operator::Power if right.is_negative() && left.is_zero() => Err("division by zero".to_owned()),
        Operator::Power if !right.is_negative() => {
            let exponent = right.to_u64().filter(|exponent| left.bits() <= 1 || *exponent <= BITS_MAX);
            let exponent = match exponent {
                Some(exponent) => exponent,
                // The size of 0 and 1 does not depend on the exponent.
                None if left.bits() <= 1 => u64::from(right.is_odd()) + 2,
                None => return Err(huge()),
            };
            if left.bits() > 1 && left.bits().saturating_mul(exponent) > 2 * BITS_MAX {
                return Err(huge());
            }
            let exponent = if left.bits() <= 1 { exponent.min(2 + exponent % 2) } else { exponent };
            bounded(left.pow(u32::try_from(exponent).map_err(|_| huge())?))
        }
        Operator::Divide if left.bits().max(right.bits()) > EXACT_BITS => finite(quotient(left, right)),
        Operator::Divide | Operator::Power => {
            let (left, right) =
                (Number::Int(left.clone()).bounded_float()?, Number::Int(right.clone()).bounded_float()?);
            floats(left, operator, right)
        }
    }
}

/// Returns the floating point number nearest to the quotient of two integers, either of which may exceed the range.
fn quotient(left: &BigInt, right: &BigInt) -> f64 {
    // Enough digits for correct rounding; the lowest bit records whether a remainder follows.
    let bits = |int: &BigInt| i64::try_from(int.bits()).unwrap_or(i64::MAX);
    let shift = 66 - (bits(left) - bits(right));
    let (mut over, mut under) = (left.abs(), right.abs());
    if shift > 0 {
        over <<= shift;
    } else {
        under <<= -shift;
    }
    let (mut digits, rest) = over.div_rem(&under);
    if !rest.is_zero() {
        digits |= BigInt::from(1);
    }
    let float = digits.to_f64().unwrap_or(f64::INFINITY);
    // In two steps: a single scaling may overflow although the result is in range.
    let half = i32::try_from(-shift / 2).unwrap_or_default();
    let other = i32::try_from(-shift).unwrap_or_default() - half;
    let float = float * 2_f64.powi(half) * 2_f64.powi(other);
    if left.is_negative() == right.is_negative() { float } else { -float }
}

fn floats(left: f64, operator: Operator, right: f64) -> Result<Number, String> {
    finite(match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Divide => left / right,
        Operator::Floor => floor_division(left, right),
        Operator::Remainder => remainder(left, right),
        Operator::Power => left.powf(right),
    })
}

/// Returns the remainder with the sign of the divisor, as in Python.
fn remainder(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) { rest + right } else { rest }
}

/// Returns the quotient rounded down, consistent with the remainder, as in Python.
fn floor_division(left: f64, right: f64) -> f64 {
    let exact = (left - remainder(left, right)) / right;
    let floor = exact.floor();
    if exact - floor > 0.5 { floor + 1.0 } else { floor }
}

/// Formats with six significant digits, without trailing zeros; with an exponent below 1e-4 and from 1e6 on (C's `%g`).
fn significant(float: f64) -> String {
    let scientific = format!("{float:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        let places = usize::try_from(5 - exponent).unwrap_or(0);
        trimmed(&format!("{float:.places$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    }
}
