//! A real Redis server for one test, on a port and in a directory of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use redis::{Cmd, Connection, FromRedisValue};
use tempfile::TempDir;

/// Names of the program; the first installed one is used.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Ports below the ephemeral range, so that no other program takes the port of a stopped server.
const PORTS: std::ops::Range<u16> = 16_000..32_000;

/// Number and interval of the polls of a starting server: twenty seconds.
const ASKED: u32 = 1_000;
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// Number of ports tried for a new server.
const STARTS: u32 = 5;

/// A server; stopped when dropped.
pub struct Server {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Starts a server that persists every acknowledged write.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further command line options.
    ///
    /// A free port may be taken before it is used, and a server of a cluster also takes the port 10,000 above. Then
    /// another port is tried.
    pub fn start_with(options: &[&str]) -> Self {
        for _ in 0..STARTS {
            let mut server = Self::down(options);
            match server.try_restart() {
                Ok(()) => return server,
                Err(ended) => println!("the server on port {} ended at its start: {ended}", server.port),
            }
        }
        panic!("no port is free for the server");
    }

    /// Creates a server without starting it. Its port is free.
    pub fn down(options: &[&str]) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self { dir: TempDir::new().unwrap(), port: free_port(), options, child: None }
    }

    /// Starts it at the same place, and waits until it answers.
    pub fn restart(&mut self) {
        if let Err(ended) = self.try_restart() {
            panic!("the server ended at its start: {ended}");
        }
    }

    /// Like [`restart`](Self::restart); an error if it ends at once, for example because its port is taken.
    fn try_restart(&mut self) -> Result<(), ExitStatus> {
        assert!(self.child.is_none(), "the server runs already");
        self.child = Some(self.spawn());
        for _ in 0..ASKED {
            // Another server may answer at this port.
            if let Some(ended) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                return Err(ended);
            }
            if self.answers() {
                return Ok(());
            }
            std::thread::sleep(ASKED_EVERY);
        }
        panic!("the server does not answer");
    }

    fn spawn(&self) -> Child {
        for program in PROGRAMS {
            let mut command = Command::new(program);
            command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
            command.arg(self.dir.path()).args(["--appendonly", "yes", "--appendfsync", "always"]);
            command.args(&self.options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            match command.spawn() {
                Ok(child) => return child,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("{program} cannot be started: {error}"),
            }
        }
        panic!("these tests need a real server: install redis-server or valkey-server, or run ./test, which does it");
    }

    /// True if it runs and has loaded its data, also if it requires a login.
    fn answers(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut socket = TcpStream::connect(self.address())?;
            socket.set_read_timeout(Some(Duration::from_secs(1)))?;
            socket.write_all(b"PING\r\n")?;
            let mut answer = [0; 16];
            let length = socket.read(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
        };
        ask().is_ok_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"))
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns its `REDIS_URL`.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops the process (SIGSTOP): connections stay, but get no answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Continues the process.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("the server runs").id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().unwrap();
        assert!(sent.success());
    }

    /// Opens a separate connection.
    pub fn connection(&self) -> Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Returns its answer to a command such as `SET a 1`; words have no spaces.
    pub fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        self.words(&command.split(' ').collect::<Vec<_>>())
    }

    /// Returns its answer to a command of these words.
    pub fn words<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Concurrent test programs begin at different ports.
    let first = u16::try_from(std::process::id() % u32::from(span)).unwrap();
    for _ in 0..span {
        let step = NEXT.fetch_add(7, Ordering::Relaxed) % span;
        let port = PORTS.start + (first + step) % span;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
