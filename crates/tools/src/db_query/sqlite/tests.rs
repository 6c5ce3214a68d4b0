use super::*;

/// Creates a database with three orders, in a file of this name.
fn shop(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("staffai-{}-{name}.db", std::process::id()));
    let setup = "CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (1), (2), (3)";
    Connection::open(&path).unwrap().execute_batch(setup).unwrap();
    path
}

fn reads(sql: String) -> Understood {
    Understood {
        sql,
        reads: BTreeSet::from(["orders".to_owned()]),
        changes: None,
        fields: BTreeSet::new(),
        casts: false,
    }
}

fn orders(many: usize) -> String {
    (0..many).map(|n| format!("orders AS o{n}")).collect::<Vec<_>>().join(", ")
}

/// Returns a `WITH` that doubles a text of this many bytes until it has `most`.
fn doubled(bytes: usize, most: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        "WITH RECURSIVE staffai_with_1 AS (SELECT '{text}' AS a FROM orders WHERE id = 1 \
         UNION ALL SELECT a || a FROM staffai_with_1 WHERE length(a) < {most})"
    )
}

#[test]
fn a_statement_that_keeps_the_memory_fails_no_others() {
    let path = shop("memory");
    let asked = Asked { rows: 2, within: Duration::from_secs(60) };
    let shortly = Asked { within: Duration::from_secs(8), ..asked };
    // 2,187 texts of 24,967 bytes stay in memory while each is compared with each, which takes minutes.
    let text = (0..7).map(|n| format!("o{n}.id")).collect::<Vec<_>>().join(" || ");
    let kept = reads(format!(
        "{}, staffai_with_2 AS (SELECT n.a || {text} AS t FROM staffai_with_1 AS n, {} WHERE length(n.a) > 20000 LIMIT 5000) \
         SELECT count(*) AS n FROM staffai_with_2 AS a, staffai_with_2 AS b, {} WHERE a.t > b.t",
        doubled(780, 20_000),
        orders(7),
        orders(12)
    ));
    // 27 texts of 716,801 bytes are sorted; 243 are too many.
    let sorted = |many| {
        reads(format!(
            "{} SELECT length(t) AS n FROM (SELECT n.a || o0.id AS t FROM staffai_with_1 AS n, {} WHERE length(n.a) > 400000 \
             ORDER BY t LIMIT 1000 OFFSET 1) AS s",
            doubled(700, 400_000),
            orders(many)
        ))
    };
    let (large, too_large) = (sorted(3), sorted(5));
    let (mut answered, keeper) = (
        0,
        std::thread::spawn({
            let path = path.clone();
            move || run_in_heap(&path, &kept, shortly)
        }),
    );
    std::thread::sleep(Duration::from_millis(300));
    while !keeper.is_finished() {
        let rows = run_in_heap(&path, &large, asked).map(|rows| rows.shown());
        assert!(rows.as_ref().is_ok_and(|text| text.contains("716801")), "{rows:?}");
        answered += 1;
        // The other one begins again meanwhile.
        std::thread::sleep(Duration::from_millis(300));
    }
    let told = keeper.join().unwrap().unwrap_err();
    assert!(told.contains("takes too long") && answered > 0, "{told}");
    // A long statement that needs hardly any memory survives any number of statements that fill it.
    let long = reads(format!("SELECT count(*) AS n FROM {} WHERE o0.id > o1.id", orders(16)));
    let long = std::thread::spawn({
        let path = path.clone();
        move || run_in_heap(&path, &long, asked)
    });
    let mut filled = 0;
    while !long.is_finished() {
        let error = run_in_heap(&path, &too_large, shortly).map(|rows| rows.shown()).unwrap_err();
        assert!(error.contains("more than 64 MiB of memory"), "{error}");
        filled += 1;
    }
    let rows = long.join().unwrap().map(|rows| rows.shown());
    assert!(rows.is_ok() && filled > 1, "{filled} statements filled the memory meanwhile: {rows:?}");
    std::fs::remove_file(path).unwrap();
}
