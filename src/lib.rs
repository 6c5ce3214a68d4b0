//! staffai

pub mod playground;
