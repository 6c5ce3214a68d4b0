//! Parsing of addresses. Only hosts and ports of an address ever appear in messages.

use deadpool_redis::redis;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

const SENTINEL_PORT: u16 = 26_379;

/// The target of connections.
#[derive(Debug, Clone)]
pub enum Address {
    One(Box<ConnectionInfo>),
    /// Some servers of a cluster, from which the client discovers the others.
    #[cfg_attr(not(feature = "redis-cluster"), allow(dead_code, reason = "only a build with clusters connects to one"))]
    Cluster(Vec<ConnectionInfo>),
    /// Sentinels that report the current master.
    #[cfg_attr(not(feature = "redis-sentinel"), allow(dead_code, reason = "only a build with sentinels asks them"))]
    Sentinel {
        nodes: Vec<ConnectionInfo>,
        /// Their name of the master.
        master: String,
        /// The master's login and database.
        login: Box<RedisConnectionInfo>,
        /// True if master and sentinels use TLS.
        tls: bool,
    },
}

impl Address {
    /// Parses an address: that of a single server in the usual Redis form, or
    /// `redis-cluster://[user][:password@]host:port,host:port`, or
    /// `redis-sentinel://[user][:password@]host,host[/db]#master`. `rediss` instead of `redis` means TLS.
    ///
    /// # Errors
    /// A sentence with the mistake, without any part of the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        match scheme {
            "redis-cluster" => Ok(Self::Cluster(several("redis", rest, None)?)),
            "rediss-cluster" => Ok(Self::Cluster(several("rediss", rest, None)?)),
            "redis-sentinel" => sentinel("redis", rest),
            "rediss-sentinel" => sentinel("rediss", rest),
            _ => single(text).map(|info| Self::One(Box::new(info))),
        }
    }

    /// Returns hosts and ports, for messages.
    pub fn place(&self) -> String {
        let listed = |nodes: &[ConnectionInfo]| nodes.iter().map(place).collect::<Vec<_>>().join(", ");
        match self {
            Self::One(info) => place(info),
            Self::Cluster(nodes) => format!("the cluster of {}", listed(nodes)),
            Self::Sentinel { nodes, master, .. } => format!("the master '{master}' of the sentinels {}", listed(nodes)),
        }
    }
}

fn place(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if host.contains(':') => {
            format!("[{host}]:{port}")
        }
        other => other.to_string(),
    }
}

const FORM: &str = "must be an address such as redis://:password@host:6379/0";

fn single(url: &str) -> Result<ConnectionInfo, &'static str> {
    let info = url.into_connection_info().map_err(|_| FORM)?;
    // A commit is small and must not be delayed by Nagle's algorithm.
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp))
}

/// Parses several hosts with the same login.
fn several(scheme: &str, rest: &str, port: Option<u16>) -> Result<Vec<ConnectionInfo>, &'static str> {
    let (rest, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = rest.rsplit_once('@').map_or(("", rest), |(login, hosts)| (login, hosts));
    let (hosts, path) = hosts.split_at(hosts.find('/').unwrap_or(hosts.len()));
    let at = if login.is_empty() { "" } else { "@" };
    let one = |host: &str| {
        let bare = !host.rsplit(']').next().unwrap_or(host).contains(':');
        let port = port.filter(|_| bare).map(|port| format!(":{port}")).unwrap_or_default();
        single(&format!("{scheme}://{login}{at}{host}{port}{path}{query}"))
    };
    hosts.split(',').map(one).collect()
}

fn sentinel(scheme: &str, rest: &str) -> Result<Address, &'static str> {
    const NAMED: &str = "must name the master behind a #, such as redis-sentinel://:password@host,host/0#mymaster";
    let (rest, master) = rest.rsplit_once('#').filter(|(_, master)| !master.is_empty()).ok_or(NAMED)?;
    let with_login = several(scheme, rest, Some(SENTINEL_PORT))?;
    let login = with_login.first().map(|info| info.redis_settings().clone()).ok_or(FORM)?;
    // The login belongs to the master; sentinels have no users or databases of the bot.
    let nodes = with_login.into_iter().map(|info| info.set_redis_settings(RedisConnectionInfo::default())).collect();
    Ok(Address::Sentinel { nodes, master: master.to_owned(), login: Box::new(login), tls: scheme == "rediss" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> String {
        Address::parse(text).unwrap().place()
    }

    #[test]
    fn places_name_hosts_and_nothing_else() {
        assert_eq!(place("redis://:p%40ss@example.org:6380/2"), "example.org:6380");
        assert_eq!(place("rediss://me:secret@[::1]/0"), "[::1]:6379");
        assert_eq!(place("unix:///run/redis.sock?db=1&pass=secret"), "/run/redis.sock");
        assert_eq!(place("redis-cluster://:secret@a:1,b"), "the cluster of a:1, b:6379");
        let sentinels = "the master 'mine' of the sentinels a:26379, [::2]:5, [::3]:26379";
        assert_eq!(place("redis-sentinel://u:secret@a,[::2]:5,[::3]/3#mine"), sentinels);
    }

    #[test]
    fn the_login_reaches_every_server_but_no_sentinel() {
        let Address::Cluster(nodes) = Address::parse("rediss-cluster://u:p%2Cw@a,b").unwrap() else { panic!() };
        for node in nodes {
            assert_eq!(node.redis_settings().username(), Some("u"));
            assert_eq!(node.redis_settings().password(), Some("p,w"));
            assert!(matches!(node.addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
        }
        let text = "redis-sentinel://:word@a,b/3#mine";
        let Address::Sentinel { nodes, master, login, tls } = Address::parse(text).unwrap() else { panic!() };
        assert!(nodes.iter().all(|node| node.redis_settings().password().is_none()));
        assert_eq!((master.as_str(), login.password(), login.db(), tls), ("mine", Some("word"), 3, false));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_address() {
        for text in
            ["secret", "redis://", "ftp://secret", "redis://h:port/", "redis-cluster://", "redis-sentinel://a/0"]
        {
            let told = Address::parse(text).expect_err(text);
            assert!(told.starts_with("must ") && !told.contains("secret"), "{told}");
        }
    }
}
