//! Statements on real databases: `SQLite`, `PostgreSQL` and `MariaDB`.

mod hostile;
mod queries;
mod server;
mod support;
