//! Syntax highlighting of code in answers, line by line, by features that many languages share: strings, comments,
//! numbers and reserved words.

/// Resets all colours.
pub(super) const PLAIN: &str = "\x1b[0m";
/// The colour of comments and other secondary text.
pub(super) const DIM: &str = "\x1b[2m";
const WORD: &str = "\x1b[35m";
const STRING: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[33m";

/// Reserved words of several languages.
const WORDS: [&str; 96] = [
    "abstract",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "bool",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "crate",
    "def",
    "default",
    "defer",
    "del",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "enum",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "False",
    "fi",
    "final",
    "finally",
    "fn",
    "for",
    "foreach",
    "from",
    "func",
    "function",
    "go",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "interface",
    "is",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "module",
    "mut",
    "namespace",
    "new",
    "nil",
    "None",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "return",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "throws",
    "trait",
    "true",
    "True",
    "try",
    "type",
    "typeof",
    "undefined",
    "unsafe",
    "use",
    "using",
    "var",
    "void",
    "where",
    "while",
    "with",
];

/// Reserved words of SQL, in capitals.
const SQL_WORDS: [&str; 42] = [
    "ALTER", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CREATE", "DELETE", "DESC", "DISTINCT", "DROP", "ELSE",
    "END", "EXISTS", "FROM", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT",
    "NOT", "NULL", "ON", "OR", "ORDER", "OUTER", "SELECT", "SET", "TABLE", "THEN", "UNION", "UPDATE", "VALUES", "WHEN",
    "WHERE",
];

/// A family of languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Comments begin with `//`.
    Slashes,
    /// Comments begin with `#`.
    Hash,
    /// Comments begin with `--`.
    Dashes,
    /// Like [`Self::Dashes`], with reserved words in any case.
    Sql,
}

impl Family {
    fn of(language: &str) -> Option<Self> {
        Some(match language {
            "rust" | "rs" | "c" | "h" | "cpp" | "c++" | "cc" | "cs" | "csharp" | "java" | "javascript" | "js"
            | "jsx" | "typescript" | "ts" | "tsx" | "go" | "kotlin" | "kt" | "swift" | "php" | "css" | "scss"
            | "scala" | "dart" | "zig" | "json" | "jsonc" => Self::Slashes,
            "python" | "py" | "sh" | "bash" | "zsh" | "shell" | "console" | "ruby" | "rb" | "yaml" | "yml" | "toml"
            | "ini" | "dockerfile" | "make" | "makefile" | "r" | "perl" | "nix" | "elixir" => Self::Hash,
            "lua" | "haskell" | "hs" | "elm" => Self::Dashes,
            "sql" | "postgres" | "mysql" | "sqlite" => Self::Sql,
            _ => return None,
        })
    }

    const fn comment(self) -> &'static str {
        match self {
            Self::Slashes => "//",
            Self::Hash => "#",
            Self::Dashes | Self::Sql => "--",
        }
    }

    fn reserves(self, word: &str) -> bool {
        match self {
            Self::Sql => SQL_WORDS.contains(&word.to_ascii_uppercase().as_str()),
            _ => WORDS.contains(&word),
        }
    }
}

/// Colours the lines of one block of code.
#[derive(Debug, Default)]
pub(super) struct Code {
    family: Option<Family>,
    /// True if single quotes hold one character, so that a lifetime in Rust is not taken for a string.
    characters: bool,
    /// True inside a comment of several lines.
    within_comment: bool,
}

impl Code {
    /// Begins a block in this language; an unknown one is not coloured.
    pub(super) fn in_language(language: &str) -> Self {
        let language = language.to_ascii_lowercase();
        let characters = matches!(
            language.as_str(),
            "rust"
                | "rs"
                | "c"
                | "h"
                | "cpp"
                | "c++"
                | "cc"
                | "cs"
                | "csharp"
                | "java"
                | "kotlin"
                | "kt"
                | "scala"
                | "go"
                | "zig"
                | "haskell"
                | "hs"
                | "elm"
        );
        Self { family: Family::of(&language), characters, within_comment: false }
    }

    /// Returns the length of the string or character literal that begins here, if any.
    fn string(&self, text: &str, quote: char) -> Option<usize> {
        match quote {
            '\'' if self.characters => {
                let most = if text[1..].starts_with('\\') { CHARACTER_MAX } else { 2 };
                string(text, quote, most).filter(|length| *length > 2)
            }
            '"' | '`' | '\'' => string(text, quote, STRING_MAX),
            _ => None,
        }
    }

    /// Returns the line with colours.
    pub(super) fn line(&mut self, line: &str) -> String {
        let Some(family) = self.family else { return line.to_owned() };
        let mut drawn = String::with_capacity(line.len() * 2);
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let (color, length) = if self.within_comment || (family == Family::Slashes && rest.starts_with("/*")) {
                let behind = rest.find("*/").map(|at| at + 2);
                self.within_comment = behind.is_none();
                (DIM, behind.unwrap_or(rest.len()))
            } else if rest.starts_with(family.comment()) {
                (DIM, rest.len())
            } else if let Some(length) = self.string(rest, first) {
                (STRING, length)
            } else if first.is_ascii_digit() {
                (NUMBER, span(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_'))
            } else if first.is_alphabetic() || first == '_' {
                let length = span(rest, |c| c.is_alphanumeric() || c == '_');
                (if family.reserves(&rest[..length]) { WORD } else { "" }, length)
            } else {
                ("", first.len_utf8())
            };
            let (piece, behind) = rest.split_at(length);
            drawn.push_str(color);
            drawn.push_str(piece);
            if !color.is_empty() {
                drawn.push_str(PLAIN);
            }
            rest = behind;
        }
        drawn
    }
}

/// Returns the length of the prefix whose characters all match.
fn span(text: &str, such: impl Fn(char) -> bool) -> usize {
    text.find(|c| !such(c)).unwrap_or(text.len())
}

/// The longest coloured string, in characters.
const STRING_MAX: usize = 200;
/// The longest character literal, where single quotes hold no strings: `'\u{10ffff}'`.
const CHARACTER_MAX: usize = 11;

/// Returns the length of the string that begins here, if it ends on this line within the bound.
fn string(text: &str, quote: char, within: usize) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1).take(within) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(language: &str, lines: &[&str]) -> String {
        let mut code = Code::in_language(language);
        let drawn: Vec<String> = lines.iter().map(|line| code.line(line)).collect();
        let marks = [(WORD, "<w>"), (STRING, "<s>"), (NUMBER, "<n>"), (DIM, "<c>"), (PLAIN, "</>")];
        marks.iter().fold(drawn.join("\n"), |text, (color, mark)| text.replace(color, mark))
    }

    #[test]
    fn words_strings_numbers_and_comments_have_colours() {
        assert_eq!(marked("rust", &["let x = 4_2; // no \"end\""]), "<w>let</> x = <n>4_2</>; <c>// no \"end\"</>");
        assert_eq!(
            marked("py", &["def f(): return 'a\\'b' # c"]),
            "<w>def</> f(): <w>return</> <s>'a\\'b'</> <c># c</>"
        );
        assert_eq!(marked("SQL", &["select a from b -- x"]), "<w>select</> a <w>from</> b <c>-- x</>");
        assert_eq!(marked("c", &["a /* b", "c */ 1"]), "a <c>/* b</>\n<c>c */</> <n>1</>");
        assert_eq!(marked("rust", &["fn first<'a>(x: &'a str)"]), "<w>fn</> first<'a>(x: &'a str)");
        assert_eq!(marked("js", &["'hello, hello' + '\\''"]), "<s>'hello, hello'</> + <s>'\\''</>");
        assert_eq!(marked("unheard-of", &["let x = 1;"]), "let x = 1;");
    }

    #[test]
    fn a_line_costs_in_proportion_to_its_length() {
        let lines = |size: usize| vec!["'x".repeat(size), "\"".repeat(size), "a ".repeat(size), "/* ".repeat(size)];
        cost::grows_linearly(1024, lines, |lines| {
            for line in lines {
                Code::in_language("rust").line(&line);
            }
        });
    }
}
