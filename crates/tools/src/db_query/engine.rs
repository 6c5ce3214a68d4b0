//! The kinds of databases, and how each reads a name.

use sqlparser::ast::Ident;
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};

/// The longest name, in bytes. `PostgreSQL` cuts longer ones, so that two different names would mean one table.
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
    /// The SQL that it speaks.
    pub(super) const fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Sqlite => &SQLiteDialect {},
            Self::Postgres => &PostgreSqlDialect {},
            Self::Mysql => &MySqlDialect {},
        }
    }

    /// The sign around names. `SQLite` reads an unknown name in double quotes as a text, one in backticks never.
    pub(super) const fn quote(self) -> char {
        match self {
            Self::Postgres => '"',
            Self::Sqlite | Self::Mysql => '`',
        }
    }

    /// The name that the database looks up: `PostgreSQL` folds names without quotes to small letters.
    pub(super) fn folded(self, ident: &Ident) -> String {
        match (self, ident.quote_style) {
            (Self::Postgres, None) => ident.value.to_ascii_lowercase(),
            _ => ident.value.clone(),
        }
    }

    /// The form in which two names of one table are equal. `SQLite` ignores the case of ASCII letters.
    pub(super) fn key(self, name: &str) -> String {
        match self {
            Self::Sqlite => name.to_ascii_lowercase(),
            Self::Postgres | Self::Mysql => name.to_owned(),
        }
    }

    /// A table, written as `table` or `schema.table`, as it stands in a statement.
    pub(super) fn quoted(self, table: &str) -> String {
        let quote = self.quote();
        let parts: Vec<String> = table.split('.').map(|part| format!("{quote}{part}{quote}")).collect();
        parts.join(".")
    }
}

/// True if a name of a table, a schema or a column needs no escapes in any database and is cut by none.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let known = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | ' ' | '-'));
    known && !name.is_empty() && name.len() <= NAME_BYTES && name.trim() == name
}
