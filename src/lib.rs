//! staffai

pub mod config;
