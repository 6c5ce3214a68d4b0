//! The tokenizer, with one token of lookahead.

use std::fmt;

use num_bigint::BigInt;

use super::number::Number;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Number(Number),
    Name(&'a str),
    Operator(Operator),
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Divide,
    Floor,
    Remainder,
    Power,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number(_) => "a number",
            Self::Name(name) => return write!(f, "{name:?}"),
            Self::Operator(Operator::Plus) => "+",
            Self::Operator(Operator::Minus) => "-",
            Self::Operator(Operator::Times) => "*",
            Self::Operator(Operator::Divide) => "/",
            Self::Operator(Operator::Floor) => "//",
            Self::Operator(Operator::Remainder) => "%",
            Self::Operator(Operator::Power) => "**",
            Self::Open => "(",
            Self::Close => ")",
            Self::OpenList => "[",
            Self::CloseList => "]",
            Self::Comma => "a comma",
            Self::End => "the end",
        })
    }
}

pub(super) struct Tokens<'a> {
    rest: &'a str,
    ahead: Option<Token<'a>>,
}

impl<'a> Tokens<'a> {
    pub(super) const fn new(expression: &'a str) -> Self {
        Self { rest: expression, ahead: None }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Result<Token<'a>, String> {
        if self.ahead.is_none() {
            self.ahead = Some(self.read()?);
        }
        Ok(self.ahead.clone().unwrap_or(Token::End))
    }

    /// Returns the next token; [`Token::End`] from the end on.
    pub(super) fn next(&mut self) -> Result<Token<'a>, String> {
        match self.ahead.take() {
            Some(token) => Ok(token),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Token<'a>, String> {
        const SIGNS: [(&str, Token<'static>); 15] = [
            ("**", Token::Operator(Operator::Power)),
            ("//", Token::Operator(Operator::Floor)),
            ("+", Token::Operator(Operator::Plus)),
            ("-", Token::Operator(Operator::Minus)),
            ("−", Token::Operator(Operator::Minus)),
            ("*", Token::Operator(Operator::Times)),
            ("×", Token::Operator(Operator::Times)),
            ("/", Token::Operator(Operator::Divide)),
            ("÷", Token::Operator(Operator::Divide)),
            ("%", Token::Operator(Operator::Remainder)),
            ("(", Token::Open),
            (")", Token::Close),
            ("[", Token::OpenList),
            ("]", Token::CloseList),
            (",", Token::Comma),
        ];
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        for (sign, token) in SIGNS {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Ok(token);
            }
        }
        match first {
            '0'..='9' | '.' => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => {
                let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
                Ok(Token::Name(name))
            }
            '^' => Err("^ is not a power here: write 2**3".to_owned()),
            other => Err(format!("{other:?} cannot be read: use numbers, + - * / // % **, parentheses and functions")),
        }
    }

    fn number(&mut self) -> Result<Token<'a>, String> {
        let start = self.rest;
        self.take(|c| c.is_ascii_digit() || c == '_');
        let mut float = false;
        if let Some(rest) = self.rest.strip_prefix('.') {
            (self.rest, float) = (rest, true);
            self.take(|c| c.is_ascii_digit() || c == '_');
        }
        if let Some(rest) = self.rest.strip_prefix(['e', 'E']) {
            let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if digits.starts_with(|c: char| c.is_ascii_digit()) {
                (self.rest, float) = (digits, true);
                self.take(|c| c.is_ascii_digit());
            }
        }
        let text = start[..start.len() - self.rest.len()].replace('_', "");
        let number = if float {
            text.parse().ok().map(Number::Float)
        } else {
            BigInt::parse_bytes(text.as_bytes(), 10).map(Number::Int)
        };
        number.map(Token::Number).ok_or_else(|| format!("{text:?} is not a number"))
    }

    fn take(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}
