//! staffai
