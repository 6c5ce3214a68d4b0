//! A master, a replica, and a sentinel that watches both.

use std::process::{Child, Command, Stdio};

use ports::Store;
use tempfile::TempDir;

use crate::server::Server;
use crate::support::{put, recovered, soon, store, until};

/// The sentinel; stopped when dropped.
struct Sentinel {
    child: Child,
    at: Server,
    _dir: TempDir,
}

impl Sentinel {
    fn start(master: &Server) -> Self {
        let dir = TempDir::new().unwrap();
        // Never started: it only reserves a port.
        let at = Server::down(&[]);
        let file = dir.path().join("sentinel.conf");
        let text = format!(
            "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n",
            at.address().port(),
            dir.path().display(),
            master.address().port()
        );
        std::fs::write(&file, text).unwrap();
        let start = |program: &str| {
            let mut command = Command::new(program);
            command
                .arg(&file)
                .arg("--sentinel")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        };
        let child = start("redis-server").or_else(|_| start("valkey-server")).unwrap();
        Self { child, at, _dir: dir }
    }

    fn told(&self) -> String {
        let Ok(mut connection) = redis::Client::open(self.at.url()).unwrap().get_connection() else {
            return String::new();
        };
        redis::cmd("INFO").arg("sentinel").query(&mut connection).unwrap_or_default()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_new_master_is_found_after_a_failover() {
    let (mut master, replica) = (Server::start(), Server::start());
    let () = replica.ask(&format!("REPLICAOF 127.0.0.1 {}", master.address().port()));
    let sentinel = Sentinel::start(&master);
    until("the sentinel knows both", || sentinel.told().contains("status=ok") && sentinel.told().contains("slaves=1"))
        .await;
    let store = store(&format!("redis-sentinel://{}/0#main", sentinel.at.address())).await;
    assert!(soon(store.write(vec![put("a", "1")])).await);
    until("the replica has it", || replica.ask::<Option<String>>("GET a").is_some()).await;

    master.kill();
    assert!(!soon(store.write(vec![put("b", "2")])).await);
    assert_eq!(soon(store.get("b")).await.as_deref(), Some("2"));
    recovered(&store).await;
    assert!(soon(store.write(vec![put("c", "3")])).await);
    let kept = ["a", "b", "c"].map(|key| replica.ask::<String>(&format!("GET {key}")));
    assert_eq!(kept, ["1", "2", "3"]);
}
