//! `roll_dice`: `[N]dS[kh|kl[K]][+M|-M]`, such as `2d6`, `d20+5` or `4d6kh3`.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::{BuiltInTool, arguments, reads, told};
use domain::tool::{CallError, Tool, ToolRequest, ToolResult};
use ports::Dice;

pub(super) struct RollDice(pub Arc<dyn Dice>);

#[derive(Deserialize)]
struct Arguments {
    notation: String,
}

#[async_trait]
impl BuiltInTool for RollDice {
    fn tool(&self) -> Tool {
        reads(
            "roll_dice",
            "Roll dice in standard notation, such as '2d6', 'd20+5' or '4d6kh3' to keep the highest 3.",
            json!({"type": "object", "required": ["notation"], "additionalProperties": false, "properties": {
                "notation": {"type": "string", "description": "[N]dS, then kh or kl with a number, then + or - with a number"},
            }}),
        )
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Arguments { notation } = arguments(request)?;
        Ok(told(roll(&notation, || self.0.roll())))
    }
}

/// Maximum length of a notation, in characters other than white space.
const NOTATION_MAX: usize = 64;
/// Maximum number of dice of a roll.
pub const DICE_MAX: u32 = 100;
/// The smallest and the largest number of sides of a die.
pub const SIDES: std::ops::RangeInclusive<u32> = 2..=1_000;
/// The largest absolute modifier.
pub const MODIFIER_MAX: i64 = 1_000_000;

/// A parsed notation; every number is within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notation {
    /// 1 to [`DICE_MAX`].
    dice: u32,
    /// Within [`SIDES`].
    sides: u32,
    /// The dice that count; `None` for all.
    keep: Option<Keep>,
    /// Absolute value at most [`MODIFIER_MAX`].
    modifier: i64,
}

/// The dice that count; 1 to the number rolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Highest(usize),
    Lowest(usize),
}

/// Rolls. `chance` returns numbers in `[0, 1)`.
///
/// # Errors
/// The notation is invalid or out of bounds, with the allowed values.
pub fn roll(notation: &str, mut chance: impl FnMut() -> f64) -> Result<String, String> {
    let characters = notation.chars().filter(|c| !c.is_whitespace()).take(NOTATION_MAX + 1);
    let notation = characters.collect::<String>().to_lowercase();
    if notation.chars().count() > NOTATION_MAX {
        return Err(format!("the notation is longer than {NOTATION_MAX} characters"));
    }
    let parsed = parse(&notation)?;
    let rolls: Vec<i64> = (0..parsed.dice).map(|_| side(chance(), parsed.sides)).collect();
    let kept = parsed.keep.map(|keep| kept(&rolls, keep));
    let total = kept.as_ref().unwrap_or(&rolls).iter().sum::<i64>() + parsed.modifier;
    let mut text = format!("Rolled {notation}: ");
    if rolls.len() > 1 {
        let _ = write!(text, "[{}]", joined(&rolls));
        if let Some(kept) = kept {
            let _ = write!(text, " → kept [{}]", joined(&kept));
        }
        if parsed.modifier != 0 {
            let _ = write!(text, " {:+}", parsed.modifier);
        }
        text.push_str(" = ");
    }
    let _ = write!(text, "**{total}**");
    Ok(text)
}

/// Returns the side shown; a `chance` outside `[0, 1)` is clamped to the first or last side.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is clamped to the sides")]
fn side(chance: f64, sides: u32) -> i64 {
    i64::from(((chance * f64::from(sides)) as u32).min(sides - 1) + 1)
}

fn kept(rolls: &[i64], keep: Keep) -> Vec<i64> {
    let mut sorted = rolls.to_vec();
    sorted.sort_unstable();
    let many = match keep {
        Keep::Highest(many) => {
            sorted.reverse();
            many
        }
        Keep::Lowest(many) => many,
    };
    sorted.truncate(many);
    sorted
}

fn joined(rolls: &[i64]) -> String {
    rolls.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn parse(notation: &str) -> Result<Notation, String> {
    let bad = || "write dice as 2d6, d20+5 or 4d6kh3".to_owned();
    let (dice, rest) = number(notation);
    let (sides, rest) = number(rest.strip_prefix('d').ok_or_else(bad)?);
    let dice = within(dice.unwrap_or("1"), 1..=i64::from(DICE_MAX), "dice")?;
    let bounds = i64::from(*SIDES.start())..=i64::from(*SIDES.end());
    let sides = within(sides.ok_or_else(bad)?, bounds, "sides")?;
    let (keep, rest) = match rest.split_at_checked(2) {
        Some(("kh", rest)) => counted(rest, dice, Keep::Highest)?,
        Some(("kl", rest)) => counted(rest, dice, Keep::Lowest)?,
        _ => (None, rest),
    };
    let modifier = match rest.split_at_checked(1) {
        None => 0,
        Some((sign @ ("+" | "-"), digits)) => {
            let (Some(digits), "") = number(digits) else { return Err(bad()) };
            let modifier = within(digits, 0..=MODIFIER_MAX, "modifier")?;
            if sign == "-" { -modifier } else { modifier }
        }
        Some(_) => return Err(bad()),
    };
    let small = |number: i64| u32::try_from(number).map_err(|_| bad());
    Ok(Notation { dice: small(dice)?, sides: small(sides)?, keep, modifier })
}

/// Parses the number of dice that are kept; the default is 1.
fn counted(rest: &str, dice: i64, keep: fn(usize) -> Keep) -> Result<(Option<Keep>, &str), String> {
    let (many, rest) = number(rest);
    let many = within(many.unwrap_or("1"), 1..=dice, "kept dice")?;
    Ok((usize::try_from(many).ok().map(keep), rest))
}

/// Splits off the digits at the beginning.
fn number(text: &str) -> (Option<&str>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    ((!digits.is_empty()).then_some(digits), rest)
}

fn within(digits: &str, bounds: std::ops::RangeInclusive<i64>, what: &str) -> Result<i64, String> {
    match digits.parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("{what}: {} to {} are allowed", bounds.start(), bounds.end())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a chance for dice that show these sides, in order.
    fn shows(sides: &[u32], of: u32) -> impl FnMut() -> f64 {
        let mut chances: Vec<f64> = sides.iter().rev().map(|side| (f64::from(*side) - 0.5) / f64::from(of)).collect();
        move || chances.pop().unwrap()
    }

    #[test]
    fn outputs_are_those_of_the_earlier_bot() {
        for (notation, sides, of, expected) in [
            ("1d6", &[4][..], 6, "Rolled 1d6: **4**"),
            ("1D20+5", &[8], 20, "Rolled 1d20+5: **13**"),
            ("2d6", &[4, 3], 6, "Rolled 2d6: [4, 3] = **7**"),
            ("2d6+5", &[4, 3], 6, "Rolled 2d6+5: [4, 3] +5 = **12**"),
            ("2d6 - 1", &[4, 3], 6, "Rolled 2d6-1: [4, 3] -1 = **6**"),
            ("4d6kh3", &[1, 6, 2, 5], 6, "Rolled 4d6kh3: [1, 6, 2, 5] → kept [6, 5, 2] = **13**"),
            ("4d6kl1", &[1, 6, 2, 5], 6, "Rolled 4d6kl1: [1, 6, 2, 5] → kept [1] = **1**"),
            ("d20", &[20], 20, "Rolled d20: **20**"),
            ("2d20kh", &[3, 17], 20, "Rolled 2d20kh: [3, 17] → kept [17] = **17**"),
        ] {
            assert_eq!(roll(notation, shows(sides, of)).as_deref(), Ok(expected), "{notation}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_told_with_its_bounds() {
        for (notation, error) in [
            ("101d6", "dice: 1 to 100 are allowed"),
            ("0d6", "dice: 1 to 100 are allowed"),
            ("2d1", "sides: 2 to 1000 are allowed"),
            ("2d1001", "sides: 2 to 1000 are allowed"),
            ("3d6kh4", "kept dice: 1 to 3 are allowed"),
            ("d6+99999999999999999999", "modifier: 0 to 1000000 are allowed"),
            ("", "write dice as 2d6, d20+5 or 4d6kh3"),
            ("two dice", "write dice as 2d6, d20+5 or 4d6kh3"),
            ("2d6+", "write dice as 2d6, d20+5 or 4d6kh3"),
            ("2d6x3", "write dice as 2d6, d20+5 or 4d6kh3"),
        ] {
            assert_eq!(roll(notation, || 0.0).unwrap_err(), error, "{notation}");
        }
    }

    #[test]
    fn a_long_notation_is_refused_and_never_read_in_part() {
        let error = roll(&format!("2d6+{}5", "0".repeat(60)), || 0.0).unwrap_err();
        assert_eq!(error, "the notation is longer than 64 characters");
        cost::grows_linearly(16 * 1024, |size| " ".repeat(size) + "d6", |notation| drop(roll(&notation, || 0.0)));
    }

    proptest! {
        #[test]
        fn totals_stay_within_what_the_dice_can_show(
            dice in 1..=DICE_MAX, sides in 2..=1_000_u32, modifier in -1_000_i64..1_000, seed in 0.0..1.0_f64,
        ) {
            let mut chance = seed;
            let text = roll(&format!("{dice}d{sides}{modifier:+}"), || {
                chance = (chance * 7.31).fract();
                chance
            })
            .unwrap();
            let total: i64 = text.rsplit("**").nth(1).unwrap().parse().unwrap();
            let (low, high) = (i64::from(dice) + modifier, i64::from(dice * sides) + modifier);
            prop_assert!((low..=high).contains(&total), "{}", text);
        }

        #[test]
        fn any_text_is_rolled_or_refused_in_words(notation in any::<String>()) {
            let told = roll(&notation, || 0.999_999);
            prop_assert!(told.is_ok_and(|text| text.starts_with("Rolled ")) || roll(&notation, || 0.0).is_err());
        }
    }
}
