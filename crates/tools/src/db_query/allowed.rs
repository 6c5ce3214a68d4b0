//! Allow lists: functions and types without access beyond their arguments, and reserved words.

use super::engine::Engine;

/// Built-in functions of all databases. They read only their arguments and are cheap.
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

/// Further built-in functions of `PostgreSQL`.
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

/// Further built-in functions of `MySQL` and `MariaDB`.
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

/// Further built-in functions of `SQLite`.
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

/// Functions that are part of `PostgreSQL`'s grammar and take no schema.
const BY_GRAMMAR: &[&str] =
    &["coalesce", "current_date", "current_time", "current_timestamp", "greatest", "least", "nullif"];

/// True if a function is allowed. Any other name may be a user-defined function with arbitrary effects.
pub(super) fn is_known(engine: Engine, function: &str) -> bool {
    let own = match engine {
        Engine::Postgres => POSTGRES,
        Engine::Mysql => MYSQL,
        Engine::Sqlite => SQLITE,
    };
    COMMON.contains(&function) || own.contains(&function)
}

/// True if the database resolves a function through its schemas, where a user-defined one may have the same name.
pub(super) fn is_looked_up(engine: Engine, function: &str) -> bool {
    engine == Engine::Postgres && !BY_GRAMMAR.contains(&function)
}

/// Types allowed in casts: parsing their values involves no lookup.
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

/// Words of SQL's structure: not allowed as an alias or a name in `WITH`, quoted or not.
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
