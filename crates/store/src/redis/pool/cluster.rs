//! Cluster specifics: no transaction across servers, and separate keys on every server.

use std::collections::BTreeMap;

use deadpool_redis::redis;
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value, cmd};

use super::Node;

/// The most keys written concurrently.
const AT_ONCE: usize = 64;

/// Runs the last command of each key. Earlier ones would have no effect, because the last one replaces the whole key.
pub async fn apply<'a>(
    connection: &ClusterConnection,
    commands: impl Iterator<Item = (&'a str, Cmd)> + Send,
) -> RedisResult<()> {
    let last: BTreeMap<&str, Cmd> = commands.collect();
    let sent = last.into_values().map(|command| {
        let mut connection = connection.clone();
        async move { command.exec_async(&mut connection).await }
    });
    stream::iter(sent).buffer_unordered(AT_ONCE).try_collect().await
}

/// Returns all servers that hold slots, each identified by one of its slots: clients may know a server under another
/// address.
pub async fn nodes(connection: &mut ClusterConnection) -> RedisResult<Vec<Node>> {
    let mut ask = cmd("CLUSTER");
    ask.arg("NODES");
    let anyone = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
    let told: String = redis::from_redis_value(connection.route_command(ask, anyone).await?)?;
    let nodes: Vec<Node> = told.lines().filter_map(first_slot).map(Node::Slot).collect();
    if nodes.is_empty() {
        return Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "no server of the cluster holds slots")));
    }
    Ok(nodes)
}

/// Sends a command to the server that holds this slot.
pub async fn ask(connection: &mut ClusterConnection, slot: u16, command: Cmd) -> RedisResult<Value> {
    let there = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
    connection.route_command(command, RoutingInfo::SingleNode(there)).await
}

/// Parses `id address flags master ping pong epoch state slot...`, where a slot is `7`, `0-99` or, while it moves,
/// `[7->-id]`.
fn first_slot(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace();
    words.nth(2)?.split(',').find(|flag| *flag == "master")?;
    let slot = words.nth(5)?;
    slot.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_slot_of_a_line() {
        let line = |flags: &str, slots: &str| format!("07c3 127.0.0.1:1@2,host {flags} - 0 1 2 connected{slots}");
        assert_eq!(first_slot(&line("myself,master", " 0-5460 9000")), Some(0));
        assert_eq!(first_slot(&line("master", " 9000")), Some(9_000));
        assert_eq!(first_slot(&line("master", "")), None);
        assert_eq!(first_slot(&line("slave", " 0-1")), None);
        assert_eq!(first_slot(&line("master", " [7->-07c3]")), None);
        assert_eq!(first_slot(""), None);
    }
}
