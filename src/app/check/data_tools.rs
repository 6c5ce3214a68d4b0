//! Tries the tools of this program that reach data outside of it.

use super::report::Report;
use crate::config::Settings;

/// A row for each that is configured.
pub(super) fn check(settings: &Settings, report: &mut Report) {
    pages(settings, report);
}

fn pages(settings: &Settings, report: &mut Report) {
    let pages = &settings.url_extract;
    if !pages.enabled {
        return;
    }
    let ports: Vec<String> = pages.ports.iter().map(u16::to_string).collect();
    let hosts = if pages.allow.is_empty() { "all public hosts".to_owned() } else { pages.allow.join(", ") };
    let not = if pages.deny.is_empty() { String::new() } else { format!(", but not {}", pages.deny.join(", ")) };
    let about = format!("pages of {hosts}{not} on the ports {}; internal addresses never", ports.join(", "));
    if ports.is_empty() {
        report.wrong_with("url_extract", "no port is allowed, so no page can be read; set url_extract.ports");
    } else {
        report.ok("url_extract", about);
    }
}
