//! Targets of the fuzzer: statements of SQL. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use crate::db_query::{Engine, understand};

#[test]
fn sql_gate() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        for engine in [Engine::Sqlite, Engine::Postgres, Engine::Mysql] {
            let Ok(understood) = understand(engine, &text, 10) else { continue };
            assert!(understand(engine, &understood.sql, 10).is_ok(), "{} is not understood again", understood.sql);
        }
    });
}
