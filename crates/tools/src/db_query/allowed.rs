//! What statements may use: functions and types that reach nothing beyond their own values, and the words that are no names.

use super::engine::Engine;

/// Functions that every database has built in. They read nothing but their arguments, and cost next to nothing.
const COMMON: &[&str] = &[
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "coalesce",
    "concat",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "dense_rank",
    "first_value",
    "floor",
    "lag",
    "last_value",
    "lead",
    "length",
    "lower",
    "ltrim",
    "max",
    "min",
    "mod",
    "ntile",
    "nullif",
    "percent_rank",
    "pow",
    "power",
    "rank",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sqrt",
    "substr",
    "substring",
    "sum",
    "trim",
    "upper",
];

/// Further ones that `PostgreSQL` has built in.
const POSTGRES: &[&str] = &[
    "char_length",
    "date_part",
    "date_trunc",
    "greatest",
    "least",
    "now",
    "stddev",
    "string_agg",
    "strpos",
    "to_char",
    "trunc",
    "variance",
];

/// Further ones that `MySQL` and `MariaDB` have built in.
const MYSQL: &[&str] = &[
    "char_length",
    "curdate",
    "date",
    "date_format",
    "datediff",
    "day",
    "dayofweek",
    "greatest",
    "group_concat",
    "hour",
    "if",
    "ifnull",
    "instr",
    "least",
    "minute",
    "month",
    "now",
    "quarter",
    "second",
    "stddev",
    "time",
    "timestampdiff",
    "truncate",
    "variance",
    "week",
    "weekday",
    "year",
];

/// Further ones that `SQLite` has built in.
const SQLITE: &[&str] = &[
    "date",
    "datetime",
    "group_concat",
    "ifnull",
    "iif",
    "instr",
    "julianday",
    "strftime",
    "string_agg",
    "time",
    "total",
    "trunc",
];

/// Functions of `PostgreSQL` that its grammar knows: they stand without a schema.
const BY_GRAMMAR: &[&str] =
    &["coalesce", "current_date", "current_time", "current_timestamp", "greatest", "least", "nullif"];

/// True if a function may be used. A name that the database does not have built in could be a function that was made there, which may do
/// anything.
pub(super) fn is_known(engine: Engine, function: &str) -> bool {
    let own = match engine {
        Engine::Postgres => POSTGRES,
        Engine::Mysql => MYSQL,
        Engine::Sqlite => SQLITE,
    };
    COMMON.contains(&function) || own.contains(&function)
}

/// True if the database looks a function up in its schemas, where one of the same name may have been made.
pub(super) fn is_looked_up(engine: Engine, function: &str) -> bool {
    engine == Engine::Postgres && !BY_GRAMMAR.contains(&function)
}

/// Types that a value may be cast to: each is its own text and looks nothing up.
pub(super) const TYPES: &[&str] = &[
    "bigint",
    "bool",
    "boolean",
    "char",
    "character",
    "date",
    "datetime",
    "dec",
    "decimal",
    "double",
    "float",
    "int",
    "integer",
    "json",
    "jsonb",
    "numeric",
    "real",
    "signed",
    "smallint",
    "text",
    "time",
    "timestamp",
    "unsigned",
    "varchar",
];

/// Words that build statements: none of them is an alias or a name in `WITH`, quoted or not.
pub(super) const STRUCTURE: &[&str] = &[
    "all",
    "any",
    "apply",
    "array",
    "as",
    "asof",
    "cross",
    "default",
    "distinct",
    "dual",
    "except",
    "exists",
    "fetch",
    "for",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "intersect",
    "into",
    "join",
    "lateral",
    "left",
    "limit",
    "natural",
    "not",
    "null",
    "of",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "partition",
    "recursive",
    "returning",
    "right",
    "rows",
    "select",
    "set",
    "straight_join",
    "table",
    "tablesample",
    "union",
    "unnest",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
];

/// Units of `timestampdiff`.
pub(super) const UNITS: &[&str] =
    &["day", "hour", "microsecond", "minute", "month", "quarter", "second", "week", "year"];
