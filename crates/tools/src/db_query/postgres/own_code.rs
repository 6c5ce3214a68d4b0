//! Code made in a database that an allowed statement could call: it may do anything.
//!
//! `PostgreSQL` looks operators and casts up by their types, and reads `row.name` as a call if the table has no such column.
//! Code that an extension brought is trusted like the server. See
//! <https://www.postgresql.org/docs/current/typeconv.html>.

use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::db_query::Engine;
use crate::db_query::allowed::is_known;
use crate::db_query::statement::Understood;

/// The operators of allowed statements, also behind `LIKE`, `ILIKE`, `IN` and `BETWEEN`.
const OPERATORS: [&str; 18] =
    ["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">", "<=", ">=", "->", "->>", "~~", "!~~", "~~*", "!~~*"];

/// Returns a sentence about code that the statement could call.
pub(super) async fn called(client: &Client, statement: &Understood) -> Result<Option<String>, Error> {
    let sql = [operators(), casts(statement), functions_of_rows(statement)].join(" UNION ALL ");
    let found = client.simple_query(&format!("{sql} LIMIT 1")).await?;
    Ok(found.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let name = row.get(1).unwrap_or_default();
            Some(match row.get(0) {
                Some("operator") => format!(
                    "the database has an operator {name} of its own, which may do anything: its operator should take its \
                     schema from the search_path of this login"
                ),
                Some("cast") => format!(
                    "the database converts {name} by a function of its own, which may do anything: statements that may use \
                     it are refused"
                ),
                _ => format!("{name} is a function and no column of these tables: do not qualify it with a table"),
            })
        }
        _ => None,
    }))
}

/// Formats names, which contain no quotes, as a list of literals.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).chain(["NULL".to_owned()]).collect::<Vec<_>>().join(", ")
}

/// The condition that an object of a catalog was not brought by an extension.
fn is_no_extension(catalog: &str, id: &str) -> String {
    format!(
        "NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.classid = 'pg_catalog.{catalog}'::pg_catalog.regclass \
         AND d.objid = {id} AND d.deptype = 'e')"
    )
}

/// Operators with the name of an allowed one, where an unqualified name may mean them.
fn operators() -> String {
    let (names, made) = (listed(OPERATORS.into_iter()), is_no_extension("pg_operator", "o.oid"));
    format!(
        "SELECT 'operator', o.oprname::pg_catalog.text FROM pg_catalog.pg_operator AS o WHERE o.oprname IN ({names}) \
         AND o.oprnamespace <> 'pg_catalog'::pg_catalog.regnamespace \
         AND o.oprnamespace = ANY (pg_catalog.current_schemas(true)::pg_catalog.regnamespace[]) AND {made}"
    )
}

/// Casts by functions. Implicit ones apply anywhere, those of assignments in changes, and all of them in casts.
fn casts(statement: &Understood) -> String {
    let kinds = match (statement.casts, statement.changes.is_some()) {
        (true, _) => ["i", "a", "e"].as_slice(),
        (false, true) => &["i", "a"],
        (false, false) => &["i"],
    };
    let (kinds, made) = (listed(kinds.iter().copied()), is_no_extension("pg_cast", "c.oid"));
    format!(
        "SELECT 'cast', pg_catalog.format_type(c.castsource, NULL) FROM pg_catalog.pg_cast AS c \
         JOIN pg_catalog.pg_proc AS p ON p.oid = c.castfunc \
         WHERE p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace AND c.castcontext IN ({kinds}) AND {made}"
    )
}

/// Names behind a dot that may be functions of a row, because a table has no such column: any function made in the
/// database, and a built-in one that is not on the allow list if none of the statement's tables has a column of that
/// name.
fn functions_of_rows(statement: &Understood) -> String {
    let names = listed(statement.fields.iter().map(String::as_str));
    let unknown = statement.fields.iter().map(String::as_str).filter(|name| !is_known(Engine::Postgres, name));
    let unknown = listed(unknown);
    let tables = statement.reads.iter().chain(&statement.changes);
    let tables = tables.map(|table| format!("pg_catalog.to_regclass('{}')", Engine::Postgres.quoted(table)));
    let tables = tables.collect::<Vec<_>>().join(", ");
    // Base types, enumerations, ranges and multiranges are not row types, but a variadic array takes rows.
    format!(
        "SELECT 'function', p.proname::pg_catalog.text FROM pg_catalog.pg_proc AS p \
         JOIN pg_catalog.pg_type AS t ON t.oid = p.proargtypes[0] \
         WHERE p.proname IN ({names}) AND (t.typtype NOT IN ('b', 'e', 'r', 'm') OR p.provariadic <> 0) \
         AND (p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace OR (p.proname IN ({unknown}) AND NOT EXISTS \
         (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid IN ({tables}) AND a.attname = p.proname \
         AND NOT a.attisdropped)))"
    )
}
