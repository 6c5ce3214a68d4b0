//! The files of the dashboard, compiled in. The playground's page uses the same board and themes.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Content security policy: nothing is loaded from elsewhere, and no page may frame the dashboard.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Every file: path, media type, text.
pub const FILES: [(&str, &str, &str); 22] = [
    ("/dashboard", "text/html; charset=utf-8", include_str!("dashboard/index.html")),
    ("/dashboard/theme.css", STYLE, include_str!("dashboard/theme.css")),
    ("/dashboard/board.css", STYLE, include_str!("dashboard/board.css")),
    ("/dashboard/main.js", SCRIPT, include_str!("dashboard/main.js")),
    ("/dashboard/board.js", SCRIPT, include_str!("dashboard/board.js")),
    ("/dashboard/tree.js", SCRIPT, include_str!("dashboard/tree.js")),
    ("/dashboard/tiles.js", SCRIPT, include_str!("dashboard/tiles.js")),
    ("/dashboard/past.js", SCRIPT, include_str!("dashboard/past.js")),
    ("/dashboard/spark.js", SCRIPT, include_str!("dashboard/spark.js")),
    ("/dashboard/travel.js", SCRIPT, include_str!("dashboard/travel.js")),
    ("/dashboard/detail.js", SCRIPT, include_str!("dashboard/detail.js")),
    ("/dashboard/transcript.js", SCRIPT, include_str!("dashboard/transcript.js")),
    ("/dashboard/path.js", SCRIPT, include_str!("dashboard/path.js")),
    ("/dashboard/order.js", SCRIPT, include_str!("dashboard/order.js")),
    ("/dashboard/people.js", SCRIPT, include_str!("dashboard/people.js")),
    ("/dashboard/processes.js", SCRIPT, include_str!("dashboard/processes.js")),
    ("/dashboard/questions.js", SCRIPT, include_str!("dashboard/questions.js")),
    ("/dashboard/turns.js", SCRIPT, include_str!("dashboard/turns.js")),
    ("/dashboard/use.js", SCRIPT, include_str!("dashboard/use.js")),
    ("/dashboard/theme.js", SCRIPT, include_str!("dashboard/theme.js")),
    ("/dashboard/dom.js", SCRIPT, include_str!("dashboard/dom.js")),
    ("/dashboard/icon.svg", "image/svg+xml", include_str!("dashboard/icon.svg")),
];

/// Returns the routes of the dashboard and its parts.
pub fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, file| router.route(file.0, get(async move || shown(file))))
}

/// Returns the route of the dashboard at `/`.
pub fn at_root() -> Router {
    Router::new().route("/", get(async || shown(FILES[0])))
}

fn shown((_, kind, text): (&str, &'static str, &'static str)) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, POLICY)], text).into_response()
}
