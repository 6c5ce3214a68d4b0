//! `calculator`: arithmetic in Python's notation, over integers of bounded size and floating point numbers.
//!
//! A Pratt parser (Pratt, "Top Down Operator Precedence", 1973) evaluates while it reads. Length, depth and the size of
//! integers are bounded, so the cost of an expression is small.

mod functions;
mod number;
mod tokens;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use self::number::Number;
use self::tokens::{Operator, Token, Tokens};
use super::{BuiltInTool, arguments, reads, told};
use domain::tool::{CallError, Tool, ToolRequest, ToolResult};

/// Maximum length of an expression, in bytes.
pub const EXPRESSION_MAX: usize = 1_000;
/// Maximum nesting of parentheses, signs and powers.
const DEPTH_MAX: u32 = 64;
/// Maximum number of arguments of a function.
const ARGUMENTS_MAX: usize = 100;

pub(super) struct Calculator;

#[derive(Deserialize)]
struct Arguments {
    expression: String,
}

#[async_trait]
impl BuiltInTool for Calculator {
    fn tool(&self) -> Tool {
        reads(
            "calculator",
            "Perform mathematical calculations: + - * / // % **, parentheses, abs, round, min, max, sum, sqrt, pow, sin, cos, \
             tan, log, log10, pi and e.",
            json!({"type": "object", "required": ["expression"], "additionalProperties": false, "properties": {
                "expression": {"type": "string", "description": "Expression to evaluate, such as '2 + 2', 'sqrt(16)', '2**10'"},
            }}),
        )
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Arguments { expression } = arguments(request)?;
        Ok(told(evaluate(&expression)))
    }
}

/// Evaluates an expression: integers are shown exactly, other numbers with six significant digits.
///
/// # Errors
/// The reason why the expression is invalid or has no finite value.
pub fn evaluate(expression: &str) -> Result<String, String> {
    if expression.trim().is_empty() {
        return Err("the expression is empty: write something like 2 + 2 or sqrt(16)".to_owned());
    }
    if expression.len() > EXPRESSION_MAX {
        return Err(format!("the expression is longer than {EXPRESSION_MAX} bytes"));
    }
    let mut parser = Parser { tokens: Tokens::new(expression), depth: 0 };
    let value = parser.expression(0)?;
    match parser.tokens.next()? {
        Token::End => value.shown(),
        Token::Comma => Err("a comma separates arguments of functions: write 1000 instead of 1,000".to_owned()),
        token => Err(format!("{token} is not expected there")),
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    depth: u32,
}

/// The binding power of a sign. Powers bind tighter and are right-associative.
const SIGN: u8 = 30;
const POWER: u8 = 40;

impl Operator {
    const fn binding(self) -> u8 {
        match self {
            Self::Plus | Self::Minus => 10,
            Self::Times | Self::Divide | Self::Floor | Self::Remainder => 20,
            Self::Power => POWER,
        }
    }
}

impl Parser<'_> {
    /// Evaluates an expression whose operators bind tighter than `least`.
    fn expression(&mut self, least: u8) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression is nested deeper than {DEPTH_MAX} levels"));
        }
        let mut left = self.operand()?;
        while let Token::Operator(operator) = self.tokens.peek()? {
            let binding = operator.binding();
            if binding <= least {
                break;
            }
            self.tokens.next()?;
            let right = self.expression(if operator == Operator::Power { SIGN - 1 } else { binding })?;
            left = left.apply(operator, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, String> {
        match self.tokens.next()? {
            Token::Number(number) => Ok(number),
            Token::Operator(Operator::Minus) => Ok(self.expression(SIGN)?.negated()),
            Token::Operator(Operator::Plus) => self.expression(SIGN),
            Token::Open => {
                let value = self.expression(0)?;
                self.close(&Token::Close)?;
                Ok(value)
            }
            Token::Name(name) => match self.tokens.peek()? {
                Token::Open => {
                    self.tokens.next()?;
                    let arguments = self.arguments()?;
                    functions::call(name, &arguments)
                }
                _ => functions::constant(name),
            },
            token => Err(format!("{token} is not expected there")),
        }
    }

    /// Evaluates the arguments of a function whose parenthesis was read; a single list in brackets counts as its items.
    fn arguments(&mut self) -> Result<Vec<Number>, String> {
        let listed = matches!(self.tokens.peek()?, Token::OpenList);
        let end = if listed {
            self.tokens.next()?;
            Token::CloseList
        } else {
            Token::Close
        };
        let mut arguments = Vec::new();
        while self.tokens.peek()? != end {
            if arguments.len() == ARGUMENTS_MAX {
                return Err(format!("a function takes at most {ARGUMENTS_MAX} arguments"));
            }
            arguments.push(self.expression(0)?);
            if !matches!(self.tokens.peek()?, Token::Comma) {
                break;
            }
            self.tokens.next()?;
        }
        self.close(&end)?;
        if listed {
            self.close(&Token::Close)?;
        }
        Ok(arguments)
    }

    fn close(&mut self, expected: &Token<'_>) -> Result<(), String> {
        let token = self.tokens.next()?;
        if token == *expected { Ok(()) } else { Err(format!("{expected} is expected instead of {token}")) }
    }
}

#[cfg(test)]
mod tests;
