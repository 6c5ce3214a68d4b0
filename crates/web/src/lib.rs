//! HTTP: operators' pages, the OpenAI- and Ollama-compatible doors, and webhooks.
//!
//! | file | does |
//! |---|---|
//! | `api.rs` | the listener with all routes |
//! | `api/guard.rs`, `api/grants.rs`, `api/site.rs`, `api/cors.rs` | keys, origins, rechecks during an answer |
//! | `api/connections.rs`, `api/places.rs`, `api/rooms.rs`, `api/bodies.rs` | bounds on connections and bodies |
//! | `api/ops.rs`, `api/dashboard.rs`, `api/usage.rs`, `api/audit.rs`, `api/backup.rs` | routes of operators |
//! | `api/front.rs` | the page in front of the playground's bot |
//! | `client_socket.rs` | the WebSocket of one client |
//! | `model_api.rs` | endpoints of OpenAI and Ollama; one file or folder for each wire |
//! | `model_api/asking.rs` | one request: submits a turn and reads its events |
//! | `hooks.rs` | webhooks |
//! | `problem.rs`, `api/form.rs` | the form of refusals |

pub mod api;
pub mod client_socket;
pub mod hooks;
pub mod model_api;
pub mod problem;
