//! Real database servers for one test, each on a port and in a directory of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Timeout of a server's start.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// A server; stopped when dropped.
pub struct Server {
    pub url: String,
    child: Child,
    _dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

/// Finds a program in one of these folders.
fn program(name: &str, folders: &[PathBuf]) -> PathBuf {
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("these tests need {name}: run ./test, which installs it"))
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Starts `PostgreSQL` with a superuser.
pub async fn postgres() -> Server {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.push("/usr/bin".into());
    let (dir, port) = (TempDir::new().unwrap(), free_port());
    let data = dir.path().join("data");
    // It refuses to run as root.
    let command = |name: &str| {
        let path = program(name, &folders);
        if !is_root() {
            return Command::new(path);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(path);
        command
    };
    if is_root() {
        assert!(Command::new("chown").arg("postgres").arg(dir.path()).status().unwrap().success());
    }
    let mut make = command("initdb");
    make.args(["--auth=trust", "--username=staff", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]).arg(&data);
    assert!(quiet(&mut make).current_dir("/").status().unwrap().success(), "initdb");
    let mut serve = command("postgres");
    serve.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    serve.args(["-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]);
    let child = quiet(&mut serve).current_dir("/").spawn().unwrap();
    let server = Server { url: format!("postgres://staff@127.0.0.1:{port}/postgres"), child, _dir: dir };
    until(async || tokio_postgres::connect(&server.url, tokio_postgres::NoTls).await.is_ok()).await;
    server
}

/// Starts `MariaDB` with a superuser.
pub async fn mariadb() -> Server {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map(PathBuf::from);
    let (dir, port) = (TempDir::new().unwrap(), free_port());
    let data = dir.path().join("data");
    let user = if is_root() { "--user=root" } else { "--skip-name-resolve" };
    let mut make = Command::new(program("mariadb-install-db", &folders));
    make.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
    make.arg(if is_root() { "--user=root" } else { "--force" }).arg(argument("--datadir", &data));
    assert!(quiet(&mut make).status().unwrap().success(), "mariadb-install-db");
    let init = dir.path().join("init.sql");
    let rights =
        "CREATE DATABASE shop;\nCREATE USER 'staff'@'%' IDENTIFIED BY 'hunter2';\nGRANT ALL ON *.* TO 'staff'@'%';\n";
    std::fs::write(&init, rights).unwrap();
    let mut serve = Command::new(program("mariadbd", &folders));
    serve.args(["--no-defaults", user, "--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-buffer-pool-size=16M"]);
    serve.arg(argument("--datadir", &data)).arg(argument("--init-file", &init)).arg(format!("--port={port}"));
    serve.arg(argument("--socket", &dir.path().join("socket")));
    let child = quiet(&mut serve).spawn().unwrap();
    let server = Server { url: format!("mysql://staff:hunter2@127.0.0.1:{port}/shop"), child, _dir: dir };
    until(async || mysql_async::Conn::from_url(&server.url).await.is_ok()).await;
    server
}

fn argument(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

async fn until(holds: impl AsyncFn() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waited).await.is_ok(), "the server does not answer");
}
