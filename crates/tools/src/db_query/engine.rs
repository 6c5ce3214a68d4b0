//! The kinds of databases, and their rules for names.

use sqlparser::ast::Ident;
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};

/// Maximum length of a name, in bytes. `PostgreSQL` truncates longer ones, so two different names could mean one table.
const NAME_BYTES: usize = 63;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A file of `SQLite`.
    Sqlite,
    /// `PostgreSQL`.
    Postgres,
    /// `MySQL` or `MariaDB`.
    Mysql,
}

impl Engine {
    pub(super) const fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Sqlite => &SQLiteDialect {},
            Self::Postgres => &PostgreSqlDialect {},
            Self::Mysql => &MySqlDialect {},
        }
    }

    /// Returns the quote around names. `SQLite` reads an unknown name in double quotes as a string, but never one in
    /// backticks.
    pub(super) const fn quote(self) -> char {
        match self {
            Self::Postgres => '"',
            Self::Sqlite | Self::Mysql => '`',
        }
    }

    /// Returns the name that the database looks up: `PostgreSQL` folds unquoted names to lower case.
    pub(super) fn folded(self, ident: &Ident) -> String {
        match (self, ident.quote_style) {
            (Self::Postgres, None) => ident.value.to_ascii_lowercase(),
            _ => ident.value.clone(),
        }
    }

    /// Returns the key by which two names of one table are equal. `SQLite` ignores the case of ASCII letters.
    pub(super) fn key(self, name: &str) -> String {
        match self {
            Self::Sqlite => name.to_ascii_lowercase(),
            Self::Postgres | Self::Mysql => name.to_owned(),
        }
    }

    /// Quotes a table, given as `table` or `schema.table`.
    pub(super) fn quoted(self, table: &str) -> String {
        let quote = self.quote();
        let parts: Vec<String> = table.split('.').map(|part| format!("{quote}{part}{quote}")).collect();
        parts.join(".")
    }
}

/// True if a table, schema or column name needs no escaping and is not truncated in any database.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let known = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | ' ' | '-'));
    known && !name.is_empty() && name.len() <= NAME_BYTES && name.trim() == name
}
