//! Allowed statements.

use std::time::Duration;

use domain::tool::{Effect, ToolKind};
use ports::ToolServer;
use tools::BuiltIns;
use tools::db_query::{self, Database, Rights};

use crate::support::Shop;

#[tokio::test]
async fn sqlite_is_asked_and_changed() {
    everything(&Shop::sqlite().await).await;
}

#[tokio::test]
async fn postgres_is_asked_and_changed() {
    everything(&Shop::postgres().await).await;
}

#[tokio::test]
async fn mariadb_is_asked_and_changed() {
    everything(&Shop::mariadb().await).await;
}

async fn everything(shop: &Shop) {
    reads(shop).await;
    changes(shop).await;
    bounds(shop).await;
}

async fn reads(shop: &Shop) {
    let orders = ["shop.orders"];
    for (sql, text) in [
        ("SELECT id, item FROM orders WHERE id = 2", "| id | item |\n| --- | --- |\n| 2 | cof\\|fee |\n\n1 row."),
        ("SELECT item FROM orders WHERE price > 5;", "| item |\n| --- |\n| NULL |\n\n1 row."),
        ("SELECT id FROM orders WHERE id > 5", "No rows."),
        ("SELECT count(*) AS n, sum(price) AS s FROM orders", "| n | s |\n| --- | --- |\n| 3 | 15 |\n\n1 row."),
        (
            "SELECT o.id FROM orders AS o JOIN orders AS p ON o.id = p.id WHERE p.price BETWEEN 3 AND 5 ORDER BY 1 DESC",
            "| id |\n| --- |\n| 2 |\n| 1 |\n\n2 rows.",
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT id FROM orders UNION SELECT i + 1 FROM n WHERE i < 5) SELECT count(*) AS c FROM n",
            "| c |\n| --- |\n| 5 |\n\n1 row.",
        ),
        (
            "WITH dear AS (SELECT id FROM orders WHERE price > 4), most AS (SELECT max(id) AS id FROM dear) SELECT id FROM most",
            "| id |\n| --- |\n| 3 |\n\n1 row.",
        ),
        (
            "SELECT id FROM orders WHERE price = (SELECT min(price) FROM orders) UNION ALL SELECT 9 ORDER BY id",
            "| id |\n| --- |\n| 1 |\n| 9 |\n\n2 rows.",
        ),
        (
            "SELECT CASE WHEN price > 4 THEN 'much' ELSE 'little' END AS c, count(*) AS n FROM orders GROUP BY 1 ORDER BY n",
            "| c | n |\n| --- | --- |\n| little | 1 |\n| much | 2 |\n\n2 rows.",
        ),
        (
            "SELECT upper(item) AS u -- the drink\nFROM /* all */ orders WHERE item LIKE 't%'",
            "| u |\n| --- |\n| TEA |\n\n1 row.",
        ),
        ("SELECT 'it''s ; -- /* no' AS t FROM orders WHERE id = 1", "| t |\n| --- |\n| it's ; -- /* no |\n\n1 row."),
        ("SELECT id FROM orders ORDER BY id", "| id |\n| --- |\n| 1 |\n| 2 |\n\nOnly the first 2 rows."),
        ("SELECT id FROM orders ORDER BY id LIMIT 1 OFFSET 2", "| id |\n| --- |\n| 3 |\n\n1 row."),
    ] {
        assert_eq!(shop.query(&orders, sql).await, text, "{}: {sql}", shop.kind);
    }
    let quote = if shop.kind == "mariadb" { '`' } else { '"' };
    for (sql, text) in [
        (
            "SELECT #the item#, #order# FROM #order lines# AS #my lines# WHERE #my lines#.#order# < 4",
            "| the item | order |\n| --- | --- |\n| tea | 3 |\n\n1 row.",
        ),
        ("SELECT max(#order#) AS #the most# FROM #order lines#", "| the most |\n| --- |\n| 7 |\n\n1 row."),
    ] {
        let sql = sql.replace('#', &quote.to_string());
        assert_eq!(shop.query(&["shop.order lines"], &sql).await, text, "{}: {sql}", shop.kind);
    }
    for (kind, sql, text) in [
        ("postgres", "SELECT id FROM orders WHERE id = ANY('{2,9}'::int[])", "| id |\n| --- |\n| 2 |\n\n1 row."),
        ("postgres", "SELECT id FROM orders WHERE id = ANY(ARRAY[2, 9])", "| id |\n| --- |\n| 2 |\n\n1 row."),
        (
            "postgres",
            "SELECT DISTINCT ON (price > 4) id FROM Orders ORDER BY price > 4, id DESC",
            "| id |\n| --- |\n| 1 |\n| 3 |\n\n2 rows.",
        ),
        (
            "postgres",
            "SELECT CAST('{\"a\": 5}' AS json) ->> 'a' AS a FROM orders WHERE id = 1",
            "| a |\n| --- |\n| 5 |\n\n1 row.",
        ),
        ("sqlite", "SELECT '{\"a\": 5}' ->> 'a' AS a FROM Orders WHERE ID = 1", "| a |\n| --- |\n| 5 |\n\n1 row."),
        (
            "mariadb",
            "SELECT timestampdiff(DAY, '2024-01-01', '2024-01-03') AS d FROM orders WHERE id = 1",
            "| d |\n| --- |\n| 2 |\n\n1 row.",
        ),
    ] {
        if shop.kind == kind {
            assert_eq!(shop.query(&orders, sql).await, text, "{kind}: {sql}");
        }
    }
    assert_eq!(shop.query(&["shop.cheap"], "SELECT * FROM cheap").await, "| item |\n| --- |\n| tea |\n\n1 row.");
}

async fn changes(shop: &Shop) {
    let before = shop.contents().await;
    for (sql, text) in [
        ("INSERT INTO log (id, note) VALUES (2, 'two'), (3, 'it''s')", "Rows changed: 2."),
        ("UPDATE log SET note = 'three' WHERE id = 3", "Rows changed: 1."),
        ("DELETE FROM log WHERE id = 1", "Rows changed: 1."),
    ] {
        assert_eq!(shop.call("db_change", &["shop.log"], sql).await, (text.to_owned(), false), "{}: {sql}", shop.kind);
    }
    let copied = shop.call(
        "db_change",
        &["shop.log", "shop.orders"],
        "INSERT INTO log (id, note) SELECT id + 10, item FROM orders",
    );
    assert_eq!(copied.await, ("Rows changed: 3.".to_owned(), false), "{}", shop.kind);
    let after = shop.contents().await;
    assert!(after[1].contains("three") && after[1].contains("tea") && !after[1].contains("first"), "{after:?}");
    assert_eq!((&before[0], &before[2..]), (&after[0], &after[2..]), "nothing else changed");
}

async fn bounds(shop: &Shop) {
    let (text, is_error) = shop.call("db_query", &[], "SELECT id FROM orders").await;
    assert!(is_error && text.ends_with(r#"in tables: ["shop.orders"]"#), "{text}");
    let (text, is_error) = shop.call("db_query", &["shop.orders"], "SELECT nothing FROM orders").await;
    assert!(is_error && text.contains("nothing"), "{text}");
    assert!(text.ends_with(". Columns of shop.orders: id, item, price"), "{text}");
    let long = format!("SELECT id FROM orders WHERE id IN ({})", vec!["1"; 400].join(", "));
    assert!(shop.call("db_query", &["shop.orders"], &long).await.0.contains("more than 600 words"));
    // A statement that would never end.
    let from = (0..12).map(|n| format!("orders AS o{n}")).collect::<Vec<_>>().join(", ");
    let many = format!(
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500) \
        SELECT count(*) FROM n, n AS m, n AS o, n AS p, n AS q, {from}"
    );
    let begun = tokio::time::Instant::now();
    let (text, is_error) = shop.call("db_query", &["shop.orders"], &many).await;
    assert!(is_error, "{text}");
    assert!(begun.elapsed().as_secs() < 5, "{}: {:?}", shop.kind, begun.elapsed());
    // Subqueries that a database merges to one expression, without a look at its timeout.
    let merged = |levels: usize| {
        let sum = ["x"; 10].join(" + ");
        let innermost = "SELECT id AS x FROM orders".to_owned();
        (0..levels).fold(innermost, |inner, _| format!("SELECT {sum} AS x FROM ({inner}) AS t"))
    };
    let (text, is_error) = shop.call("db_query", &["shop.orders"], &merged(3)).await;
    assert!(!is_error && text.contains("000 |"), "{}: {text}", shop.kind);
    let (text, is_error) = shop.call("db_query", &["shop.orders"], &merged(4)).await;
    assert!(is_error && text.contains("becomes too large"), "{}: {text}", shop.kind);
    // One call that would take minutes, during which no database checks its timeout.
    let long = "WITH RECURSIVE n AS (SELECT 'a' AS a, 'b' AS b FROM orders UNION ALL \
        SELECT concat(a, a), concat(b, b) FROM n WHERE length(a) < 60000)";
    for call in ["ltrim(a, concat(b, 'a'))", "a LIKE concat('%', a, b)"] {
        let (text, is_error) = shop.call("db_query", &["shop.orders"], &format!("{long} SELECT {call} FROM n")).await;
        let refusals = ["at most 200 characters", "is not used here", "in one query only"];
        let is_refused = is_error && refusals.iter().any(|refusal| text.contains(refusal));
        assert!(is_refused, "{}: {call}: {text}", shop.kind);
    }
}

/// Returns the bytes that the threads of this process have written to files, without child processes.
fn written() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let io = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("io")).ok());
    io.filter_map(|io| io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok())).sum()
}

#[tokio::test]
async fn a_statement_of_sqlite_takes_bounded_memory_and_no_temporary_files() {
    let shop = Shop::sqlite().await;
    let from = (0..12).map(|n| format!("orders AS o{n}")).collect::<Vec<_>>().join(", ");
    let text = (0..12).map(|n| format!("o{n}.id")).collect::<Vec<_>>().join(" || ");
    let long = "x".repeat(1_500);
    // 531,441 different rows of 1,500 bytes, which are compared, sorted or stored.
    for sql in [
        format!("SELECT DISTINCT '{long}' || {text} AS t FROM {from} LIMIT 1 OFFSET 100000000"),
        format!("SELECT '{long}' || {text} AS t FROM {from} ORDER BY t LIMIT 1 OFFSET 100000000"),
        format!("SELECT '{long}' || {text} AS t FROM {from} UNION SELECT item FROM orders"),
        format!("SELECT count(*) AS n FROM {from} GROUP BY '{long}' || {text} LIMIT 1 OFFSET 100000000"),
    ] {
        let before = written();
        let (told, is_error) = shop.call("db_query", &["shop.orders"], &sql).await;
        assert!(is_error && told.contains("more than 64 MiB of memory"), "{told}");
        // Other tests of this program write to their databases meanwhile.
        let after = written().saturating_sub(before);
        assert!(after < 32 * 1024 * 1024, "{after} bytes were written");
        assert_eq!(
            shop.query(&["shop.orders"], "SELECT count(*) AS n FROM orders").await,
            "| n |\n| --- |\n| 3 |\n\n1 row."
        );
    }
    let before = shop.contents().await;
    let sql = format!("INSERT INTO log (id, note) SELECT o0.id, '{long}' FROM {from}");
    let (told, is_error) = shop.call("db_change", &["shop.log", "shop.orders"], &sql).await;
    assert!(is_error && told.contains("more than 64 MiB larger"), "{told}");
    assert_eq!(shop.contents().await, before, "nothing of it stays");
}

#[tokio::test]
async fn a_database_that_is_a_pipe_is_refused_and_never_waited_for() {
    let shop = Shop::sqlite().await;
    shop.becomes_a_pipe();
    let (told, is_error) = shop.call("db_query", &["shop.orders"], "SELECT id FROM orders").await;
    assert!(is_error && told.contains("no regular file"), "{told}");
}

#[tokio::test]
async fn the_tools_say_what_they_are() {
    let shop = Shop::sqlite().await;
    let tools = shop.tools.tools();
    let names: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.kind, Effect::of(tool, None, true))).collect();
    assert_eq!(names, [("db_query", ToolKind::Db, Effect::Reads), ("db_change", ToolKind::Db, Effect::Changes)]);
    assert!(
        tools[0].description.ends_with("Tables: shop.cheap shop.order lines shop.orders"),
        "{}",
        tools[0].description
    );
    assert_eq!(tools[1].annotations.destructive, Some(true), "a person is asked unless the rules say otherwise");
}

#[tokio::test]
async fn a_model_is_told_the_columns_of_sqlite_before_it_asks() {
    columns(&Shop::sqlite().await).await;
}

#[tokio::test]
async fn a_model_is_told_the_columns_of_postgres_before_it_asks() {
    columns(&Shop::postgres().await).await;
}

#[tokio::test]
async fn a_model_is_told_the_columns_of_mariadb_before_it_asks() {
    columns(&Shop::mariadb().await).await;
}

async fn columns(shop: &Shop) {
    // On a loaded machine the first refresh may exceed the time that a turn awaits it.
    let mut told = shop.outline("db_query").await;
    for _ in 0..50 {
        if told.iter().all(|(_, columns)| !columns.is_empty()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        told = shop.outline("db_query").await;
    }
    assert_eq!(
        told,
        [
            ("shop.cheap".to_owned(), "item".to_owned()),
            ("shop.order lines".to_owned(), "id, the item, order".to_owned()),
            ("shop.orders".to_owned(), "id, item, price".to_owned()),
        ],
        "{}",
        shop.kind
    );
    assert_eq!(shop.outline("db_change").await, [("shop.log".to_owned(), "id, note".to_owned())]);
    // A failed statement causes a refresh for the next turn.
    shop.make("ALTER TABLE orders ADD COLUMN colour VARCHAR(10)").await;
    assert!(shop.call("db_query", &["shop.orders"], "SELECT size FROM orders").await.1);
    let mut told = String::new();
    for _ in 0..50 {
        told = shop.outline("db_query").await.remove(2).1;
        if told.ends_with("colour") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{}: {told}", shop.kind);
}

#[tokio::test]
async fn a_database_that_does_not_answer_holds_turns_up_for_a_moment_once() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://bot:secret@{}/shop", deaf.local_addr().unwrap());
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("near.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (id INTEGER, text TEXT)").unwrap();
    let rights = |name: &str, table: &str| Rights {
        name: name.to_owned(),
        reads: vec![table.to_owned()],
        changes: Vec::new(),
        rows: 2,
        timeout: std::time::Duration::from_secs(30),
    };
    let far = Database::new(rights("far", "orders"), &url).unwrap();
    let near = Database::new(rights("near", "notes"), &format!("sqlite:{}", path.display())).unwrap();
    let tools = BuiltIns::new(db_query::tools(vec![far, near]));
    let begun = tokio::time::Instant::now();
    let first = tools.outline("db_query").await.unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((first.tables[0].name.as_str(), first.tables[0].columns.len()), ("orders", 0), "its name is told");
    let begun = tokio::time::Instant::now();
    for _ in 0..20 {
        tools.outline("db_query").await.unwrap();
    }
    assert!(begun.elapsed() < std::time::Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(&*tools.outline("db_query").await.unwrap().tables[1].columns, ["id", "text"], "the other one is told");
}

/// `MariaDB` notices no closed connection while a statement runs.
#[tokio::test]
async fn a_statement_of_mariadb_whose_caller_is_gone_is_ended_at_the_server() {
    let list = "SELECT if(count(*) > 0, 'begun', 'ended') FROM information_schema.processlist WHERE info LIKE '%o23%' AND info NOT LIKE '%processlist%'";
    ends_with_its_caller(&Shop::mariadb().await.patient(), list).await;
}

#[tokio::test]
async fn a_statement_of_postgres_whose_caller_is_gone_is_ended_at_the_server() {
    let list = "SELECT CASE WHEN count(*) > 0 THEN 'begun' ELSE 'ended' END FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%o23%' AND query NOT LIKE '%pg_stat%'";
    ends_with_its_caller(&Shop::postgres().await.patient(), list).await;
}

/// Leaves statements that never end, and waits until the server has ended them. `list` says whether one runs.
async fn ends_with_its_caller(shop: &Shop, list: &str) {
    let orders: Vec<String> = (0..24).map(|n| format!("orders AS o{n}")).collect();
    let endless = format!("(SELECT count(*) FROM {})", orders.join(", "));
    let running = async |shop: &Shop| shop.raw_run(list).await.contains("begun");
    let change = format!("UPDATE log SET note = {endless}");
    let read = format!("SELECT {endless} AS n FROM orders");
    for (tool, tables, sql) in
        [("db_change", &["shop.orders", "shop.log"][..], &change), ("db_query", &["shop.orders"][..], &read)]
    {
        let call = shop.call_for(None, Duration::from_hours(1), tool, tables, sql);
        let begun = async {
            while !running(shop).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            ended = call => panic!("{ended:?}"),
            () = begun => {}
        }
        let ended = async {
            while running(shop).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), ended).await.is_ok(), "{tool}: the server goes on");
    }
}
