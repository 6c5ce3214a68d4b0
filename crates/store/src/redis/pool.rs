//! One interface for the three kinds of server: single, behind sentinels, cluster.

use deadpool_redis::{PoolError, redis};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};

#[cfg(feature = "redis-cluster")]
mod cluster;

/// The source of separate connections.
pub enum Pool {
    One(deadpool_redis::Pool),
    #[cfg(feature = "redis-sentinel")]
    Sentinel(deadpool_redis::sentinel::Pool),
    #[cfg(feature = "redis-cluster")]
    Cluster(deadpool_redis::cluster::Pool),
}

/// A connection, shared or separate.
pub enum Link {
    Shared(MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    SharedCluster(redis::cluster_async::ClusterConnection),
    One(deadpool_redis::Connection),
    #[cfg(feature = "redis-sentinel")]
    Sentinel(deadpool_redis::sentinel::Connection),
    #[cfg(feature = "redis-cluster")]
    Cluster(deadpool_redis::cluster::Connection),
}

pub enum Node {
    /// The server of the connection.
    Only,
    /// The server that holds this slot.
    #[cfg(feature = "redis-cluster")]
    Slot(u16),
}

impl Pool {
    pub async fn get(&self) -> Result<Link, PoolError> {
        match self {
            Self::One(pool) => pool.get().await.map(Link::One),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(pool) => {
                let mut connection = pool.get().await?;
                // The pool's manager accepts no timeout on connecting.
                connection.set_response_timeout(super::opener::RESPONSE_TIMEOUT);
                Ok(Link::Sentinel(connection))
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(pool) => pool.get().await.map(Link::Cluster),
        }
    }

    pub fn forget_idle(&self) {
        match self {
            Self::One(pool) => drop(pool.retain(|_, _| false)),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(pool) => drop(pool.retain(|_, _| false)),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(pool) => drop(pool.retain(|_, _| false)),
        }
    }

    pub fn close(&self) {
        match self {
            Self::One(pool) => pool.close(),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(pool) => pool.close(),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(pool) => pool.close(),
        }
    }
}

impl Link {
    /// Closes the connection instead of returning it to the pool.
    pub fn discard(self) {
        match self {
            Self::Shared(_) => {}
            #[cfg(feature = "redis-cluster")]
            Self::SharedCluster(_) => {}
            Self::One(connection) => drop(deadpool_redis::Connection::take(connection)),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(connection) => drop(deadpool_redis::sentinel::Connection::take(connection)),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => drop(deadpool_redis::cluster::Connection::take(connection)),
        }
    }

    /// True if keys may be on different servers, so that one command must not concern two of them.
    pub const fn is_spread(&self) -> bool {
        match self {
            Self::Shared(_) | Self::One(_) => false,
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(_) => false,
            #[cfg(feature = "redis-cluster")]
            Self::SharedCluster(_) | Self::Cluster(_) => true,
        }
    }

    /// Runs commands on one server as one transaction. Returns the answers of the second group, true for 1.
    pub async fn transaction(
        &mut self,
        commands: impl Iterator<Item = Cmd> + Send,
        answered: impl Iterator<Item = Cmd> + Send,
    ) -> RedisResult<Vec<bool>> {
        let pipeline = {
            let mut pipeline = Pipeline::new();
            pipeline.atomic();
            for command in commands {
                pipeline.add_command(command).ignore();
            }
            for command in answered {
                pipeline.add_command(command);
            }
            pipeline
        };
        pipeline.query_async(self).await
    }

    /// Runs commands in a cluster, which has no transaction across servers: each key is written separately, and after
    /// an error some may be written; writing them again is harmless.
    #[cfg_attr(
        not(feature = "redis-cluster"),
        allow(clippy::unused_async, reason = "only a cluster has several servers")
    )]
    pub async fn spread<'a>(&mut self, commands: impl Iterator<Item = (&'a str, Cmd)> + Send) -> RedisResult<()> {
        #[cfg(feature = "redis-cluster")]
        if let Some(connection) = self.cluster() {
            return cluster::apply(connection, commands).await;
        }
        self.transaction(commands.map(|(_, command)| command), std::iter::empty()).await.map(drop)
    }

    #[cfg_attr(not(feature = "redis-cluster"), allow(clippy::unused_async, reason = "only a cluster has to be asked"))]
    pub async fn nodes(&mut self) -> RedisResult<Vec<Node>> {
        #[cfg(feature = "redis-cluster")]
        if let Some(connection) = self.cluster() {
            return cluster::nodes(connection).await;
        }
        Ok(vec![Node::Only])
    }

    pub async fn ask(&mut self, node: &Node, command: Cmd) -> RedisResult<Value> {
        match node {
            Node::Only => command.query_async(self).await,
            #[cfg(feature = "redis-cluster")]
            Node::Slot(slot) => match self.cluster() {
                Some(connection) => cluster::ask(connection, *slot, command).await,
                None => command.query_async(self).await,
            },
        }
    }

    #[cfg(feature = "redis-cluster")]
    fn cluster(&mut self) -> Option<&mut redis::cluster_async::ClusterConnection> {
        match self {
            Self::SharedCluster(connection) => Some(connection),
            Self::Cluster(connection) => Some(connection),
            _ => None,
        }
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Shared(connection) => connection.req_packed_command(cmd),
            #[cfg(feature = "redis-cluster")]
            Self::SharedCluster(connection) => connection.req_packed_command(cmd),
            Self::One(connection) => connection.req_packed_command(cmd),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(connection) => connection.req_packed_command(cmd),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Shared(connection) => connection.req_packed_commands(cmd, offset, count),
            #[cfg(feature = "redis-cluster")]
            Self::SharedCluster(connection) => connection.req_packed_commands(cmd, offset, count),
            Self::One(connection) => connection.req_packed_commands(cmd, offset, count),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(connection) => connection.req_packed_commands(cmd, offset, count),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Shared(connection) => connection.get_db(),
            #[cfg(feature = "redis-cluster")]
            Self::SharedCluster(connection) => connection.get_db(),
            Self::One(connection) => connection.get_db(),
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(connection) => connection.get_db(),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
