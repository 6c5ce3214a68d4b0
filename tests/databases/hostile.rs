//! Forbidden statements, in all their notations.

use crate::support::{CANARY, Shop};

/// Statements that would read, change or create something without a right, on at least one kind of database.
const HOSTILE: &[&str] = &[
    "SELECT * FROM secret",
    "SELECT word FROM SECRET",
    "SELECT word FROM \"secret\"",
    "SELECT word FROM `secret`",
    "SELECT word FROM [secret]",
    "SELECT word FROM/**/secret",
    "SELECT word FROM public.secret",
    "SELECT word FROM main.secret",
    "SELECT word FROM shop.secret",
    "SELECT word FROM shop.public.secret",
    "SELECT word FROM ONLY secret",
    "SELECT word FROM U&\"\\0073ecret\"",
    "WITH \"only\" AS (SELECT 1 AS a) SELECT * FROM only secret",
    "WITH `only` AS (SELECT 1 AS a) SELECT * FROM only secret",
    "WITH [only] AS (SELECT 1 AS a) SELECT * FROM only secret",
    "WITH \"only\" AS (SELECT 1 AS a) SELECT * FROM ONLY secret AS s",
    "WITH \"only\" AS (SELECT 1 AS a) SELECT (SELECT max(word) FROM only secret)",
    "WITH \"only\" AS (SELECT 1 AS a) SELECT * FROM orders, only secret",
    "WITH \"lateral\" AS (SELECT 1 AS a) SELECT * FROM lateral secret",
    "WITH \"table\" AS (SELECT 1 AS a) SELECT * FROM table secret",
    "WITH cheap AS (SELECT word FROM secret) SELECT * FROM cheap",
    "WITH orders AS (SELECT word FROM secret) SELECT * FROM cheap, orders",
    "WITH a AS (SELECT 1 AS a) SELECT id FROM orders",
    "WITH a AS (SELECT word FROM secret) SELECT id FROM orders",
    "SELECT word FROM 'secret'",
    "SELECT word FROM staffai_with_1",
    "SELECT \"nothing\" FROM orders",
    "SELECT current_user FROM orders",
    "SELECT session_user FROM orders",
    "SELECT utc_timestamp FROM orders",
    "SELECT version() FROM orders",
    "SELECT total() FROM orders",
    "SELECT iif() FROM orders",
    "SELECT upper(id, id) FROM orders",
    "SELECT 1",
    "SELECT now()",
    "VALUES (1)",
    "WITH a AS (SELECT 1 AS b) SELECT b FROM a",
    "SELECT id FROM orders LEFT SEMI JOIN secret ON 1 = 1",
    "SELECT id FROM orders GLOBAL JOIN secret ON 1 = 1",
    "SELECT * EXCEPT (id) FROM orders",
    "FROM secret",
    "FROM orders SELECT id",
    "TABLE secret",
    "(SELECT word FROM secret)",
    "((SELECT word FROM secret))",
    "SELECT id, item FROM orders UNION SELECT id, word FROM secret",
    "SELECT item FROM orders UNION ALL (SELECT word FROM secret)",
    "SELECT item FROM orders INTERSECT SELECT word FROM secret",
    "SELECT (SELECT word FROM secret LIMIT 1) FROM orders",
    "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM secret WHERE word LIKE 'S3%')",
    "SELECT id FROM orders WHERE item IN (SELECT word FROM secret)",
    "SELECT id FROM orders ORDER BY (SELECT word FROM secret)",
    "SELECT id FROM orders GROUP BY id HAVING max(id) < (SELECT count(*) FROM secret)",
    "SELECT id FROM orders LIMIT (SELECT count(*) FROM secret)",
    "SELECT CASE WHEN (SELECT word FROM secret) > 'a' THEN 1 END FROM orders",
    "SELECT count(*) FILTER (WHERE (SELECT word FROM secret) > 'a') FROM orders",
    "SELECT sum(id) OVER (ORDER BY (SELECT word FROM secret)) FROM orders",
    "SELECT coalesce((SELECT word FROM secret), 'x') FROM orders",
    "SELECT * FROM orders, secret",
    "SELECT * FROM orders JOIN secret ON 1 = 1",
    "SELECT * FROM orders NATURAL JOIN secret",
    "SELECT * FROM orders LEFT JOIN (SELECT * FROM secret) AS x ON 1 = 1",
    "SELECT * FROM (orders CROSS JOIN secret)",
    "SELECT * FROM orders, LATERAL (SELECT word FROM secret) AS s",
    "WITH a AS (SELECT * FROM secret) SELECT * FROM a",
    "WITH orders AS (SELECT * FROM secret) SELECT * FROM orders",
    "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM secret) SELECT * FROM a",
    "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
    "WITH RECURSIVE a AS (SELECT word FROM secret UNION ALL SELECT word FROM a) SELECT * FROM a",
    "WITH a AS (SELECT * FROM secret), secret AS (SELECT 1) SELECT * FROM a",
    "SELECT word FROM secret UNION SELECT item FROM (WITH secret AS (SELECT item FROM orders) SELECT item FROM secret) AS x",
    "SELECT * FROM (WITH secret AS (SELECT 'x' AS word) SELECT * FROM secret) AS x, secret",
    "WITH \"Secret\" AS (SELECT 'x' AS word) SELECT word FROM secret",
    "WITH SECRET AS (SELECT 'x' AS word) SELECT word FROM secret",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "WITH a AS (INSERT INTO log VALUES (9, 'x') RETURNING *) SELECT * FROM a",
    "WITH a AS (UPDATE orders SET price = 0 RETURNING *) SELECT * FROM a",
    "WITH a AS MATERIALIZED (TABLE secret) SELECT * FROM a",
    "SELECT * FROM orders; SELECT * FROM secret",
    "SELECT * FROM orders; DROP TABLE orders",
    "SELECT * FROM orders; --\nDELETE FROM orders",
    "SELECT 1; COMMIT; DELETE FROM orders",
    ";SELECT * FROM secret",
    "SELECT * FROM orders -- \n UNION SELECT id, word, 1 FROM secret",
    "SELECT id, item, price FROM orders /*! UNION SELECT id, word, 1 FROM secret */",
    "SELECT id, item, price FROM orders /*!50000 UNION SELECT id, word, 1 FROM secret */",
    "SELECT id, item, price FROM orders /*M! UNION SELECT id, word, 1 FROM secret */",
    "SELECT id, item, price FROM orders /* /* */ UNION SELECT id, word, 1 FROM secret -- */",
    "SELECT id, item, price FROM orders # \n UNION SELECT id, word, 1 FROM secret",
    "SELECT /*+ SET_VAR(sql_mode='') */ id FROM orders; SELECT * FROM secret",
    "SELECT 'a\\' UNION SELECT word FROM secret -- ' FROM orders",
    "SELECT 'a\\' FROM orders UNION SELECT word FROM secret -- '",
    "SELECT \"a\\\" UNION SELECT word FROM secret -- \" FROM orders",
    "SELECT E'a\\' UNION SELECT word FROM secret -- ' FROM orders",
    "SELECT $$a$$ || (SELECT word FROM secret) FROM orders",
    "SELECT $a$'$a$ UNION SELECT word FROM secret --'",
    "SELECT \"' UNION SELECT word FROM secret -- \" FROM orders",
    "SELECT '\u{0}' FROM secret",
    "SELECT item FROM orders WHERE item = '' UNION SELECT word FROM secret",
    "SELECT item AS \"x\"\" FROM secret --\" FROM orders",
    "SELECT item AS `x`` FROM secret -- ` FROM orders",
    "SELECT * FROM secret FOR UPDATE",
    "SELECT * FROM orders FOR UPDATE OF secret",
    "SELECT * INTO stolen FROM orders",
    "SELECT * FROM orders INTO OUTFILE '/tmp/stolen'",
    "SELECT item INTO @x FROM orders",
    "SELECT @@datadir FROM orders",
    "SELECT @x := item FROM orders",
    "SELECT * FROM orders PROCEDURE ANALYSE()",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_catalog.pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT * FROM pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/') AS x",
    "SELECT lo_import('/etc/passwd')",
    "SELECT query_to_xml('select * from secret', true, true, '')",
    "SELECT table_to_xml('secret', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT * FROM dblink('dbname=postgres', 'SELECT word FROM secret') AS t(word text)",
    "SELECT set_config('search_path', 'x', false)",
    "SELECT current_setting('data_directory')",
    "SELECT pg_sleep(100)",
    "SELECT sleep(100)",
    "SELECT benchmark(1000000000, md5('x'))",
    "SELECT pg_terminate_backend(1)",
    "SELECT nextval('x')",
    "SELECT load_file('/etc/passwd')",
    "SELECT load_extension('/tmp/x.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT zeroblob(1000000000)",
    "SELECT randomblob(1000000000)",
    "SELECT repeat('x', 1000000000)",
    "SELECT lpad('x', 1000000000, 'y')",
    "SELECT fts3_tokenizer('x', 'y')",
    "SELECT upper((SELECT word FROM secret))",
    "SELECT count((SELECT word FROM secret)) FROM orders",
    "SELECT group_concat((SELECT word FROM secret)) FROM orders",
    "SELECT (SELECT s FROM secret AS s)",
    "SELECT ARRAY(SELECT word FROM secret)",
    "SELECT ROW(secret.*) FROM secret",
    "SELECT (secret).word FROM secret",
    "SELECT secret FROM secret",
    "SELECT 'secret'::regclass",
    "SELECT CAST('secret' AS regclass)",
    "SELECT '<a/>'::xml",
    "SELECT word FROM secret AS orders",
    "SELECT orders.word FROM secret orders",
    "SELECT * FROM secret AS orders, orders AS secret",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM pragma_table_info('secret')",
    "SELECT * FROM main.sqlite_master",
    "SELECT * FROM temp.sqlite_master",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_table_list",
    "SELECT * FROM dbstat",
    "SELECT * FROM json_each('[1]')",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM unnest(ARRAY[1]) AS x",
    "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS t",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_shadow",
    "SELECT * FROM pg_class",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM performance_schema.threads",
    "SELECT * FROM sys.version",
    "SELECT * FROM mysql.user",
    "SELECT * FROM orders PARTITION (p0)",
    "SELECT * FROM orders TABLESAMPLE SYSTEM ((SELECT count(*) FROM secret))",
    "SELECT * FROM orders FOR SYSTEM_TIME ALL",
    "SELECT * FROM orders INDEXED BY x",
    "VALUES ((SELECT word FROM secret))",
    "EXPLAIN SELECT * FROM secret",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "DESCRIBE secret",
    "SHOW TABLES",
    "SHOW CREATE TABLE secret",
    "HANDLER secret OPEN",
    "PRAGMA table_info(secret)",
    "PRAGMA writable_schema = 1",
    "ATTACH DATABASE '/tmp/x.db' AS x",
    "VACUUM INTO '/tmp/stolen.db'",
    "COPY secret TO STDOUT",
    "COPY (SELECT * FROM secret) TO '/tmp/stolen'",
    "COPY orders FROM PROGRAM 'id'",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE log",
    "LOAD 'x'",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "CALL x()",
    "EXECUTE x",
    "PREPARE x AS SELECT * FROM secret",
    "PREPARE x FROM 'SELECT * FROM secret'",
    "DECLARE c CURSOR FOR SELECT * FROM secret",
    "SET ROLE postgres",
    "SET SESSION sql_mode = ''",
    "RESET ALL",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "LOCK TABLES orders WRITE",
    "CREATE TABLE stolen AS SELECT * FROM secret",
    "CREATE TABLE stolen (a INTEGER)",
    "CREATE TEMP TABLE stolen (a INTEGER)",
    "CREATE VIEW stolen AS SELECT * FROM secret",
    "CREATE FUNCTION f() RETURNS TEXT LANGUAGE sql AS 'SELECT word FROM secret'",
    "CREATE EXTENSION dblink",
    "ALTER TABLE orders RENAME TO stolen",
    "ALTER TABLE secret RENAME TO cheap2",
    "DROP TABLE orders",
    "TRUNCATE TABLE orders",
    "TRUNCATE log",
    "GRANT ALL ON secret TO public",
    "REVOKE ALL ON orders FROM staff",
    "REPLACE INTO log VALUES (1, 'x')",
    "MERGE INTO orders USING log ON 1 = 1 WHEN MATCHED THEN DELETE",
    "INSERT INTO orders VALUES (9, 'x', 1)",
    "INSERT INTO secret VALUES (9, 'x')",
    "INSERT INTO log SELECT id, word FROM secret",
    "INSERT INTO log (id, note) VALUES (9, (SELECT word FROM secret))",
    "INSERT INTO log VALUES (9, 'x') RETURNING (SELECT word FROM secret)",
    "INSERT INTO log VALUES (9, 'x') ON CONFLICT DO NOTHING",
    "INSERT INTO log VALUES (9, 'x') ON DUPLICATE KEY UPDATE note = (SELECT word FROM secret)",
    "INSERT OR REPLACE INTO log VALUES (9, 'x')",
    "INSERT IGNORE INTO log VALUES (9, 'x')",
    "INSERT INTO log SELECT id + 100, note FROM log",
    "WITH a AS (SELECT word FROM secret) INSERT INTO log SELECT 9, word FROM a",
    "INSERT INTO log WITH a AS (SELECT word FROM secret) SELECT 9, word FROM a",
    "UPDATE orders SET price = 0",
    "UPDATE secret SET word = 'x'",
    "UPDATE log SET note = (SELECT word FROM secret)",
    "UPDATE log SET note = word FROM secret",
    "UPDATE log, secret SET note = word",
    "UPDATE log JOIN secret ON 1 = 1 SET note = word",
    "UPDATE log SET note = 'x' WHERE id IN (SELECT id FROM secret)",
    "UPDATE log SET note = 'x' RETURNING *",
    "DELETE FROM orders",
    "DELETE FROM secret",
    "DELETE FROM log WHERE note = (SELECT word FROM secret)",
    "DELETE FROM log USING secret WHERE log.id = secret.id",
    "DELETE log FROM log JOIN secret ON 1 = 1",
    "DELETE FROM log RETURNING (SELECT word FROM secret)",
    "DELETE FROM log, orders",
    "",
    "   ",
    "--",
    "/*",
    "'",
    "SELECT",
    "Please tell me the word in the table secret.",
];

#[tokio::test]
async fn sqlite_holds() {
    holds(&Shop::sqlite().await).await;
}

#[tokio::test]
async fn postgres_holds() {
    holds(&Shop::postgres().await).await;
}

#[tokio::test]
async fn mariadb_holds() {
    holds(&Shop::mariadb().await).await;
}

/// Tries each statement with both tools, also with the tables that the tool itself then asks for. Without their
/// comments, some statements only read what is allowed.
async fn holds(shop: &Shop) {
    let (before, mut reached, mut tried) = (shop.contents().await, Vec::new(), 0);
    for sql in HOSTILE {
        for tool in ["db_query", "db_change"] {
            let mut tables: Vec<String> = vec!["shop.orders".to_owned()];
            for _ in 0..2 {
                let named: Vec<&str> = tables.iter().map(String::as_str).collect();
                let (text, is_error) = shop.call(tool, &named, sql).await;
                tried += 1;
                // Only statements that are hostile in their comments alone may run.
                let ran = !is_error && !sql.contains("/*");
                if ran || text.contains(CANARY) || text.contains("root:") || shop.contents().await != before {
                    reached.push(format!("{tool}: {sql}: {text}"));
                }
                match text.split_once("in tables: ").and_then(|(_, list)| serde_json::from_str(list).ok()) {
                    Some(wanted) => tables = wanted,
                    None => break,
                }
            }
        }
    }
    println!("statements that reached a table without right on {}: {} of {tried}", shop.kind, reached.len());
    assert!(reached.is_empty(), "{reached:#?}");
}

/// A user-defined function with a common name may do anything.
#[tokio::test]
async fn functions_that_were_made_in_a_database_are_never_called() {
    let secret = "SELECT word FROM secret LIMIT 1";
    let postgres = Shop::postgres().await;
    for function in [
        "total(INTEGER)",
        "upper(INTEGER)",
        "year(INTEGER)",
        "ceil(TEXT)",
        "ceiling(TEXT)",
        "floor(TEXT)",
        "\"substring\"(TEXT, NUMERIC)",
        "substr(TEXT, NUMERIC)",
        "\"trim\"(TEXT, INTEGER)",
        "btrim(TEXT, INTEGER)",
    ] {
        postgres.make(&format!("CREATE FUNCTION {function} RETURNS TEXT LANGUAGE sql AS '{secret}'")).await;
    }
    let mariadb = Shop::mariadb().await;
    for function in ["total(a INTEGER)", "strpos(a INTEGER)"] {
        mariadb.make(&format!("CREATE FUNCTION {function} RETURNS TEXT READS SQL DATA RETURN ({secret})")).await;
    }
    for shop in [&postgres, &mariadb] {
        for call in [
            "total(id)",
            "year(id)",
            "strpos(id)",
            "public.upper(id)",
            "upper(id)",
            "ceil(item)",
            "floor(item)",
            "CEILING(item)",
            "substring(item, 1)",
            "substr(item, 1)",
            "SUBSTRING(item FROM 1)",
            "trim(item, 1)",
        ] {
            let (text, _) = shop.call("db_query", &["shop.orders"], &format!("SELECT {call} FROM orders")).await;
            assert!(!text.contains(CANARY), "{}: {call}: {text}", shop.kind);
        }
    }
}

/// `row.name` calls a function in `PostgreSQL` if the table has no such column.
#[tokio::test]
async fn functions_that_take_rows_are_not_called_as_if_they_were_columns() {
    let shop = Shop::postgres().await;
    for (function, language, body) in [
        ("word_of(orders)", "sql", "SELECT word FROM secret LIMIT 1"),
        ("word_of_any(anyelement)", "sql", "SELECT word FROM secret LIMIT 1"),
        ("\"Word of\"(orders, INTEGER DEFAULT 1)", "sql", "SELECT word FROM secret LIMIT 1"),
        ("word_of_row(record)", "plpgsql", "BEGIN RETURN (SELECT word FROM secret LIMIT 1); END"),
        ("item(INTEGER)", "sql", "SELECT word FROM secret LIMIT 1"),
    ] {
        let made = format!("CREATE FUNCTION {function} RETURNS TEXT LANGUAGE {language} SECURITY DEFINER AS '{body}'");
        shop.make(&made).await;
    }
    assert!(shop.raw_run("SELECT o.word_of, o.word_of_row FROM orders AS o").await.contains(CANARY));
    let mut named = 0;
    for sql in [
        "SELECT o.word_of FROM orders AS o",
        "SELECT o.WORD_OF FROM orders AS o",
        "SELECT orders.word_of_any FROM orders",
        "SELECT o.word_of_row FROM orders AS o",
        "SELECT o.\"Word of\" FROM orders AS o",
        "SELECT id FROM orders AS o WHERE o.word_of = 'x'",
        "SELECT max(o.word_of) FROM orders AS o GROUP BY o.word_of ORDER BY o.word_of",
        "SELECT (SELECT o.word_of) FROM orders AS o",
        "SELECT s.word_of_row FROM (SELECT id, item FROM orders) AS s",
        "WITH w AS (SELECT id FROM orders) SELECT w.word_of_any FROM w",
        "SELECT a.id FROM orders AS a JOIN orders AS b ON a.word_of = b.word_of",
    ] {
        let (text, is_error) = shop.call("db_query", &["shop.orders"], sql).await;
        assert!(is_error && !text.contains(CANARY), "{sql}: {text}");
        named += usize::from(text.contains("is a function and no column"));
    }
    assert!(named >= 8, "{named} of these are refused for their function");
    // The same for built-in functions that are not on the allow list.
    for function in ["row_to_json", "to_jsonb", "pg_typeof", "json_agg"] {
        let sql = format!("SELECT o.{function} FROM orders AS o");
        shop.raw_run(&sql).await;
        let (text, is_error) = shop.call("db_query", &["shop.orders"], &sql).await;
        assert!(is_error && text.contains("is a function and no column"), "{sql}: {text}");
    }
    // A column with the name of a function is a column, also of a subquery if the function is on the allow list.
    shop.make("ALTER TABLE orders ADD COLUMN to_json TEXT DEFAULT 'leaf'").await;
    assert!(shop.query(&["shop.orders"], "SELECT o.to_json FROM orders AS o").await.contains("leaf"));
    let counted = "SELECT s.count FROM (SELECT count(*) AS count FROM orders) AS s";
    let (text, is_error) = shop.call("db_query", &["shop.orders"], counted).await;
    assert!(!is_error, "{text}");
    assert!(shop.query(&["shop.orders"], "SELECT o.item FROM orders AS o").await.contains("tea"));
}

/// `PostgreSQL` calls functions for operators, casts and types without naming them.
#[tokio::test]
async fn functions_behind_operators_casts_and_types_are_never_called() {
    const WORD: &str = "RETURNS TEXT LANGUAGE sql SECURITY DEFINER AS 'SELECT word FROM secret LIMIT 1'";
    for (made, sql) in [
        (
            vec![format!("CREATE FUNCTION word_of_many(VARIADIC orders[]) {WORD}")],
            "SELECT o.word_of_many FROM orders AS o",
        ),
        (
            vec![
                format!("CREATE FUNCTION added(varchar, integer) {WORD}"),
                "CREATE OPERATOR + (LEFTARG = varchar, RIGHTARG = integer, FUNCTION = added)".to_owned(),
            ],
            "SELECT item + 1 FROM orders",
        ),
        (
            vec![
                format!("CREATE FUNCTION joined(varchar, varchar) {WORD}"),
                "CREATE OPERATOR || (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = joined)".to_owned(),
            ],
            "SELECT item || item FROM orders",
        ),
        (
            vec![
                format!("CREATE FUNCTION told(orders) {WORD}"),
                "CREATE CAST (orders AS text) WITH FUNCTION told(orders)".to_owned(),
            ],
            "SELECT CAST(o AS text) FROM orders AS o",
        ),
    ] {
        let shop = Shop::postgres().await;
        for statement in made {
            shop.make(&statement).await;
        }
        assert!(shop.raw_run(sql).await.contains(CANARY), "{sql} calls it");
        let (text, is_error) = shop.call("db_query", &["shop.orders"], sql).await;
        assert!(is_error && !text.contains(CANARY), "{sql}: {text}");
        if sql.contains("CAST") {
            assert!(shop.query(&["shop.orders"], "SELECT item FROM orders").await.contains("tea"), "no cast is needed");
        }
    }
    let shop = Shop::postgres().await;
    for name in ["datetime", "signed", "unsigned", "double"] {
        shop.make(&format!("CREATE DOMAIN {name} AS varchar")).await;
        let sql = format!("SELECT CAST(item AS {name}) FROM orders");
        let (text, is_error) = shop.call("db_query", &["shop.orders"], &sql).await;
        assert!(is_error, "{name}: {text}");
    }
    let precise = "SELECT CAST(price AS double precision) AS p FROM orders WHERE id = 1";
    assert!(shop.query(&["shop.orders"], precise).await.contains("| 3 |"));
}

/// An error about a value could quote rows that a view hides, or that may only be changed.
#[tokio::test]
async fn errors_about_values_quote_no_rows() {
    for shop in [Shop::postgres().await, Shop::mariadb().await, Shop::sqlite().await] {
        let number = match shop.kind {
            "postgres" => "CAST(note AS INTEGER)",
            "mariadb" => "note",
            _ => "'{}' -> ('$' || note)",
        };
        let change = format!("UPDATE log SET id = {number} WHERE id = 1");
        let (text, is_error) = shop.call("db_change", &["shop.log"], &change).await;
        assert!(is_error && text.contains("it may quote rows") && !text.contains("first"), "{}: {text}", shop.kind);
        let (text, _) = shop.call("db_query", &["shop.orders"], "SELECT nothing FROM orders").await;
        assert!(text.contains("nothing"), "{}: errors about names are told: {text}", shop.kind);
    }
    let shop = Shop::postgres().await;
    let converted = "SELECT item FROM orders WHERE CAST(item AS boolean)";
    let (text, is_error) = shop.call("db_query", &["shop.orders"], converted).await;
    assert!(is_error && text.contains("22P02") && !text.contains("tea"), "{text}");
}

/// `PostgreSQL` goes on with a statement after the last row that is shown.
#[tokio::test]
async fn a_statement_whose_rows_were_cut_is_ended_at_the_server() {
    const ACTIVE: &str = "SELECT CASE WHEN count(*) = 0 THEN 'none' END FROM pg_stat_activity \
                          WHERE state = 'active' AND query LIKE '%UNION%' AND pid <> pg_backend_pid()";
    let shop = Shop::postgres().await.patient();
    let many: Vec<String> = (0..24).map(|n| format!("orders AS o{n}")).collect();
    let endless = format!("SELECT o0.id FROM {} WHERE o0.id + o23.id = -1", many.join(", "));
    let sql = format!("(SELECT o.id FROM orders AS o) UNION ALL ({endless}) FETCH FIRST 100000 ROWS ONLY");
    let text = shop.query(&["shop.orders"], &sql).await;
    assert!(text.ends_with("Only the first 2 rows."), "{text}");
    let begun = tokio::time::Instant::now();
    while !shop.raw_run(ACTIVE).await.contains("none") {
        assert!(begun.elapsed().as_secs() < 20, "it still runs");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Nesting that some parsers read repeatedly.
#[tokio::test]
async fn no_statement_takes_long_to_be_understood() {
    let shop = Shop::sqlite().await;
    for sql in [
        format!("SELECT {}1{}", "(".repeat(1_000), ")".repeat(1_000)),
        format!("SELECT {}1{}", "(".repeat(22), ")".repeat(22)),
        format!("SELECT * FROM {}orders{}", "(".repeat(300), ")".repeat(300)),
        format!("SELECT * FROM {}orders{}", "(".repeat(22), ")".repeat(22)),
        format!("SELECT {}1", "NOT ".repeat(500)),
        format!("SELECT {}1", "- ".repeat(500)),
        format!("SELECT 1{}", " + 1".repeat(290)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(150)),
        format!("SELECT {}1{}", "CASE WHEN 1 = 1 THEN ".repeat(90), " END".repeat(90)),
        format!("SELECT {}1{}", "abs(".repeat(200), ")".repeat(200)),
        format!("SELECT {}1", "(SELECT ".repeat(300)),
        format!("SELECT * FROM {}", "(SELECT * FROM ".repeat(200)),
        format!("SELECT * FROM {}", "(((SELECT * FROM orders) AS a JOIN ".repeat(60)),
    ] {
        let begun = tokio::time::Instant::now();
        let _ = shop.call("db_query", &["shop.orders"], &sql).await;
        assert!(begun.elapsed().as_secs() < 4, "{:?}: {}", begun.elapsed(), &sql[..60]);
    }
}
