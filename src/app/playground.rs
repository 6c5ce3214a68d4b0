//! `staffai playground`: the whole tree against a local service that implements Discord's protocol, with a page and,
//! unless a model is configured, a demo model. Nothing leaves this machine.
//!
//! The playground has two processes. This one runs the chat service, the page and the demo model, and listens on the
//! public address. It starts the bot ([`bot`]) as its child process and restarts it when it ends ([`keeper`]), so that
//! a user can kill the bot and see the effect on the page.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use self::keeper::{Asks, Keeper};
use self::link::{Birth, WorkspaceAccount};
use self::setup::FirstSetup;
use crate::app::assemble::refuse;
use crate::app::commands::log;
use crate::app::commands::log::LogTo;
use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::demo::{Demo, NoDemo};
use crate::app::signals::{Ends, Hangups};
use crate::app::system::{self, SystemClock};
use crate::app::{Cli, Format, exit, keys};
use domain::api_key::{ApiKey, KeyRing};
use playground::chaos::{Chaos, Spells};
use playground::neighbours::{self, Configured, Neighbours};
use playground::page;
use playground::page::Breaking;
use playground::service::{Options, Service};
use playground::workspace::{self, Workspace};
use ports::{Clock, Keys, Listener};
use settings::sources::Sources;
use settings::{Examined, Loaded, Settings};
use telemetry::log_file::LogFile;
use web::api::Api;
use web::api::front::Behind;

pub mod bot;
mod chat;
mod keeper;
mod link;
mod setup;

/// The command that starts the process of the bot.
pub const BOT: &str = "hosted-bot";

/// The delay of each answer of the demo model.
const THINKING: Duration = Duration::from_millis(400);

/// The timeout for the bot to connect before the address is printed.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The log file of both processes, in the data directory.
const LOG: &str = "playground.log";

/// The interval between rereads of the keys.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of ports searched for model servers.
const PLACES_MAX: usize = 16;

/// The timeout for open requests of the page at the end.
const PAGE_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the playground.
pub async fn run(cli: &Cli, verbose: bool) -> u8 {
    let reading = Reading::new(cli, Sources::for_playground);
    let Ok(mut loaded) = reading.load() else { return exit::USAGE };
    // The bot reads the same files, and logs their warnings.
    let warnings = std::mem::take(&mut loaded.warnings);
    if !verbose {
        reading::print_warnings(&warnings);
    }
    loaded.settings.telemetry.endpoint = None;
    // Two playgrounds on one directory would overwrite each other's chat, and their bots would compete for the store.
    let _alone = match chat::alone(&loaded.settings.store.dir) {
        Ok(lock) => lock,
        Err(why) => {
            eprintln!("{why}");
            return exit::IN_USE;
        }
    };
    let Some(to) = log_to(&loaded.settings, verbose) else { return exit::USAGE };
    let Ok(log) = log::log(&loaded, &reading, to) else { return exit::USAGE };
    // A playground is useless without its page, so a failed bind is not retried.
    if let Err(error) = std::net::TcpListener::bind(loaded.settings.http.addr) {
        let address = loaded.settings.http.addr;
        eprintln!("the page cannot be served at {address}: {error}; set STAFFAI_HTTP_ADDR to a free address");
        return exit::USAGE;
    }
    let of_keys = match keys::ring(&loaded.settings) {
        Ok(ring) => RwLock::new(ring),
        Err(mistake) => {
            eprintln!("{mistake}");
            return exit::USAGE;
        }
    };
    let chat = chat::file(&loaded.settings.store.dir);
    let local = match Local::start(&reading, &chat).await {
        Ok(local) => local,
        Err(why) => {
            eprintln!("the local chat services cannot start: {why}");
            return exit::GAVE_UP;
        }
    };
    let of_keys = Arc::new(OfKeys { reading, ring: of_keys });
    let spells = Spells::new(Arc::new(|| SystemClock.now().0));
    let (demo, spare) = match demos(&loaded, &spells).await {
        Ok(demos) => demos.unzip(),
        Err(NoDemo(why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let ((keeper, asks), end) = (Keeper::new(), CancellationToken::new());
    let keeping = tokio::spawn(chat::keep(local.service.clone(), keeper.address(), chat, end.clone()));
    let model = if demo.is_some() { None } else { configured(&loaded) };
    let start = Start { verbose, demo: demo.is_some(), log: loaded.settings.store.dir.join(LOG), model };
    let page = Page {
        args: &args(cli, verbose),
        address: loaded.settings.http.addr.to_string(),
        places: places(&loaded.settings, demo.is_some()),
        start: &start,
        keys: of_keys,
        local: &local,
        spells: &spells,
        birth: &local.birth(demo.as_ref(), spare.as_ref()),
    };
    let code = page.serve(keeper, asks).await;
    end.cancel();
    // The task ends with the write in progress and a last one.
    let _ = keeping.await;
    local.service.stop().await;
    for demo in demo.into_iter().chain(spare) {
        demo.stop().await;
    }
    log.close().await;
    code
}

/// The page, and what its bot is started with.
struct Page<'a> {
    /// The arguments of the bot's process.
    args: &'a [String],
    /// The address of the page.
    address: String,
    /// The addresses searched for model servers.
    places: Vec<(&'static str, u16)>,
    start: &'a Start,
    keys: Arc<OfKeys>,
    local: &'a Local,
    spells: &'a Arc<Spells>,
    birth: &'a Birth,
}

impl Page<'_> {
    /// Serves the page and keeps the bot running until the process is stopped.
    async fn serve(self, keeper: Arc<Keeper>, asks: Asks) -> u8 {
        let Page { args, address, places, start, keys: of_keys, local, spells, birth } = self;
        let Local { service, workspace, .. } = local;
        let bot = Arc::clone(&keeper) as _;
        let chaos = Chaos::new(service.faults().clone(), Arc::clone(spells), birth.demo_url.is_some(), bot);
        let models = Neighbours::at(places, start.model.clone(), Arc::clone(&keeper) as _);
        let setup = Arc::new(FirstSetup::new(&of_keys.reading));
        let page = page::router(
            service.clone(),
            workspace.clone(),
            Breaking { chaos, models, setup, token: system::random_token() },
        );
        let (Ok(mut ends), Ok(hangups), Ok(behind)) =
            (Ends::listen(), Hangups::listen(), Behind::new(keeper.address()))
        else {
            eprintln!("signals cannot be handled");
            return exit::GAVE_UP;
        };
        let api = Api::in_front(address, page, refuse, Arc::clone(&of_keys) as _, behind);
        let (stop, now, closing) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let mut bound = api.bound();
        let (reloaded, connected) = (Arc::clone(&keeper), service.clone());
        let _hangups = hangups.each(move || reloaded.reload());
        let closed = closing.clone();
        let mut serving = tokio::spawn(async move { api.serve(closed).await });
        if bound.wait_for(Option::is_some).await.is_err() {
            eprintln!(
                "the page cannot be served: {}",
                serving.await.map_or_else(|e| e.to_string(), |e| e.err().unwrap_or_default())
            );
            return exit::USAGE;
        }
        let address = *bound.borrow();
        let kept = keeper.keep(args, birth, asks, stop.clone(), now.clone());
        let saying = async {
            if let Some(address) = address {
                start.say(&connected, address).await;
            }
            std::future::pending::<()>().await;
        };
        let told = async {
            ends.next().await;
            stop.cancel();
            ends.next().await;
            now.cancel();
            std::future::pending::<()>().await;
        };
        let code = tokio::select! {
            code = kept => code,
            () = saying => exit::FINE,
            () = told => exit::FINE,
            () = of_keys.read_again() => exit::FINE,
        };
        closing.cancel();
        let _ = tokio::time::timeout(PAGE_END_TIMEOUT, &mut serving).await;
        code
    }
}

/// Returns the log destination of this process and its bot. Prints the reason on failure.
fn log_to(settings: &Settings, verbose: bool) -> Option<LogTo> {
    if verbose {
        return Some(LogTo::Stderr);
    }
    LogFile::open(&settings.store.dir.join(LOG)).map(LogTo::File).map_err(|error| eprintln!("{error}")).ok()
}

/// The content of the first lines.
struct Start {
    verbose: bool,
    demo: bool,
    log: PathBuf,
    /// The model of the settings; `None` for the demo model.
    model: Option<Configured>,
}

impl Start {
    /// Prints the running model, the log file, and last the address of the page, once the bot is connected or timed
    /// out.
    async fn say(&self, service: &Service, address: SocketAddr) {
        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, service.connected(0)).await;
        let version = env!("CARGO_PKG_VERSION");
        let answers = if self.demo {
            "answers come from a demo model, and everything stays on this machine"
        } else {
            "answers come from the configured model, and everything else stays on this machine"
        };
        say!("staffai {version} playground: {answers}; Ctrl-C stops it");
        if self.verbose {
            say!("log: on standard error");
        } else {
            say!("log: {}; -v shows it here", self.log.display());
        }
        say!("open http://{address}/");
    }
}

/// Returns the addresses searched for model servers: none if a model is configured, and never one of this program.
fn places(settings: &Settings, demo: bool) -> Vec<(&'static str, u16)> {
    let http = &settings.http;
    let own = |port: u16| http.addr.port() == port || http.listeners.iter().any(|listener| listener.port() == port);
    let ports = settings.llm.local_ports.iter().filter(|port| demo && !own(**port)).take(PLACES_MAX);
    ports.map(|port| (neighbours::name_of(*port), *port)).collect()
}

/// Returns the model that the settings name.
fn configured(loaded: &Loaded) -> Option<Configured> {
    let llm = &loaded.settings.llm;
    let shown = loaded.shown.get("llm.url").cloned().unwrap_or_default();
    Some(Configured { model: llm.model.clone()?, url: llm.url.clone(), shown })
}

/// The chat services of the playground.
struct Local {
    service: Service,
    workspace: Workspace,
    /// The tokens at the workspace: of the bot user and of the app.
    account: [SecretString; 2],
}

impl Local {
    /// Starts both with new tokens, the server with what was said in it before.
    async fn start(reading: &Reading, chat: &Path) -> std::io::Result<Self> {
        let [token, bot, app] = [(); 3].map(|()| system::random_token());
        reading.redaction.add(&[token.clone(), bot.clone(), app.clone()]);
        let clock = Arc::new(|| SystemClock.now().0);
        let mut options = Options::new(Arc::clone(&clock) as _);
        token.expose_secret().clone_into(&mut options.token);
        options.kept = chat::read(chat);
        let service = Service::start(options).await?;
        let tokens = (bot.expose_secret().to_owned(), app.expose_secret().to_owned());
        let workspace = Workspace::start(workspace::Options::of_playground(tokens.0, tokens.1, clock)).await?;
        Ok(Self { service, workspace, account: [bot, app] })
    }

    fn birth(&self, demo: Option<&Demo>, spare: Option<&Demo>) -> Birth {
        let Self { service, workspace, account: [bot, app] } = self;
        Birth {
            api_url: service.api_url(),
            token: service.token().to_owned(),
            workspace: WorkspaceAccount {
                api_url: workspace.url().to_owned(),
                bot_token: bot.expose_secret().to_owned(),
                app_token: app.expose_secret().to_owned(),
            },
            owners: service.guilds().iter().map(|guild| guild.owner.to_string()).collect(),
            demo_url: demo.map(Demo::url),
            spare_url: spare.map(Demo::url),
            model: None,
        }
    }
}

/// Returns the arguments of the bot's process: the options of this one.
fn args(cli: &Cli, verbose: bool) -> Vec<String> {
    let options = cli.options();
    let mut args: Vec<String> =
        options.config.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]).collect();
    if let Some(format) = options.log_format {
        let format = match format {
            Format::Json => "json",
            Format::Pretty => "pretty",
        };
        args.extend(["--log-format".to_owned(), format.to_owned()]);
    }
    args.push(BOT.to_owned());
    args.extend(verbose.then(|| "-v".to_owned()));
    args
}

/// Starts the demo model and its fallback, unless a model is configured.
async fn demos(loaded: &Loaded, spells: &Arc<Spells>) -> Result<Option<(Demo, Demo)>, NoDemo> {
    if !loaded.llm_configured() {
        let spells = Arc::clone(spells);
        let demo = Demo::start_with(THINKING, Arc::new(move || spells.model())).await?;
        return Ok(Some((demo, Demo::start(THINKING).await?)));
    }
    if loaded.settings.llm.model.is_none() {
        let why = "a model's address is configured but no model: set LITELLM_MODEL";
        return Err(NoDemo(why.to_owned(), exit::USAGE));
    }
    Ok(None)
}

/// The keys of the page, which are those of the service.
struct OfKeys {
    reading: Reading,
    ring: RwLock<KeyRing>,
}

impl OfKeys {
    /// Rereads the keys periodically, together with the settings, which may hold keys as well. Unreadable keys change
    /// nothing, and the bot reports them.
    async fn read_again(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(KEYS_EVERY).await;
            let keys = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || {
                let Examined { loaded, problems, .. } = keys.reading.examine();
                let settings = loaded.filter(|_| problems.is_empty()).map(|loaded| loaded.settings);
                if let Some(Ok(ring)) = settings.map(|settings| keys::ring(&settings)) {
                    *keys.ring.write() = ring;
                }
            })
            .await;
        }
    }
}

impl Keys for OfKeys {
    fn are_unused(&self) -> bool {
        self.ring.read().is_unused()
    }

    fn holder(&self, presented: &str) -> Option<Arc<ApiKey>> {
        self.ring.read().find(presented, SystemClock.now())
    }

    fn still_opens(&self, key: &ApiKey) -> bool {
        self.ring.read().still_opens(key, SystemClock.now())
    }
}
