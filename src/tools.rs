//! Tools that are part of this program: no file system, no network, each bounded in what it costs.

mod calculator;
mod get_time;
mod roll_dice;
