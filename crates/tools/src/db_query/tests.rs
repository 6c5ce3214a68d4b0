use std::sync::Arc;
use std::time::Duration;

use domain::ids::{Door, Person};
use ports::shares::Shares;
use tokio::sync::Semaphore;

use super::{Arguments, Database, DbTool, Engine, Mode, Rights, understand, with_room};

fn sent(engine: Engine, sql: &str) -> String {
    understand(engine, sql, 10).unwrap().sql
}

fn refused(engine: Engine, sql: &str) -> String {
    understand(engine, sql, 10).map(|understood| understood.sql).expect_err(sql)
}

const ALL: [Engine; 3] = [Engine::Sqlite, Engine::Postgres, Engine::Mysql];

#[test]
fn every_name_is_sent_in_quotes_as_the_database_reads_it() {
    for (engine, sql, text) in [
        (
            Engine::Postgres,
            "SELECT Item, \"Price\" AS Amount FROM Orders o WHERE o.id > 1",
            "SELECT \"item\", \"Price\" AS \"amount\" FROM \"orders\" \"o\" WHERE \"o\".\"id\" > 1 LIMIT 10",
        ),
        (Engine::Sqlite, "SELECT [Item], \"b\" FROM Orders", "SELECT `Item`, `b` FROM `Orders` LIMIT 10"),
        (Engine::Mysql, "SELECT Item AS 'the item' FROM Orders", "SELECT `Item` AS `the item` FROM `Orders` LIMIT 10"),
        (
            Engine::Postgres,
            "SELECT Upper(a), COALESCE(b, 1), count(*) OVER w FROM t WINDOW w AS (ORDER BY a)",
            "SELECT pg_catalog.upper(\"a\"), coalesce(\"b\", 1), pg_catalog.count(*) OVER \"w\" FROM \"t\" \
             WINDOW \"w\" AS (ORDER BY \"a\") LIMIT 10",
        ),
        (
            Engine::Mysql,
            "SELECT timestampdiff(MINUTE, a, minute) FROM t",
            "SELECT timestampdiff(MINUTE, `a`, `minute`) FROM `t` LIMIT 10",
        ),
        (
            Engine::Sqlite,
            "WITH Dear AS (SELECT id FROM orders) SELECT dear.id FROM dear",
            "WITH `staffai_with_1` AS (SELECT `id` FROM `orders`) \
             SELECT `dear`.`id` FROM `staffai_with_1` AS `dear` LIMIT 10",
        ),
    ] {
        assert_eq!(sent(engine, sql), text);
    }
}

#[test]
fn a_word_of_sql_is_neither_a_name_in_with_nor_an_alias() {
    for engine in ALL {
        let own = engine.quote();
        for sql in [
            format!("WITH {own}only{own} AS (SELECT 1 AS a) SELECT * FROM only secret"),
            format!("WITH {own}LATERAL{own} AS (SELECT id FROM t) SELECT * FROM {own}LATERAL{own}"),
            format!("SELECT id FROM t AS {own}only{own}"),
            format!("SELECT id AS {own}from{own} FROM t"),
            "SELECT * FROM only secret".to_owned(),
        ] {
            let told = refused(engine, &sql);
            assert!(
                told.contains("is a word of SQL") || told.contains("cannot be parsed"),
                "{engine:?}: {sql}: {told}"
            );
        }
        let tables = understand(engine, &format!("SELECT {own}order{own} FROM {own}only{own}"), 1).unwrap().reads;
        assert_eq!(tables.into_iter().collect::<Vec<_>>(), ["only"], "in quotes it is a table");
    }
}

#[test]
fn a_statement_that_names_no_table_is_not_run() {
    for engine in ALL {
        for sql in ["SELECT 1", "SELECT upper('a')", "VALUES (1)", "WITH a AS (SELECT 1 AS b) SELECT b FROM a"] {
            assert!(refused(engine, sql).contains("names no table"), "{engine:?}: {sql}");
        }
    }
}

#[test]
fn only_functions_that_the_database_has_built_in_are_called() {
    for (engine, own, others) in [
        (
            Engine::Postgres,
            "string_agg(a, ',')",
            ["total(a)", "ifnull(a, 1)", "pg_read_file('x')", "set_config('a', 'b', true)"],
        ),
        (Engine::Mysql, "ifnull(a, 1)", ["total(a)", "strpos(a, 'x')", "load_file('x')", "sleep(5)"]),
        (Engine::Sqlite, "total(a)", ["year(a)", "to_char(a, 'x')", "load_extension('x')", "randomblob(9)"]),
    ] {
        assert!(understand(engine, &format!("SELECT {own} FROM t"), 1).is_ok(), "{own}");
        for other in others {
            assert!(
                refused(engine, &format!("SELECT {other} FROM t")).contains("is not used here"),
                "{engine:?}: {other}"
            );
        }
    }
}

#[test]
fn names_that_one_database_would_cut_or_pad_are_refused() {
    let long = "a".repeat(64);
    for engine in ALL {
        let own = engine.quote();
        for name in [long.as_str(), " a", "a ", "a.b", "a\"b", "a`b"] {
            let doubled = name.replace(own, &format!("{own}{own}"));
            let told = refused(engine, &format!("SELECT id FROM {own}{doubled}{own}"));
            assert!(told.contains("names have"), "{engine:?}: {name}: {told}");
        }
    }
}

#[test]
fn a_name_in_with_has_to_be_used_and_stands_at_the_beginning() {
    for engine in ALL {
        for sql in [
            "WITH a AS (SELECT id FROM secret) SELECT id FROM orders",
            "WITH RECURSIVE a AS (SELECT id FROM secret UNION ALL SELECT id FROM a) SELECT id FROM orders",
            "SELECT id FROM (WITH a AS (SELECT id FROM orders) SELECT id FROM a) AS b",
            "UPDATE log SET note = 'x' WHERE id IN (WITH a AS (SELECT id FROM secret) SELECT id FROM a)",
            "WITH a AS (SELECT id FROM orders), a AS (SELECT id FROM log) SELECT id FROM a",
        ] {
            refused(engine, sql);
        }
    }
}

#[test]
fn what_is_looked_for_or_cut_off_is_short_and_written_out() {
    let long = "x".repeat(201);
    let seeking: [(&[Engine], &str); 8] = [
        (&ALL, "note LIKE {}"),
        (&[Engine::Postgres], "note ILIKE {}"),
        (&[Engine::Postgres, Engine::Mysql], "trim(BOTH {} FROM note)"),
        (&[Engine::Sqlite], "trim(note, {})"),
        (&[Engine::Sqlite, Engine::Postgres], "ltrim(note, {})"),
        (&[Engine::Sqlite, Engine::Mysql], "instr(note, {})"),
        (&[Engine::Postgres], "strpos(note, {})"),
        (&[Engine::Postgres, Engine::Mysql], "position({} IN note)"),
    ];
    for (engines, form) in seeking {
        for engine in engines {
            let sql = |sought: &str| format!("SELECT id FROM t WHERE {} = 1", form.replace("{}", sought));
            let sql = |sought: &str| if form.contains("LIKE") { sql(sought).replace(" = 1", "") } else { sql(sought) };
            assert!(understand(*engine, &sql("'ab'"), 1).is_ok(), "{engine:?}: {form}");
            for sought in ["note", "('a' || note)", "(SELECT note FROM t)", "upper('a')", &format!("'{long}'")] {
                assert!(refused(*engine, &sql(sought)).contains("at most 200"), "{engine:?}: {form}: {sought}");
            }
        }
    }
    assert!(understand(Engine::Sqlite, "SELECT trim(note), ltrim(note) FROM t", 1).is_ok());
}

#[test]
fn arrays_of_postgresql_and_padded_texts_do_not_grow_by_nesting() {
    for sql in [
        "SELECT CAST(ARRAY[b, b] AS text) FROM (SELECT CAST(ARRAY[item, item] AS text) AS b FROM orders) AS s",
        "SELECT (b, b) FROM (SELECT (item, item) AS b FROM orders) AS s",
        "WITH RECURSIVE r AS (SELECT item AS s FROM t UNION ALL SELECT CAST(ARRAY[s, s] AS text) FROM r) SELECT s FROM r",
    ] {
        let told = refused(Engine::Postgres, sql);
        assert!(told.contains("in one query only"), "{sql}: {told}");
    }
    for sql in ["SELECT id FROM t WHERE a = ANY(ARRAY[1, 2])", "SELECT CAST(a AS CHAR(1000)), a::varchar(20000) FROM t"]
    {
        sent(Engine::Postgres, sql);
    }
    for sql in ["SELECT CAST(a AS CHAR(1001)) FROM t", "SELECT CAST('{}' AS CHAR(9999)[]) FROM t"] {
        assert!(refused(Engine::Postgres, sql).contains("is not supported"), "{sql}");
    }
}

#[test]
fn a_row_of_a_table_is_no_value_in_postgresql() {
    for sql in [
        "SELECT t FROM t",
        "SELECT T FROM t",
        "SELECT \"t\" FROM t",
        "SELECT id FROM s.t WHERE t IS NULL",
        "SELECT count(u) FROM t AS u",
        "SELECT length(CAST(u AS text)) FROM (SELECT id, id FROM t) AS u",
        "WITH w AS (SELECT id FROM t) SELECT w FROM w",
        "SELECT count(t.*) FROM t",
        "SELECT (SELECT max(id) FROM u WHERE t IS NOT NULL) FROM t",
    ] {
        let told = refused(Engine::Postgres, sql);
        assert!(told.contains("the whole row") || told.contains("count is not used here"), "{sql}: {told}");
    }
    for sql in ["SELECT t.* FROM t", "SELECT t.t FROM t", "SELECT u FROM t AS v", "SELECT count(*) FROM t"] {
        sent(Engine::Postgres, sql);
    }
    for engine in [Engine::Mysql, Engine::Sqlite] {
        sent(engine, "SELECT t FROM t");
    }
}

#[test]
fn postgresql_shortens_joined_texts() {
    for (sql, text) in [
        (
            "SELECT Concat(a, b), a || b || c AS d, string_agg(a, ',') OVER w FROM t WINDOW w AS (ORDER BY a)",
            "SELECT pg_catalog.\"left\"(pg_catalog.concat(\"a\", \"b\"), 65536) AS \"concat\", \
             pg_catalog.\"left\"(pg_catalog.\"left\"(\"a\" || \"b\", 65536) || \"c\", 65536) AS \"d\", \
             pg_catalog.\"left\"(pg_catalog.string_agg(\"a\", ',') OVER \"w\", 65536) AS \"string_agg\" \
             FROM \"t\" WINDOW \"w\" AS (ORDER BY \"a\") LIMIT 10",
        ),
        (
            "SELECT CAST(a AS text), t.b::varchar(9), CAST(1 AS text), CAST((CAST(1 AS int)) AS text), CAST(a AS text) AS d, CAST(a AS int) FROM t",
            "SELECT pg_catalog.\"left\"(CAST(\"a\" AS TEXT), 65536) AS \"a\", \
             pg_catalog.\"left\"(\"t\".\"b\"::VARCHAR(9), 65536) AS \"b\", \
             pg_catalog.\"left\"(CAST(1 AS TEXT), 65536) AS \"text\", \
             pg_catalog.\"left\"(CAST((CAST(1 AS INT)) AS TEXT), 65536) AS \"text\", \
             pg_catalog.\"left\"(CAST(\"a\" AS TEXT), 65536) AS \"d\", CAST(\"a\" AS INT) FROM \"t\" LIMIT 10",
        ),
        (
            "SELECT substring(a FROM b), substr(a, 2, n) FROM t",
            "SELECT pg_catalog.\"substring\"(\"a\", CAST(\"b\" AS INTEGER)), \
             pg_catalog.\"substr\"(\"a\", CAST(2 AS INTEGER), CAST(\"n\" AS INTEGER)) FROM \"t\" LIMIT 10",
        ),
        (
            "SELECT ceil(a), floor(upper(a)) FROM t",
            "SELECT pg_catalog.\"ceil\"(\"a\"), pg_catalog.\"floor\"(pg_catalog.upper(\"a\")) FROM \"t\" LIMIT 10",
        ),
        (
            "SELECT power(a, 2) FROM t",
            "SELECT pg_catalog.power(CAST(\"a\" AS DOUBLE PRECISION), CAST(2 AS DOUBLE PRECISION)) FROM \"t\" LIMIT 10",
        ),
        ("SELECT upper(a) FROM t", "SELECT pg_catalog.upper(\"a\") FROM \"t\" LIMIT 10"),
    ] {
        assert_eq!(sent(Engine::Postgres, sql), text);
    }
}

#[test]
fn a_limit_beyond_the_rows_that_are_shown_is_lowered() {
    for engine in ALL {
        for (limit, sent_limit) in
            [("LIMIT 3", "LIMIT 3"), ("LIMIT 100000", "LIMIT 10"), ("LIMIT 50 OFFSET 2", "LIMIT 10 OFFSET 2")]
        {
            assert!(sent(engine, &format!("SELECT id FROM t {limit}")).ends_with(sent_limit), "{engine:?}: {limit}");
        }
    }
}

#[tokio::test]
async fn a_statement_is_parsed_under_a_permit_of_its_member_which_parsing_keeps_until_it_ends() {
    let member = Person::new(Door::new("d"), "1");
    let shares = Shares::new(Arc::new(Semaphore::new(2)));
    let (go_on, waiting) = std::sync::mpsc::channel::<()>();
    let share = shares.take(Some(&member)).unwrap();
    let read = with_room(share, move || waiting.recv().map_err(|error| error.to_string()));
    let mut read = Box::pin(read);
    assert!(futures_util::poll!(&mut read).is_pending());
    drop(read);
    assert!(shares.take(Some(&member)).is_none(), "the caller is gone, and the thread goes on");
    go_on.send(()).unwrap();
    drop(shares.wait(Some(&member)).await);
}

#[tokio::test(start_paused = true)]
async fn a_member_without_a_permit_has_nothing_parsed() {
    let member = Person::new(Door::new("d"), "1");
    let timeout = Duration::from_secs(2);
    let rights = Rights { name: "shop".to_owned(), reads: Vec::new(), changes: Vec::new(), rows: 1, timeout };
    let database = Database::new(rights, "postgres://staff@localhost/shop").unwrap();
    let permits = database.permits.clone();
    let held: Vec<_> = std::iter::from_fn(|| permits.take(Some(&member))).collect();
    let tool = DbTool { databases: Arc::new([database]), mode: Mode::Reads };
    let refusal = async |whose: &Person| {
        let asked = Arguments { database: "shop".to_owned(), tables: Vec::new(), sql: "no statement".to_owned() };
        tool.run(asked, timeout, Some(whose)).await.map(|_| ()).unwrap_err()
    };
    assert!(refusal(&member).await.contains("too many statements"));
    // The parser has a thread, for which paused time does not wait.
    tokio::time::resume();
    let other = refusal(&Person::new(Door::new("d"), "2")).await;
    assert!(other.contains("cannot be parsed"), "{other}");
    drop(held);
}
