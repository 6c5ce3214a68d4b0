//! A real browser, driven over the `WebDriver` protocol: Debian's `chromium` and `chromium-driver`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout of each step on the page: longer than any step takes under load.
const PATIENCE: Duration = Duration::from_secs(90);
/// Timeout until a program prints its address.
const START: Duration = Duration::from_secs(60);
/// Starts of the driver before the test fails. The driver takes a free port of IPv4 and ends if IPv6 has it in use.
const DRIVER_STARTS: usize = 5;

/// A program; killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program and returns what `find` takes from the first line that has it. Later lines are dropped.
pub fn start<T: Send + 'static>(
    command: &mut Command,
    find: impl Fn(&str) -> Option<T> + Send + 'static,
) -> (Running, T) {
    let name = command.get_program().display().to_string();
    try_start(command, find).unwrap_or_else(|| panic!("{name} does not say where it listens"))
}

/// Like [`start`]; returns `None` if the program ends, or [`START`] passes, without such a line.
fn try_start<T: Send + 'static>(
    command: &mut Command,
    find: impl Fn(&str) -> Option<T> + Send + 'static,
) -> Option<(Running, T)> {
    let name = command.get_program().display().to_string();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running =
        Running(child.unwrap_or_else(|error| panic!("{name} cannot start ({error}); ./test installs it")));
    let output = BufReader::new(running.0.stdout.take().expect("its output"));
    let (told, hear) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(found) = find(&line) {
                let _ = told.send(found);
            }
        }
    });
    hear.recv_timeout(START).ok().map(|found| (running, found))
}

/// A browser with one window; closed when dropped.
pub struct Browser {
    port: u16,
    session: String,
    _driver: Running,
}

impl Browser {
    /// Opens a window in which the tour does not start by itself. All files of the browser are below `home`.
    pub fn open(home: &Path) -> Self {
        Self::open_with(home, &[])
    }

    /// Like [`Self::open`], with further flags of the browser.
    pub fn open_with(home: &Path, flags: &[&str]) -> Self {
        let browser = Self::begin(home, flags);
        let source = "try { sessionStorage.setItem('playground.tour', 'over') } catch { }";
        browser.before_pages(source);
        browser
    }

    /// Opens a window as on a first visit.
    pub fn open_untouched(home: &Path) -> Self {
        Self::begin(home, &[])
    }

    fn begin(home: &Path, further: &[&str]) -> Self {
        let mut driver = Command::new("chromedriver");
        driver.arg("--port=0").env("HOME", home).env("TMPDIR", home);
        let port = |line: &str| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok();
        let (driver, port) = (0..DRIVER_STARTS)
            .find_map(|_| try_start(&mut driver, port))
            .expect("chromedriver listens after some starts");
        let data = format!("--user-data-dir={}", home.join("profile").display());
        let mut flags = vec![
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1440,900",
            &data,
        ];
        flags.extend(further);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "timeouts": {"script": millis(PATIENCE), "pageLoad": millis(PATIENCE)},
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let mut browser = Self { port, session: String::new(), _driver: driver };
        let begun = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", begun["sessionId"].as_str().expect("a session"));
        browser
    }

    /// Navigates to an address.
    pub fn go(&self, url: &str) {
        self.call("POST", "/url", &json!({"url": url}));
    }

    /// Runs a script in the page and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script that passes its result to its first argument.
    pub fn run_async(&self, script: &str) -> Value {
        self.call("POST", "/execute/async", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true in the page, and returns its value.
    pub fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; const look = () => {{ const now = ({expression}); \
             if (now) done(now); else setTimeout(look, 25); }}; look();"
        );
        let answer =
            self.send("POST", &format!("{}/execute/async", self.session), &json!({"script": script, "args": []}));
        answer.unwrap_or_else(|error| {
            let seen = self.run("return document.body.innerText");
            panic!("never came true: {expression}\n{error}\nthe page shows:\n{}", seen.as_str().unwrap_or_default())
        })
    }

    /// Clicks the first match of a selector.
    pub fn click(&self, selector: &str) {
        self.call("POST", &format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types into the first match of a selector; for a file input these are paths.
    pub fn keys(&self, selector: &str, text: &str) {
        self.call("POST", &format!("/element/{}/value", self.element(selector)), &json!({"text": text}));
    }

    /// Emulates another window size.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.call("POST", "/goog/cdp/execute", &command);
    }

    /// Sets the preferred colour scheme.
    pub fn prefers(&self, scheme: &str) {
        self.emulate("prefers-color-scheme", scheme);
    }

    /// Sets one preference of media queries; all others have their defaults.
    pub fn emulate(&self, name: &str, value: &str) {
        let features = json!({"features": [{"name": name, "value": value}]});
        let command = json!({"cmd": "Emulation.setEmulatedMedia", "params": features});
        self.call("POST", "/goog/cdp/execute", &command);
    }

    /// Runs a script in each page before its own scripts.
    pub fn before_pages(&self, source: &str) {
        let command = json!({"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": source}});
        self.call("POST", "/goog/cdp/execute", &command);
    }

    /// Presses the mouse on the first match of a selector, and holds it until [`Self::release`].
    pub fn hold(&self, selector: &str) {
        let origin = json!({"element-6066-11e4-a52e-4f735466cecf": self.element(selector)});
        let to = json!({"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin});
        let steps = json!([to, {"type": "pointerDown", "button": 0}]);
        self.call("POST", "/actions", &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]}));
    }

    /// Presses a key, and holds it until [`Self::release`].
    pub fn hold_key(&self, key: &str) {
        let steps = json!([{"type": "keyDown", "value": key}]);
        self.call("POST", "/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": steps}]}));
    }

    /// Releases the mouse and all keys.
    pub fn release(&self) {
        self.call("DELETE", "/actions", &Value::Null);
    }

    /// Returns the console errors since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let lines = self.log("browser");
        lines.iter().map(|line| format!("{} {}", line["level"], line["message"])).collect()
    }

    /// Returns the requested addresses since the last call.
    pub fn requests(&self) -> Vec<String> {
        let lines = self.log("performance");
        let messages = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line["message"].as_str()?).ok());
        let sent = messages.filter(|message| message["message"]["method"] == "Network.requestWillBeSent");
        // The browser starts with a page of its own.
        let ours = sent.filter(|sent| {
            !sent["message"]["params"]["documentURL"].as_str().is_some_and(|page| page.starts_with("chrome:"))
        });
        ours.filter_map(|sent| sent["message"]["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let told = self.call("POST", "/se/log", &json!({"type": kind}));
        told.as_array().expect("a list").clone()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.call("POST", "/element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        id.expect("an element").to_owned()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(method, path, body).unwrap_or_else(|error| panic!("{method} {path} {body}: {error}"))
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE * 2)).map_err(|error| error.to_string())?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).map_err(|error| error.to_string())?;
        let (head, body) = read(&mut BufReader::new(stream)).map_err(|error| error.to_string())?;
        let body: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        if head.starts_with("HTTP/1.1 200") {
            Ok(body["value"].clone())
        } else {
            Err(body["value"]["message"].to_string())
        }
    }
}

/// Reads a response. The driver keeps its connections open in any case.
fn read(stream: &mut impl BufRead) -> std::io::Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes its browser on request; killing the driver alone would leave it running.
        let _ = self.send("DELETE", &self.session, &Value::Null);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a short while")
}
