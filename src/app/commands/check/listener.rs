//! Checks that the addresses of the HTTP listeners can be bound.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use super::report::Report;
use crate::app::commands::own_service;
use settings::Settings;

/// Binds each address briefly. An address used by this machine's own service is fine.
pub async fn check(settings: &Settings, report: &mut Report) {
    let http = &settings.http;
    let health = http.health_addr.map(|address| ("health", address, "STAFFAI_HEALTH_ADDR"));
    let further = http.listeners.iter().map(|address| ("listener", *address, "http.listeners"));
    let first = [("http", http.addr, "STAFFAI_HTTP_ADDR")];
    for (part, address, variable) in first.into_iter().chain(health).chain(further) {
        match free(address) {
            Ok(()) => report.ok(part, format!("{address} is free")),
            Err(error) if error.kind() == ErrorKind::AddrInUse => match own_service::ask_health(address).await {
                Ok(()) => report.ok(
                    part,
                    format!("{address} is in use by a running staffai; a second one needs a different address"),
                ),
                Err(_) => report.wrong_with(
                    part,
                    format!("{address} is in use by another program; stop it, or set {variable} to a free address"),
                ),
            },
            Err(error) => report.wrong_with(part, format!("cannot listen on {address}: {error}; check {variable}")),
        }
    }
}

fn free(address: SocketAddr) -> std::io::Result<()> {
    TcpListener::bind(address).map(drop)
}
