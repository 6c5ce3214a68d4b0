//! The page of metrics, which needs no key: rendered a few times a second at most, however often it is requested.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most renderings within [`WINDOW`]. Further requests get the last page again.
const RENDERINGS: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// The page and its last rendering.
pub(super) struct MetricsPage {
    render: Arc<dyn Fn() -> String + Send + Sync>,
    last: Mutex<Last>,
}

struct Last {
    /// The start of the window.
    since: Instant,
    /// The renderings in it.
    renderings: u32,
    page: Bytes,
}

impl MetricsPage {
    /// Creates the page of this text. Renders nothing yet.
    pub(super) fn new(render: Arc<dyn Fn() -> String + Send + Sync>) -> Arc<Self> {
        let last = Last { since: Instant::now(), renderings: 0, page: Bytes::new() };
        Arc::new(Self { render, last: Mutex::new(last) })
    }

    /// Returns the page, at most a second old.
    pub(super) fn get(&self) -> Bytes {
        let mut last = self.last.lock();
        let now = Instant::now();
        if now.duration_since(last.since) >= WINDOW {
            (last.since, last.renderings) = (now, 0);
        }
        if last.renderings < RENDERINGS {
            last.renderings += 1;
            last.page = (self.render)().into();
        }
        last.page.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn metrics_are_rendered_at_most_ten_times_a_second() {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let page = MetricsPage::new(Arc::new(move || (counted.fetch_add(1, Ordering::Relaxed) + 1).to_string()));
        for number in 1..=100 {
            assert_eq!(page.get(), number.min(RENDERINGS).to_string());
        }
        tokio::time::advance(WINDOW).await;
        assert_eq!(page.get(), (RENDERINGS + 1).to_string());
        assert_eq!(count.load(Ordering::Relaxed), RENDERINGS + 1);
    }
}
