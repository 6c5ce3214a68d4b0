//! Creates connections from an address.

use std::time::Duration;

use deadpool_redis::redis::{AsyncConnectionConfig, Client};
use deadpool_redis::{PoolConfig, Runtime, Timeouts};
use secrecy::{ExposeSecret, SecretString};

use super::Redis;
use super::address::Address;
use super::limits::LimitScript;
use super::line::{Connector, Line};
use super::pool::Pool;
use crate::{OpenError, SCANS_AT_ONCE};

/// The timeout of connecting, including TLS and login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of an answer. Reads have tighter timeouts above; this one lets a large merge finish on a slow line.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of testing an idle connection before it is replaced.
const ALIVE_TIMEOUT: Duration = Duration::from_millis(500);

/// The most connections besides the shared one, for long requests other than scans.
const CONNECTIONS: usize = 4;

/// The timeout of waiting for a free connection. Scans have one connection each, so they do not wait.
const FREE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens connections to one address, repeatedly if necessary.
pub struct Opener {
    address: Address,
}

impl Opener {
    /// Creates the opener of this address.
    ///
    /// # Errors
    /// A sentence with the mistake, without any part of the address.
    pub fn new(address: &SecretString) -> Result<Self, String> {
        let address = Address::parse(address.expose_secret())?;
        match &address {
            Address::Cluster(_) if !cfg!(feature = "redis-cluster") => {
                Err("is that of a cluster, and this program was built without the feature redis-cluster".to_owned())
            }
            Address::Sentinel { .. } if !cfg!(feature = "redis-sentinel") => {
                Err("is that of sentinels, and this program was built without the feature redis-sentinel".to_owned())
            }
            _ => Ok(Self { address }),
        }
    }

    /// Creates the backend; connections are opened on use.
    ///
    /// # Errors
    /// The client library rejects the address.
    pub fn open(&self) -> Result<Redis, OpenError> {
        let place = self.address.place();
        let failed = |reason| OpenError::Failed(format!("redis at {place}: {reason}"));
        let (pool, connector) = self.connections(CONNECTIONS).map_err(failed)?;
        let (scans, _) = self.connections(SCANS_AT_ONCE).map_err(failed)?;
        Ok(Redis { pool, scans, line: Line::new(connector), place, limit_script: LimitScript::new() })
    }

    fn connections(&self, most: usize) -> Result<(Pool, Connector), String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        match &self.address {
            Address::One(info) => {
                let client = Client::open((**info).clone()).map_err(text)?;
                let manager =
                    deadpool_redis::Manager::new_with_config((**info).clone(), config.clone()).map_err(text)?;
                let builder = deadpool_redis::Pool::builder(manager).config(settings(most)).runtime(Runtime::Tokio1);
                Ok((builder.build().map(Pool::One).map_err(text)?, Connector::One(client, config)))
            }
            #[cfg(feature = "redis-cluster")]
            Address::Cluster(nodes) => {
                let client = deadpool_redis::redis::cluster::ClusterClientBuilder::new(nodes.clone())
                    .connection_timeout(CONNECT_TIMEOUT)
                    .response_timeout(RESPONSE_TIMEOUT);
                let manager = deadpool_redis::cluster::Manager::new(nodes.clone(), false).map_err(text)?;
                let builder =
                    deadpool_redis::cluster::Pool::builder(manager).config(settings(most)).runtime(Runtime::Tokio1);
                let connector = Connector::Cluster(client.build().map_err(text)?);
                Ok((builder.build().map(Pool::Cluster).map_err(text)?, connector))
            }
            #[cfg(feature = "redis-sentinel")]
            Address::Sentinel { nodes, master, login, tls } => {
                use deadpool_redis::redis::sentinel::{
                    SentinelClient, SentinelNodeConnectionInfo as Shared, SentinelServerType as Kind,
                };
                use deadpool_redis::sentinel::{Manager, SentinelNodeConnectionInfo, SentinelServerType, TlsMode};
                let mut shared = Shared::default().set_redis_connection_info((**login).clone());
                if *tls {
                    shared = shared.set_tls_mode(deadpool_redis::redis::TlsMode::Secure);
                }
                let client = SentinelClient::build(nodes.clone(), master.clone(), Some(shared), Kind::Master);
                let node = SentinelNodeConnectionInfo {
                    tls_mode: tls.then_some(TlsMode::Secure),
                    redis_connection_info: Some((**login).clone().into()),
                };
                let manager = Manager::new(nodes.clone(), master.clone(), Some(node), SentinelServerType::Master);
                let builder = deadpool_redis::sentinel::Pool::builder(manager.map_err(text)?);
                let pool = builder.config(settings(most)).runtime(Runtime::Tokio1).build().map(Pool::Sentinel);
                Ok((pool.map_err(text)?, Connector::Sentinel(Box::new(client.map_err(text)?), config)))
            }
            #[cfg(not(all(feature = "redis-cluster", feature = "redis-sentinel")))]
            _ => Err("this program was built without a required feature".to_owned()),
        }
    }
}

fn settings(most: usize) -> PoolConfig {
    let timeouts = Timeouts { wait: Some(FREE_TIMEOUT), create: Some(CONNECT_TIMEOUT), recycle: Some(ALIVE_TIMEOUT) };
    PoolConfig { timeouts, ..PoolConfig::new(most) }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
