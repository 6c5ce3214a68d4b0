//! Whole lives of the bot in simulated time.
//!
//! Guarantees:
//! - A life is a pure function of its 64-bit seed: one thread, one scheduler in simulated time, random numbers from streams
//!   of the seed. Two runs have the same hash of all events.
//! - The code is the program's own: every actor, the resilient store, the limiter. Doubles stand at the ports alone.
//! - The checker reads what members, models and tool servers saw. It uses no code of the program.
//!
//! ```text
//!   seed ──▶ swarm: the environment          members ──▶ platform ──▶ process: the tree of actors ──▶ ports
//!                                                ▲                        │ dies, stops, starts again     │ delays, faults
//!                                                └──────── history ◀──────┴───────────────────────────────┘
//!                                                             └──▶ checker ──▶ findings
//! ```

pub mod chance;
pub mod checker;
mod door;
pub mod history;
mod idle;
pub mod life;
mod models;
pub mod outside;
mod platform;
mod process;
mod rows;
mod servers;
mod store;
pub mod swarm;
mod world;

use domain::ids::millis;
