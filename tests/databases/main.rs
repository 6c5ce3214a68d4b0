//! Statements on real databases: `SQLite`, `PostgreSQL` and `MariaDB`.

mod account;
mod corpus;
mod hostile;
mod queries;
mod server;
mod shares;
mod support;
